"""Valid selections, and the errors of invalid ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import basic_selections, orthogonal_selections

from frazil.errors import InvalidInputError, SelectionError
from frazil.indexing.selection import BoxSelection, PointSelection, basic, blocks, orthogonal, vectorised

SHAPE = (10, 7)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (10, "index 10 is out of bounds for axis 0 with length 10"),
        ((0, -8), "index -8 is out of bounds for axis 1 with length 7"),
        (2**70, "out of bounds for axis 0"),
        ([0, 10], "index 10 is out of bounds for axis 0 with length 10"),
        (([1], [-8]), "index -8 is out of bounds for axis 1 with length 7"),
        (([1], 2**70), "out of bounds for axis 1"),
        (np.array([2**63], np.uint64), "index 9223372036854775808 is out of bounds"),
        ((1, 2, 3), "3 indices for an array of 2 dimensions"),
        ((..., 1, ...), "only one Ellipsis"),
        (slice(None, None, 0), "the step of a slice must not be zero"),
        (slice(1.5, None), "the parts of a slice must be integers or None"),
        (True, "True is not an index"),
        (np.False_, "not an index"),
        (1.0, "1.0 is not an index"),
        ("a", "'a' is not an index"),
        ([1.5], "of type float64 has neither integers nor booleans"),
        (["a"], "has neither integers nor booleans"),
        ([[1], [2, 3]], "not an index"),
        (np.array(True), r"a mask of shape \(\) does not fit an array of shape \(10, 7\)"),
        (np.ones(9, bool), "a mask of length 9 does not fit axis 0 with length 10"),
        (np.ones((10, 6), bool), r"a mask of shape \(10, 6\) does not fit an array of shape \(10, 7\)"),
        ((np.ones((10, 7), bool), 1), "must have one dimension"),
        (
            (slice(None), [[1, 2], [3, 4]]),
            "axis 1 with length 7: an index array for one axis must have one dimension",
        ),
        (([1, 2], [1, 2], None), "a.oindex"),
        (([1, 2], [1, 2, 3]), r"index arrays of shapes \(2,\), \(3,\) do not broadcast"),
    ],
)
def test_invalid_basic_selections_are_refused(selection: object, message: str) -> None:
    with pytest.raises(SelectionError, match=message) as raised:
        basic(selection, SHAPE)
    assert isinstance(raised.value, IndexError)
    assert isinstance(raised.value, InvalidInputError)


def test_arrays_beside_slices_have_more_than_one_meaning() -> None:
    with pytest.raises(SelectionError, match="is ambiguous"):
        basic(([1, 2], slice(None), [1, 2]), (4, 4, 4))


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ((None, 1), "newaxis"),
        ((1, [[1]]), "must have one dimension"),
        ((1, np.ones(6, bool)), "a mask of length 6 does not fit axis 1 with length 7"),
        (([1], [1], [1]), "3 indices"),
    ],
)
def test_invalid_orthogonal_selections_are_refused(selection: object, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        orthogonal(selection, SHAPE)


@pytest.mark.parametrize(
    "selection", [slice(None), ([1], slice(None)), [1], (..., [1]), ([True] * 10, [1]), ([1], None)]
)
def test_invalid_selections_of_points_are_refused(selection: object) -> None:
    with pytest.raises(SelectionError, match="points"):
        vectorised(selection, SHAPE)


@pytest.mark.parametrize("selection", [slice(0, 2, 2), [0], None, slice(None, None, -1), True, 4])
def test_invalid_selections_of_blocks_are_refused(selection: object) -> None:
    with pytest.raises(SelectionError):
        blocks(selection, SHAPE, (3, 3))


def test_values_that_do_not_fit() -> None:
    for selection in (basic(slice(0, 3), SHAPE), vectorised(([1, 2], [3, 4]), SHAPE)):
        with pytest.raises(SelectionError, match=r"values of shape \(2, 5, 1\) do not fit"):
            selection.source_view(np.zeros((2, 5, 1)))


def test_indices_at_one_distance_become_a_slice() -> None:
    for listed, expected in (
        ([3], (3, 1, 1, False)),
        ([], (0, 1, 0, False)),
        ([2, 4, 6], (2, 2, 3, False)),
        ([-1, -3, -5], (5, 2, 3, True)),
        (range(10), (0, 1, 10, False)),
    ):
        axis = orthogonal((listed,), (10,)).axes[0]
        assert axis[:4] == expected
        assert axis.indices is None
    for listed in ([1, 1, 1], [1, 2, 4], [1, 3, 5, 7, 8]):
        assert orthogonal((listed,), (10,)).axes[0].indices is not None
    mask = np.zeros(10, bool)
    mask[4:8] = True
    assert orthogonal(mask, (10,)).axes[0][:3] == (4, 1, 4)


def test_anything_with_index_is_an_integer() -> None:
    class Three:
        def __index__(self) -> int:
            return 3

    for three in (Three(), np.uint8(3), np.array(3)):
        selection = basic(three, SHAPE)
        assert isinstance(selection, BoxSelection)
        assert selection.result_shape == (7,)
        assert selection.axes[0].start == 3


def test_views_are_never_copies() -> None:
    selection = basic((2, None, slice(None, None, -2)), SHAPE)
    assert isinstance(selection, BoxSelection)
    out = np.zeros(selection.result_shape)
    view = selection.out_view(out)
    assert view.shape == (1, 4)
    assert np.shares_memory(view, out)
    assert selection.out_view(np.zeros((1, 4))).shape == (1, 4)
    scalar = basic((None, 1, 1), SHAPE)
    assert isinstance(scalar, BoxSelection)
    out = np.zeros(scalar.result_shape)
    scalar.out_view(out)[0, 0] = 5
    assert out == 5


def test_points_have_a_view_where_strides_allow() -> None:
    points = vectorised(([[1, 2], [3, 4]], 0), SHAPE)
    assert isinstance(points, PointSelection)
    assert points.result_shape == (2, 2)
    out = np.zeros((2, 2))
    view = points.out_view(out)
    assert view is not None
    assert np.shares_memory(view, out)
    assert points.out_view(np.zeros((2, 2), order="F")) is None
    assert points.source_view(np.zeros(())).strides == (0,)


def test_shapes_as_large_as_int64_counts() -> None:
    length = 2**63 - 1
    selection = basic((slice(None, None, -1), -1), (length, length))
    assert isinstance(selection, BoxSelection)
    assert selection.axes[0][:4] == (0, 1, length, True)
    assert selection.axes[1].start == length - 1
    assert vectorised(([-1], [0]), (length, 1)).coordinates[0].tolist() == [length - 1]


@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 1, 6)])
@given(data=st.data())
def test_ends_follow_the_last_selected_element(shape: tuple[int, ...], data: st.DataObject) -> None:
    places = np.stack(np.indices(shape), axis=-1)  # of each element
    selection = data.draw(basic_selections(shape))
    found = places[(*selection, slice(None)) if Ellipsis in selection else (*selection, Ellipsis)]
    assert basic(selection, shape).ends() == ends_of(found, shape)
    parts = data.draw(orthogonal_selections(shape))
    of_axes = (np.atleast_1d(np.arange(n)[part]) for n, part in zip(shape, parts, strict=True))
    assert orthogonal(parts, shape).ends() == ends_of(places[np.ix_(*of_axes)], shape)
    points = tuple(data.draw(st.lists(st.integers(-n, n - 1), min_size=2, max_size=2)) for n in shape)
    assert vectorised(points, shape).ends() == ends_of(places[points], shape)
    assert vectorised(tuple([] for _ in shape), shape).ends() == (0,) * len(shape)


def ends_of(places: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple((places.reshape(-1, len(shape)).max(axis=0, initial=-1) + 1).tolist())
