"""Boxes of chunk coordinates in columns: which of many boxes lie within a grid, overlap, or hold some of a set of chunks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.repository.references import Extents

    Columns = NDArray[np.int64]
    Booleans = NDArray[np.bool_]

__all__ = ["Boxes", "boxes_of"]


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
