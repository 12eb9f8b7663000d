"""Sets of chunk coordinates, as columns: int64[n, d] with rows that are distinct and sorted; and the grid that they lie in. Pure; what the coordinates refer to
lives elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata

    Columns = NDArray[np.int64]

__all__ = ["among", "grid_of", "no_coordinates", "sorted_coordinates", "within"]

_INT64_MAX: Final = 2**63 - 1


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
    (keys,) = _folded([rows])
    rising = keys[1:] > keys[:-1]
    return rows if rising.all() else rows[np.unique(keys, return_index=True)[1]]


def among(rows: Columns, others: Columns) -> NDArray[np.bool_]:
    """Which rows occur in others: bool[n]. Both from 0 on, of one rank, in any order."""
    if not len(rows) or not len(others):
        return np.zeros(len(rows), np.bool_)
    keys, wanted = _folded([rows, others])
    return np.isin(keys, wanted)


def within(rows: Columns, grid: Sequence[int]) -> NDArray[np.bool_]:
    """Which rows lie in a grid of that many chunks along each dimension: bool[n]."""
    inside = np.ones(len(rows), np.bool_)
    for axis, count in enumerate(grid):
        inside &= (rows[:, axis] >= 0) & (rows[:, axis] < count)
    return inside


def _folded(parts: Sequence[Columns]) -> list[Columns]:
    """The rows of each part as numbers, in the same order as rows: equal where rows are equal, within a part and between parts."""
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
    keys, possible = np.zeros(len(rows), np.int64), 1
    for column in rows.T:
        extent = int(column.max(initial=0)) + 1
        if possible * extent > _INT64_MAX:  # places among the distinct ones are smaller numbers
            one, keys = np.unique(keys, return_inverse=True)
            other, column = np.unique(column, return_inverse=True)
            possible, extent = one.size, other.size
        keys = keys * extent + column
        possible *= extent
    return np.split(keys, np.cumsum([len(part) for part in parts[:-1]]))
