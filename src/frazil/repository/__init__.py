"""Repositories: hierarchies with a history, whose commits are atomic and isolated.

format.py is the port to the files of one format, alpha/ its first implementation; session/, commit/ and merge/ have transactions, manifests/ and virtual/ what these are made of.
Not here: the bytes of files (formats/), and arrays, which meet repositories at the two ports of stores/array_storage/."""
