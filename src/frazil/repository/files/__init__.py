"""Files of a repository that never change: read, written and cached; and what our commits say in the flags and properties of snapshots.

Not here: the bytes of these files (formats/), and the reference files, which change (repository/refs/)."""
