"""Overviews against a short reference in NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import InvalidInputError, SelectionError
from frazil.operations.view.overview import overview
from frazil.operations.window import window
from frazil.stores import MemoryStore


def reference(values: np.ndarray, factor: int, hide: object = None) -> np.ndarray:
    numbers = (np.abs(values) if values.dtype.kind == "c" else values).astype(np.float64)
    if hide is not None:
        numbers[values == hide] = np.nan
    numbers[~np.isfinite(numbers)] = np.nan
    height, width = (-(-length // factor) for length in values.shape)
    padded = np.full((height * factor, width * factor), np.nan)
    padded[: values.shape[0], : values.shape[1]] = numbers
    squares = padded.reshape(height, factor, width, factor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(squares, axis=(1, 3))


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.tuples(st.integers(1, 15), st.integers(1, 15)),
    st.integers(1, 30),
    st.sampled_from(["bool", "uint8", "int16", "float32", "float64", "complex64"]),
    st.booleans(),
    st.integers(1, 4000),
    st.integers(0, 2**32),
)
def test_means(
    shape: tuple[int, int], chunks: tuple[int, int], size: int, dtype: str, hides: bool, max_bytes: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 5, shape).astype(dtype)
    if dtype.startswith("float"):
        values[random.random(shape) < 0.2] = random.choice([np.nan, np.inf, -np.inf])
    chunks = (min(chunks[0], shape[0]), min(chunks[1], shape[1]))
    array = frazil.create_array(MemoryStore(), data=values, chunks=chunks, codecs=[])
    hide = array.dtype.type(2) if hides else None
    read: list[int] = []
    made = overview(window(array), size, method="mean", hide=hide, max_bytes=max_bytes, report=read.append)
    assert max(made.values.shape) <= size
    assert made.factor == -(-max(shape) // size)
    if made.factor > 1:
        np.testing.assert_allclose(made.values, reference(values, made.factor, hide), rtol=1e-6)
    assert sum(read) == values.nbytes


@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), st.integers(1, 30), st.integers(1, 2000))
def test_nearest(shape: tuple[int, int], size: int, max_bytes: int) -> None:
    values = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    array = frazil.create_array(MemoryStore(), data=values)
    made = overview(window(array), size, method="nearest", max_bytes=max_bytes)
    rows, columns = (min(made.factor // 2, (length - 1) // 2) for length in shape)
    np.testing.assert_array_equal(made.values, values[rows :: made.factor, columns :: made.factor])
    assert made.values.size


@given(
    st.tuples(st.integers(60, 100), st.integers(60, 100)),
    st.tuples(st.integers(20, 50), st.integers(20, 50)),
    st.integers(30, 55),
    st.integers(2000, 20000),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_the_middle_value_of_codes_is_shown_instead_of_a_mean(
    shape: tuple[int, int], chunks: tuple[int, int], size: int, max_bytes: int, hides: bool, seed: int
) -> None:
    """For few distinct whole numbers, the middle one of each square is shown; for two, such as a mask, and for many, the mean."""
    random = np.random.default_rng(seed)
    hide = np.int16(7) if hides else None
    for count in (2, 5, 300):
        values = (random.integers(0, count, shape) * 7).astype(np.int16)
        array = frazil.create_array(MemoryStore(), data=values, chunks=chunks, codecs=[])
        made = overview(window(array), size, hide=hide, max_bytes=max_bytes)
        if count == 5:
            rows, columns = (
                np.minimum(np.arange(0, length, made.factor) + made.factor // 2, length - 1) for length in shape
            )
            middle = values[np.ix_(rows, columns)].astype(float)
            middle[middle == (7 if hides else -1)] = np.nan
            np.testing.assert_array_equal(made.values, middle)
        else:
            np.testing.assert_allclose(made.values, reference(values, made.factor, hide), rtol=1e-6)


def test_an_overview_that_is_not_reduced_is_exact() -> None:
    values = np.array([[1.5, np.nan], [np.inf, -7.0]])
    array = frazil.create_array(MemoryStore(), data=values)
    np.testing.assert_array_equal(overview(window(array), 2).values, values)
    hidden = overview(window(array), 2, hide=np.float64(-7)).values
    np.testing.assert_array_equal(hidden, [[1.5, np.nan], [np.inf, np.nan]])


def test_refusals() -> None:
    array = frazil.create_array(MemoryStore(), shape=(3, 4, 5), dtype="f4")
    with pytest.raises(SelectionError, match="two dimensions") as refused:
        overview(window(array), 10)
    assert refused.value.hint is not None
    assert '"0, :, :"' in refused.value.hint
    with pytest.raises(SelectionError):
        overview(window(array, (0, 0)), 10)
    with pytest.raises(SelectionError, match="frazil get"):
        overview(window(frazil.create_array(MemoryStore(), shape=(5,), dtype="u1")), 10)
    with pytest.raises(SelectionError, match="not empty"):
        overview(window(array, (0, slice(0, 0))), 10)
    with pytest.raises(InvalidInputError, match="size"):
        overview(window(array, (0,)), 0)
    with pytest.raises(InvalidInputError, match="drawn"):
        overview(window(frazil.create_array(MemoryStore(), shape=(3, 4), dtype="r16")), 10)
