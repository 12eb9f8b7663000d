"""The alpha format behind the port of repository/format.py: branch files, histories, immutable files, documents, new snapshots.

Not here: the bytes of its files (formats/alpha/)."""
