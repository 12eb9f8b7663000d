"""Shards of an array: remembered indexes, look-up of inner chunks, assembly of new shards, changes in place.

Not here: plans (indexing/), reading and writing (io/), the bytes of a shard (codecs/sharding/shard.py)."""

from frazil.base.late import late_modules

late_modules(__name__, "shard_append")
