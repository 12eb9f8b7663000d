"""New shards from old ones: the bytes to publish when chunks of a shard are replaced or erased. Columns in, pieces out; no I/O.

codecs/sharding/shard.py assembles the shards, as it does those of the array engine (array/shards/shard_assembly.py)."""

from __future__ import annotations

import numpy as np

from frazil.base.record import Record
from frazil.codecs import Bytes, ShardingIndexed
from frazil.codecs.chain.compilation import compile_chain
from frazil.codecs.codec import ChunkSpec
from frazil.codecs.sharding.shard import InnerChunks, Level, assemble
from frazil.stores.transfer.composed_values import composed, joined_sources
from frazil.stores.values import Columns, Pieces, Sources


class Chunks(Record):
    """New chunks: their shards, their numbers in the index, their encoded bytes, and how many bytes; -1 for an erased chunk, which has no pieces."""

    shard: Columns
    number: Columns
    pieces: Pieces
    length: Columns


class Carried(Record):
    """Chunks that stay: their shards, their numbers in the index, and the places of their bytes."""

    shard: Columns
    number: Columns
    sources: Sources
    rows: Columns


def shard_level(counts: tuple[int, ...]) -> Level:
    """Shards of the transformer: the index at the end, offset and nbytes as little-endian uint64, no checksum (Binary shard format).
    Raises MetadataError for a shape without such an index."""
    sharding = ShardingIndexed([1] * len(counts), [Bytes()], [Bytes("little")])
    return compile_chain([sharding], ChunkSpec(counts, np.dtype(np.uint8), (), b"\0")).levels[0]


def rebuilt(level: Level, tables: Columns, new: Chunks, carried: Carried) -> Pieces:
    """Shards without unused space, each with at least one chunk: an old chunk keeps its position among the others, new ones come last.

    tables: int64[g, total, 2], the old indexes, -1 for a missing chunk"""
    sources, rows = joined_sources(new.pieces.sources, carried.sources, carried.rows)
    kept = np.flatnonzero(new.length >= 0)
    first = np.append(new.pieces.offsets[:-1][kept], new.pieces.offsets[-1])
    shard, number = np.concatenate((new.shard[kept], carried.shard)), np.concatenate((new.number[kept], carried.number))
    chunks = InnerChunks(
        shard,
        number,
        np.concatenate((new.pieces.rows, rows)),
        np.concatenate((first, first[-1] + 1 + np.arange(len(rows)))),
        tables[shard, number, 0],
    )
    made = assemble(level, chunks, np.full_like(tables, -1), -1 - len(sources.buffers))
    return composed(Sources(sources.files, [*sources.buffers, made.indexes]), made.rows, made.offsets)
