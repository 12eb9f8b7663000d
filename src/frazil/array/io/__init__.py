"""Reading and writing: from plans to values and back, through tasks within one budget of bytes.

Plans are made in indexing/, shards are looked up and put together in shards/, bytes are kept in stores/."""

from frazil.base.late import late_modules

late_modules(__name__, "chunk_count", "read", "shard_writer", "write")
