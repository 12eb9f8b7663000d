"""Plans selections in chunks of several shapes: one plan for all chunks of one shape, each as in a regular array.

In the regular array of a shape every chunk of the grid has this shape. Elements are only selected in chunks that really have it. So chunk c begins at element c
times its length there, and the plan has the true coordinates of chunks and shards. Everything is computed in columns, one axis at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from frazil.base.arrays import Columns, Flags, distinct
from frazil.base.record import Record
from frazil.indexing.axes import Axis, IndexAxis, plan_axis
from frazil.indexing.box import BoxPlan
from frazil.indexing.points import Plan, PointPlan
from frazil.indexing.selection import AxisSelection, BoxSelection, PointSelection, Selection


class GridAxis(Record):
    """One axis of a grid. length: the array's; starts: of the chunks, and the end of the last one (None: all have the length `step`); inner_chunk: extent of an
    inner chunk in a shard, None: there are no shards."""

    length: int
    starts: Columns | None
    step: int
    inner_chunk: int | None

    @property
    def chunks(self) -> int:
        """Chunks that begin inside the array."""
        if self.starts is None:
            return -(-self.length // self.step)
        return int(self.starts[:-1].searchsorted(self.length))

    def regular_length(self, extent: int) -> int:
        """The length of the regular array with chunks of an extent."""
        if self.starts is None:
            return self.length
        count = self.chunks
        if count and int(self.starts[count] - self.starts[count - 1]) == extent:
            return (count - 1) * extent + self.length - int(self.starts[count - 1])
        return count * extent

    def regular(self, elements: Columns) -> tuple[Columns, Columns]:
        """For elements of this axis: the extents of their chunks, and the elements of the regular arrays with these extents."""
        if self.starts is None:
            return np.full(elements.shape, self.step, np.int64), elements
        chunk = self.starts.searchsorted(elements, side="right") - 1
        begin = self.starts[chunk]
        extent = self.starts[chunk + 1] - begin
        return extent, chunk * extent + elements - begin


class RunAxis(IndexAxis):
    """Equally spaced elements in some chunks, one run in each. As IndexAxis."""

    __slots__ = ()

    def __init__(self, chunk: Columns, runs: Columns, length: int, extent: int) -> None:
        """chunk: int64[n], ascending inner chunks; runs: int64[n, 4] within them."""
        self._set_extents(length, extent)
        self.size = int(runs[:, 1].sum())
        self._chunk, self._runs, self.count = chunk, runs, len(chunk)
        self._first_run = np.arange(len(chunk) + 1, dtype=np.int64)
        self._covers = runs[:, 1] == np.minimum(length - chunk * self.extent, self.extent)
        self._covers_before = np.append(0, np.cumsum(self._covers, dtype=np.int64))


def plans(selection: Selection, axes: Sequence[GridAxis]) -> Iterator[tuple[tuple[int, ...], Plan]]:
    """The shapes of the chunks (or shards) that a selection touches, each with a plan for all chunks of this shape."""
    if isinstance(selection, PointSelection):
        yield from _point_plans(selection, axes)
        return
    parts = [_along(of_axis, axis) for of_axis, axis in zip(selection.axes, axes, strict=True)]
    for combination in product(*parts):
        shape = tuple(extent for extent, _ in combination)
        yield shape, BoxPlan(tuple(axis for _, axis in combination), _counts(shape, axes))


def _counts(shape: tuple[int, ...], axes: Sequence[GridAxis]) -> tuple[int, ...]:
    """Inner chunks along each dimension of a chunk."""
    return tuple(1 if axis.inner_chunk is None else n // axis.inner_chunk for n, axis in zip(shape, axes, strict=True))


def _along(selection: AxisSelection, axis: GridAxis) -> list[tuple[int, Axis]]:
    """The extents of the chunks that are touched along an axis, each with the selection in these chunks."""
    if not selection.size:
        return []
    if axis.starts is None:
        return [(axis.step, plan_axis(selection, axis.length, axis.inner_chunk or axis.step))]
    if selection.indices is None:
        return _run_axes(selection, axis, axis.starts)
    extents, elements = axis.regular(selection.indices)
    runs: list[tuple[int, Axis]] = []
    for extent in distinct(extents).tolist():
        positions = np.flatnonzero(extents == extent)
        length = axis.regular_length(extent)
        runs.append((extent, IndexAxis(elements[positions], length, axis.inner_chunk or extent, positions)))
    return runs


def _run_axes(selection: AxisSelection, axis: GridAxis, starts: Columns) -> list[tuple[int, Axis]]:
    step = selection.step if selection.size > 1 else 1
    last = selection.start + (selection.size - 1) * step
    if axis.inner_chunk is None:
        low, high = starts.searchsorted([selection.start, last], side="right")
        chunk = np.arange(low - 1, high, dtype=np.int64)
        begin, end = starts[chunk], np.minimum(starts[chunk + 1], axis.length)
    else:
        begin = (
            np.arange(selection.start // axis.inner_chunk, last // axis.inner_chunk + 1, dtype=np.int64)
            * axis.inner_chunk
        )
        chunk = starts.searchsorted(begin, side="right") - 1
        end = np.minimum(begin + axis.inner_chunk, axis.length)
    first = np.maximum(-((selection.start - begin) // step), 0)
    count = np.minimum(-((selection.start - end) // step), selection.size) - first
    runs = np.stack((selection.start + first * step - begin, count, np.full_like(count, step), first), axis=1)
    extents = starts[chunk + 1] - starts[chunk]
    inner_chunk = extents if axis.inner_chunk is None else np.full_like(extents, axis.inner_chunk)
    number = (chunk * extents + begin - starts[chunk]) // inner_chunk
    run_axes: list[tuple[int, Axis]] = []
    for extent in distinct(extents[count > 0]).tolist():
        selected: Flags = (extents == extent) & (count > 0)
        run_axes.append(
            (extent, RunAxis(number[selected], runs[selected], axis.regular_length(extent), axis.inner_chunk or extent))
        )
    return run_axes


def _point_plans(selection: PointSelection, axes: Sequence[GridAxis]) -> Iterator[tuple[tuple[int, ...], PointPlan]]:
    if not selection.count:
        return
    both = [axis.regular(column) for axis, column in zip(axes, selection.coordinates, strict=True)]
    shapes, kind = np.unique(
        np.stack([extents for extents, _ in both], axis=1) if both else np.empty((selection.count, 0), np.int64),
        axis=0,
        return_inverse=True,
    )
    for number, extents in enumerate(shapes.tolist()):
        shape, positions = tuple(extents), np.flatnonzero(kind.reshape(-1) == number)
        inner_chunk = tuple(axis.inner_chunk or extent for axis, extent in zip(axes, shape, strict=True))
        lengths = tuple(axis.regular_length(extent) for axis, extent in zip(axes, shape, strict=True))
        coordinates = tuple(elements[positions] for _, elements in both)
        part = PointSelection(lengths, coordinates, len(positions), (len(positions),))
        yield shape, PointPlan(part, inner_chunk, _counts(shape, axes), positions)


def block_selection(selection: BoxSelection, axes: Sequence[GridAxis]) -> BoxSelection:
    """The elements of blocks that are selected by their coordinates in the grid, one range along each axis."""
    slices = []
    for of_axis, axis in zip(selection.axes, axes, strict=True):
        first, behind = of_axis.start, of_axis.start + of_axis.size
        start, end = (first * axis.step, behind * axis.step) if axis.starts is None else axis.starts[[first, behind]]
        slices.append(AxisSelection(int(start), 1, max(0, min(int(end), axis.length) - int(start))))
    return BoxSelection(tuple(axis.length for axis in axes), tuple(slices))
