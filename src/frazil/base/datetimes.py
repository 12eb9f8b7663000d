"""Datetimes and timedeltas of NumPy in another unit."""

from __future__ import annotations

import numpy as np

from frazil.base.arrays import Values
from frazil.errors import InvalidInputError


def in_unit(values: Values, dtype: np.dtype[np.generic], path: str, hint: str | None = None) -> Values:
    """Datetimes or timedeltas as a dtype of the same kind; a coarser unit rounds them down.

    path, hint: of the error. Raises InvalidInputError for times that the unit cannot count in 64 bits: NumPy before 2.5 returns other times."""
    try:
        found = values.astype(dtype)
    except OverflowError as error:
        raise _out_of_range(str(error), dtype, path, hint) from None
    if np.promote_types(values.dtype, dtype) == dtype.newbyteorder(
        "="
    ):  # the unit is not coarser, so all times are exact
        wrong = (found.astype(values.dtype) != values) & ~np.isnat(values)
        if wrong.any():
            raise _out_of_range(f"found {values[wrong][0]}", dtype, path, hint)
    return found


def _out_of_range(found: str, dtype: np.dtype[np.generic], path: str, hint: str | None) -> InvalidInputError:
    return InvalidInputError(f"a time is out of the range of {dtype}: {found}", path=path, hint=hint)
