"""Converts numbers to pixels with their colours. figure.py draws axes and legends, overview.py reads the numbers, png.py makes the file."""

from __future__ import annotations

from math import isfinite
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.base import arrays
from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.operations.view.canvas import Pixels
from frazil.operations.view.colours import CODES, MOST_CODES, colour_table, entry_colours

MISSING: Final = (190, 190, 190)
_ROWS_AT_ONCE: Final = 256
_MOST_ENTRIES: Final = 16  # distinct values that a legend lists if they are not codes


class Scale(Record):
    """The mapping from numbers to colours.

    colours  uint8[n, 3 or 4]: of the values from low to high, or one for each entry;  missing: of NaN
    entries  the distinct values, ascending, if they are few; None: all values from low to high"""

    colours: Pixels
    missing: Pixels
    low: float
    high: float
    entries: NDArray[np.float64] | None


def colour_scale(
    values: NDArray[np.float64],
    colours: str,
    *,
    low: float | None = None,
    high: float | None = None,
    transparent: bool = False,
) -> Scale:
    """The scale of values, NaN where there is nothing to show (grey, or transparent).

    low, high  the values of the first and the last colour; None: the least and the greatest value. Without both, up to 16 distinct values (64 for "codes") have
               a colour each, evenly spaced
    Raises InvalidInputError for invalid limits, and for too many values for "codes"."""
    most = MOST_CODES if colours == CODES else _MOST_ENTRIES
    entries = distinct(values, most) if low is None and high is None else None
    low, high = _limits(values, low, high)
    table = colour_table(colours) if entries is None else entry_colours(colours, len(entries))
    missing = np.array(MISSING, np.uint8)
    if transparent:
        table, missing = np.pad(table, ((0, 0), (0, 1)), constant_values=255), np.append(missing, np.uint8(0))
    return Scale(table, missing, low, high, entries)


def raster(values: NDArray[np.float64], scale: Scale) -> Pixels:
    """A pixel for each value, uint8[height, width, 3 or 4]. values: float64[height, width]"""
    table = np.concatenate((scale.colours, scale.missing[None]))
    picture = np.empty((*values.shape, table.shape[1]), np.uint8)
    for top in range(0, len(values), _ROWS_AT_ONCE):
        rows = values[top : top + _ROWS_AT_ONCE]
        levels = _levels(rows, scale) if scale.entries is None else np.searchsorted(scale.entries, rows)
        picture[top : top + _ROWS_AT_ONCE] = table[np.where(np.isnan(rows), len(table) - 1, levels)]
    return picture


def extremes(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """The least and the greatest of the finite values; None where there are none."""
    finite = np.isfinite(values)
    if not finite.any():
        return None
    return float(values.min(where=finite, initial=np.inf)), float(values.max(where=finite, initial=-np.inf))


def distinct(values: NDArray[np.float64], most: int) -> NDArray[np.float64] | None:
    """The distinct values in ascending order, without NaN; None where there are none, more than `most`, or infinite ones."""
    found = np.empty(0)
    for top in range(0, len(values), _ROWS_AT_ONCE):
        rows = values[top : top + _ROWS_AT_ONCE]
        found = arrays.distinct(np.append(found, rows[~np.isnan(rows)]))
        if len(found) > most or np.isinf(found).any():
            return None
    return found if len(found) else None


def are_codes(values: NDArray[np.float64], low: float | None, high: float | None) -> bool:
    """Whether the colours for codes can show the values: there are no limits, and few distinct values."""
    return low is None and high is None and distinct(values, MOST_CODES) is not None


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


def _levels(values: NDArray[np.float64], scale: Scale) -> NDArray[np.intp]:
    """The row of the table of colours for each value that is not NaN."""
    low, high = scale.low, scale.high
    with np.errstate(invalid="ignore", over="ignore"):
        # in halves, as the distance of two float64 may be infinite
        part = (values / 2 - low / 2) / (high / 2 - low / 2)
        levels = np.floor(np.nan_to_num(part, nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1) * 255.999)
    return levels.astype(np.intp)
