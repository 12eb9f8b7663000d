"""Files of repositories <-> values: bytes in, values out, no I/O.

The modules here have the values that every format shares. alpha/ has the files of the Icechunk specification, alpha. What the files mean together (commits, sessions, conflicts) is in repository/."""
