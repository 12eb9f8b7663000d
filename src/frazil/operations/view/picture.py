"""Numbers to pixels, with a colour bar beside them, or a legend where the distinct values are few. How numbers are read is overview.py's, the file png.py's."""

from __future__ import annotations

from math import ceil, floor, isfinite, log10
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.operations.view.colours import colour_table

Pixels = NDArray[np.uint8]

MISSING: Final = (190, 190, 190)
_INK: Final = (40, 40, 40)
_PAPER: Final = (255, 255, 255)
_LEAST_SIDE = 512  # smaller pictures are enlarged, a square of pixels for each number
_LEAST_BAR = 96
_ROWS_AT_ONCE = 256
_MOST_ENTRIES = 8  # distinct values that a legend lists

# Glyphs of 5 x 7 pixels, a row of five bits each.
_GLYPHS: Final[dict[str, str]] = {
    "0": "0e 11 13 15 19 11 0e",
    "1": "04 0c 04 04 04 04 0e",
    "2": "0e 11 01 06 08 10 1f",
    "3": "1f 02 04 02 01 11 0e",
    "4": "02 06 0a 12 1f 02 02",
    "5": "1f 10 1e 01 01 11 0e",
    "6": "06 08 10 1e 11 11 0e",
    "7": "1f 01 02 04 08 08 08",
    "8": "0e 11 11 0e 11 11 0e",
    "9": "0e 11 11 0f 01 02 0c",
    ".": "00 00 00 00 00 0c 0c",
    "-": "00 00 00 0e 00 00 00",
    "+": "00 04 04 1f 04 04 00",
    "e": "00 00 0e 11 1f 10 0e",
}


def draw(
    values: NDArray[np.float64],
    colours: str = "dusk",
    *,
    low: float | None = None,
    high: float | None = None,
    transparent: bool = False,
) -> Pixels:
    """values: float64[height, width], NaN where there is nothing to show (grey, or transparent). low, high: the values of the first and the last
    colour; None: the least and the greatest there is, and a legend in place of the colour bar where there are at most 8 values. uint8[..., ..., 3], or 4 where transparent. Raises InvalidInputError for limits that are none."""
    entries = _few(values) if low is None and high is None else None
    low, high = _limits(values, low, high)
    table = np.concatenate((colour_table(colours), (MISSING,))).astype(np.uint8)
    alpha = np.where(np.arange(257) == 256, 0, 255).astype(np.uint8)[:, None]
    table = np.concatenate((table, alpha), axis=1) if transparent else table
    picture = np.empty((*values.shape, table.shape[1]), np.uint8)
    for top in range(0, len(values), _ROWS_AT_ONCE):
        rows = values[top : top + _ROWS_AT_ONCE]
        levels = _levels(rows, low, high) if entries is None else _entry_levels(rows, entries)
        picture[top : top + _ROWS_AT_ONCE] = table[levels]
    enlarge = max(1, _LEAST_SIDE // max(values.shape))
    picture = picture.repeat(enlarge, axis=0).repeat(enlarge, axis=1)
    height = max(_LEAST_BAR, picture.shape[0])
    bar = _colour_bar(table[:256], low, high, height) if entries is None else _legend(table, entries, height)
    paper = np.full((bar.shape[0], picture.shape[1], picture.shape[2]), 255, np.uint8)
    paper[: picture.shape[0]] = picture
    return np.concatenate((paper, bar), axis=1)


def extremes(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """The least and the greatest of the finite values; None where there are none."""
    finite = np.isfinite(values)
    if not finite.any():
        return None
    return float(values.min(where=finite, initial=np.inf)), float(values.max(where=finite, initial=-np.inf))


def _limits(values: NDArray[np.float64], low: float | None, high: float | None) -> tuple[float, float]:
    least, greatest = extremes(values) or (0.0, 1.0)
    low, high = least if low is None else low, greatest if high is None else high
    if not (isfinite(low) and isfinite(high)) or low > high:
        raise InvalidInputError(
            f"the colours cannot run from {low:g} to {high:g}", hint="choose a minimum below the maximum"
        )
    if not high / 2 - low / 2:  # all values are the same
        low, high = low - max(0.5, abs(low) / 2), high + max(0.5, abs(high) / 2)
    return low, high


def _levels(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.intp]:
    """The row of the table for each value; 256 where it is NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        # in halves, as the distance of two float64 may be infinite
        part = (values / 2 - low / 2) / (high / 2 - low / 2)
        levels = np.floor(np.nan_to_num(part, nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1) * 255.999)
    return np.where(np.isnan(values), 256, levels).astype(np.intp)


def _few(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The distinct values in ascending order, without NaN; None where there are none, more than a legend lists, or infinite ones."""
    found = np.empty(0)
    for top in range(0, len(values), _ROWS_AT_ONCE):
        rows = values[top : top + _ROWS_AT_ONCE]
        found = np.union1d(found, rows[~np.isnan(rows)])
        if len(found) > _MOST_ENTRIES or np.isinf(found).any():
            return None
    return found if len(found) else None


def _entry_levels(values: NDArray[np.float64], entries: NDArray[np.float64]) -> NDArray[np.intp]:
    """The row of the table for each value: those of the entries are evenly spaced, whatever their distance; 256 where it is NaN."""
    levels = np.searchsorted(entries, values) * 255 // max(1, len(entries) - 1)
    return np.where(np.isnan(values), 256, levels).astype(np.intp)


def _legend(table: Pixels, entries: NDArray[np.float64], height: int) -> Pixels:
    """A strip of paper with a square of colour for each entry, the greatest at the top, and its value beside it."""
    scale = _scale(height)
    margin, side, line = 4 * scale, 9 * scale, 11 * scale
    labels = [_entry_label(value) for value in entries.tolist()]
    width = margin + side + 3 * scale + 6 * scale * max(map(len, labels)) + margin
    strip = np.full((height, width, table.shape[1]), 255, np.uint8)
    for i, (level, label) in enumerate(zip(_entry_levels(entries, entries)[::-1], labels[::-1], strict=True)):
        top = margin + line * i
        strip[top : top + side, margin : margin + side] = table[level]
        _write(strip, label, top + scale, margin + side + 3 * scale, scale)
    return strip


def _entry_label(value: float) -> str:
    """Whole numbers in full, as they may be codes; others so that they read back as the same."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e9 else f"{value!r}"


def _scale(height: int) -> int:
    """Pixels to one of a glyph, beside a picture of this height."""
    return 1 if height < 300 else 2 if height < 1200 else 3


def _colour_bar(table: Pixels, low: float, high: float, height: int) -> Pixels:
    """A strip of paper with the colours from low, at the bottom, to high, and a few round values beside them."""
    scale = _scale(height)
    margin, bar_width, tick = 6 * scale, 10 * scale, 3 * scale
    labels = ticks(low, high, max(2, min(7, height // (28 * scale))))
    width = margin + bar_width + tick + scale * (2 + 6 * max(len(text) for _, text in labels)) + margin
    strip = np.full((height, width, table.shape[1]), 255, np.uint8)
    strip[..., :3] = _PAPER
    top, bottom = margin, height - margin  # rows of the colours
    colours = table[::-1][(np.arange(bottom - top) * 256) // (bottom - top)]
    strip[top:bottom, margin : margin + bar_width] = colours[:, None]
    right = margin + bar_width + tick
    for value, text in labels:
        row = bottom - 1 - round((value / 2 - low / 2) / (high / 2 - low / 2) * (bottom - top - 1))
        strip[max(top, row - scale // 2) : row - scale // 2 + scale, right - tick : right, :3] = _INK
        upper = min(max(row - 7 * scale // 2, 0), height - 7 * scale)
        _write(strip, text, upper, right + 2 * scale, scale)
    return strip


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round values (1, 2 or 5 times a power of ten apart) from low to high, at most about `most`, and how they are written; both ends where no round
    value is between them."""
    rough = (high / most - low / most) or 5e-324
    power = floor(log10(rough))
    step = next((m * 10.0**power for m in (1, 2, 5, 10) if m * 10.0**power >= rough * 0.999), 10.0 ** (power + 1))
    if not step or not isfinite(low / step) or abs(low / step) > 2**52 or abs(high / step) > 2**52:
        return [(low, f"{low:.3g}"), (high, f"{high:.3g}")]
    values = [number * step for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
    if len(values) < 2:
        return [(low, f"{low:.4g}"), (high, f"{high:.4g}")]
    return [(min(max(value, low), high), _label(value, step)) for value in values]


def _label(value: float, step: float) -> str:
    if step >= 1e-4 and abs(value) < 1e6:
        text = f"{value:.{max(0, -floor(log10(step) + 1e-9))}f}"
        return text if float(text) else text.lstrip("-")
    digits = max(0, floor(log10(abs(value)) + 1e-9) - floor(log10(step) + 1e-9)) if value else 0
    return f"{value:.{min(digits, 6)}e}" if value else "0"


def _write(strip: Pixels, text: str, top: int, left: int, scale: int) -> None:
    for i, character in enumerate(text):
        bits = np.array(
            [[int(row, 16) >> (4 - x) & 1 for x in range(5)] for row in _GLYPHS[character].split()], np.bool_
        )
        ink = bits.repeat(scale, axis=0).repeat(scale, axis=1)
        x = left + 6 * scale * i
        strip[top : top + 7 * scale, x : x + 5 * scale, :3][ink] = _INK
