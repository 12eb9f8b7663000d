"""Values that are stored as integers: a value that does not fit is an error. xarray's encoders cast without a check, so that such a value would become another one."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from xarray import Variable
from xarray.coding.common import lazy_elemwise_func

from frazil.errors import InvalidInputError


def checked(variable: Variable, name: str, *, exists: bool) -> Variable:
    """A variable whose numbers are compared with the range of the integers in its encoding: at once if they are in memory, otherwise when they are computed.

    exists: whether its array exists, so that its encoding cannot be chosen
    Raises InvalidInputError for a value outside that range. NaN is not compared: the encoding has a value for it, or xarray warns."""
    encoding = variable.encoding
    try:
        stored = np.dtype(encoding["dtype"])
        scale, offset = float(encoding.get("scale_factor", 1)), float(encoding.get("add_offset", 0))
    except (KeyError, TypeError, ValueError):
        return variable  # nothing to compare, or an encoding that xarray refuses
    if stored.kind not in "iu" or variable.dtype.kind not in "iuf" or "_Unsigned" in encoding:
        return variable
    if scale == 1 and offset == 0 and np.can_cast(variable.dtype, stored):
        return variable
    check = partial(_check, name=name, stored=stored.str, scale=scale, offset=offset, exists=exists)
    if isinstance(variable._data, np.ndarray):
        check(variable._data)
        return variable
    result = variable.copy(deep=False)
    result._data = lazy_elemwise_func(variable._data, check, variable.dtype)
    return result


def _check(
    values: NDArray[np.generic], *, name: str, stored: str, scale: float, offset: float, exists: bool
) -> NDArray[np.generic]:
    if not values.size or not scale:
        return values
    limits = np.iinfo(stored)
    for value in (np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)):
        packed = np.round((float(value) - offset) / scale)
        if packed < limits.min or packed > limits.max:
            low, high = sorted((limits.min * scale + offset, limits.max * scale + offset))
            holds = f"encoding={{{name + '2' * exists!r}: {{'dtype': {values.dtype.name!r}}}}}"
            raise InvalidInputError(
                f"variable {name!r} has the value {value}, which its encoding as {np.dtype(stored)} cannot hold: it holds {low:g} to {high:g}",
                path=name,
                hint=f"the encoding of an existing array is not changed; give the variable another name, and an encoding that holds it: {holds}"
                if exists
                else f"choose an encoding that holds it: {holds}",
            )
    return values
