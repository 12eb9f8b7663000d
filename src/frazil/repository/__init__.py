"""Repositories: a Zarr hierarchy whose every commit is atomic, isolated and kept. Files are read and written as values by format/; arrays come to it through
the two ports of stores/ (chunks and nodes), and are never imported here."""
