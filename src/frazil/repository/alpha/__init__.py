"""The alpha format behind the port of repository/format.py: branch files, histories, files that never change, documents, new snapshots.

Not here: the bytes of its files (formats/alpha/)."""
