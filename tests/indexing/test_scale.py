"""Selections of 1e8 chunks and more: the cost of planning them, and that no number overflows."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from frazil.indexing.box import BoxPlan, box_plan
from frazil.indexing.points import point_plan
from frazil.indexing.selection import BoxSelection, basic, vectorised

LARGEST = 2**63 - 1
MEGABYTE = 2**20


def plan(shape: tuple[int, ...], key: object, chunk: tuple[int, ...], shard: tuple[int, ...] | None = None) -> BoxPlan:
    selection = basic(key, shape)
    assert isinstance(selection, BoxSelection)
    return box_plan(selection, chunk, shard)


@pytest.mark.parametrize(
    ("shape", "chunk", "shard", "step"),
    [
        ((10**9,), (10,), None, 1),
        ((10**9,), (10,), (1000,), 3),
        ((10**10,), (10,), (7,), 100),
        ((10**5, 10**5), (10, 10), (64, 64), 1),
        ((10**5, 10**5), (10, 10), (10**4, 10**4), 1),
        ((10**5, 10**5), (10, 10), None, 7),
        ((2000, 5000, 1000), (10, 5, 2), (20, 50, 20), 1),
    ],
)
def test_a_hundred_million_chunks(
    shape: tuple[int, ...], chunk: tuple[int, ...], shard: tuple[int, ...] | None, step: int
) -> None:
    tracemalloc.start()
    try:
        whole = plan(shape, (slice(None, None, step),) * len(shape), chunk, shard)
        batches = chunks = shards = 0
        for batch in whole.batches(2**17):
            batches += 1
            chunks += batch.chunk_count
            shards += batch.shard_count if batch.part == 0 else 0
            assert batch.chunk_count <= 2**17
            if batches % 400 == 1:
                assert batch.chunks().count == batch.chunk_count
                assert len(batch.shards) == batch.shard_count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert chunks == whole.chunk_count >= 10**8 // (step if step <= chunk[0] else 1)
    assert batches < 10**4
    assert peak < 64 * MEGABYTE


def test_chunks_beyond_counting() -> None:
    """A virtual array of (2**63 - 1) ** 2 elements: only requested batches are created."""
    shape = (LARGEST, LARGEST)
    whole = plan(shape, ..., (1, 1), (3, 2))
    assert whole.chunk_count == LARGEST**2
    for batch in itertools.islice(whole.batches(1000), 3):
        assert batch.chunk_count <= 1000
        assert batch.chunks().count == batch.chunk_count
    corner = plan(shape, np.s_[-3:, -2:], (2, LARGEST), (2**61, 2**62))
    (batch,) = corner.batches(LARGEST)
    chunks = batch.chunks()
    assert chunks.coordinates().tolist() == [[(LARGEST - 3) // 2, 0], [(LARGEST - 1) // 2, 0]]
    assert batch.shards.tolist() == [[1, 0]]
    assert chunks.elements[2][:2].tolist() == [[0, 2, 1, 0], [0, 1, 1, 2]]
    assert chunks.whole().tolist() == [False, False]


def test_points_of_arrays_beyond_counting() -> None:
    """Coordinates that no single int64 can number."""
    shape = (LARGEST, LARGEST, LARGEST)
    last = LARGEST - 1
    listed = [(last, last, 0), (0, 0, 0), (last, last, last), (0, 0, 1), (last, last, 0), (5, last, 7)]
    selection = vectorised(tuple(np.array(listed).T), shape)
    for shard in (None, (2**62, 1, 3)):
        (batch,) = point_plan(selection, (1, 2, 1), shard).batches(LARGEST)
        found = batch.chunks()
        chunks = [tuple(chunk) for chunk in found.coordinates().tolist()]
        assert sorted(chunks) == sorted({(a, b // 2, c) for a, b, c in listed})
        assert found.count == 5
        shards = [batch.shards[row].tolist() for row in found.shard_rows()]
        assert shards == sorted(shards)
        for number, chunk in enumerate(chunks):
            for position, at in found.elements[1][found.elements[0][number] : found.elements[0][number + 1]].tolist():
                a, b, c = listed[at]
                assert (a, b // 2, c) == chunk
                assert position == b % 2
        assert not found.whole()[0] or chunks[0] == (0, 0, 0)
