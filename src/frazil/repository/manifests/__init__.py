"""Chunk references in columns: look-up in many manifests, comparison, and the choice of the manifests that a commit writes.

The columns are in formats/manifests.py, the bytes of a file in formats/alpha/."""
