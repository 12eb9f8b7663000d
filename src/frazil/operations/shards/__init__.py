"""The layout of stored shards: their indexes, the positions of their inner chunks, unused bytes, and pictures of these. No chunk is decoded.

Not here: checks of shards (validate/)."""
