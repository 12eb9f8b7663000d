"""Repositories: hierarchies with a history, whose commits are atomic and isolated.

format.py is the port to the files of one format, alpha/ its first implementation. session/, commit/ and merge/ contain transactions, manifests/ and virtual/
their parts. Not here: the bytes of files (formats/), and arrays, which use repositories through the two ports of stores/array_storage/."""

from frazil.base.late import late_modules

late_modules(__name__, "format")
