"""Datetimes and timedeltas of NumPy in another unit."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from frazil.base.arrays import Values
from frazil.errors import InvalidInputError

_MOST: Final = 2**63 - 1
_DAY: Final = 86_400 * 10**18
_SIZES: Final = {  # in attoseconds
    "Y": 1461 * _DAY // 4,
    "M": 1461 * _DAY // 48,
    "W": 7 * _DAY,
    "D": _DAY,
    "h": 3600 * 10**18,
    "m": 60 * 10**18,
    **{unit: 10 ** (18 - 3 * power) for power, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))},
}


def in_unit(values: Values, dtype: np.dtype[np.generic], path: str, hint: str | None = None) -> Values:
    """Datetimes or timedeltas as a dtype of the same kind; times between two units are rounded down.

    path, hint: of the error. Raises InvalidInputError for times that the unit cannot count in 64 bits: NumPy before 2.5 returns other times."""
    low, high = _limits(values.dtype, dtype)
    numbers = values.astype(np.int64)
    wrong = ((numbers < low) | (numbers > high)) & ~np.isnat(values)
    if wrong.any():
        try:
            found = str(values[wrong][0])
        except OverflowError:  # no date
            found = f"number {numbers[wrong][0]} of {values.dtype}"
        raise InvalidInputError(f"a time is out of the range of {dtype}: found {found}", path=path, hint=hint)
    try:
        return values.astype(dtype)
    except (OverflowError, TypeError) as error:  # NumPy has no factor between some units
        raise InvalidInputError(
            f"{values.dtype} cannot be turned into {dtype}: {error}", path=path, hint=hint
        ) from None


def _limits(source: np.dtype[np.generic], dtype: np.dtype[np.generic]) -> tuple[int, int]:
    """The least and the largest number of the source's units that the dtype can count."""
    (unit, count), (to, to_count) = np.datetime_data(source), np.datetime_data(dtype)  # type: ignore[arg-type]
    if "generic" in (unit, to):
        return -_MOST, _MOST
    size, to_size = _SIZES[unit] * count, _SIZES[to] * to_count
    if (
        unit in "YM" and to not in "YM"
    ):  # NumPy counts days first; some years together are up to a day longer than the mean
        limit = max(0, min(_MOST, (_MOST * min(to_size, _DAY) - 2 * _DAY) // size))
        return -limit, limit
    if {unit, to} == {"Y", "M"}:
        size, to_size = (12 * count, to_count) if unit == "Y" else (count, 12 * to_count)
    factor = size // math.gcd(size, to_size)  # NumPy multiplies by it, and then divides
    return -(_MOST // factor), _MOST // factor
