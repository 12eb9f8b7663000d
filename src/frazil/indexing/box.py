"""Plans of boxes: the product of axes, expanded batch by batch. axes.py has one axis, points.py has single elements.

An *entry* is a chunk that is touched along one axis. A *chunk* is a touched inner chunk: one entry for each axis. A *shard* is the object of the outermost
level that holds chunks; an array without shards has shards of one chunk."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from frazil.base.arrays import Columns, Flags, offsets_of
from frazil.base.record import Record
from frazil.indexing.axes import Axis, AxisEntries, Shards, plan_axis, spread
from frazil.indexing.selection import BoxSelection

_Ranges = tuple[tuple[int, int], ...]


class BatchAxis:
    """One axis of a batch: the columns of axes.AxisEntries, and

    inner   int64[k]      inner chunk coordinate within its shard
    shard   int64[s]      shard coordinates touched, ascending
    starts  int64[s + 1]  first entry of each shard"""

    __slots__ = ("chunk", "covers", "entries", "inner", "runs", "shard", "starts")

    def __init__(self, axis: Axis, shard_extent: int, low: int, high: int) -> None:
        columns: AxisEntries = axis.entries(low, high)
        self.chunk, self.entries, self.runs, self.covers = columns
        if shard_extent == 1:
            self.shard = self.chunk
            self.inner = np.zeros(high - low, np.int64)
            self.starts = np.arange(high - low + 1, dtype=np.int64)
        elif (first := int(self.chunk[0]) // shard_extent) == int(self.chunk[-1]) // shard_extent:
            self.shard = np.array([first], np.int64)
            self.inner = self.chunk - first * shard_extent
            self.starts = np.array([0, high - low], np.int64)
        else:
            shard = self.chunk // shard_extent
            self.inner = self.chunk - shard * shard_extent
            self.starts = np.concatenate(([0], (shard[1:] != shard[:-1]).nonzero()[0] + 1, [high - low]))
            self.shard = shard[self.starts[:-1]]


class BoxChunks(Record):
    """Chunks of a batch, ordered by shard, then by inner position in C order of the array's dimensions.

    axes      those of the batch
    elements  index, entries, runs, as in the kernel's decode_chunks and encode_chunks
    offsets   int64[m + 1]: chunks offsets[i]:offsets[i + 1] are of shard rows[i]
    rows      int64[m]: rows of batch.shards"""

    axes: tuple[BatchAxis, ...]
    elements: tuple[Columns, Columns, Columns]
    rows: Columns
    offsets: Columns

    @property
    def count(self) -> int:  # type: ignore[override] # replaces a method of tuple that is not used
        return len(self.elements[0])

    def shard_rows(self) -> Columns:
        """int64[n]: for each chunk the number of its shard in `rows` (0 to m - 1)."""
        return np.repeat(_numbered(0, self.rows.size), self.offsets[1:] - self.offsets[:-1])

    def numbers(self, divide: Sequence[int], modulo: Sequence[int], strides: Sequence[int]) -> Columns:
        """int64[n]: sum over axes of (inner // divide % modulo) * stride, inner being the inner chunk's coordinate within its (outermost) shard.
        One level: divide 1, modulo the shard's extent in inner chunks, strides those of its index. Nested levels: once for each."""
        levels = zip(self.axes, divide, modulo, strides, strict=True)
        parts = [
            (axis.inner if over == 1 else axis.inner // over) % extent * stride for axis, over, extent, stride in levels
        ]
        total = np.zeros(self.count, np.int64)
        if parts:
            column = np.concatenate(parts)
            for dimension in range(len(parts)):
                total += column[self.elements[0][:, dimension]]
        return total

    def coordinates(self, rows: Columns | slice = slice(None)) -> Columns:
        """int64[n, d]: coordinates of these chunks in the array's grid of inner chunks."""
        index = self.elements[0][rows]
        return np.concatenate([axis.chunk for axis in self.axes])[index] if self.axes else index

    def whole(self) -> Flags:
        """bool[n]: every element of the chunk is selected. False for a chunk that reaches beyond the array's end, as others may have appended there."""
        total = np.ones(self.count, np.bool_)
        if not all(axis.covers.all() for axis in self.axes):
            column = np.concatenate([axis.covers for axis in self.axes])
            for dimension in range(len(self.axes)):
                total &= column[self.elements[0][:, dimension]]
        return total


class BoxBatch:
    """A range of entries for each axis, with whole shards unless parts > 1. Columns are expanded on demand.

    part, parts   a single shard over the limit is divided into `parts` consecutive batches; else 0, 1
    chunk_count    number of chunks of all shards"""

    def __init__(self, plan: BoxPlan, ranges: _Ranges, part: int, parts: int) -> None:
        self._plan = plan
        self._ranges = ranges
        self.part = part
        self.parts = parts
        self.chunk_count = _size(ranges)
        # not functools.cached_property, which has one lock for all batches in Python 3.11
        self._axes: tuple[BatchAxis, ...] | None = None
        self._shards: list[Shards] | None = None

    @property
    def axes(self) -> tuple[BatchAxis, ...]:
        """A BatchAxis for each dimension."""
        if self._axes is None:
            self._axes = self._plan._columns(self._ranges)
        return self._axes

    def kernel_columns(self, rows: Columns | None) -> tuple[list[tuple[object, ...]], Columns | None]:
        """What the kernel's read_shards takes for these rows of `shards` (ascending; None: all): axes, rows."""
        axes = zip(self._plan.axes, self._ranges, strict=True)
        return [axis.kernel_columns(*of_axis) for axis, of_axis in axes], rows

    @property
    def shards_along(self) -> list[Shards]:
        """For each dimension the coordinates of the shards touched, ascending."""
        if self._shards is None:
            axes = zip(self._plan.axes, self._ranges, self._plan.shard_extents, strict=True)
            self._shards = [axis.shards(low, high, extent) for axis, (low, high), extent in axes]
        return self._shards

    @property
    def shard_count(self) -> int:
        """Number of shards (rows of `shards`)."""
        return math.prod(map(len, self.shards_along))

    @property
    def shards(self) -> Columns:
        """int64[s, d]: coordinates of the shards touched, in C order. Computed for each call."""
        return _product([np.array(shards, np.int64) for shards in self.shards_along])

    def chunks(self, rows: Columns | None = None) -> BoxChunks:
        """Expands the chunks of these rows of `shards` (ascending; None: all)."""
        entries, runs, before = self._columns()
        alone = self.shard_count == self.chunk_count  # each chunk is a shard of its own
        if alone or (self.shard_count == 1 and (rows is None or rows.size)):
            index = _product([_numbered(first, axis.chunk.size) for first, axis in zip(before, self.axes, strict=True)])
            if rows is None:
                rows = _numbered(0, self.shard_count)
            elif alone:
                index = index[rows]
            offsets = _numbered(0, rows.size + 1) if alone else np.array([0, self.chunk_count], np.int64)
            return BoxChunks(self.axes, (index, entries, runs), rows, offsets)
        ordinals = _product([_numbered(0, axis.shard.size) for axis in self.axes])
        if rows is None:
            rows = _numbered(0, self.shard_count)
        else:
            ordinals = ordinals[rows]
        index, counts = _expand(ordinals, [axis.starts for axis in self.axes], before)
        return BoxChunks(self.axes, (index, entries, runs), rows, offsets_of(counts))

    def _columns(self) -> tuple[Columns, Columns, list[int]]:
        """Entries and runs of all axes, one after the other, and the number of entries before those of each axis."""
        if not self.axes:
            return np.empty((0, 2), np.int64), np.empty((0, 4), np.int64), []
        entries = np.concatenate([axis.entries for axis in self.axes])
        before, first_run = [0], 0
        for axis in self.axes[:-1]:
            before.append(before[-1] + axis.chunk.size)
            first_run += axis.runs.shape[0]
            entries[before[-1] :, 0] += axis.runs.shape[0]
        return entries, np.concatenate([axis.runs for axis in self.axes]), before

    def whole_shards(self) -> Flags:
        """bool[s]: every element of the shard inside the array is selected (by the whole plan, not only by this part)."""
        if self.shard_count == 1:
            axes = zip(self._plan.axes, self.shards_along, self._plan.shard_extents, strict=True)
            return np.array([all(axis.is_whole(int(shards[0]), extent) for axis, shards, extent in axes)])
        whole = np.ones((1,), np.bool_)
        for axis, of_batch, extent in zip(self._plan.axes, self.axes, self._plan.shard_extents, strict=True):
            whole = np.logical_and.outer(whole, axis.whole_shards(of_batch.shard, extent))
        return whole.reshape(-1)


class BoxPlan:
    """axes: one for each dimension of the array; shard_extents: inner chunks along each dimension of a shard (1: no shards);
    chunk_count: number of chunks, a Python integer."""

    __slots__ = ("_made", "axes", "chunk_count", "shard_extents")

    def __init__(self, axes: tuple[Axis, ...], shard_extents: tuple[int, ...]) -> None:
        self.axes = axes
        # the last columns of each axis, as most batches differ from the one before along few axes
        self._made: list[tuple[tuple[int, int], BatchAxis] | None] = [None] * len(axes)
        self.shard_extents = shard_extents
        self.chunk_count = math.prod([axis.count for axis in axes])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array for which the plan was made."""
        return tuple([axis.length for axis in self.axes])

    def batches(self, most: int) -> Iterator[BoxBatch]:
        """Batches of at most `most` chunks (at least one), in C order of their ranges. A shard is in several batches only if it alone is over the limit; then
        they are consecutive (BoxBatch.parts)."""
        if not self.chunk_count:
            return
        limit = max(1, most)
        counts = [axis.count for axis in self.axes]
        whole: _Ranges = tuple([(0, count) for count in counts])
        if self.chunk_count <= limit:
            yield BoxBatch(self, whole, 0, 1)
            return
        widths = [axis.widest(extent) for axis, extent in zip(self.axes, self.shard_extents, strict=True)]
        for ranges in self._tiles(whole, _shares(counts, widths, limit), self.shard_extents):
            if _size(ranges) <= limit:
                yield BoxBatch(self, ranges, 0, 1)
                continue
            for shard in self._tiles(ranges, [1] * len(counts), self.shard_extents):
                sizes = [high - low for low, high in shard]
                shares = _shares(sizes, [1] * len(sizes), limit)
                parts = math.prod(-(-size // part_size) for size, part_size in zip(sizes, shares, strict=True))
                for part, ranges_of_part in enumerate(self._tiles(shard, shares, [1] * len(sizes))):
                    yield BoxBatch(self, ranges_of_part, part, parts)

    def _columns(self, ranges: _Ranges) -> tuple[BatchAxis, ...]:
        axes: list[BatchAxis] = []
        for dimension, (low, high) in enumerate(ranges):
            last = self._made[dimension]
            if last is None or last[0] != (low, high):
                columns = BatchAxis(self.axes[dimension], self.shard_extents[dimension], low, high)
                self._made[dimension] = last = ((low, high), columns)
            axes.append(last[1])
        return tuple(axes)

    def _tiles(self, within: _Ranges, shares: Sequence[int], shard_extents: Sequence[int]) -> Iterator[_Ranges]:
        """The product of the ranges into which each axis is cut, in C order."""
        if not within:
            yield ()
            return
        axis, (low, end) = self.axes[len(self.axes) - len(within)], within[0]
        while low < end:
            high = min(axis.cut(low, shard_extents[0], shares[0]), end)
            for inner_tile in self._tiles(within[1:], shares[1:], shard_extents[1:]):
                yield ((low, high), *inner_tile)
            low = high


def box_plan(
    selection: BoxSelection, chunk_extents: Sequence[int], shard_extents: Sequence[int] | None = None
) -> BoxPlan:
    """chunk_extents: inner chunks, in elements; shard_extents: in inner chunks (None: no shards)."""
    extents = tuple(shard_extents) if shard_extents is not None else (1,) * len(selection.axes)
    axes = zip(selection.axes, selection.shape, chunk_extents, strict=True)
    return BoxPlan(tuple([plan_axis(axis, length, extent) for axis, length, extent in axes]), extents)


def _numbered(first: int, count: int) -> Columns:
    return np.arange(first, first + count, dtype=np.int64)


def _size(ranges: _Ranges) -> int:
    return math.prod([high - low for low, high in ranges])


def _shares(counts: Sequence[int], widths: Sequence[int], limit: int) -> list[int]:
    """The number of entries of each axis in a batch: multiples of widths, as many as the limit allows, the last axes first."""
    shares = list(widths)
    for dimension in reversed(range(len(shares))):
        others = math.prod(shares) // shares[dimension]
        fit = limit // others // widths[dimension] * widths[dimension]
        shares[dimension] = min(counts[dimension], max(widths[dimension], fit))
    return shares


def _product(columns: list[Columns]) -> Columns:
    """int64[n, d]: every combination of one value of each column, in C order."""
    product = np.empty((*[column.size for column in columns], len(columns)), np.int64)
    for dimension, column in enumerate(columns):
        product[..., dimension] = column.reshape(-1, *(1,) * (len(columns) - dimension - 1))
    return product.reshape(math.prod(product.shape[:-1]), len(columns))


def _expand(ordinals: Columns, starts: list[Columns], before: list[int]) -> tuple[Columns, Columns]:
    """The entries of each shard, multiplied: int64[n, d] (with `before` added), and the number of chunks of each shard.

    ordinals  int64[m, d]: for each shard its number among the shards along each axis
    starts    for each axis int64[s + 1]: first entry of each shard along it"""
    shards, dimensions = ordinals.shape
    widths = [of_axis[1:] - of_axis[:-1] for of_axis in starts]
    counts = np.ones(shards, np.int64)
    row = _numbered(0, shards)  # the shard of each combination so far
    columns: list[Columns] = []
    for dimension in range(dimensions):
        ordinal = ordinals[:, dimension]
        counts *= widths[dimension][ordinal]
        width = widths[dimension][ordinal][row]
        first = (starts[dimension][:-1] + before[dimension])[ordinal][row]
        columns = [np.repeat(column, width) for column in columns]
        columns.append(spread(first, width))
        row = np.repeat(row, width)
    return np.stack(columns, axis=1), counts
