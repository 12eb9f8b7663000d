"""Lazy views against NumPy: compositions of selections, read and written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import InvalidInputError, ReadOnlyError, SelectionError
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

Axes = list[int | np.ndarray]


@pytest.mark.parametrize(
    "item",
    [np.array([2**64 - 1], np.uint64), [[1], [2, 3]], True, np.True_, 1.5, [5], [True] * 4, np.zeros((1, 1), int)],
)
def test_invalid_indices_are_refused(item: object) -> None:
    view = frazil.zeros((5,), dtype="u1").lazy
    with pytest.raises(SelectionError):
        view[item]
    with pytest.raises(SelectionError):
        view[::-1][item]


def test_a_view_of_many_elements_costs_nothing() -> None:
    view = frazil.zeros((2**62,), dtype="u1", chunks=2**20).lazy
    assert np.asarray(view[:: -(2**60)]).tolist() == [0] * 4
    assert np.asarray(view[2**61 :][:3]).tolist() == [0] * 3


@st.composite
def items(draw: st.DrawFn, extent: int) -> object:
    """A selection along one dimension."""
    bound = st.none() | st.integers(-extent - 2, extent + 2)
    kinds = [
        st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, 3, -1, -2, -3])),
        st.lists(st.booleans(), min_size=extent, max_size=extent).map(np.array).filter(lambda mask: mask.dtype == bool),
        st.just([]),
    ]
    if extent:
        place = st.integers(-extent, extent - 1)
        kinds += [place, place.map(np.int64), st.lists(place, max_size=4), st.lists(place, min_size=1).map(np.array)]
    return draw(st.one_of(kinds))


def composed(axes: Axes, selection: tuple[object, ...]) -> Axes:
    """The elements of each dimension after a selection; by NumPy, dimension by dimension."""
    rest = iter(selection)
    found: Axes = []
    for axis in axes:
        if isinstance(axis, int):
            found.append(axis)
            continue
        item = next(rest)
        part = axis[np.asarray(item, int) if isinstance(item, list) else item]
        found.append(part if isinstance(part, np.ndarray) else int(part))
    return found


def elements(axes: Axes) -> tuple[object, ...]:
    """A NumPy selection of these elements, with the dimensions of integers left out of the result."""
    opened = np.ix_(*[np.atleast_1d(np.asarray(axis, int)) for axis in axes])
    shape = [len(axis) for axis in axes if not isinstance(axis, int)]
    whole = np.broadcast_arrays(*opened) if axes else []
    return tuple([part.reshape(shape) for part in whole])


@st.composite
def selections(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[object, ...]], Axes]:
    """A shape, successive selections, and the remaining elements of each dimension."""
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
    axes: Axes = [np.arange(extent) for extent in shape]
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        steps.append(tuple(draw(items(len(axis))) for axis in axes if not isinstance(axis, int)))
        axes = composed(axes, steps[-1])
    return shape, steps, axes


@given(case=selections(), chunk=st.integers(1, 4))
def test_views_read_and_write_as_numpy_does(
    case: tuple[tuple[int, ...], list[tuple[object, ...]], Axes], chunk: int
) -> None:
    shape, steps, axes = case
    expected = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    array = frazil.array(expected, chunks=(chunk,) * len(shape))
    view = array.lazy
    for step in steps:
        view = view[step]
    where = elements(axes)
    assert view.shape == expected[where].shape
    assert (view.ndim, view.size, view.dtype) == (len(view.shape), expected[where].size, np.dtype("i4"))
    np.testing.assert_array_equal(np.asarray(view), expected[where])
    array.lazy[steps[0]] = -1
    first = elements(composed([np.arange(extent) for extent in shape], steps[0]))
    expected[first] = -1
    np.testing.assert_array_equal(array[...], expected)
    view[...] = -2
    expected[where] = -2
    np.testing.assert_array_equal(array[...], expected)


def test_a_view_is_written_with_values_of_its_shape() -> None:
    array = frazil.array(np.arange(20))
    array.lazy[::-2][:3] = [100, 101, 102]
    assert array[...].tolist()[13:] == [13, 14, 102, 16, 101, 18, 100]
    array.lazy[:3] = array.lazy[10:13]
    assert array[:3].tolist() == [10, 11, 12]


def test_selections_read_nothing() -> None:
    store = CountingStore(MemoryStore())
    array = frazil.array(np.arange(100), store=store, chunks=10)
    before = store.count()
    view = array.lazy[10:50][::-2][[1, 2]]
    assert store.count() == before
    assert np.asarray(view, "f4").tolist() == [47.0, 45.0]


def test_an_ellipsis_selects_the_omitted_dimensions() -> None:
    values = np.arange(24).reshape(2, 3, 4)
    view = frazil.array(values).lazy
    for selection in (..., (1, ...), (..., 1), (0, ..., slice(None, None, -1)), (slice(1),)):
        np.testing.assert_array_equal(view[selection], values[selection])


@pytest.mark.parametrize(
    "selection",
    [4, -5, (0, 0), None, "x", 1.5, [4], [[0]], [True], [1.5], (..., ...), slice(None, None, 0), slice("a", None)],
)
def test_invalid_selections_of_views_are_refused(selection: object) -> None:
    with pytest.raises(SelectionError):
        frazil.array(np.arange(4)).lazy[selection]


def test_a_view_beyond_the_end_of_a_smaller_array_is_refused() -> None:
    array = frazil.array(np.arange(8))
    view = array.lazy[2:]
    array.resize(4)
    with pytest.raises(SelectionError, match="has 4"):
        np.asarray(view)
    with pytest.raises(SelectionError):
        view[...] = 0
    assert np.asarray(view[:2]).tolist() == [2, 3]


def test_unsupported_operations_of_views_are_refused() -> None:
    store = MemoryStore()
    array = frazil.array(np.arange(8), store=store)
    with pytest.raises(InvalidInputError, match="copy"):
        np.asarray(array.lazy, copy=False) if np.__version__ >= "2" else array.lazy.__array__(copy=False)
    with pytest.raises(SelectionError):
        len(array.lazy[0])
    with pytest.raises(ReadOnlyError):
        frazil.open_array(store).lazy[:2] = 1
    assert len(array.lazy[:3]) == 3
    assert "LazyView" in repr(array.lazy)
