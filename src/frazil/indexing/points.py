"""Plans of single elements, grouped by inner chunk and shard. box.py has boxes, and defines the terms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil.base.arrays import Columns, Flags, offsets_of
from frazil.base.record import Record
from frazil.errors import SelectionError
from frazil.indexing.axes import spread
from frazil.indexing.selection import PointSelection

if TYPE_CHECKING:
    from frazil.indexing.box import BoxBatch, BoxChunks, BoxPlan

Plan: TypeAlias = "BoxPlan | PointPlan"
Batch: TypeAlias = "BoxBatch | PointBatch"
Chunks: TypeAlias = "BoxChunks | PointChunks"

_LARGEST = 2**63 - 1


class PointChunks(Record):
    """Chunks that hold points, ordered by shard, then by inner position in C order of the array's dimensions.

    columns        int64[n, d]: coordinates of the chunks
    elements       first, points, as in the kernel's decode_chunks and encode_chunks; equal positions keep the order of the selection
    rows, offsets  as in BoxChunks"""

    plan: PointPlan
    columns: Columns
    elements: tuple[Columns, Columns]
    rows: Columns
    offsets: Columns

    @property
    def count(self) -> int:  # type: ignore[override] # replaces a method of tuple that is not used
        return len(self.columns)

    def shard_rows(self) -> Columns:
        """int64[n]: for each chunk the number of its shard in `rows` (0 to m - 1)."""
        return np.repeat(np.arange(self.rows.size, dtype=np.int64), np.diff(self.offsets))

    def numbers(self, divide: Sequence[int], modulo: Sequence[int], strides: Sequence[int]) -> Columns:
        """int64[n]: as BoxChunks.numbers."""
        total = np.zeros(self.count, np.int64)
        levels = zip(self.plan.shard_extents, divide, modulo, strides, strict=True)
        for dimension, (shard_extent, over, extent, stride) in enumerate(levels):
            total += self.columns[:, dimension] % shard_extent // over % extent * stride
        return total

    def coordinates(self, rows: Columns | slice = slice(None)) -> Columns:
        """int64[n, d]: coordinates of these chunks in the array's grid of inner chunks."""
        return self.columns[rows]

    def whole(self) -> Flags:
        """bool[n]: as BoxChunks.whole."""
        plan = self.plan
        whole = self.whole_inside()
        for dimension, (length, extent) in enumerate(zip(plan.shape, plan.full_extents, strict=True)):
            whole &= self.columns[:, dimension] < length // extent
        return whole

    def whole_inside(self) -> Flags:
        """bool[n]: every element of the chunk inside the array is selected."""
        first, points = self.elements
        elements = np.ones(self.count, np.float64)  # of a chunk; float64 is exact for all possible counts of points
        for dimension, (length, extent) in enumerate(zip(self.plan.shape, self.plan.chunk_extents, strict=True)):
            elements *= np.minimum(length - self.columns[:, dimension] * extent, extent)
        whole = np.diff(first) >= elements
        full = np.flatnonzero(whole)  # enough points; they must also be distinct
        if not full.size:
            return whole
        counts = np.diff(first)[full]
        positions = points[spread(first[full], counts), 0]
        positions = positions[np.lexsort((positions, np.repeat(full, counts)))]
        begin = offsets_of(counts)[:-1]
        another = np.append(True, positions[1:] != positions[:-1])
        another[begin] = True
        whole[full] = np.add.reduceat(another, begin, dtype=np.int64) == elements[full]
        return whole


class PointBatch:
    """Some shards of a plan, or a part of one.

    part, parts, shard_count, chunk_count  as in BoxBatch
    shards       int64[s, d]: coordinates of the shards touched, in C order"""

    __slots__ = ("_high", "_low", "_offsets", "_plan", "part", "parts", "shards")

    def __init__(self, plan: PointPlan, shards: slice, bounds: tuple[int, int], part: int, parts: int) -> None:
        self._plan = plan
        self.part = part
        self.parts = parts
        self._low, self._high = bounds
        self.shards = plan.shards[shards]
        self._offsets = plan.offsets[shards.start : shards.stop + 1].clip(*bounds) - bounds[0]

    @property
    def shard_count(self) -> int:
        """Rows of `shards`."""
        return len(self.shards)

    @property
    def chunk_count(self) -> int:
        """Chunks of all shards."""
        return self._high - self._low

    def chunks(self, rows: Columns | None = None) -> PointChunks:
        """The chunks of these rows of `shards` (ascending; None: all), with their points."""
        plan, low, high = self._plan, self._low, self._high
        if rows is None:
            rows = np.arange(self.shard_count, dtype=np.int64)
            first = plan.first[low : high + 1]
            points = plan.points[int(first[0]) : int(first[-1])]
            return PointChunks(plan, plan.chunks[low:high], (first - first[0], points), rows, self._offsets)
        counts = np.diff(self._offsets)[rows]
        numbers = spread(self._offsets[rows], counts) + low
        begin = plan.first[numbers]
        of_chunk = plan.first[numbers + 1] - begin
        points = plan.points[spread(begin, of_chunk)]
        return PointChunks(plan, plan.chunks[numbers], (offsets_of(of_chunk), points), rows, offsets_of(counts))

    def kernel_columns(self, rows: Columns | None) -> tuple[Columns, Columns, Columns, Columns, Columns]:
        """As BoxBatch.kernel_columns: shards, offsets, chunks, first, points."""
        chunks = self.chunks(rows)
        shards = self.shards if rows is None else self.shards[rows]
        return shards, chunks.offsets, chunks.coordinates(), *chunks.elements

    def whole_shards(self) -> Flags:
        """bool[s]: every element of the shard inside the array is selected (always False in a part of a shard)."""
        plan = self._plan
        if self.parts > 1:
            return np.zeros(self.shard_count, np.bool_)
        chunks = np.ones(self.shard_count, np.float64)
        axes = zip(plan.shape, plan.chunk_extents, plan.shard_extents, strict=True)
        for dimension, (length, extent, shard_extent) in enumerate(axes):
            grid = -(-length // extent)
            within = min(shard_extent, grid)
            chunks *= np.minimum(grid - self.shards[:, dimension] * within, within)
        candidates = np.flatnonzero(np.diff(self._offsets) == chunks)
        whole = np.zeros(self.shard_count, np.bool_)
        if candidates.size:
            full = self.chunks(candidates)
            whole[candidates] = np.logical_and.reduceat(full.whole_inside(), full.offsets[:-1])
        return whole


class PointPlan:
    """The points of a selection, sorted. chunk_count: number of chunks; full_extents: those of the inner chunks; chunk_extents: the same, at most the array's
    lengths."""

    def __init__(
        self,
        selection: PointSelection,
        chunk_extents: tuple[int, ...],
        shard_extents: tuple[int, ...],
        positions: Columns | None = None,
    ) -> None:
        """positions: of the points in the result; None: 0, 1, 2, ..."""
        if math.prod(chunk_extents) > _LARGEST:
            raise SelectionError(f"no point can be numbered in a chunk of shape {chunk_extents}")
        self.shape = selection.shape
        self.full_extents = chunk_extents
        self.chunk_extents = tuple(
            min(extent, max(length, 1)) for extent, length in zip(chunk_extents, self.shape, strict=True)
        )
        self.shard_extents = shard_extents
        chunks = [c // extent for c, extent in zip(selection.coordinates, self.chunk_extents, strict=True)]
        shards = [c // extent if extent > 1 else c for c, extent in zip(chunks, shard_extents, strict=True)]
        order, new_chunk = _sorted(selection.count, shards, chunks, any(extent > 1 for extent in shard_extents))
        self.points = np.empty((selection.count, 2), np.int64)
        self.points[:, 0] = _positions(selection, chunks, chunk_extents, self.chunk_extents)[order]
        self.points[:, 1] = order if positions is None else positions[order]
        begin = np.flatnonzero(new_chunk)
        self.first = np.append(begin, selection.count)
        representatives = order[begin]
        self.chunks = _columns(chunks, representatives)
        of_chunk = _columns(shards, representatives)
        new_shard = np.append(begin[:1] == 0, (of_chunk[1:] != of_chunk[:-1]).any(axis=1))
        shard_begin = np.flatnonzero(new_shard)
        self.offsets = np.append(shard_begin, begin.size)
        self.shards = of_chunk[shard_begin]
        self.chunk_count = begin.size

    def batches(self, most: int) -> Iterator[PointBatch]:
        """As BoxPlan.batches."""
        limit = max(1, most)
        low, end = 0, self.offsets.size - 1
        while low < end:
            begin = int(self.offsets[low])
            high = int(self.offsets.searchsorted(min(begin + limit, _LARGEST), side="right")) - 1
            if high > low:
                yield PointBatch(self, slice(low, high), (begin, int(self.offsets[high])), 0, 1)
                low = high
                continue
            stop = int(self.offsets[low + 1])
            parts = -(-(stop - begin) // limit)
            for part in range(parts):
                bounds = (begin + part * limit, min(begin + (part + 1) * limit, stop))
                yield PointBatch(self, slice(low, low + 1), bounds, part, parts)
            low += 1


def point_plan(
    selection: PointSelection, chunk_extents: Sequence[int], shard_extents: Sequence[int] | None = None
) -> PointPlan:
    """Extents as in box_plan. SelectionError where a chunk has more than 2**63 - 1 elements."""
    extents = tuple(shard_extents) if shard_extents is not None else (1,) * len(selection.shape)
    return PointPlan(selection, tuple(chunk_extents), extents)


def _positions(
    selection: PointSelection, chunks: list[Columns], extents: Sequence[int], within: Sequence[int]
) -> Columns:
    """The number of each point's element in the C order of its inner chunk. `within`: the extents cut at the array's end."""
    positions = np.zeros(selection.count, np.int64)
    stride = 1
    for dimension in reversed(range(len(chunks))):
        inside = selection.coordinates[dimension] - chunks[dimension] * within[dimension]
        positions += inside * stride
        stride *= extents[dimension]
    return positions


def _sorted(count: int, shards: list[Columns], chunks: list[Columns], sharded: bool) -> tuple[Columns, Flags]:
    """The order of the points by shard, then by chunk, then as given; and the points that begin another chunk in this order."""
    # within one shard chunks are in the order of their inner positions
    keys = [*shards, *chunks] if sharded else chunks
    new = np.zeros(count, np.bool_)
    new[:1] = True
    if not keys or not count:
        return np.arange(count, dtype=np.int64), new
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    if math.prod(spans) > _LARGEST:
        order = np.lexsort(keys[::-1])
        for key in chunks:
            in_order = key[order]
            new[1:] |= in_order[1:] != in_order[:-1]
        return order, new
    single = keys[0] - lows[0]
    for key, low, span in zip(keys[1:], lows[1:], spans[1:], strict=True):
        single *= span
        single += key - low
    if bool((single[1:] >= single[:-1]).all()):
        order = np.arange(count, dtype=np.int64)
    else:
        order = np.argsort(single, kind="stable")
        single = single[order]
    new[1:] = single[1:] != single[:-1]
    return order, new


def _columns(columns: list[Columns], rows: Columns) -> Columns:
    return np.stack([column[rows] for column in columns], axis=1) if columns else np.empty((rows.size, 0), np.int64)
