"""Boxes of chunk coordinates, one of which stands beside each manifest in a snapshot. Pure.

A box lets a reader or a commit leave a manifest alone that cannot have a chunk. How commits use them is in placement.py."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]

__all__ = ["Extents", "extents_of", "read_extents"]

VectorTuple: TypeAlias = tuple[int, ...]

_MOST_KNOWN: Final = 4096  # extents that are read once
_FEW: Final = 8  # chunks up to which single numbers are quicker than columns


class Extents(Record):
    """The inclusive box of the coordinates that an array has in a manifest, and how many there are."""

    first: VectorTuple
    last: VectorTuple
    count: int  # type: ignore[assignment]  # a tuple's own method is not missed

    def has(self, coordinates: Sequence[int]) -> bool:
        """Whether a chunk lies in the box."""
        for low, high, coordinate in zip(self.first, self.last, coordinates, strict=True):
            if not low <= coordinate <= high:
                return False
        return True

    def lies_within(self, grid: Sequence[int]) -> bool:
        """Whether the whole box lies in a grid of that many chunks along each dimension."""
        for low, high, count in zip(self.first, self.last, grid, strict=False):
            if low < 0 or high >= count:
                return False
        return True

    def has_each(self, coordinates: Columns) -> NDArray[np.bool_]:
        """Which of int64[n, d] chunks lie in the box: bool[n]."""
        first: Columns = np.array(self.first, np.int64)
        last: Columns = np.array(self.last, np.int64)
        return np.asarray(((coordinates >= first) & (coordinates <= last)).all(axis=1), np.bool_)

    def held(self, chunks: Columns) -> int:
        """How many of int64[k, d] chunks, which are distinct and in order, lie in the box."""
        if len(chunks) <= _FEW:
            return sum(map(self.has, chunks.tolist()))
        return int(np.count_nonzero(self.has_each(self.near(chunks))))

    def near(self, chunks: Columns) -> Columns:
        """Those of int64[k, d] chunks, in order, that the box may hold by their first coordinate."""
        if not self.first:
            return chunks
        outer = chunks[:, 0]
        start = bisect_left(outer, self.first[0])
        return chunks[start : bisect_right(outer, self.last[0], start)]

    def overlaps(self, other: Extents) -> bool:
        """Whether the boxes have a place in common."""
        for low, high, first, last in zip(self.first, self.last, other.first, other.last, strict=True):
            if low > last or first > high:
                return False
        return True

    @property
    def places(self) -> int:
        """How many chunks there can be in the box."""
        return prod([high - low + 1 for low, high in zip(self.first, self.last, strict=True)])

    def around(self, other: Extents) -> Extents:
        """The smallest box around both; its count is theirs together, or as many chunks as there can be."""
        first, last = tuple(map(min, self.first, other.first)), tuple(map(max, self.last, other.last))
        box = Extents(first, last, self.count + other.count)
        return box._replace(count=min(box.count, box.places))

    def listed(self) -> tuple[VectorTuple, VectorTuple, VectorTuple]:
        """As it stands in a snapshot."""
        return self.first, self.last, (self.count,)


def extents_of(coordinates: Columns) -> Extents:
    """Of int64[n, d] coordinates, all different, at least one."""
    if len(coordinates) == 1:
        only = tuple(coordinates[0].tolist())
        return Extents(only, only, 1)
    columns = np.ascontiguousarray(coordinates.T)  # along which NumPy is much quicker
    return Extents(tuple(columns.min(axis=1).tolist()), tuple(columns.max(axis=1).tolist()), len(coordinates))


@lru_cache(_MOST_KNOWN)
def read_extents(extents: tuple[VectorTuple, ...], rank: int) -> Extents | None:
    """What `listed` gave for an array of this rank; None for anything else."""
    if len(extents) != 3:
        return None
    first, last, counts = extents
    if len(first) != rank or len(last) != rank or len(counts) != 1:
        return None
    for low, high in zip(first, last, strict=True):
        if not 0 <= low <= high:
            return None
    found = Extents(tuple(first), tuple(last), counts[0])
    return found if 1 <= found.count <= found.places else None
