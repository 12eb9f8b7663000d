"""Maintenance of repositories in every format (repository/format.py): which objects are reachable, garbage collection, expiry, and the files under gc/ that these keep.

It knows ids and references, and neither sessions nor the files of a format. How sessions meet what a collection condemned is in commit/condemned_chunks.py."""
