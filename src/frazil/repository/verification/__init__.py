"""Verification of repositories in every format (repository/format.py): whether refs, snapshots, manifests and attribute files can be read, and every chunk reference leads to bytes.

It reads and never writes. Chunks are decoded in api/maintenance/verification.py, which knows arrays; nothing here repairs."""
