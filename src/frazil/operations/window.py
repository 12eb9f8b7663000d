"""Walks through a selection in bounded memory: reads it piece by piece in C order, or only at its edges, or writes it tile by tile.

indexing/ parses brackets; here a checked selection becomes the selected elements of each dimension. slabs.py walks through whole arrays."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import prod
from typing import Protocol

import numpy as np

from frazil.array.array import Array
from frazil.base.arrays import Columns, Values
from frazil.base.record import Record
from frazil.indexing.selection import orthogonal

Picks = range | tuple[int, ...]  # elements along one dimension, in the order of the result


class Source(Protocol):
    """Elements that replace those of an array, such as decoded ones: of the same shape, selected along each dimension independently."""

    dtype: np.dtype[np.generic]

    def __getitem__(self, selection: tuple[slice | Columns, ...]) -> Values: ...


class Window(Record):
    """picks: for each dimension of the array the selected elements. kept: the dimensions of the result, as an integer drops its own.
    source: of the elements; None: the array itself."""

    array: Array
    picks: tuple[Picks, ...]
    kept: tuple[int, ...]
    source: Source | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(len(self.picks[dimension]) for dimension in self.kept)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Data type of the result."""
        return self.array.dtype if self.source is None else self.source.dtype

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def read(self) -> Values:
        """All elements. Raises DataError, StoreError, and errors of the source."""
        selection = tuple(map(_index, self.picks))
        # not through brackets: a scalar of NumPy has only the length of its own text, not that of the data type
        values = self.array.oindex.read(selection) if self.source is None else np.asarray(self.source[selection])
        return values.reshape(self.shape)

    def write(self, values: Values) -> None:
        """Assigns values of the window's shape. Raises ReadOnlyError, StoreError, DataError, ConflictError."""
        self.array.oindex[tuple(map(_index, self.picks))] = values.reshape([len(picks) for picks in self.picks])

    def cut(self, axis: int, start: int, stop: int) -> Window:
        """The window with only the elements start to stop of one axis of the result."""
        return self.pick(axis, slice(start, stop))

    def pick(self, axis: int, which: slice | Sequence[int]) -> Window:
        """The window with only these elements of one axis of the result, counted within the result."""
        dimension = self.kept[axis]
        old = self.picks[dimension]
        new: Picks = old[which] if isinstance(which, slice) else tuple(old[i] for i in which)
        return self._replace(picks=(*self.picks[:dimension], new, *self.picks[dimension + 1 :]))

    def pieces(self, max_bytes: int, axis: int = 0) -> Iterator[Window]:
        """The window in consecutive pieces: their values, one after the other in C order, are the values of the whole. At most max_bytes each, unless one
        element is more; cut at ends of chunks where possible, so that few chunks are decoded twice. axis: axes before it are not cut."""
        if axis == len(self.shape) or self.nbytes <= max_bytes:
            yield self
            return
        row = self.nbytes // self.shape[axis]
        if row <= max_bytes or axis + 1 == len(self.shape):
            yield from (
                self.cut(axis, start, stop)
                for start, stop in self._cuts(axis, max(1, max_bytes // row), self.array.chunks)
            )
        else:
            for i in range(self.shape[axis]):
                yield from self.cut(axis, i, i + 1).pieces(max_bytes, axis + 1)

    def tiles(self, max_bytes: int, extents: Sequence[int] | None = None) -> Iterator[tuple[tuple[int, ...], Window]]:
        """The window in tiles of at most max_bytes, unless one chunk is more, each with the position of its first element; cut at ends of chunks. In C order of
        the tiles, which is not that of the elements. extents: of larger units that are not cut, such as shards; None: of chunks."""
        extents = self.array.chunks if extents is None else extents
        most = [
            max(1, min(length, extents[dimension])) for length, dimension in zip(self.shape, self.kept, strict=True)
        ]
        bytes_of_tile = prod(most) * self.dtype.itemsize
        for axis in reversed(range(len(most))):  # as wide as possible, then as high as possible
            grow = min(-(-self.shape[axis] // most[axis]), max_bytes // max(1, bytes_of_tile))
            if grow > 1:
                most[axis] *= grow
                bytes_of_tile *= grow
        yield from self._tiles(tuple(most), tuple(extents), ())

    def _tiles(
        self, most: tuple[int, ...], extents: tuple[int, ...], origin: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], Window]]:
        axis = len(origin)
        if axis == len(most):
            yield origin, self
            return
        for start, stop in self._cuts(axis, most[axis], extents):
            yield from self.cut(axis, start, stop)._tiles(most, extents, (*origin, start))

    def _cuts(self, axis: int, most: int, extents: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Ranges of at most `most` elements along an axis of the result. Each ends at the end of a chunk (or of a unit of `extents`), if one ends within the
        range."""
        dimension = self.kept[axis]
        picks, chunk = self.picks[dimension], extents[dimension]
        start = 0
        while start < len(picks):
            stop = min(start + most, len(picks))
            if stop < len(picks):
                last = picks[stop] // chunk
                aligned = bisect_left(picks, True, start, stop, key=lambda pick: pick // chunk == last)
                stop = aligned if aligned > start else stop
            yield start, stop
            start = stop


def window(array: Array, selection: tuple[object, ...] = (...,)) -> Window:
    """The window of a selection: integers, slices, lists of integers and one Ellipsis, each along its own dimension. Raises SelectionError if it does not
    fit."""
    box = orthogonal(selection, array.shape)
    picks: list[Picks] = []
    for axis in box.axes:
        if axis.indices is not None:
            picks.append(tuple(axis.indices.tolist()))
        else:
            ascending = range(axis.start, axis.start + axis.size * axis.step, axis.step)
            picks.append(ascending[::-1] if axis.flipped else ascending)
    kept_axes = tuple(dimension for dimension, axis in enumerate(box.axes) if not axis.dropped)
    return Window(array, tuple(picks), kept_axes)


def _index(picks: Picks) -> slice | Columns:
    if not picks:
        return slice(0, 0)
    if isinstance(picks, range):
        return slice(picks.start, picks.stop if picks.stop >= 0 else None, picks.step)
    return np.array(picks, np.int64)
