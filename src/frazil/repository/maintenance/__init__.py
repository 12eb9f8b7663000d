"""Maintenance of repositories in every format (repository/format.py): reachable objects, garbage collection, expiry, and their files under gc/.

It works with ids and references, without sessions or the files of a format. commit/condemned_chunks.py checks sessions against condemned objects."""
