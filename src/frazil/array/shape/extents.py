"""Extents of arrays along their axes: after an append, in chunks, and in batches of rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from frazil.errors import SelectionError, shown
from frazil.metadata.grids.chunk_grids import ChunkGrid, RegularGrid

if TYPE_CHECKING:
    from frazil.metadata.grids.rectilinear import RectilinearGrid
    from frazil.metadata.model import ArrayMetadata

Grid: TypeAlias = "RegularGrid | RectilinearGrid"


def checked_axis(axis: object, ndim: int, path: str) -> int:
    """The axis of an append, counted from the first. Raises SelectionError."""
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer) or not -ndim <= axis < ndim:
        raise SelectionError(f"axis {shown(axis)} is not one of {ndim} dimensions", path=path)
    return int(axis) % ndim


def grown_shape(lengths: tuple[int, ...], appended: tuple[int, ...], axis: int, path: str) -> tuple[int, ...]:
    """The lengths of an array after values of a shape are appended. Raises SelectionError where they do not fit."""
    others = [extent for d, extent in enumerate(lengths) if d != axis]
    if len(appended) != len(lengths) or [extent for d, extent in enumerate(appended) if d != axis] != others:
        raise SelectionError(
            f"values of shape {appended} cannot be appended to shape {lengths} along axis {axis}", path=path
        )
    return tuple(n + appended[d] * (d == axis) for d, n in enumerate(lengths))


def chunk_grid_of(metadata: ArrayMetadata) -> Grid:
    """The chunk grid of an open array: compile_array refuses others."""
    return cast("Grid", metadata.chunk_grid)


def chunk_counts(
    lengths: tuple[int, ...], grid: ChunkGrid, inner: tuple[int, ...], *, sharded: bool
) -> tuple[int, ...]:
    """The number of innermost chunks along each dimension, stored or not. inner: their extents."""
    if not sharded:
        return grid.grid_shape(lengths)
    return tuple([-(-length // extent) for length, extent in zip(lengths, inner, strict=True)])


def chunk_lengths(lengths: tuple[int, ...], grid: Grid) -> tuple[tuple[int, ...], ...]:
    """Lengths of the chunks along each dimension, cut at the end of the array."""
    found = []
    for axis, (length, count) in enumerate(zip(lengths, grid.grid_shape(lengths), strict=True)):
        coords = np.zeros((count + 1, len(lengths)), np.int64)
        coords[:, axis] = np.arange(count + 1)
        found.append(tuple(np.diff(np.minimum(grid.corners(coords)[:, axis], length)).tolist()))
    return tuple(found)


def row_batches(length: int, shard: int, chunk: int, most: int) -> Iterator[slice]:
    """Rows that are read at once: of a shard, or of whole chunks with at most `most` rows, or fewer where a chunk has more."""
    step = max(1, most if most < chunk else min(most // chunk * chunk, shard))
    for first in range(0, length, shard):
        for start in range(first, end := min(first + shard, length), step):
            yield slice(start, min(start + step, end))
