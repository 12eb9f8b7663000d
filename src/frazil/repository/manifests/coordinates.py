"""Chunk coordinates as columns: sets of them, int64[n, d] with rows that are distinct and sorted, the keys that they are sorted and looked up by, and the grid that
they lie in. Pure; what the coordinates refer to lives elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata

    Columns = NDArray[np.int64]
    Keys = NDArray[np.generic]

__all__ = ["ChunkKeys", "among", "grid_of", "no_coordinates", "sorted_coordinates", "sorting_order", "within"]

_KEY_BITS: Final = 63


class ChunkKeys:
    """Coordinates, from 0 on, as keys in the same order: one number each, or their bytes where 63 bits are too few."""

    __slots__ = ("_bits",)

    def __init__(self, rank: int) -> None:
        self._bits = [0] * rank  # of a coordinate along each axis

    def copy(self) -> ChunkKeys:
        other = ChunkKeys(0)
        other._bits = self._bits
        return other

    def widen(self, coordinates: Columns) -> bool:
        """Makes keys hold all of int64[n, d] coordinates; whether keys that were made before are others now."""
        highest = coordinates.max(axis=0, initial=0).tolist()
        if all(value >> bits == 0 for value, bits in zip(highest, self._bits, strict=True)):
            return False
        self._bits = [
            max(bits, value.bit_length() + (bits > 0)) for value, bits in zip(highest, self._bits, strict=True)
        ]
        return True

    def has(self, coordinates: Columns) -> NDArray[np.bool_]:
        """Which of int64[n, d] coordinates keys can hold: bool[n]."""
        limits: Columns = np.array([1 << min(bits, _KEY_BITS - 1) for bits in self._bits], np.int64)
        return np.asarray(((coordinates >= 0) & (coordinates < limits)).all(axis=1), np.bool_)

    def of(self, coordinates: Columns) -> Keys:
        """The keys of int64[n, d] coordinates, which they can hold."""
        if sum(self._bits) > _KEY_BITS:
            return np.ascontiguousarray(coordinates, ">i8").view(f"S{8 * len(self._bits)}").reshape(-1)
        keys = np.zeros(len(coordinates), np.int64)
        for axis, bits in enumerate(self._bits):
            keys = keys << bits | coordinates[:, axis]
        return keys

    def of_one(self, coordinates: Sequence[int]) -> int | np.generic | None:
        """The key of the coordinates of one chunk; None where keys cannot hold it."""
        key = 0
        for coordinate, bits in zip(coordinates, self._bits, strict=True):
            if coordinate >> bits:  # below 0, too
                return None
            key = key << bits | coordinate
        if sum(self._bits) > _KEY_BITS:
            found: np.generic = self.of(np.array([coordinates], np.int64))[0]
            return found
        return key


def grid_of(metadata: ZarrArrayMetadata) -> tuple[int, ...]:
    """Chunks along each dimension of an array."""
    return tuple([-(-length // chunk) for length, chunk in zip(metadata.shape, metadata.chunk_shape, strict=True)])


def no_coordinates(rank: int) -> Columns:
    """The empty set."""
    return np.zeros((0, rank), np.int64)


def sorted_coordinates(rows: Columns) -> Columns:
    """The distinct rows of int64[n, d], from 0 on, in order."""
    if len(rows) < 2:
        return rows
    keys = _keys_of(rows)
    rising = keys[1:] > keys[:-1]  # type: ignore[operator] # numbers or bytes
    return rows if rising.all() else rows[np.unique(keys, return_index=True)[1]]


def sorting_order(rows: Columns) -> Columns:
    """The places of int64[n, d] rows, from 0 on, in order; of equal ones as they come."""
    order: Columns = np.argsort(_keys_of(rows), kind="stable")
    return order


def among(rows: Columns, others: Columns) -> NDArray[np.bool_]:
    """Which rows occur in others: bool[n]. Both from 0 on, of one rank, in any order."""
    if not len(rows) or not len(others):
        return np.zeros(len(rows), np.bool_)
    keys = ChunkKeys(rows.shape[1])
    keys.widen(rows)
    keys.widen(others)
    return np.isin(keys.of(rows), keys.of(others))


def _keys_of(rows: Columns) -> Keys:
    keys = ChunkKeys(rows.shape[1])
    keys.widen(rows)
    return keys.of(rows)


def within(rows: Columns, grid: Sequence[int]) -> NDArray[np.bool_]:
    """Which rows lie in a grid of that many chunks along each dimension: bool[n]."""
    inside = np.ones(len(rows), np.bool_)
    for axis, count in enumerate(grid):
        inside &= (rows[:, axis] >= 0) & (rows[:, axis] < count)
    return inside
