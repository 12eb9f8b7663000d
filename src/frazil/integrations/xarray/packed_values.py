"""Values that are stored as integers: a value that does not fit is an error. xarray's encoders cast without a check, so that such a value would become another
one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from xarray import Variable
from xarray.coding.common import lazy_elemwise_func
from xarray.coding.variables import CFMaskCoder, CFScaleOffsetCoder

from frazil.errors import InvalidInputError

_NAT: Final = np.array([np.iinfo("i8").min])  # what xarray decodes a missing time to, if times are not decoded


def checked(variable: Variable, name: str, *, exists: bool = False) -> Variable:
    """A variable whose numbers are compared with the range of the integers in its encoding: at once if they are in memory, otherwise when they are computed.

    exists  whether the encoding is that of an array that exists
    Raises InvalidInputError for a value or a fill value outside that range, and for NaN if its number is not exact in the variable's dtype. NaN without a
    number is not compared: xarray warns."""
    encoding = variable.encoding
    try:
        stored = np.dtype(encoding.get("dtype") or variable.dtype)
        scale, offset = float(encoding.get("scale_factor", 1)), float(encoding.get("add_offset", 0))
    except (TypeError, ValueError):
        return variable  # nothing to compare, or an encoding that xarray refuses
    if "_Unsigned" in encoding:
        return variable
    for key in ("_FillValue", "missing_value"):
        check_fill(name, encoding.get(key), stored, exists)
    if "dtype" not in encoding or stored.kind not in "iu" or variable.dtype.kind not in "iuf":
        return variable
    if scale == 1 and offset == 0 and np.can_cast(variable.dtype, stored):
        return variable
    check = partial(_check, name=name, encoding=dict(encoding), units=variable.attrs.get("units"), exists=exists)
    if isinstance(variable._data, np.ndarray):
        check(variable._data)
        return variable
    result = variable.copy(deep=False)
    result._data = lazy_elemwise_func(variable._data, check, variable.dtype)
    return result


def _check(
    given: NDArray[np.generic], *, name: str, encoding: Mapping[str, object], units: object, exists: bool
) -> NDArray[np.generic]:
    stored, values = np.dtype(encoding["dtype"]), given  # type: ignore[call-overload]
    limits, fill = np.iinfo(stored), encoding.get("_FillValue", encoding.get("missing_value"))
    if fill is not None and values.dtype == _NAT.dtype and _packed(_NAT, name, encoding, units) == fill:
        values = values[values != _NAT]
    if not values.size:
        return given
    ends = [np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)]
    if values.dtype.kind == "f" and np.isnan(np.min(values)):
        ends.append(np.nan)
    # numbers of Python, because NumPy's 2.0**63 is not above the largest int64
    for value, number in zip(ends, _packed(np.array(ends, values.dtype), name, encoding, units).tolist(), strict=True):
        if np.isnan(value):
            if fill is not None:
                check_fill(name, fill, stored, exists)
                if number != np.asarray(fill).item():
                    raise unfit(name, exists, f"has NaN, and {values.dtype} cannot hold its number {fill} exactly")
        elif not limits.min <= number <= limits.max:
            scale, offset = float(encoding.get("scale_factor", 1)), float(encoding.get("add_offset", 0))  # type: ignore[arg-type]
            low, high = sorted((limits.min * scale + offset, limits.max * scale + offset))
            raise unfit(
                name,
                exists,
                f"has the value {value}, which its encoding as {stored} cannot hold: it holds {low:g} to {high:g}",
            )
    return given


def _packed(
    values: NDArray[np.generic], name: str, encoding: Mapping[str, object], units: object
) -> NDArray[np.generic]:
    """Values as xarray encodes them, before it makes integers of them. units: the attribute; with units of times the number of NaT becomes the fill value."""
    if (
        values.dtype.kind in "iu"
    ):  # xarray's coder divides those of NumPy in place, which fails; those of dask become floats
        factors = [encoding[key] for key in ("scale_factor", "add_offset") if key in encoding]
        values = values.astype(np.result_type(values.dtype, *factors))  # type: ignore[arg-type] # numbers
    variable = Variable("x", values, {"units": units}, dict(encoding))
    with np.errstate(all="ignore"):
        for coder in (CFScaleOffsetCoder(), CFMaskCoder()):
            variable = coder.encode(variable, name)
        packed: NDArray[np.generic] = np.round(variable.values)
    return packed


def check_fill(name: str, fill: object, stored: np.dtype[np.generic], exists: bool) -> None:
    """Raises InvalidInputError for a fill value that the stored numbers cannot hold: cast to them, it would mark another value as missing. Floating-point
    numbers hold it rounded."""
    if fill is None or stored.kind not in "biufc" or np.size(fill) != 1:  # type: ignore[arg-type]
        return
    number = np.asarray(fill).item()
    if not isinstance(number, int | float):
        return
    if stored.kind in "iu":
        limits = np.iinfo(stored)  # type: ignore[type-var]
        fits, held = limits.min <= number <= limits.max and number == int(number), f"{limits.min} to {limits.max}"
    elif stored.kind == "b":
        fits, held = number in (0, 1), "0 and 1"
    else:
        largest = float(np.finfo(stored).max)  # type: ignore[type-var]
        fits, held = not largest < abs(number) < np.inf, f"up to {largest:g}"
    if not fits:
        raise unfit(
            name, exists, f"has the fill value {fill}, which its encoding as {stored} cannot hold: it holds {held}"
        )


def unfit(name: str, exists: bool, text: str, dtype: str = "float64") -> InvalidInputError:
    """The error for a variable with a value that its encoding cannot hold. exists: whether that is the encoding of an array that exists; dtype: a wider one"""
    new, start = (f"{name}2", "give the variable another name, and") if exists else (name, "give it")
    return InvalidInputError(
        f"variable {name!r} {text}",
        path=name,
        hint=f"{start} an encoding that holds it: encoding={{{new!r}: {{'dtype': {dtype!r}}}}}",
    )
