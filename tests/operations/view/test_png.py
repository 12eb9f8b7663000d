"""Pixels through a PNG file and back, with the tests' own decoder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tests.operations.pictures import decode_png

from frazil.errors import InvalidInputError
from frazil.operations.view.png import encode_png

shapes = st.tuples(array_shapes(min_dims=2, max_dims=2, max_side=12), st.sampled_from([1, 3, 4]))


@given(shapes.flatmap(lambda shape: arrays(np.uint8, (*shape[0], shape[1]))))
def test_any_pixels_round_trip(pixels: np.ndarray) -> None:
    np.testing.assert_array_equal(decode_png(encode_png(pixels)), pixels)


def test_more_than_one_strip() -> None:
    rows, columns = np.mgrid[:3000, :700]
    pixels = np.stack((rows % 251, columns % 256, (rows + columns) // 5 % 256), axis=2).astype(np.uint8)
    data = encode_png(pixels)
    np.testing.assert_array_equal(decode_png(data), pixels)
    assert len(data) < pixels.nbytes / 20  # smooth pictures are filtered


def test_pixels_with_any_strides_are_encoded() -> None:
    pixels = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    np.testing.assert_array_equal(decode_png(encode_png(pixels[::-1, ::2])), pixels[::-1, ::2])


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (4, 4, 2), (4, 4), (4, 4, 3, 1)])
def test_empty_pictures_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="picture"):
        encode_png(np.zeros(shape, np.uint8))


def test_other_pixels_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="float64"):
        encode_png(np.zeros((2, 2, 3)))  # type: ignore[arg-type]
