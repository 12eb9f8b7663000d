"""Files of a repository <-> values (Icechunk specification, alpha): ids, references, snapshots, manifests. Bytes in, values out, no I/O.

What the files mean together (commits, sessions, conflicts) lives in repository/."""
