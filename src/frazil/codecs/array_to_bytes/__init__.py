"""Array-to-bytes codecs, one in each file; `sharding_indexed` as an entry of a document.

The bytes of a shard are in codecs/sharding/shard.py."""
