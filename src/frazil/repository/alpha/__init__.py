"""The alpha format behind the port of repository/format.py: its snapshots, its documents of nodes, and which node of one snapshot is which of another.

Not here: the bytes of its files (formats/alpha/)."""
