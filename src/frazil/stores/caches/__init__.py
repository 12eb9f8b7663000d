"""Caches: the memory of an opened location (byte_cache.py), and stores that keep values of another store by one policy (caching_store.py), in memory or on
disk.

Not here: which shard indexes are kept (array/shards/shard_indexes.py)."""

from frazil.base.late import late_modules

late_modules(__name__, "cache_folder", "caching_store", "disk_cache")
