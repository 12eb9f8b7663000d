"""Boxes of chunk coordinates: the one that stands beside each manifest in a snapshot, and columns of them. Pure.

A box lets a reader or a commit leave a manifest alone that cannot have a chunk; how commits use them is in placement.py."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]
    Booleans = NDArray[np.bool_]

__all__ = ["Boxes", "Extents", "boxes_of", "dropped_and_touched", "extents_of", "read_extents", "room"]

VectorTuple: TypeAlias = tuple[int, ...]

_FEW: Final = 64  # pairs of a box and a chunk up to which single numbers are quicker than columns


class Extents(Record):
    """The inclusive box of the coordinates that an array has in a manifest, and how many there are."""

    first: VectorTuple
    last: VectorTuple
    count: int  # type: ignore[assignment]  # a tuple's own method is not missed

    def has(self, coordinates: VectorTuple) -> bool:
        """Whether a chunk lies in the box."""
        for low, high, coordinate in zip(self.first, self.last, coordinates, strict=True):
            if not low <= coordinate <= high:
                return False
        return True

    def has_each(self, coordinates: Columns) -> Booleans:
        """Which of int64[n, d] chunks lie in the box: bool[n]."""
        first: Columns = np.array(self.first, np.int64)
        last: Columns = np.array(self.last, np.int64)
        return np.asarray(((coordinates >= first) & (coordinates <= last)).all(axis=1), np.bool_)

    def overlaps(self, other: Extents) -> bool:
        """Whether the boxes have a chunk in common."""
        for low, high, first, last in zip(self.first, self.last, other.first, other.last, strict=True):
            if low > last or first > high:
                return False
        return True

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


def read_extents(extents: Sequence[Sequence[int]], rank: int) -> Extents | None:
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
    return found if 1 <= found.count <= room([found]) else None


def room(boxes: Sequence[Extents]) -> int:
    """How many chunks there can be in the smallest box around some."""
    first = [min(column) for column in zip(*[box.first for box in boxes], strict=True)]
    last = [max(column) for column in zip(*[box.last for box in boxes], strict=True)]
    return prod([high - low + 1 for low, high in zip(first, last, strict=True)])


# --- many boxes -------------------------------------------------------------------------------------------------------------------------


class Boxes(Record):
    """m boxes, inclusive."""

    first: Columns  # int64[m, d]
    last: Columns  # int64[m, d]

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
                inside = ((inner >= self.first[box, 1:]) & (inner <= self.last[box, 1:])).all(axis=1)
                held[box] = np.count_nonzero(inside)
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
    limits: Columns = np.array(grid, np.int64)
    volumes = np.prod(boxes.last - boxes.first + 1.0, axis=1)  # floats, as there may be more than an integer can count
    dropped = np.asarray((boxes.first >= limits).any(axis=1))
    if (volumes <= len(both)).any():
        dropped |= boxes.hold(both) >= volumes
    touched = np.asarray((boxes.last >= limits).any(axis=1))
    if len(leaving):
        touched |= boxes.hold(leaving) > 0
    return dropped.tolist(), (touched & ~dropped).tolist()
