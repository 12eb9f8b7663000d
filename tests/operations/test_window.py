"""Windows against NumPy: whole, split into pieces, split into tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

import frazil
from frazil.errors import SelectionError
from frazil.operations.window import Window, window
from frazil.stores import MemoryStore


@st.composite
def selected(draw: st.DrawFn) -> tuple[frazil.Array, np.ndarray, tuple[Any, ...], np.ndarray]:
    """An array, the same in memory, an orthogonal selection, and the selected values."""
    shape = draw(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9))
    chunks = tuple(draw(st.integers(1, max(1, length))) for length in shape)
    values = np.arange(np.prod(shape, dtype=int), dtype=np.int16).reshape(shape)
    array = frazil.create_array(MemoryStore(), data=values, chunks=chunks, codecs=[])
    selection: list[Any] = []
    expected = values
    for length in reversed(shape):
        kinds: list[st.SearchStrategy[Any]] = [st.slices(length)]
        if length:
            kinds += [st.integers(-length, length - 1), st.lists(st.integers(-length, length - 1), max_size=6)]
        item = draw(st.one_of(*kinds))
        selection.insert(0, item)
        axis = len(shape) - len(selection)
        expected = expected[(slice(None),) * axis + (np.array(item, int) if isinstance(item, list) else item,)]
    return array, values, tuple(selection), expected


def put_together(pieces: list[Window], dtype: np.dtype) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *(piece.read().reshape(-1) for piece in pieces)])


@given(selected(), st.integers(1, 200))
def test_against_numpy(made: tuple[Any, ...], max_bytes: int) -> None:
    array, _, selection, expected = made
    whole = window(array, selection)
    assert whole.shape == expected.shape
    assert whole.nbytes == expected.nbytes
    np.testing.assert_array_equal(whole.read(), expected)

    pieces = list(whole.pieces(max_bytes))
    np.testing.assert_array_equal(put_together(pieces, array.dtype), expected.reshape(-1))
    assert all(piece.nbytes <= max(max_bytes, array.dtype.itemsize) for piece in pieces)

    seen = np.full(expected.shape, -1, np.int16)
    for start, tile in whole.tiles(max_bytes):
        place = tuple(slice(at, at + length) for at, length in zip(start, tile.shape, strict=True))
        assert (seen[place] == -1).all()
        seen[place] = tile.read()
    np.testing.assert_array_equal(seen, expected)


@given(selected(), st.data())
def test_cut_and_pick(made: tuple[Any, ...], data: st.DataObject) -> None:
    array, _, selection, expected = made
    whole = window(array, selection)
    for axis, length in enumerate(expected.shape):
        part = data.draw(st.slices(length))
        which = data.draw(st.lists(st.integers(0, length - 1), max_size=4)) if length else []
        np.testing.assert_array_equal(
            whole.pick(axis, part).read(), np.moveaxis(np.moveaxis(expected, axis, 0)[part], 0, axis)
        )
        np.testing.assert_array_equal(whole.pick(axis, which).read(), expected.take(np.array(which, int), axis))


def test_pieces_end_where_chunks_end() -> None:
    array = frazil.create_array(MemoryStore(), shape=(100, 10), dtype="u1", chunks=(16, 10))
    assert [piece.shape[0] for piece in window(array).pieces(400)] == [32, 32, 36]
    assert [piece.shape[0] for piece in window(array, (slice(None, None, -1),)).pieces(400)] == [36, 32, 32]
    assert [piece.shape[0] for piece in window(array, (slice(None, None, 3),)).pieces(120)] == [11, 11, 12]
    assert [piece.shape[0] for piece in window(array).pieces(50)] == [5, 5, 5, 1] * 5 + [5] * 4


def test_tiles_are_of_whole_chunks() -> None:
    array = frazil.create_array(MemoryStore(), shape=(100, 100), dtype="u1", chunks=(10, 20))
    shapes = [tile.shape for _, tile in window(array).tiles(2500)]
    assert set(shapes) == {(20, 100)}
    assert {tile.shape for _, tile in window(array).tiles(900)} == {(10, 80), (10, 20)}
    assert {tile.shape for _, tile in window(array).tiles(1)} == {(10, 20)}


def test_huge_windows_cost_nothing() -> None:
    array = frazil.create_array(MemoryStore(), shape=(2**40, 2**20), dtype="f8", chunks=(1024, 1024))
    whole = window(array, (slice(None, None, -7), slice(3, None)))
    assert whole.nbytes == 8 * -(-(2**40) // 7) * (2**20 - 3)
    piece = next(whole.pieces(2**20))
    assert piece.shape == (1, 2**17 - 3)
    assert not piece.read().any()


@pytest.mark.parametrize("selection", [(5,), (0, 0, 0), (..., ...), (None,), ([9],)])
def test_selections_outside_an_array_are_refused(selection: tuple[Any, ...]) -> None:
    array = frazil.create_array(MemoryStore(), shape=(4, 4), dtype="u1")
    with pytest.raises(SelectionError):
        window(array, selection)
