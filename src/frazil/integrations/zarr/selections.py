"""Reconstructs the selection of the whole array from the requests of zarr-python's indexers, which come chunk by chunk. Pure.

A batch has for each chunk its coordinates, the selection in it, and its place in the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from frazil.base.arrays import Columns
from frazil.base.record import Record
from frazil.indexing.selection import AxisSelection, BoxSelection, PointSelection, Selection

Part: TypeAlias = "int | slice | Columns"
Coordinates: TypeAlias = tuple[int, ...]


class Item(Record):
    """One chunk of a batch. chunk, out: selections from zarr-python, always tuples; complete: whether all of the chunk that is inside the array is selected"""

    coordinates: Coordinates
    chunk: tuple[Part, ...]
    out: tuple[Part, ...]
    complete: bool


class Selected(Record):
    """A selection of a batch, and the dimensions of the array that the result does not have."""

    selection: Selection
    dropped: tuple[int, ...]


def selected(
    items: Sequence[Item],
    chunk_shape: tuple[int, ...],
    drop_axes: tuple[int, ...],
    result_shape: tuple[int, ...] | None,
    *,
    keep_rest: bool,
) -> Selected | None:
    """The selection of a batch, in an array that ends with the last of its chunks. None if the chunks are neither a product of axes nor a list of points.

    result_shape  of the result, without the dropped dimensions; None: any
    keep_rest     whether elements of the last chunks behind the end of the array stay as they are, as zarr-python keeps them in shards"""
    arrays = [part for part in items[0].chunk if isinstance(part, np.ndarray)]
    ndim = len(chunk_shape)
    if len(arrays) == ndim >= 2 and all(part.ndim == 1 for part in arrays):
        found: Selection | None = _points(items, chunk_shape)
        dropped: tuple[int, ...] = ()
    else:
        dropped = drop_axes or tuple(
            i for i, part in enumerate(items[0].chunk) if not isinstance(part, slice | np.ndarray)
        )
        found = _box(items, chunk_shape, dropped, keep_rest)
    if found is None:
        return None
    shape = found.result_shape
    kept_shape = tuple(extent for i, extent in enumerate(shape) if i not in dropped)
    return Selected(found, dropped) if result_shape is None or kept_shape == result_shape else None


def _points(items: Sequence[Item], chunk_shape: tuple[int, ...]) -> PointSelection | None:
    counts = [len(item.chunk[0]) for item in items]  # type: ignore[arg-type] # all of them are arrays
    count = sum(counts)
    positions, covered = np.empty(count, np.int64), np.zeros(count, np.bool_)
    columns = [np.empty(count, np.int64) for _ in chunk_shape]
    low = 0
    for item, length in zip(items, counts, strict=True):
        rows = slice(low, low + length)
        if len(item.out) != 1:
            return None
        positions[rows] = _elements(item.out[0])
        for column, part, coordinate, extent in zip(columns, item.chunk, item.coordinates, chunk_shape, strict=True):
            column[rows] = _elements(part) + coordinate * extent
        low += length
    if count and not 0 <= positions.min() <= positions.max() < count:
        return None
    covered[positions] = True
    if not covered.all():
        return None
    order = np.argsort(positions)
    ends = tuple((max(item.coordinates[i] for item in items) + 1) * extent for i, extent in enumerate(chunk_shape))
    return PointSelection(ends, tuple(column[order] for column in columns), count, (count,))


def _box(
    items: Sequence[Item], chunk_shape: tuple[int, ...], dropped: tuple[int, ...], keep_rest: bool
) -> BoxSelection | None:
    kept_axes = [i for i in range(len(chunk_shape)) if i not in dropped]
    along: list[dict[int, tuple[Part, Part | None]]] = [{} for _ in chunk_shape]
    for item in items:
        if len(item.out) != len(kept_axes):
            return None
        out: list[Part | None] = [None] * len(chunk_shape)
        for position, dimension in enumerate(kept_axes):
            out[dimension] = item.out[position]
        for parts, coordinate, part, out_part in zip(along, item.coordinates, item.chunk, out, strict=True):
            existing = parts.setdefault(coordinate, (part, out_part))
            if not (_is_same(existing[0], part) and _is_same(existing[1], out_part)):
                return None
    if prod(map(len, along)) != len(items) or len({item.coordinates for item in items}) != len(items):
        return None
    axes: list[AxisSelection] = []
    ends: list[int] = []
    for dimension, (parts, extent) in enumerate(zip(along, chunk_shape, strict=True)):
        axis = _axis(sorted(parts.items()), extent)
        if axis is None:
            return None
        axes.append(axis)
        last = max(parts)
        part = parts[last][0]
        whole = not keep_rest and all(item.complete for item in items if item.coordinates[dimension] == last)
        stop = part.stop if isinstance(part, slice) and whole else extent
        ends.append(last * extent + min(stop, extent))
    return BoxSelection(tuple(ends), tuple(axes))


def _axis(parts: Sequence[tuple[int, tuple[Part, Part | None]]], extent: int) -> AxisSelection | None:
    """The selection of chunks along one axis, by coordinate; None if it is not a permutation of the result."""
    steps = _steps(parts, extent)
    if steps is not None:
        return steps
    pieces = [_elements(part) + coordinate * extent for coordinate, (part, _) in parts]
    positions = [None if out_part is None else _elements(out_part) for _, (_, out_part) in parts]
    indices = np.concatenate(pieces)
    size = len(indices)
    if any(found is not None for found in positions):
        order = np.concatenate([found for found in positions if found is not None])
        if len(order) != size or (size and not 0 <= order.min() <= order.max() < size):
            return None
        if not np.array_equal(order, np.arange(size)):
            moved = np.full(size, -1, np.int64)
            moved[order] = indices
            if moved.min() < 0:
                return None
            indices = moved
    step = int(indices[1] - indices[0]) if size > 1 else 1
    if size and step > 0 and np.array_equal(indices, int(indices[0]) + step * np.arange(size)):
        return AxisSelection(int(indices[0]), step, size)
    return AxisSelection(0, 1, size, indices=indices)


def _steps(parts: Sequence[tuple[int, tuple[Part, Part | None]]], extent: int) -> AxisSelection | None:
    """The selection of slices that continue each other, in the order of the result; else None. Indices of all elements would take more memory than small
    elements themselves."""
    start = last = step = size = 0
    for coordinate, (part, out_part) in parts:
        if not (isinstance(part, slice) and isinstance(out_part, slice)):
            return None
        found = range((part.start or 0) + coordinate * extent, part.stop + coordinate * extent, part.step or 1)
        if not found or range(out_part.start or 0, out_part.stop, out_part.step or 1) != range(size, size + len(found)):
            return None
        start = start if size else found[0]
        gaps = [found[0] - last] * (size > 0) + [found.step] * (len(found) > 1)
        step = step or (gaps[0] if gaps else 0)
        if any(gap != step or gap < 1 for gap in gaps):
            return None
        last, size = found[-1], size + len(found)
    return AxisSelection(int(start), int(step) or 1, size) if size else None


def _elements(part: Part) -> Columns:
    """The elements that one part selects, int64[n]."""
    if isinstance(part, slice):
        return np.arange(part.start or 0, part.stop, part.step or 1, dtype=np.int64)
    if isinstance(part, np.ndarray) and part.dtype == np.bool_:  # of oindex, if only one axis has an array
        return np.flatnonzero(part)
    return np.asarray(part, np.int64).reshape(-1)


def _is_same(part: Part | None, other: Part | None) -> bool:
    if part is other:
        return True
    if isinstance(part, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(np.asarray(part), np.asarray(other))
    return part == other


def coordinates_of(items: Iterable[Item]) -> Columns:
    """The coordinates of all chunks, int64[n, d]."""
    return np.array([item.coordinates for item in items], np.int64)
