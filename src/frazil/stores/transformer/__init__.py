"""The sharding storage transformer of the 2022 draft as a store over a store.

The array engine plans shards itself (array/io/) and does not use this. Both use codecs/sharding/shard.py for the bytes of a shard."""

from frazil.base.late import late_modules

late_modules(__name__, "sharding_store")
