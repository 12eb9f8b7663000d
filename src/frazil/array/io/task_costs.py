"""The costs of tasks: the bytes that they hold beside the result, which are shard indexes, encoded bytes that are fetched (with the gaps between them) or kept,
decoded chunks, and columns of the plan. First estimated from the compiled chain, then exact when shard indexes are read. Pure; scheduler.py has the budget."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from frazil.array.access import Access
from frazil.array.shards.shard_lookup import Opened, Step
from frazil.array.shards.shard_objects import BlobTable
from frazil.base.arrays import offsets_of
from frazil.indexing.points import Chunks
from frazil.stores.transfer.merged_spans import IN_PARTS, MULTIPART, SHORT, merge_spans, short_bytes
from frazil.stores.values import Pieces

INNER_CHUNK_BYTES: Final = 128  # columns of an inner chunk
_CLIENT_BYTES: Final = 2**21  # the most that the client of a remote store holds beside what it receives and sends
OPEN_OBJECTS: Final = 128  # objects that a task keeps open: the limit of a process is often 1024 files


def inner_chunk_bytes(access: Access) -> int:
    """The most bytes that a task holds for an inner chunk, or for a chunk: its content, its columns, and its entry in the index."""
    return access.chain.inner_chunk.nbytes + 2 * INNER_CHUNK_BYTES


def shard_bytes(access: Access) -> int:
    """As inner_chunk_bytes, for all inner chunks of a shard; for a chunk, where there are no shards."""
    return prod(access.chain.inner_chunk_counts) * inner_chunk_bytes(access)


def index_bytes(access: Access) -> int:
    """Bytes that the first stage holds for a shard: its index, encoded and parsed; if there are codecs around shards, the whole shard, encoded and decoded."""
    level = access.chain.levels[0]
    index = level.index_codecs.nbytes + 16 * level.total
    return index if level.addressable else index + 2 * shard_bytes(access)


def shards_per_task(access: Access, nbytes: int, *, carried: bool = False) -> int:
    """The number of shards that are looked up together. carried: their inner chunks are fetched, too."""
    each = index_bytes(access)
    if any(not level.addressable for level in access.chain.levels):
        each = 2 * shard_bytes(access)
    elif carried and not access.storage.direct:
        each = shard_bytes(access)
    return max(1, min(OPEN_OBJECTS, nbytes // each))


def read_chunks_cost(access: Access, count: int) -> int:
    """The most that reading chunks that are objects of their own costs."""
    return (0 if access.storage.direct else count * access.chain.inner_chunk.nbytes) + count * _decoded(access)


def write_chunks_cost(access: Access, count: int, *, merges: bool = False) -> int:
    """The cost of writing chunks, or inner chunks of shards that are written whole. merges: the old ones are fetched, too.

    With requests, a copy of encoded bytes is held while they are sent. It is counted here only if several tasks still fit; otherwise later, when all is
    encoded."""
    nbytes = count * access.chain.inner_chunk.nbytes
    copied = _copied(access, nbytes, count) if 4 * nbytes <= access.runtime.bytes_in_flight else 0
    return (2 if merges else 1) * nbytes + copied + count * INNER_CHUNK_BYTES


def _copied(access: Access, nbytes: int, pieces: int) -> int:
    """Bytes of which a second copy is held while they are sent in `pieces`."""
    if access.storage.direct:
        return 0
    value = prod(access.chain.inner_chunk_counts) * access.chain.inner_chunk.nbytes
    return nbytes if access.storage.joins(value) else min(nbytes, pieces * SHORT)


def _decoded(access: Access) -> int:
    """Bytes that reading an inner chunk holds beside its encoded bytes: it is decoded into the result, except with codecs in Python."""
    return INNER_CHUNK_BYTES + (0 if access.chain.inner_chunk.stage is None else access.chain.inner_chunk.nbytes)


def read_cost(access: Access, first: Step, chunks: Chunks) -> int:
    """The cost of reading inner chunks whose outermost indexes are in memory. In nested shards the inner shards are counted whole."""
    fetched = 0
    if not access.storage.direct and access.chain.levels[0].addressable:
        spans = first.chunk_spans()
        merged = merge_spans(spans[spans[:, 1] >= 0])
        lengths = spans[:, 2] if merged is None else merged.spans[:, 2]
        fetched = int(np.maximum(lengths, 0).sum())
    return len(first.shards.spans) * index_bytes(access) + fetched + chunks.count * _decoded(access)


def write_cost(access: Access, opened: Opened, count: int) -> int:
    """The cost of writing `count` inner chunks of shards whose outermost indexes are in memory: all bytes fetched from the old shards, those of them that
    are copied to be sent, and the new inner chunks. Shards inside shards, or inside other codecs, are joined in memory."""
    levels, spans = access.chain.levels, opened.shards.spans
    there = spans[:, 1] >= 0
    carried = 0 if access.storage.direct or not levels[0].addressable else int(spans[there, 2].sum())
    made = 0 if len(levels) == 1 and levels[0].addressable else carried + int(there.sum()) * shard_bytes(access)
    indexes = len(there) * (index_bytes(access) + levels[0].index_codecs.nbytes + 16 * levels[0].total)
    copied = _copied(access, carried, count + len(there)) + min(carried // 4, _CLIENT_BYTES)
    return indexes + carried + copied + made + write_chunks_cost(access, count)


def publish_cost(access: Access, blobs: BlobTable, pieces: Pieces) -> int:
    """The cost of publishing pieces of `blobs`: with requests, all are in memory, and some are copied."""
    if access.storage.direct:
        return 0
    ends = offsets_of(pieces.rows[:, 2])[pieces.offsets]
    values, nbytes = np.diff(ends), int(ends[-1])
    in_parts = int(np.minimum(values[values >= MULTIPART], IN_PARTS).sum())
    copied = nbytes if access.storage.joins(nbytes // max(len(values), 1)) else short_bytes(pieces) + in_parts
    return blobs.nbytes + copied + min(nbytes // 4, _CLIENT_BYTES)
