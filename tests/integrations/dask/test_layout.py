"""Chunks of dask against write chunks: every unit belongs to one block, for any chunks and region."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError, SelectionError
from frazil.integrations.dask.layout import (
    Box,
    aligned_chunks,
    box_of,
    check_no_overlap,
    is_aligned,
    reading_chunks,
    selection_of,
)

extents = st.lists(st.integers(0, 9), min_size=1, max_size=8).map(tuple)


def units_of(sizes: tuple[int, ...], start: int, unit: int) -> list[set[int]]:
    bounds = [start, *(start + at for at in itertools.accumulate(sizes))]
    return [{at // unit for at in range(a, b)} for a, b in itertools.pairwise(bounds)]


@given(extents, st.integers(0, 20), st.integers(1, 7))
def test_each_unit_belongs_to_one_block(sizes: tuple[int, ...], start: int, unit: int) -> None:
    box = Box((start,), (start + sum(sizes),), (unit,))
    (moved,) = aligned_chunks((sizes,), box)
    assert sum(moved) == sum(sizes)
    assert all(moved) or moved == (0,)
    seen = [at for units in units_of(moved, start, unit) for at in units]
    assert len(seen) == len(set(seen))
    assert is_aligned((moved,), box)
    before = [at for units in units_of(sizes, start, unit) for at in units]
    assert is_aligned((sizes,), box) or len(before) > len(set(before)) or 0 in sizes


@given(extents, st.integers(1, 7))
def test_aligned_chunks_are_about_as_large_as_before(sizes: tuple[int, ...], unit: int) -> None:
    (moved,) = aligned_chunks((sizes,), Box((0,), (sum(sizes),), (unit,)))
    assert max(moved) <= max(sizes) + unit - 1


def test_aligned_chunks_stay() -> None:
    box = Box((5,), (30,), (10,))
    assert aligned_chunks(((5, 10, 10),), box) == ((5, 10, 10),)
    assert not is_aligned(((10, 10, 5),), box)
    assert aligned_chunks(((10, 10, 5),), box) == ((5, 10, 10),)


def test_boxes() -> None:
    assert box_of(None, (4, 5), (4, 5), (2, 2)) == Box((0, 0), (4, 5), (2, 2))
    assert box_of((slice(-2, None),), (2, 5), (4, 5), (2, 2)) == Box((2, 0), (4, 5), (2, 2))
    assert box_of(slice(1, 3), (2, 5), (4, 5), (2, 2)) == Box((1, 0), (3, 5), (2, 2))
    assert box_of((), (), (), ()) == Box((), (), ())


@pytest.mark.parametrize(
    "region",
    [
        (slice(0, 4, 2),),
        (slice(0, 9),),
        (slice(-9, 2),),
        (slice(0, 3),),
        (slice("a", None),),
        (0,),
        [slice(0, 4)],
        (slice(None),) * 2,
    ],
)
def test_regions_that_do_not_do(region: object) -> None:
    with pytest.raises(SelectionError):
        box_of(region, (4,), (8,), (2,), "a")


def test_regions_apart() -> None:
    first, second = Box((0, 0), (4, 4), (4, 4)), Box((4, 0), (8, 4), (4, 4))
    check_no_overlap([(0, first), (1, second)], "a")
    check_no_overlap([(0, first), (1, Box((4, 4), (4, 8), (4, 4)))], "a")  # nothing
    with pytest.raises(InvalidInputError, match="0 and 2 are both for the same elements"):
        check_no_overlap([(0, first), (1, second), (2, Box((3, 0), (4, 4), (4, 4)))], "a")
    with pytest.raises(InvalidInputError, match="share a shard"):
        check_no_overlap([(0, Box((0,), (5,), (4,))), (1, Box((5,), (8,), (4,)))], "a")


boxes = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)


@given(boxes, boxes, st.integers(1, 4))
def test_disjoint_boxes_share_no_write_chunk(one: list[int], other: list[int], unit: int) -> None:
    shared = {at // unit for at in range(*one)} & {at // unit for at in range(*other)}
    pair = [(number, Box((box[0],), (box[1],), (unit,))) for number, box in enumerate((one, other))]
    if shared:
        with pytest.raises(InvalidInputError):
            check_no_overlap(pair, "a")
    else:
        check_no_overlap(pair, "a")


def test_selections() -> None:
    assert selection_of(((0, 3, 7), (0, 2)), (10, 20), (1, 0)) == (slice(13, 17), slice(20, 22))


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=3),
    st.integers(1, 8),
    st.integers(1, 4000),
)
def test_reading_chunks_lie_on_shards(axes: list[tuple[int, int, int]], itemsize: int, limit: int) -> None:
    shape, inner = [axis[0] for axis in axes], [axis[1] for axis in axes]
    unit = [chunk * count for _, chunk, count in axes]
    found = reading_chunks(shape, unit, inner, itemsize, limit)
    nbytes = itemsize
    for length, whole, chunk, extent in zip(shape, unit, inner, found, strict=True):
        assert 1 <= extent <= length or extent <= whole
        assert extent >= length or extent % whole == 0 or (whole % extent == 0 and extent % chunk == 0)
        nbytes *= extent
    smallest = itemsize
    for chunk in inner:
        smallest *= chunk
    assert nbytes <= max(limit, smallest)


def test_reading_chunks() -> None:
    assert reading_chunks((1000, 1000), (100, 100), (10, 10), 1, 10**6) == (1000, 1000)
    assert reading_chunks((1000, 1000), (100, 100), (10, 10), 1, 40_000) == (200, 200)
    assert reading_chunks((1000, 1000), (100, 100), (10, 10), 1, 5000) == (50, 100)
    assert reading_chunks((1000, 1000), (100, 100), (10, 10), 1, 1) == (10, 10)
    assert reading_chunks((), (), (), 8, 100) == ()
