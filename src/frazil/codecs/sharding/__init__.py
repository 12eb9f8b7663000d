"""Shards: their bytes (shard.py), the order of inner chunks, and whole shards in memory.

Reading parts of shards is planned in array/io/; the table of shard indexes is in the kernel."""

from frazil.base.late import late_modules

late_modules(__name__, "shard", "whole_shard")
