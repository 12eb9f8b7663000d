"""New shards from old ones: what to publish when chunks of a shard are replaced or erased. Columns in, pieces out; no I/O.

A shard is placed and indexed by codecs/shard.py, as the array engine's are (array/io/shard_assembly.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.codecs import Bytes, ShardingIndexed
from frazil.codecs.chain import compile_chain
from frazil.codecs.codec import ChunkSpec
from frazil.codecs.shard import Layout, Level, encode_indexes, lay_out, merge
from frazil.record import Record
from frazil.stores.fetched.composed_values import composed, joined_sources, repeated
from frazil.stores.values import Columns, Pieces, Sources

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Carried", "Chunks", "appended", "rebuilt", "shard_level", "table_after"]

_NEW: Final = 2**62  # sorts behind every place in an old shard


class Chunks(Record):
    """New chunks: their shards, their numbers in the index, their encoded bytes, and how many those are; -1 for one that is erased."""

    group: Columns
    number: Columns
    pieces: Pieces
    length: Columns


class Carried(Record):
    """Chunks that stay: their shards, their numbers in the index, and where their bytes lie."""

    group: Columns
    number: Columns
    sources: Sources
    rows: Columns


def shard_level(counts: tuple[int, ...]) -> Level:
    """Shards of the transformer: the index at the end, offset and nbytes as little-endian uint64, no checksum (Binary shard format).
    Raises MetadataError for what has no such index."""
    sharding = ShardingIndexed([1] * len(counts), [Bytes()], [Bytes("little")])
    return compile_chain([sharding], ChunkSpec(counts, np.dtype(np.uint8), (), b"\0")).levels[0]


def table_after(tables: Columns, new: Chunks) -> Columns:
    """The indexes with the lengths of new chunks in them, their places not yet right."""
    after = tables.copy()
    after[new.group, new.number, 0] = np.where(new.length < 0, -1, 0)
    after[new.group, new.number, 1] = new.length
    return after


def rebuilt(level: Level, tables: Columns, new: Chunks, carried: Carried) -> Pieces:
    """Shards without unused space, each with at least one chunk: a chunk that was there stays in its place among the others, new ones come last.

    tables: int64[g, total, 2], the old indexes, -1 where there is none"""
    sources, rows = joined_sources(new.pieces.sources, carried.sources, carried.rows)
    ours = len(new.pieces.rows)
    first = np.concatenate((new.pieces.offsets[:-1], ours + np.arange(len(rows))))
    count = np.concatenate((np.diff(new.pieces.offsets), np.ones(len(rows), np.int64)))
    group = np.concatenate((new.group, carried.group))
    number = np.concatenate((new.number, carried.number))
    before = tables[group, number, 0]
    layout = _laid_out(
        level,
        len(tables),
        group,
        number,
        np.concatenate((new.length, rows[:, 2])),
        np.where(before < 0, _NEW, before),
    )
    return _with_indexes(level, sources, np.concatenate((new.pieces.rows, rows)), first, count, layout)


def appended(level: Level, tables: Columns, sizes: Columns, new: Chunks) -> Pieces:
    """What comes behind shards of these sizes: the new chunks and a new index, which leaves the old one and what was replaced unused."""
    layout = _laid_out(level, len(tables), new.group, new.number, new.length, None)
    after = table_after(tables, new)
    placed = layout.tables[:, :, 0] >= 0
    after[placed] = layout.tables[placed]
    after[:, :, 0] += np.where(placed, sizes[:, None], 0)
    first, count = new.pieces.offsets[:-1], np.diff(new.pieces.offsets)
    layout = layout._replace(tables=after)
    return _with_indexes(level, new.pieces.sources, new.pieces.rows, first, count, layout)


def _laid_out(
    level: Level, count: int, group: Columns, number: Columns, length: Columns, keys: Columns | None
) -> Layout:
    """lay_out, of chunks that may be several pieces: the blob of each row is the number of the chunk."""
    stand_ins = np.stack((np.arange(len(group)), np.zeros(len(group), np.int64), length), axis=1)
    return lay_out(level, count, group, number, stand_ins, keys)


def _with_indexes(
    level: Level, sources: Sources, rows: Columns, first: Columns, count: Columns, layout: Layout
) -> Pieces:
    """One value a shard: its chunks, which are rows[first:first + count] each, and its index behind them."""
    shards, nbytes, order = len(layout.tables), level.index_codecs.nbytes, layout.rows[:, 0]
    indexes = encode_indexes(level, layout.tables).reshape(-1)
    taken = count[order]
    per_shard = np.bincount(layout.group, weights=taken, minlength=shards).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(per_shard + 1)))
    out = np.empty((int(offsets[-1]), 3), np.int64)
    is_index: NDArray[np.bool_] = np.zeros(len(out), np.bool_)
    is_index[offsets[1:] - 1] = True
    out[~is_index] = rows[repeated(first[order], taken)]
    buffers = [*sources.buffers, indexes]
    out[is_index, 0] = -len(buffers)
    out[is_index, 1] = np.arange(shards) * nbytes
    out[is_index, 2] = nbytes
    return composed(Sources(sources.files, buffers), *merge(out, offsets))
