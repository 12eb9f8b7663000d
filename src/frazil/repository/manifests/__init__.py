"""Chunk references in columns: look-up over many manifests, comparison, and which manifests a commit writes.

The columns are in formats/manifests.py, the bytes of a file in formats/alpha/."""
