"""Chunk references in columns: look-up over many manifests, comparison, and which manifests a commit writes.

The bytes of a manifest are in formats/alpha/manifests.py."""
