"""Numbers as pixels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.operations.view.canvas import Pixels
from frazil.operations.view.colours import COLOUR_MAPS, colour_table, entry_colours
from frazil.operations.view.picture import MISSING, colour_scale, raster

MAPS = [name for name in COLOUR_MAPS if name != "codes"]


def draw(values: np.ndarray, colours: str = "dusk", **options: object) -> Pixels:
    return raster(values, colour_scale(values, colours, **options))


@pytest.mark.parametrize("name", MAPS)
def test_colour_maps_are_smooth(name: str) -> None:
    table = colour_table(name).astype(int)
    assert table.shape == (256, 3)
    assert np.abs(np.diff(table, axis=0)).max() <= 8
    assert len({tuple(colour) for colour in table.tolist()}) > 120
    luminance = table @ [0.2126, 0.7152, 0.0722]
    if name != "balance":  # light in the middle
        assert (np.diff(luminance) > -0.5).all()
        assert luminance[-1] - luminance[0] > 100


def test_an_unknown_colour_map() -> None:
    for name in ("sepia", "codes"):
        with pytest.raises(InvalidInputError, match=name):
            colour_table(name)


def test_codes_have_colours_that_differ() -> None:
    colours = entry_colours("codes", 64).astype(int)
    assert len(np.unique(colours, axis=0)) == 64
    assert np.abs(np.diff(colours, axis=0)).sum(axis=1).min() > 60
    assert np.abs(colours - MISSING).sum(axis=1).min() > 40


def test_pixels_are_the_colours_of_their_values() -> None:
    values = np.linspace(-3, 9, 600 * 700).reshape(600, 700)
    values[5, 7] = np.nan
    table = colour_table("ice")
    picture = draw(values, "ice")
    assert (picture.dtype, picture.shape) == (np.uint8, (600, 700, 3))
    np.testing.assert_array_equal(picture[5, 7], MISSING)
    np.testing.assert_array_equal(picture[0, 0], table[0])
    np.testing.assert_array_equal(picture[599, 699], table[255])
    np.testing.assert_array_equal(picture[300, 0], table[127])


def test_limits() -> None:
    values = np.array([[-100.0, 0.0, 5.0, 10.0, np.inf]])
    picture = draw(values, "grey", low=0, high=10)
    np.testing.assert_array_equal(picture[0], colour_table("grey")[[0, 0, 127, 255, 255]])
    for low, high in ((3, 2), (math.nan, 1), (0, math.inf), (200, None)):
        with pytest.raises(InvalidInputError, match="colours"):
            draw(values, low=low, high=high)


def test_transparent() -> None:
    picture = draw(np.array([[np.nan, 1.0], [2.0, 3.0]]), transparent=True)
    assert picture[..., 3].tolist() == [[0, 255], [255, 255]]


@given(st.sets(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=16), st.booleans())
def test_few_values_have_a_colour_each(values: set[float], transparent: bool) -> None:
    """Evenly spaced, so that near values differ."""
    ordered = np.array([*sorted(values), np.nan])
    scale = colour_scale(ordered[None], "grey", transparent=transparent)
    spaced = colour_table("grey")[np.arange(len(values)) * 255 // (len(values) - 1)]
    np.testing.assert_array_equal(scale.entries, ordered[:-1])
    np.testing.assert_array_equal(raster(ordered[None], scale)[0, :-1, :3], spaced)


def test_many_values_and_given_limits_have_all_colours() -> None:
    for values, low in ((np.arange(17.0), None), (np.arange(3.0), 0.0), (np.array([0, 1, np.inf]), None)):
        scale = colour_scale(values[None], "grey", low=low)
        assert scale.entries is None
        assert len(scale.colours) == 256
    assert colour_scale(np.arange(64.0)[None], "codes").entries is not None
    with pytest.raises(InvalidInputError, match="codes"):
        colour_scale(np.arange(65.0)[None], "codes")


ODD = [[[math.nan]], [[0.0]], [[7.0, 7.0]], [[math.inf]], [[1e308, -1e308]], [[5e-324, 0.0]], [[1.0, 1.0 + 2**-52]]]


@pytest.mark.parametrize("values", ODD)
def test_odd_values_are_drawn(values: list[list[float]]) -> None:
    assert draw(np.array(values)).shape[:2] == np.array(values).shape
