"""Conversion between files of repositories and values: bytes in, values out, no I/O.

The modules here have the values that all formats share. alpha/ has the files of the Icechunk specification, alpha. repository/ uses the files (commits,
sessions, conflicts)."""
