"""One axis against plain Python integers, near the end of int64 too."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.indexing.axes import plan_axis, spread
from frazil.indexing.selection import AxisSelection

LARGEST = 2**63 - 1


@st.composite
def huge(draw: st.DrawFn) -> tuple[int, int, list[int], AxisSelection]:
    """length, extent, the elements selected (few), and the selection."""
    length = draw(st.integers(1, 40) | st.integers(LARGEST - 50, LARGEST) | st.integers(1, LARGEST))
    extent = draw(st.integers(1, 9) | st.integers(1, LARGEST))
    if draw(st.booleans()):
        near = st.integers(max(0, length - 40), length - 1) | st.integers(0, min(length, 40) - 1)
        elements = draw(st.lists(near, min_size=1, max_size=12))
        return length, extent, elements, AxisSelection(0, 1, len(elements), indices=np.array(elements, np.int64))
    start = draw(st.integers(0, length - 1) | st.integers(max(0, length - 40), length - 1))
    step = draw(st.integers(1, 9) | st.integers(1, LARGEST))
    size = min(draw(st.integers(1, 30)), (length - 1 - start) // step + 1)
    return length, extent, [start + i * step for i in range(size)], AxisSelection(start, step, size)


@given(huge(), st.integers(1, 4) | st.integers(1, LARGEST), st.integers(1, 6))
def test_entries_cuts_and_covers(case: tuple[int, int, list[int], AxisSelection], shard: int, limit: int) -> None:
    length, extent, elements, selection = case
    axis = plan_axis(selection, length, extent)
    chunks: dict[int, list[tuple[int, int]]] = {}
    for place, element in enumerate(elements):
        chunks.setdefault(element // extent, []).append((element % extent, place))
    shards = sorted({chunk // shard for chunk in chunks})
    assert axis.count == len(chunks)
    assert axis.size == len(elements)
    assert axis.widest(shard) >= max(sum(chunk // shard == s for chunk in chunks) for s in shards)

    found, ranges, low = [], [], 0
    while low < axis.count:
        high = axis.cut(low, shard, limit)
        columns = axis.entries(low, high)
        for chunk, (first, number), covers in zip(
            columns.chunk.tolist(), columns.entries.tolist(), columns.covers.tolist(), strict=True
        ):
            runs = columns.runs[first : first + number].tolist()
            moves = [(start + i * step, at + i) for start, count, step, at in runs for i in range(count)]
            assert sorted(moves) == sorted(chunks[chunk])
            for position in {p for p, _ in moves}:  # for equal ones, the last place comes last
                places = [at for p, at in moves if p == position]
                assert places == sorted(places)
            assert covers == (len({position for position, _ in moves}) == extent)  # never true beyond the array's end
            found.append(chunk)
        ranges.append((low, high))
        low = high
    assert found == sorted(chunks)
    for low, high in ranges:
        touched = {chunk // shard for chunk in found[low:high]}
        assert high - low <= limit or len(touched) == 1
        assert high == len(found) or found[high] // shard not in touched

    whole = axis.whole_shards(np.array(shards, np.int64), shard).tolist()
    for number, is_whole in zip(shards, whole, strict=True):
        low_element = number * shard * extent
        in_bounds = min(shard * extent, length - low_element)
        assert is_whole == (len({e for e in elements if 0 <= e - low_element < shard * extent}) == in_bounds)


def test_runs_of_consecutive_elements_are_joined() -> None:
    listed = np.array([4, 5, 6, 7, 8, 0, 1, 5], np.int64)
    columns = plan_axis(AxisSelection(0, 1, 8, indices=listed), 20, 6).entries(0, 2)
    assert columns.runs.tolist() == [[4, 2, 1, 0], [0, 2, 1, 5], [5, 1, 1, 7], [0, 3, 1, 2]]
    assert columns.entries.tolist() == [[0, 3], [3, 1]]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4))))
def test_spread_expands_ranges_to_numbers(ranges: list[tuple[int, int]]) -> None:
    starts, counts = (np.array([r[i] for r in ranges], np.int64) for i in (0, 1))
    assert spread(starts, counts).tolist() == [s + i for s, c in ranges for i in range(c)]
