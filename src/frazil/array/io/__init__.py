"""From plans to bytes and back: reading, writing, shard look-up, shard assembly.

Plans are made in indexing/, bytes are kept in stores/."""
