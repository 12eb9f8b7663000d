"""The sharding codec.

Contains: its configuration, the order of inner chunks, chains with nested shards, decoding and encoding of whole shards. Does not contain: reading parts of
shards, which the array engine plans (array/io/); the table of shard indexes, which is in the kernel."""
