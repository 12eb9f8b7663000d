"""Verification of repositories in every format (repository/format.py): whether refs, snapshots, manifests and attribute files can be read, and whether the
bytes of every chunk reference exist.

It only reads. Chunks are decoded in api/maintenance/verification.py, which knows arrays; nothing here repairs."""
