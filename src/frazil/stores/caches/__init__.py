"""Caches: the memory of an opened location (byte_cache.py), the cache on disk, and stores that keep values of another store in memory.

Not here: which shard indexes are kept (array/shards/shard_indexes.py)."""
