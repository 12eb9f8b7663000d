"""Converts text to the coverage of pixels: the strokes of glyphs.py drawn with a round pen, at any size. figure.py places text on a picture."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.operations.view.glyphs import GLYPHS, UNKNOWN

Coverage = NDArray[np.float32]

_CAPITAL: Final = 12  # units of the height of capital letters
_TOP: Final = 17  # of the highest point, from the lowest of descenders
_MARGIN: Final = 1.6  # above and below
_SPACE: Final = 5.0
_GAP: Final = 3.8  # between characters
_PEN: Final = 0.068  # half the width of strokes, relative to the height of capitals
_LONGEST: Final = 200  # characters, as attributes may have any number
_CURVE: Final = np.linspace(0, 1, 9)[:, None]  # points of each piece of a curve


def text_coverage(text: str, size: int) -> Coverage:
    """How much of each pixel the text covers, float32[height, width] from 0 to 1; one row of the same height for all texts of a size, cut to the width of this
    one.

    size  height of a capital letter, in pixels. Letters with accents are drawn without them, other characters without a glyph as a box. A longer text is cut to
          200 characters, the last three of them periods."""
    plain = "".join(map(_plain, text[: _LONGEST + 1]))
    if len(plain) > _LONGEST:
        plain = f"{plain[: _LONGEST - 3]}..."
    parts = [_glyph(character, size) for character in plain]
    return np.concatenate(parts, axis=1) if parts else np.zeros((line_height(size), 0), np.float32)


def line_height(size: int) -> int:
    """Rows of a text of this size."""
    return ceil(size * (_TOP + 2 * _MARGIN) / _CAPITAL)


def _plain(character: str) -> str:
    if character in GLYPHS:
        return character
    if character.isspace():
        return " "
    decomposed = unicodedata.normalize("NFKD", character)
    return "".join(part for part in decomposed if not unicodedata.combining(part))


@lru_cache(4096)
def _glyph(character: str, size: int) -> Coverage:
    scale = size / _CAPITAL
    segments = [segment for stroke in GLYPHS.get(character, UNKNOWN).split() for segment in _segments(stroke)]
    widest = max((float(x) for line in segments for x in line[:, 0]), default=_SPACE - _GAP)
    width = ceil((widest + _GAP) * scale)
    pen = max(0.55, _PEN * size)
    y, x = np.mgrid[: line_height(size), :width]
    position = np.stack((x + 0.5 - _GAP / 2 * scale, (_TOP + _MARGIN) * scale - y - 0.5), axis=-1) / scale
    distance = np.full(y.shape, np.inf)
    for start, end in segments:
        along = end - start
        length = float(along @ along)
        at = ((position - start) @ along / length).clip(0, 1) if length else np.zeros(y.shape)
        distance = np.minimum(distance, np.hypot(*np.moveaxis(position - start - at[..., None] * along, -1, 0)))
    coverage: Coverage = (pen - distance * scale + 0.5).clip(0, 1).astype(np.float32)
    return coverage


def _segments(stroke: str) -> list[NDArray[np.float64]]:
    """Straight pieces, float64[2, 2] each: start and end."""
    kind, digits = (stroke[0], stroke[1:]) if stroke[0] in "~*" else ("", stroke)
    points = np.array([[int(digit, 36) for digit in digits[i : i + 2]] for i in range(0, len(digits), 2)], np.float64)
    if kind:
        points = _curve(points, closed=kind == "*")
    return [points[i : i + 2] for i in range(len(points) - 1)]


def _curve(points: NDArray[np.float64], *, closed: bool) -> NDArray[np.float64]:
    """A quadratic spline: it touches the middle of each line between two control points. An open one begins and ends at its first and last point."""
    if closed:
        points = np.concatenate((points, points[:2]))
    ends = (points[1:] + points[:-1]) / 2
    if not closed:
        ends[0], ends[-1] = points[0], points[-1]
    pieces = [
        (1 - _CURVE) ** 2 * ends[i] + 2 * _CURVE * (1 - _CURVE) * points[i + 1] + _CURVE**2 * ends[i + 1]
        for i in range(len(ends) - 1)
    ]
    return np.concatenate(pieces)
