"""What becomes of numbers as pixels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.operations.view.colours import COLOUR_MAPS, colour_table
from frazil.operations.view.picture import MISSING, draw, ticks


@pytest.mark.parametrize("name", COLOUR_MAPS)
def test_colour_maps_are_smooth(name: str) -> None:
    table = colour_table(name).astype(int)
    assert table.shape == (256, 3)
    assert np.abs(np.diff(table, axis=0)).max() <= 8
    assert len({tuple(colour) for colour in table.tolist()}) > 120
    luminance = table @ [0.2126, 0.7152, 0.0722]
    if name != "balance":  # light in the middle
        assert (np.diff(luminance) > -0.5).all()
        assert luminance[-1] - luminance[0] > 100


def test_no_such_map() -> None:
    with pytest.raises(InvalidInputError, match="sepia"):
        colour_table("sepia")


def test_pixels_are_the_colours_of_their_values() -> None:
    values = np.linspace(-3, 9, 600 * 700).reshape(600, 700)
    values[5, 7] = np.nan
    table = colour_table("ice")
    picture = draw(values, "ice")
    assert picture.dtype == np.uint8
    assert picture.shape[0] == 600
    np.testing.assert_array_equal(picture[5, 7], MISSING)
    np.testing.assert_array_equal(picture[0, 0], table[0])
    np.testing.assert_array_equal(picture[599, 699], table[255])
    np.testing.assert_array_equal(picture[300, 0], table[127])
    bar = picture[:, 700:]
    assert (bar == table[255]).all(axis=2).any()
    assert (bar == table[0]).all(axis=2).any()


def test_limits() -> None:
    values = np.array([[-100.0, 0.0, 5.0, 10.0, np.inf]]).repeat(600, axis=0)
    table = colour_table("grey")
    picture = draw(values, "grey", low=0, high=10)
    np.testing.assert_array_equal(picture[0, :5], table[[0, 0, 127, 255, 255]])
    for low, high in ((3, 2), (math.nan, 1), (0, math.inf), (200, None)):
        with pytest.raises(InvalidInputError, match="colours"):
            draw(values, low=low, high=high)


def test_transparent() -> None:
    picture = draw(np.array([[np.nan, 1.0], [2.0, 3.0]]).repeat(300, 0).repeat(300, 1), transparent=True)
    assert picture.shape[2] == 4
    assert picture[0, 0, 3] == 0
    assert (picture[300:600, :600, 3] == 255).all()
    assert (picture[:, 600:, 3] == 255).all()


def test_small_pictures_are_enlarged() -> None:
    picture = draw(np.array([[0.0, 1.0, 2.0]]))
    assert (picture[:170, :170] == colour_table("dusk")[0]).all()
    assert (picture[:170, 340:510] == colour_table("dusk")[255]).all()


@given(st.sets(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=8), st.booleans())
def test_few_values_have_a_legend(values: set[float], transparent: bool) -> None:
    """Each value has a colour of its own, which is in the picture and in the legend; evenly spaced, so that near values differ."""
    ordered = np.array([*sorted(values), np.nan])
    picture = draw(ordered[None], "grey", transparent=transparent)
    side = 512 // len(ordered)
    shown = [tuple(picture[0, side * i + side // 2].tolist()) for i in range(len(values))]
    spaced = colour_table("grey")[np.arange(len(values)) * 255 // (len(values) - 1)]
    np.testing.assert_array_equal(np.array(shown)[:, :3], spaced)
    legend = {tuple(colour) for colour in picture[:, side * len(ordered) :].reshape(-1, picture.shape[2]).tolist()}
    assert legend == {*shown, (255,) * picture.shape[2], (40, 40, 40, 255)[: picture.shape[2]]}


def test_many_values_and_given_limits_have_a_bar() -> None:
    for values, low in ((np.arange(9.0), None), (np.arange(3.0), 0.0), (np.array([0, 1, np.inf]), None)):
        picture = draw(values[None], "grey", low=low)
        assert len(np.unique(picture[:, 512 // len(values) * len(values) :, 0])) > 40


@pytest.mark.parametrize(
    "values",
    [[[math.nan]], [[0.0]], [[7.0, 7.0]], [[math.inf]], [[1e308, -1e308]], [[5e-324, 0.0]], [[1.0, 1.0 + 2**-52]]],
)
def test_odd_values_are_drawn(values: list[list[float]]) -> None:
    assert draw(np.array(values)).shape[0] >= 96


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(2, 9),
)
def test_ticks(first: float, second: float, most: int) -> None:
    low, high = min(first, second), max(first, second)
    if low == high:
        return
    labels = ticks(low, high, most)
    assert 2 <= len(labels) <= 2 * most + 2
    assert all(low <= value <= high for value, _ in labels)
    assert [value for value, _ in labels] == sorted(value for value, _ in labels)
    assert all(set(text) <= set("0123456789.-+e") for _, text in labels)
    far = high / 2 - low / 2
    for value, text in labels:
        assert abs(float(text) / 2 - value / 2) <= far / 20 + abs(value) * 1e-2 + 5e-324


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-1, 1, ["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
        (0, 65535, ["0", "20000", "40000", "60000"]),
        (0, 4e9, ["0", "1e+09", "2e+09", "3e+09", "4e+09"]),
        (3, 3.5, ["3.0", "3.1", "3.2", "3.3", "3.4", "3.5"]),
    ],
)
def test_labels_people_read(low: float, high: float, texts: list[str]) -> None:
    assert [text for _, text in ticks(low, high, 5)] == texts
