"""Branches, tags and ancestry.

The bytes of reference files are in formats/alpha/refs.py."""
