"""Everything around the pixels: title, axes, colour bars and legends."""

from __future__ import annotations

import numpy as np
import pytest
from tests.operations.pictures import places, written
from tests.operations.view.test_picture import ODD

from frazil.operations.view.axes import Axis, coordinate_text
from frazil.operations.view.canvas import INK, Pixels, blank, write
from frazil.operations.view.colour_bar import colour_bar, legend
from frazil.operations.view.coordinates import Caption
from frazil.operations.view.figure import draw_bare, draw_figure
from frazil.operations.view.glyphs import GLYPHS
from frazil.operations.view.picture import colour_scale, raster
from frazil.operations.view.text import line_height, text_coverage


def axis(count: int, **options: object) -> Axis:
    return Axis(np.arange(float(count)), "cells", **options)


def figure(values: np.ndarray, rows: Axis, columns: Axis, **words: str) -> Pixels:
    scale = colour_scale(values, "dusk")
    return draw_figure(values, scale, Caption(words.get("title", ""), words.get("subtitle", ""), (rows, columns)), 1)


@pytest.mark.parametrize("size", [9, 11, 20, 28])
def test_every_character_has_a_glyph_of_its_own(size: int) -> None:
    drawn = {character: text_coverage(character, size) for character in GLYPHS if character != " "}
    assert set(map(chr, range(32, 127))) <= GLYPHS.keys()
    assert len({coverage.tobytes() for coverage in drawn.values()}) == len(drawn)
    for coverage in drawn.values():
        assert coverage.shape[0] == line_height(size)
        assert coverage.max() > 0.5
        assert 0 <= coverage.min() < 0.01
        assert max(coverage[0].max(), coverage[-1].max(), coverage[:, -1].max()) < 0.5  # nothing is cut off


def test_characters_without_a_glyph() -> None:
    np.testing.assert_array_equal(text_coverage("é\u00a0Å", 12), text_coverage("e A", 12))
    assert text_coverage("海", 12).any()
    assert text_coverage("", 12).shape == (line_height(12), 0)
    assert not text_coverage("\n", 12).any()


def test_long_text_is_cut() -> None:
    np.testing.assert_array_equal(text_coverage("x" * 100_000, 9), text_coverage("x" * 197 + "...", 9))
    assert text_coverage("x" * 200, 9).shape[1] > 100


@pytest.mark.parametrize(
    "times",
    [
        np.arange(100).astype("M8[Y]"),
        np.arange(-600, 600).astype("M8[M]"),
        np.linspace(-9e18, 9e18, 100).astype(np.int64).astype("M8[s]"),
        np.array([-(2**40), *range(98), 2**40]).astype("M8[D]"),
        np.array([*range(99), 2**62]).astype("M8[Y]"),
        np.arange(100).astype("M8"),
    ],
    ids=lambda times: f"{times.dtype} {times[-1].astype(np.int64)}",
)
def test_times_of_any_unit_and_year_have_ticks(times: np.ndarray) -> None:
    found = Axis(times, "time").ticks(5)
    assert 2 <= len(found) <= 6
    assert all(0 <= place <= len(times) and text for place, text in found)


def test_text_is_cut_off_at_the_edges() -> None:
    text = text_coverage("frazil", 12)
    for top, left in ((-5, -5), (35, 35), (-100, 0), (0, 100), (100, -100)):
        canvas = blank(40, 40, 4)
        write(canvas, text, top, left)
        assert (canvas[..., 3] == 255).all()


def test_values_are_drawn_with_all_words() -> None:
    values = np.add.outer(np.arange(600.0), np.arange(700.0))
    drawn = figure(values, axis(600), axis(700), title="sea (m)", subtitle="level = 500")
    pixels = raster(values, colour_scale(values, "dusk"))
    ((top, left),) = places(drawn, pixels)
    (title,) = places(drawn, written(text_coverage("sea (m)", 12)))
    assert title[0] < places(drawn, written(text_coverage("level = 500", 9)))[0][0] < top
    assert title[1] == left
    assert len(places(drawn, written(text_coverage("cells", 9)))) == 1
    assert len(places(drawn, np.rot90(written(text_coverage("cells", 9))))) == 1
    np.testing.assert_array_equal(drawn[top - 1, left : left + 700], [INK] * 700)


def test_a_tick_is_at_the_middle_of_its_element() -> None:
    values = np.arange(600.0 * 500).reshape(600, 500)
    drawn = figure(values, axis(600), axis(500))
    ((top, left),) = places(drawn, raster(values, colour_scale(values, "dusk")))
    below = (drawn[top + 600 + 2, left : left + 500] == INK).all(axis=1)
    assert np.flatnonzero(below).tolist() == list(range(0, 500, 50))
    beside = (drawn[top : top + 600, left - 3] == INK).all(axis=1)
    assert np.flatnonzero(beside).tolist() == list(range(0, 600, 50))


def test_greater_values_of_a_coordinate_are_above() -> None:
    values = np.arange(600.0 * 500).reshape(600, 500)
    scale = colour_scale(values, "dusk")
    for rows, upwards in ((axis(600, upwards=True), True), (axis(600), False)):
        drawn = figure(values, rows, axis(500))
        assert rows.reverses == upwards
        assert len(places(drawn, raster(values[::-1] if upwards else values, scale))) == 1
    assert not Axis(np.arange(600.0)[::-1], "", upwards=True).reverses


def test_small_and_thin_pictures_are_enlarged() -> None:
    values = np.array([[0.0, 1.0, 2.0]])
    scale = colour_scale(values, "dusk")
    bare = draw_bare(values, scale)
    assert bare.shape == (171, 513, 3)
    assert (bare[:, 171:342] == scale.colours[1]).all()
    wide = np.arange(1000.0)[None]
    pixels = raster(wide, colour_scale(wide, "dusk")).repeat(333, axis=0)
    assert len(places(figure(wide, axis(1), axis(1000)), pixels)) == 1


def test_a_colour_bar_has_every_colour_in_order() -> None:
    scale = colour_scale(np.arange(100.0)[None], "ice")
    strip = colour_bar(scale.colours, 0, 99, 512, 10)
    above = line_height(10) // 2
    np.testing.assert_array_equal(strip[above : above + 512, 15], scale.colours[::-1].repeat(2, axis=0))
    for text in ("0", "20", "80"):
        assert places(strip, written(text_coverage(text, 10)))


def test_a_legend_has_the_meanings_of_values() -> None:
    colours = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90]], np.uint8)
    drawn = legend(colours, np.array([-1, 0.5, 3e12]), {-1.0: "land"}, 300, 10)
    tops = [np.argwhere((drawn == colour).all(axis=2))[0].tolist() for colour in colours[::-1]]
    assert tops == sorted(tops)
    for text in ("-1  land", "0.5", "3000000000000.0"):
        assert len(places(drawn, written(text_coverage(text, 10)))) == 1
    many = np.arange(64.0)
    drawn = legend(colour_scale(many[None], "codes").colours, many, {}, 200, 10)
    assert drawn.shape[0] <= 220
    assert len(places(drawn, written(text_coverage("63", 10)))) == 1


def test_axes_label_what_is_there() -> None:
    assert Axis(np.array(["a", "b" * 40]), "").ticks(4) == [(0.5, "a"), (1.5, f"{'b' * 21}...")]
    assert Axis(np.array([3.0, 1.0, 2.0]), "").ticks(9) == [(0.5, "3"), (1.5, "1"), (2.5, "2")]
    assert Axis(np.array([np.nan] * 50), "").ticks(2) == [(0.5, "nan"), (25.5, "nan")]
    assert Axis(np.arange(100.0)[::-1], "").ticks(4)[:2] == [(99.5, "0"), (49.5, "50")]
    uneven = Axis(np.array([0.0, 1, 3, 10, 30, 100]), "").ticks(2)
    assert uneven == [(0.5, "0"), (5.5, "100")] or len(uneven) > 2
    days = np.datetime64("2020-01-30", "ns") + np.arange(20) * np.timedelta64(12, "h")
    assert Axis(days, "").ticks(4) == [(4.5 + 4 * i, f"2020-02-0{1 + 2 * i}") for i in range(4)]
    assert coordinate_text(np.datetime64("2020-01-30T12:00", "ns")) == "2020-01-30 12:00"
    assert coordinate_text(np.datetime64("2020-01-30T00:00:07")) == "2020-01-30 00:00:07"
    assert coordinate_text(np.datetime64("NaT", "s")) == "NaT"


@pytest.mark.parametrize("values", ODD)
def test_odd_values_are_drawn(values: list[list[float]]) -> None:
    numbers = np.array(values)
    assert figure(numbers, axis(numbers.shape[0]), axis(numbers.shape[1])).shape[0] >= 96
