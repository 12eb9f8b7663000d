"""Boxes of chunk coordinates; a snapshot has one for each manifest. Pure.

With a box, a reader or a commit can skip a manifest that cannot have a chunk. placement.py uses them for commits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from frazil.base.record import Record
from frazil.stores.values import Columns

VectorTuple: TypeAlias = tuple[int, ...]

_CACHE_SIZE: Final = 4096  # extents in the cache
_FEW: Final = 8  # up to this number of chunks, single numbers are faster than columns


class Extents(Record):
    """The inclusive box of an array's coordinates in a manifest, and their number."""

    first: VectorTuple
    last: VectorTuple
    count: int  # type: ignore[assignment]  # replaces a method of tuple that is not used

    def has(self, coordinates: Sequence[int]) -> bool:
        """Whether a chunk is in the box."""
        for low, high, coordinate in zip(self.first, self.last, coordinates, strict=True):
            if not low <= coordinate <= high:
                return False
        return True

    def lies_within(self, grid: Sequence[int]) -> bool:
        """Whether the whole box is in a grid with this number of chunks along each dimension."""
        for low, high, count in zip(self.first, self.last, grid, strict=False):
            if low < 0 or high >= count:
                return False
        return True

    def has_each(self, coordinates: Columns) -> NDArray[np.bool_]:
        """Which of int64[n, d] chunks are in the box: bool[n]."""
        first: Columns = np.array(self.first, np.int64)
        last: Columns = np.array(self.last, np.int64)
        return np.asarray(((coordinates >= first) & (coordinates <= last)).all(axis=1), np.bool_)

    def held(self, chunks: Columns) -> int:
        """The number of int64[k, d] chunks, distinct and sorted, in the box."""
        if len(chunks) <= _FEW:
            return sum(map(self.has, chunks.tolist()))
        return int(np.count_nonzero(self.has_each(self.near(chunks))))

    def near(self, chunks: Columns) -> Columns:
        """Of sorted int64[k, d] chunks, those that may be in the box by their first coordinate."""
        if not self.first:
            return chunks
        outer = chunks[:, 0]
        start = bisect_left(outer, self.first[0])
        return chunks[start : bisect_right(outer, self.last[0], start)]

    def overlaps(self, other: Extents) -> bool:
        """Whether the boxes overlap."""
        for low, high, first, last in zip(self.first, self.last, other.first, other.last, strict=True):
            if low > last or first > high:
                return False
        return True

    @property
    def capacity(self) -> int:
        """The number of chunks that fit in the box."""
        return _capacity(self.first, self.last)

    def around(self, other: Extents) -> Extents:
        """The smallest box around both. Its count is the sum of theirs, but at most the number of places."""
        first, last = tuple(map(min, self.first, other.first)), tuple(map(max, self.last, other.last))
        return Extents(first, last, min(self.count + other.count, _capacity(first, last)))

    def listed(self) -> tuple[VectorTuple, VectorTuple, VectorTuple]:
        """The form in a snapshot."""
        return self.first, self.last, (self.count,)


def _capacity(first: VectorTuple, last: VectorTuple) -> int:
    return prod([high - low + 1 for low, high in zip(first, last, strict=True)])


def extents_of(coordinates: Columns) -> Extents:
    """Of int64[n, d] distinct coordinates, at least one."""
    if len(coordinates) <= _FEW:
        along = list(zip(*coordinates.tolist(), strict=True))
        return Extents(tuple(map(min, along)), tuple(map(max, along)), len(coordinates))
    columns = np.ascontiguousarray(coordinates.T)  # NumPy is much faster along these
    return Extents(tuple(columns.min(axis=1).tolist()), tuple(columns.max(axis=1).tolist()), len(coordinates))


@lru_cache(_CACHE_SIZE)
def read_extents(extents: tuple[VectorTuple, ...], rank: int) -> Extents | None:
    """The box from the result of `listed` for an array of this rank; None for anything else."""
    if len(extents) != 3:
        return None
    first, last, counts = extents
    if len(first) != rank or len(last) != rank or len(counts) != 1:
        return None
    for low, high in zip(first, last, strict=True):
        if not 0 <= low <= high:
            return None
    found = Extents(tuple(first), tuple(last), counts[0])
    return found if 1 <= found.count <= found.capacity else None
