"""Colour maps from numbers between 0 and 1 to colours whose lightness changes evenly, and colours of codes, made in the OKLab colour space. picture.py applies
them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError

# Stops from 0 to 1, evenly spaced: lightness 0 to 1, chroma, hue in degrees; between them a straight line through OKLab.
_STOPS: Final[dict[str, tuple[tuple[float, float, float], ...]]] = {
    "dusk": (
        (0.25, 0.10, 305),
        (0.36, 0.11, 285),
        (0.48, 0.09, 250),
        (0.60, 0.09, 200),
        (0.72, 0.13, 155),
        (0.83, 0.16, 125),
        (0.94, 0.17, 108),
    ),
    "ice": ((0.20, 0.06, 270), (0.40, 0.11, 262), (0.60, 0.12, 245), (0.80, 0.07, 220), (0.98, 0.01, 200)),
    "ember": ((0.15, 0.02, 300), (0.35, 0.11, 340), (0.55, 0.17, 25), (0.75, 0.15, 60), (0.97, 0.06, 105)),
    "balance": ((0.40, 0.13, 260), (0.68, 0.09, 245), (0.96, 0.00, 0), (0.68, 0.12, 40), (0.40, 0.14, 25)),
    "land": ((0.42, 0.09, 250), (0.86, 0.06, 115)),
    "grey": ((0.0, 0.0, 0), (1.0, 0.0, 0)),
}
CODES: Final = "codes"  # a colour for each of a few values without a meaningful order
COLOUR_MAPS: Final = (*_STOPS, CODES)
MOST_CODES: Final = 64
_GOLDEN: Final = 137.50776  # degrees: each hue is far from those before it

_TO_LMS = ((1.0, 0.3963377774, 0.2158037573), (1.0, -0.1055613458, -0.0638541728), (1.0, -0.0894841775, -1.2914855480))
_TO_LINEAR = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)


def colour_table(name: str) -> NDArray[np.uint8]:
    """The 256 colours of a map, uint8[256, 3] (sRGB). Raises InvalidInputError for an unknown name, and for "codes", which has no order."""
    if name not in _STOPS:
        raise InvalidInputError(
            f"there is no colour map {name!r} of many colours",
            hint=f"there are {', '.join(_STOPS)}; {CODES} is for at most {MOST_CODES} distinct values",
        )
    lightness, chroma, hue = np.array(_STOPS[name]).T
    stops = np.stack((lightness, chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))), axis=1)
    at = np.linspace(0, len(stops) - 1, 256)
    return _srgb(np.stack([np.interp(at, np.arange(len(stops)), stops[:, i]) for i in range(3)], axis=1))


def entry_colours(name: str, count: int) -> NDArray[np.uint8]:
    """Colours for `count` values, uint8[count, 3]: evenly spaced ones of a map, or for "codes" distinct ones. Raises InvalidInputError for an unknown name."""
    if name != CODES:
        return colour_table(name)[np.arange(count) * 255 // max(1, count - 1)]
    number = np.arange(count)
    hue = np.radians(250 + number * _GOLDEN)
    lightness, chroma = 0.56 + 0.1 * (number % 3), 0.14 - 0.03 * (number % 2)
    return _srgb(np.stack((lightness, chroma * np.cos(hue), chroma * np.sin(hue)), axis=1))


def _srgb(lab: NDArray[np.float64]) -> NDArray[np.uint8]:
    linear = ((lab @ np.array(_TO_LMS).T) ** 3 @ np.array(_TO_LINEAR).T).clip(0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    table: NDArray[np.uint8] = np.rint(srgb * 255).astype(np.uint8)
    return table
