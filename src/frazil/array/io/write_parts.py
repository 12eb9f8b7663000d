"""The values of one write, and its batches divided into parts that are written in the same way. write.py writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import numpy as np

from frazil.array.access import Access
from frazil.array.shards.shard_objects import BlobTable
from frazil.base.arrays import Columns, Values
from frazil.base.record import Record
from frazil.indexing.points import Batch, Chunks

# adds inner chunks that are already encoded, and are written whole, to the blobs: int64[n, 3], their rows there, length -1 where all fill value; and int64[n],
# ascending in the order in which they were written
EncodedSource = Callable[[Chunks, BlobTable], tuple[Columns, Columns]]


class Source(Record):
    """The source of the values of a write.

    kernel   Scheduler.kernel
    confirm  called when versions are read, before anything is published; it raises where the stored document forbids the write. None: it was just read, or
             written
    encoded  instead of values
    keep_fill  chunks that are all fill value are stored like others"""

    values: Values
    kernel: AbstractContextManager[object]
    confirm: Callable[[], None] | None
    encoded: EncodedSource | None = None
    keep_fill: bool = False


class Part(Record):
    """Chunks or shards of a batch that are written in the same way.

    whole      whether each is written whole, as far as it is inside the array
    shape      if they reach beyond the array's end: the lengths that the array must have for `whole`; None: they end at its end, or before
    confirmed  whether the first attempt need not compare the document"""

    batch: Batch
    whole: bool
    shape: tuple[int, ...] | None = None
    confirmed: bool = False


def parts_of(access: Access, shape: tuple[int, ...], batch: Batch, in_part: bool) -> Iterator[tuple[Part, Columns]]:
    """The parts of a batch, with its rows. in_part: as in `write`."""
    whole = batch.whole_shards() & (not in_part)
    if not whole.any():  # as in most writes of few elements
        yield Part(batch, False), np.arange(len(whole))
        return
    outer = [
        extent * count
        for extent, count in zip(access.chain.inner_chunk.shape, access.chain.inner_chunk_counts, strict=True)
    ]
    filled = [length // extent for length, extent in zip(shape, outer, strict=True)]  # chunks that end inside the array
    inside = (batch.shards < filled).all(axis=1)
    yield Part(batch, True, shape), np.flatnonzero(whole & ~inside)
    yield Part(batch, True), np.flatnonzero(whole & inside)
    yield Part(batch, False), np.flatnonzero(~whole)
