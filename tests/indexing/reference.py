"""A slow reference of the engine: executes the columns of a plan element by element, over chunks in dictionaries, and checks the promises of a plan. Only for
tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from frazil.indexing.box import BoxChunks, BoxPlan, box_plan
from frazil.indexing.points import PointChunks, PointPlan, point_plan
from frazil.indexing.selection import BoxSelection, PointSelection

Array = NDArray[np.int64]
Plan = BoxPlan | PointPlan
Shard = dict[int, Array]
FILL = -7


class Stored:
    """An array as shards of chunks: {shard: {inner number: chunk}}. Chunks are whole, elements beyond the array are FILL."""

    def __init__(self, array: Array, chunk: tuple[int, ...], shard: tuple[int, ...]) -> None:
        self.shape, self.chunk, self.shard = array.shape, chunk, shard
        self.strides = tuple(math.prod(shard[d + 1 :]) for d in range(len(shard)))
        self.shards: dict[tuple[int, ...], Shard] = {}
        for coords in itertools.product(*(range(-(-n // e)) for n, e in zip(array.shape, chunk, strict=True))):
            block = np.full(chunk, FILL, np.int64)
            part = array[tuple(slice(c * e, (c + 1) * e) for c, e in zip(coords, chunk, strict=True))]
            block[tuple(slice(0, n) for n in part.shape)] = part
            self.shards.setdefault(self.shard_of(coords), {})[self.number_of(coords)] = block

    def shard_of(self, coords: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(c // s for c, s in zip(coords, self.shard, strict=True))

    def number_of(self, coords: tuple[int, ...]) -> int:
        return sum(c % s * stride for c, s, stride in zip(coords, self.shard, self.strides, strict=True))

    def chunk_of(self, coords: tuple[int, ...]) -> Array | None:
        return self.shards.get(self.shard_of(coords), {}).get(self.number_of(coords))

    def array(self) -> Array:
        out = np.full(self.shape, FILL, np.int64)
        for position in np.ndindex(*self.shape):
            block = self.chunk_of(tuple(p // e for p, e in zip(position, self.chunk, strict=True)))
            if block is not None:
                out[position] = block[tuple(p % e for p, e in zip(position, self.chunk, strict=True))]
        return out

    def in_bounds(self, coords: tuple[int, ...]) -> int:
        """The number of elements of this chunk inside the array."""
        return math.prod(min(e, n - c * e) for c, e, n in zip(coords, self.chunk, self.shape, strict=True))


def plan_of(selection: BoxSelection | PointSelection, stored: Stored) -> Plan:
    if isinstance(selection, BoxSelection):
        return box_plan(selection, stored.chunk, stored.shard)
    return point_plan(selection, stored.chunk, stored.shard)


def read(plan: Plan, stored: Stored, view: Array, limit: int) -> None:
    """Reads into a view of selection.out_view."""
    for batch in plan.batches(limit):
        shards = [tuple(row) for row in batch.shards.tolist()]
        present = [row for row, shard in enumerate(shards) if shard in stored.shards]
        for row in set(range(len(shards))) - set(present):
            missing = batch.chunks(np.array([row]))
            for number in range(missing.count):
                for _, at in _moves(missing, number, stored.chunk):
                    view[at] = FILL
        chunks = batch.chunks(np.array(present, np.int64))
        blocks = _blocks(chunks, [stored.shards[shards[row]] for row in present], stored)
        for number, block in enumerate(blocks):
            for position, at in _moves(chunks, number, stored.chunk):
                view[at] = block[position]


def write(plan: Plan, stored: Stored, view: Array, limit: int) -> None:
    """Writes from a view of selection.source_view."""
    for batch in plan.batches(limit):
        chunks = batch.chunks()
        targets = [stored.shards.setdefault(tuple(shard), {}) for shard in batch.shards.tolist()]
        for row, number in zip(chunks.shard_rows().tolist(), _numbers(chunks, stored), strict=True):
            targets[row].setdefault(number, np.full(stored.chunk, FILL, np.int64))
        for number, block in enumerate(_blocks(chunks, targets, stored)):
            for position, at in _moves(chunks, number, stored.chunk):
                block[position] = view[at]


def check(plan: Plan, stored: Stored, limit: int) -> None:
    """Limits, order, completeness, whole(), whole_shards()."""
    seen: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    positions: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    wholes: dict[tuple[int, ...], tuple[bool, int]] = {}
    for batch in plan.batches(limit):
        chunks = batch.chunks()
        assert chunks.count == batch.chunk_count == chunks.offsets[-1] <= limit
        assert batch.shard_count == len(batch.shards) == chunks.rows.size
        coords = [tuple(row) for row in chunks.coordinates().tolist()]
        shards = [tuple(row) for row in batch.shards.tolist()]
        assert shards == sorted(set(shards))
        of_chunks = [shards[row] for row in chunks.shard_rows().tolist()]
        assert of_chunks == [stored.shard_of(c) for c in coords]
        keys = list(zip(of_chunks, _numbers(chunks, stored), strict=True))
        assert keys == sorted(set(keys))
        assert [stored.number_of(c) for c in coords] == [number for _, number in keys]
        for shard, whole in zip(shards, batch.whole_shards().tolist(), strict=True):
            seen.setdefault(shard, []).append((batch.part, batch.parts))
            wholes[shard] = (whole, batch.parts)
        for number, (chunk, whole) in enumerate(zip(coords, chunks.whole().tolist(), strict=True)):
            assert chunk not in positions
            positions[chunk] = {position for position, _ in _moves(chunks, number, stored.chunk)}
            assert whole == (
                len(positions[chunk]) == math.prod(stored.chunk)
            )  # never true for a chunk beyond the array's end
    assert len(positions) == plan.chunk_count
    for parts in seen.values():
        assert parts == [(part, parts[0][1]) for part in range(parts[0][1])]
    _check_whole_shards(plan, stored, positions, wholes)


def _check_whole_shards(
    plan: Plan,
    stored: Stored,
    chunks: dict[tuple[int, ...], set[tuple[int, ...]]],
    wholes: dict[tuple[int, ...], tuple[bool, int]],
) -> None:
    missing = dict.fromkeys(wholes, 0)
    for coords in itertools.product(*(range(-(-n // e)) for n, e in zip(stored.shape, stored.chunk, strict=True))):
        shard = stored.shard_of(coords)
        if shard in missing:
            missing[shard] += stored.in_bounds(coords) - len(chunks.get(coords, ()))
    for shard, (whole, parts) in wholes.items():
        assert whole == (missing[shard] == 0 and (parts == 1 or isinstance(plan, BoxPlan)))


def _numbers(chunks: BoxChunks | PointChunks, stored: Stored) -> list[int]:
    ones = (1,) * len(stored.shard)
    numbers: list[int] = chunks.numbers(ones, stored.shard, stored.strides).tolist()
    return numbers


def _blocks(chunks: BoxChunks | PointChunks, shards: list[Shard], stored: Stored) -> list[Array]:
    numbers = _numbers(chunks, stored)
    return [shards[row][number] for row, number in zip(chunks.shard_rows().tolist(), numbers, strict=True)]


def _moves(
    chunks: BoxChunks | PointChunks, number: int, chunk: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(position in the chunk, place in the view) of each element, in the kernel's order."""
    if isinstance(chunks, PointChunks):
        starts, points = chunks.elements
        for position, at in points[starts[number] : starts[number + 1]].tolist():
            yield tuple(int(p) for p in np.unravel_index(position, chunk)), (at,)
        return
    index, entries, runs = chunks.elements
    for column in chunks.elements:
        assert column.dtype == np.int64
        assert column.flags.c_contiguous
    lines = []
    for row, extent in zip(index[number].tolist(), chunk, strict=True):
        first, count_of_runs = entries[row].tolist()
        line = []
        for start, count, step, at in runs[first : first + count_of_runs].tolist():
            assert count >= 1
            assert step >= 1
            assert start >= 0
            assert start + (count - 1) * step < extent
            line += [(start + i * step, at + i) for i in range(count)]
        lines.append(line)
    for pairs in itertools.product(*lines):
        yield tuple(p for p, _ in pairs), tuple(at for _, at in pairs)
