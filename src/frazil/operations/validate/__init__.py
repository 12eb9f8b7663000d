"""Checks whether stored data can be read: documents, keys, shard indexes and, on request, every chunk. Nothing is changed.

The files of a repository (snapshots, manifests, branches) are not checked: here a repository is the hierarchy of its session."""
