"""Boxes of chunk coordinates in columns: which of many boxes lie within a grid, overlap, or hold some of a set of chunks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.repository.manifests.references import Extents

    Columns = NDArray[np.int64]
    Booleans = NDArray[np.bool_]

__all__ = ["Boxes", "boxes_of", "dropped_and_touched"]

_FEW: Final = 64  # pairs of a box and a chunk up to which single numbers are quicker than columns


class Boxes(Record):
    """m boxes, inclusive."""

    first: Columns  # int64[m, d]
    last: Columns  # int64[m, d]

    def volumes(self) -> NDArray[np.float64]:
        """How many chunks each has room for: float64[m], as there may be more than an integer can count."""
        volumes: NDArray[np.float64] = np.prod(self.last - self.first + 1.0, axis=1)
        return volumes

    def outside(self, grid: Sequence[int]) -> Booleans:
        """Which have nothing in a grid of that many chunks along each dimension: bool[m]."""
        return np.asarray((self.first >= np.array(grid, np.int64)).any(axis=1))

    def inside(self, grid: Sequence[int]) -> Booleans:
        """Which have everything in it: bool[m]."""
        return np.asarray((self.last < np.array(grid, np.int64)).all(axis=1))

    def overlap(self, other: Boxes) -> Booleans:
        """Which overlap one of the others: bool[m]."""
        found = np.zeros(len(self.first), np.bool_)
        for first, last in zip(other.first, other.last, strict=True):
            found |= ((self.first <= last) & (self.last >= first)).all(axis=1)
        return found

    def hold(self, chunks: Columns) -> Columns:
        """How many of int64[k, d] chunks, which are distinct and in order, each box holds: int64[m]."""
        boxes, rank = self.first.shape
        if not rank or not len(chunks):
            return np.full(boxes, len(chunks), np.int64)
        outer = np.ascontiguousarray(chunks[:, 0])
        starts, stops = outer.searchsorted(self.first[:, 0], "left"), outer.searchsorted(self.last[:, 0], "right")
        held = stops - starts
        if rank > 1:
            for box in np.flatnonzero(held).tolist():
                inner = chunks[starts[box] : stops[box], 1:]
                within = ((inner >= self.first[box, 1:]) & (inner <= self.last[box, 1:])).all(axis=1)
                held[box] = np.count_nonzero(within)
        return held


def boxes_of(extents: Sequence[Extents], rank: int) -> Boxes:
    """The boxes of some extents of arrays of this rank."""
    shape = len(extents), rank
    first = np.array([one.first for one in extents], np.int64).reshape(shape)
    return Boxes(first, np.array([one.last for one in extents], np.int64).reshape(shape))


def dropped_and_touched(
    extents: Sequence[Extents], grid: Sequence[int], both: Columns, leaving: Columns
) -> tuple[Sequence[bool], Sequence[bool]]:
    """Of each manifest with such a box, whether nothing of it is left, and whether else some of it may have to leave.

    grid     chunks along each dimension; what lies beyond leaves
    both     int64[k, d], in order: chunks that leave or are written, so that an older manifest with no others is left with nothing
    leaving  int64[l, d], in order: chunks that leave"""
    if len(extents) * (len(both) + len(leaving)) > _FEW:
        return _in_columns(boxes_of(extents, len(grid)), grid, both, leaving)
    written, gone = [tuple(chunk) for chunk in both.tolist()], [tuple(chunk) for chunk in leaving.tolist()]
    dropped, touched = [], []
    for box in extents:
        volume, inside, outside = 1, True, False
        for low, high, count in zip(box.first, box.last, grid, strict=True):
            volume *= high - low + 1
            inside &= high < count
            outside |= low >= count
        is_dropped = outside or (volume <= len(written) and sum(map(box.has, written)) >= volume)
        dropped.append(is_dropped)
        touched.append(not is_dropped and (not inside or any(map(box.has, gone))))
    return dropped, touched


def _in_columns(
    boxes: Boxes, grid: Sequence[int], both: Columns, leaving: Columns
) -> tuple[Sequence[bool], Sequence[bool]]:
    volumes = boxes.volumes()
    dropped = boxes.outside(grid)
    if (volumes <= len(both)).any():
        dropped |= boxes.hold(both) >= volumes
    touched = ~boxes.inside(grid)
    if len(leaving):
        touched |= boxes.hold(leaving) > 0
    return dropped.tolist(), (touched & ~dropped).tolist()
