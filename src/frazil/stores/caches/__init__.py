"""Caches: the memory of an opened location, stores that keep values of another store in memory, and the cache on disk.

Shard indexes are kept by array/access.py."""
