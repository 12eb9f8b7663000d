"""Whether what is stored can be read: documents, keys, shard indexes and, on request, every chunk. Nothing is changed.

The files of a repository itself (snapshots, manifests, branches) are not looked at: here it is the hierarchy that its session shows."""
