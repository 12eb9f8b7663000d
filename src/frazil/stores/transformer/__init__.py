"""The sharding storage transformer of the 2022 draft as a store over a store.

The array engine does not use it: it plans shards itself (array/io/). Both use codecs/sharding/shard.py for the bytes of a shard."""
