"""The fast path returns the same as the general one, or nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import SelectionError
from frazil.indexing.box import box_plan
from frazil.indexing.selection import BoxSelection, basic
from frazil.indexing.single_chunk import SingleChunk, single_chunk

ends = st.none() | st.integers(-12, 12)
items = st.integers(-12, 12) | st.builds(slice, ends, ends, ends) | st.just(Ellipsis) | st.just(None) | st.just([1, 2])
extents = st.tuples(st.integers(0, 10), st.integers(1, 12))


@given(st.lists(extents, max_size=3), st.lists(items, max_size=3), st.booleans())
def test_agrees_with_the_general_way(axes: list[tuple[int, int]], listed: list[object], alone: bool) -> None:
    shape, chunk = tuple(n for n, _ in axes), tuple(c for _, c in axes)
    selection = listed[0] if alone and len(listed) == 1 else tuple(listed)
    single = single_chunk(selection, shape, chunk)
    try:
        general = basic(selection, shape)
    except SelectionError:
        assert single is None
        return
    assert single is None or isinstance(general, BoxSelection)
    if not isinstance(general, BoxSelection):
        return
    if single is None:
        simple = all(
            type(item) is int or item is Ellipsis or (isinstance(item, slice) and (item.step or 1) > 0)
            for item in listed
        )
        assert not simple or box_plan(general, chunk).chunk_count != 1
        return
    assert single.shape == general.result_shape
    (batch,) = box_plan(general, chunk).batches(1)
    chunks = batch.chunks()
    assert chunks.coordinates().tolist() == [list(single.chunk)]
    columns = zip(single.starts, single.counts, single.steps, strict=True)
    runs = [[start, count, step, 0] for start, count, step in columns]
    index, entries, of_entries = chunks.elements
    assert of_entries[entries[index[0], 0]].tolist() == runs


def test_integers_of_numpy_and_the_ellipsis() -> None:
    expected = SingleChunk((1, 2), (1, 0), (1, 2), (1, 1), (2,))
    assert single_chunk((np.uint8(4), slice(np.int64(4), 6)), (6, 6), (3, 2)) == expected
    assert single_chunk(np.array(4), (6,), (3,)) == SingleChunk((1,), (1,), (1,), (1,), ())
    assert single_chunk(..., (3, 2), (3, 2)) == SingleChunk((0, 0), (0, 0), (3, 2), (1, 1), (3, 2))
    assert single_chunk((..., 3), (3, 2, 6), (3, 2, 3)) == SingleChunk(
        (0, 0, 1), (0, 0, 0), (3, 2, 1), (1, 1, 1), (3, 2)
    )
    assert single_chunk((4, ...), (6,), (3,)) == single_chunk(4, (6,), (3,))
    assert single_chunk((), (), ()) == single_chunk(..., (), ()) == SingleChunk((), (), (), (), ())


@pytest.mark.parametrize(
    "selection", [True, np.True_, np.array([1]), np.array([True]), 1.0, "a", [1], None, slice("a")]
)
def test_other_selections_take_the_general_path(selection: object) -> None:
    assert single_chunk(selection, (4,), (4,)) is None


def test_arrays_as_long_as_int64_counts() -> None:
    length, extent = 2**63 - 1, 2**40
    single = single_chunk(-1, (length,), (extent,))
    assert single == SingleChunk(((length - 1) // extent,), ((length - 1) % extent,), (1,), (1,), ())
