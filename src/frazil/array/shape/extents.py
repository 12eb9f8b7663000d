"""Extents of arrays along their axes: after an append, in chunks, and in batches of rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from frazil.base.arrays import Columns
from frazil.base.late import LateModule
from frazil.errors import SelectionError, shown
from frazil.metadata.grids.chunk_grids import ChunkGrid, RegularGrid
from frazil.metadata.members import INT64_MAX

if TYPE_CHECKING:
    from frazil.metadata.grids import rectilinear
else:
    rectilinear = LateModule("frazil.metadata.grids.rectilinear")


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


def whole_chunks(lengths: tuple[int, ...], grid: ChunkGrid) -> tuple[int, ...]:
    """The lengths rounded up to whole chunks."""
    if not isinstance(grid, RegularGrid):
        assert isinstance(grid, rectilinear.RectilinearGrid)
        return grid.covering(lengths)
    return tuple([min(-(-n // chunk) * chunk, INT64_MAX) for n, chunk in zip(lengths, grid.chunk_shape, strict=True)])


def largest_chunk(grid: ChunkGrid) -> tuple[int, ...]:
    """The extent of a chunk; the largest along each dimension, where there are several."""
    if isinstance(grid, RegularGrid):
        return grid.chunk_shape
    assert isinstance(grid, rectilinear.RectilinearGrid)
    return grid.largest


def chunk_counts(
    lengths: tuple[int, ...], grid: ChunkGrid, inner: tuple[int, ...], *, sharded: bool
) -> tuple[int, ...]:
    """The number of innermost chunks along each dimension, stored or not. inner: their extents."""
    if not sharded:
        return grid.grid_shape(lengths)
    return tuple([-(-length // extent) for length, extent in zip(lengths, inner, strict=True)])


def chunk_lengths(lengths: tuple[int, ...], grid: ChunkGrid) -> tuple[tuple[int, ...], ...]:
    """Lengths of the chunks along each dimension, cut at the end of the array."""
    found = []
    for axis, (length, count) in enumerate(zip(lengths, grid.grid_shape(lengths), strict=True)):
        coords = np.zeros((count + 1, len(lengths)), np.int64)
        coords[:, axis] = np.arange(count + 1)
        found.append(tuple(np.diff(np.minimum(corners(coords, grid)[:, axis], length)).tolist()))
    return tuple(found)


def corners(coords: Columns, grid: ChunkGrid) -> Columns:
    """int64[n, d]: the first elements of chunks."""
    if not isinstance(grid, RegularGrid):
        assert isinstance(grid, rectilinear.RectilinearGrid)
        return grid.corners(coords)
    return coords * np.array(grid.chunk_shape, np.int64).reshape(1, -1)


def chunk_shapes(coords: Columns, grid: ChunkGrid) -> Columns:
    """int64[n, d]: the shapes of chunks, with parts beyond the end of the array."""
    if not isinstance(grid, RegularGrid):
        return corners(coords + 1, grid) - corners(coords, grid)
    return np.broadcast_to(np.array(grid.chunk_shape, np.int64).reshape(1, -1), coords.shape)


def row_batches(length: int, shard: int, chunk: int, most: int) -> Iterator[slice]:
    """Rows that are read at once: of a shard, or of whole chunks with at most `most` rows, or fewer where a chunk has more."""
    step = max(1, most if most < chunk else min(most // chunk * chunk, shard))
    for first in range(0, length, shard):
        for start in range(first, end := min(first + shard, length), step):
            yield slice(start, min(start + step, end))
