"""Chunk coordinates in columns: sets of them (int64[n, d], distinct and sorted), keys that sort and find them, and the grid of an array. Pure.

What the coordinates refer to is in references.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.base import arrays
from frazil.base.arrays import Flags
from frazil.formats.nodes import StoredMetadata
from frazil.stores.values import Columns

Keys = NDArray[np.generic]

_KEY_BITS: Final = 63
_INDEX_FACTOR: Final = 4  # largest number of positions per chunk for an index with a position for every key


class ChunkKeys:
    """Coordinates, from 0 on, as keys in the same order: one number each, or their bytes if 63 bits are too few.

    coordinates  int64[n, d]; the keys can hold these, and those passed to `widen`"""

    __slots__ = ("_bits",)

    def __init__(self, rank: int, coordinates: Columns | None = None) -> None:
        self._bits = [0] * rank  # of a coordinate along each axis
        if coordinates is not None:
            self.widen(coordinates)

    def copy(self) -> ChunkKeys:
        other = ChunkKeys(0)
        other._bits = self._bits
        return other

    def widen(self, coordinates: Columns) -> bool:
        """Makes keys hold all of int64[n, d] coordinates. Returns whether existing keys have changed."""
        if len(coordinates) < 2:
            highest = coordinates.reshape(-1).tolist() or [0] * len(self._bits)
        else:
            highest = np.ascontiguousarray(coordinates.T).max(axis=1).tolist()  # much faster than along axis 0
        if all(value >> bits == 0 for value, bits in zip(highest, self._bits, strict=True)):
            return False
        self._bits = [
            max(bits, value.bit_length() + (bits > 0)) for value, bits in zip(highest, self._bits, strict=True)
        ]
        return True

    def has(self, coordinates: Columns) -> Flags:
        """Which of int64[n, d] coordinates keys can hold: bool[n]."""
        return within(coordinates, [1 << min(bits, _KEY_BITS - 1) for bits in self._bits])

    def of(self, coordinates: Columns) -> Keys:
        """The keys of int64[n, d] coordinates, which must fit."""
        if sum(self._bits) > _KEY_BITS:
            return np.ascontiguousarray(coordinates, ">i8").view(f"S{8 * len(self._bits)}").reshape(-1)
        if not self._bits:
            return np.zeros(len(coordinates), np.int64)
        keys = coordinates[:, 0].copy()
        for axis, bits in enumerate(self._bits[1:], 1):
            keys = keys << bits | coordinates[:, axis]
        return keys

    def of_one(self, coordinates: Sequence[int]) -> int | np.generic | None:
        """The key of the coordinates of one chunk; None if it does not fit."""
        key = 0
        for coordinate, bits in zip(coordinates, self._bits, strict=True):
            if coordinate >> bits:  # also below 0
                return None
            key = key << bits | coordinate
        if sum(self._bits) > _KEY_BITS:
            found: np.generic = self.of(np.array([coordinates], np.int64))[0]
            return found
        return key


class ChunkIndex:
    """Finds chunks among some: int64[n, d] coordinates, distinct and sorted.

    If the keys are close together, a table has a position for each key; else the keys are searched."""

    __slots__ = ("_first", "_keys", "_sorted", "_table")

    def __init__(self, coordinates: Columns) -> None:
        self._keys = ChunkKeys(coordinates.shape[1], coordinates)
        self._sorted = self._keys.of(coordinates)
        self._first = 0
        self._table: Columns | None = None
        if len(coordinates) and self._sorted.dtype == np.int64:
            keys = self._sorted.astype(np.int64, copy=False)
            self._first = keys.item(0)
            if keys.item(-1) - self._first < _INDEX_FACTOR * len(keys):
                self._table = np.full(keys.item(-1) - self._first + 1, -1, np.int64)
                self._table[keys - self._first] = np.arange(len(keys))

    def find(self, coordinates: Columns) -> Columns:
        """The position of each of int64[k, d] coordinates, or -1: int64[k]."""
        found, keys = self._keys.has(coordinates), self._keys.of(coordinates)
        if self._table is not None:
            positions = keys.astype(np.int64, copy=False) - self._first
            found &= (positions >= 0) & (positions < len(self._table))
            return np.where(found, self._table.take(positions, mode="clip"), -1)
        positions = np.minimum(self._sorted.searchsorted(keys), len(self._sorted) - 1)
        if len(self._sorted):
            found &= self._sorted[positions] == keys
        return np.where(found, positions, -1)

    def find_one(self, coordinates: Sequence[int]) -> int:
        """As find, for one chunk."""
        key = self._keys.of_one(coordinates)
        if key is None:
            return -1
        if self._table is not None:
            position = int(key) - self._first
            return self._table.item(position) if 0 <= position < len(self._table) else -1
        position = int(self._sorted.searchsorted(key))
        return position if position < len(self._sorted) and self._sorted[position] == key else -1


def grid_of(metadata: StoredMetadata) -> tuple[int, ...]:
    """Chunks along each dimension of an array."""
    return tuple([-(-length // chunk) for length, chunk in zip(metadata.shape, metadata.chunk_shape, strict=True)])


def no_coordinates(rank: int) -> Columns:
    """The empty set."""
    return np.zeros((0, rank), np.int64)


def sorted_coordinates(rows: Columns) -> Columns:
    """The distinct rows of int64[n, d], from 0 on, in order."""
    if len(rows) < 2:
        return rows
    keys = ChunkKeys(rows.shape[1], rows).of(rows)
    rising = keys[1:] > keys[:-1]  # type: ignore[operator] # numbers or bytes
    return rows if rising.all() else rows[np.unique(keys, return_index=True)[1]]


def sorting_order(rows: Columns) -> Columns:
    """The positions of int64[n, d] rows, from 0 on, in sorted order (stable)."""
    return ChunkKeys(rows.shape[1], rows).of(rows).argsort(kind="stable")


def among(rows: Columns, others: Columns) -> Flags:
    """Which rows are in others: bool[n]. Both from 0 on, of one rank, in any order."""
    if not len(rows) or not len(others):
        return np.zeros(len(rows), np.bool_)
    keys = ChunkKeys(rows.shape[1], rows)
    keys.widen(others)
    return arrays.among(keys.of(rows), arrays.distinct(keys.of(others)))


def within(rows: Columns, grid: Sequence[int]) -> Flags:
    """Which rows are in a grid with this number of chunks along each dimension: bool[n]."""
    inside = np.ones(len(rows), np.bool_)
    for axis, count in enumerate(grid):
        inside &= (rows[:, axis] >= 0) & (rows[:, axis] < count)
    return inside
