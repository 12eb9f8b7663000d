"""Times and durations that are stored as numbers. What xarray's encoders turn into other times is an error here, or is encoded right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from xarray import Variable
from xarray.coding.common import lazy_elemwise_func
from xarray.conventions import decode_cf_variable
from xarray.core.common import contains_cftime_datetimes

from frazil.errors import InvalidInputError
from frazil.integrations.xarray.packed_values import check_fill, unfit
from frazil.metadata.types.datetimes import in_unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FINE: Final = {
    "milliseconds": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
}  # units of CF finer than those of numpy's coarsest times
_WIDE: Final = np.dtype("int64")
_FLOAT: Final = np.dtype("float64")
_FILLS: Final = ("_FillValue", "missing_value")


def has_times(variable: Variable) -> bool:
    """Whether the elements are times or durations: of NumPy or cftime."""
    return variable.dtype.kind in "mM" or contains_cftime_datetimes(variable)


def encode_times(variable: Variable, name: str, encode: Callable[[Variable], Variable], *, exists: bool) -> Variable:
    """The times as `encode`, which is xarray's encoder, stores them. exists: whether the encoding is that of an array that exists

    xarray casts to integers of fewer than 64 bits, and packed numbers to any integers, without a check: these are encoded as int64 or float64 first. Raises
    InvalidInputError for a time that does not fit, at once or when it is computed, for such a fill value, and for units that xarray cannot encode."""
    variable = _in_fine_units(variable, name)
    encoding = variable.encoding
    stored = np.dtype(encoding.get("dtype", _WIDE))
    packed = bool({"scale_factor", "add_offset"} & encoding.keys())  # xarray makes floats of these in any case
    narrow = stored.kind in "iu" and ("dtype" in encoding if packed else stored != _WIDE)
    # numbers of Python, because xarray casts to the dtype of a fill value, which may be narrow, too
    fills = {key: np.asarray(encoding[key]).item() for key in _FILLS if encoding.get(key) is not None}
    if narrow:
        for fill in fills.values():
            check_fill(name, fill, stored, exists)
        variable = variable.copy(deep=False)
        variable.encoding = {**encoding, **fills, "dtype": _FLOAT if packed else _WIDE}
    try:
        encoded = encode(variable)
    except KeyError as error:  # of xarray's table of units
        raise InvalidInputError(
            f"the times of {name!r} cannot be encoded in the units {encoding.get('units')!r}",
            path=name,
            hint='units such as "days since 2000-01-01", or hours, minutes, seconds, milliseconds, microseconds',
        ) from error
    if not narrow:
        return encoded
    data = encoded._data
    cast = partial(_narrowed, name=name, stored=stored.str, units=encoded.attrs.get("units"), exists=exists)
    cast_data = cast(data) if isinstance(data, np.ndarray) else lazy_elemwise_func(data, cast, stored)
    chosen = variable.attrs.keys() | fills.keys()  # without the NaN that xarray adds to floats
    attributes = {key: value for key, value in encoded.attrs.items() if key not in _FILLS or key in chosen}
    attributes |= {key: stored.type(fill) for key, fill in fills.items()}
    return Variable(encoded.dims, cast_data, attributes, encoded.encoding, fastpath=True)


def _narrowed(
    values: NDArray[np.int64 | np.float64], *, name: str, stored: str, units: object, exists: bool
) -> NDArray[np.generic]:
    limits = np.iinfo(stored)
    if values.dtype.kind == "f":
        values = np.round(values)
    # numbers of Python, because NumPy's 2.0**63 is not above the largest int64
    for number in (values.min().item(), values.max().item()) if values.size else ():
        if not limits.min <= number <= limits.max:
            missing = np.isnan(number) or number == np.iinfo(_WIDE).min
            label = "NaT, which" if missing else f"the time {number} {units}, which"
            raise unfit(
                name,
                exists,
                f"has {label} its encoding as {np.dtype(stored)} cannot hold: it holds {limits.min} to {limits.max}",
                "int64" if values.dtype == _WIDE else "float64",
            )
    return values.astype(stored)


def _in_fine_units(variable: Variable, name: str) -> Variable:
    """Times in the units of their encoding, if these are finer: xarray divides coarser ones by 0. Raises InvalidInputError for times out of the range of 64
    bits."""
    units = str(variable.encoding.get("units", "")).lower().split(" ")[0]
    fine = _FINE.get(units if units.endswith("s") else f"{units}s")
    if fine is None or variable.dtype.kind not in "mM":
        return variable
    dtype = np.dtype(f"{variable.dtype.kind}8[{fine}]")
    if np.promote_types(variable.dtype, dtype) == variable.dtype:
        return variable
    convert = partial(_converted, name=name, dtype=dtype)
    lazy = variable.chunks is not None
    data = lazy_elemwise_func(variable._data, convert, dtype) if lazy else convert(np.asarray(variable.data))
    return Variable(variable.dims, data, variable.attrs, variable.encoding, fastpath=True)


def _converted(values: NDArray[np.generic], *, name: str, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    coarser = f"give it coarser units: encoding={{{name!r}: {{'units': 'seconds since 1970-01-01'}}}}"
    return in_unit(values, dtype, name, coarser)


def check_units(name: str, encoded: Variable, existing: Variable) -> None:
    """Raises InvalidInputError if times are encoded in other units than those of the existing array: xarray takes finer ones for times that the units of whole
    numbers cannot express."""
    units, stored = encoded.attrs.get("units"), existing.encoding.get("units")
    if units is None or stored is None or units == stored:
        return
    calendar = existing.encoding.get("calendar")
    if not np.array_equal(_first_times(units, encoded.attrs.get("calendar")), _first_times(stored, calendar)):
        raise InvalidInputError(
            f"the times of {name!r} need the units {units!r}; the array has {stored!r}",
            path=name,
            hint=f'create it with finer units, encoding={{{name!r}: {{"units": {units!r}}}}}, or with the dtype float64',
        )


def _first_times(units: object, calendar: object) -> NDArray[np.generic]:
    """The times of 0 and 1 in these units: equal for units that are only written in another way."""
    attributes = {"units": units} | ({} if calendar is None else {"calendar": calendar})
    times: NDArray[np.generic] = decode_cf_variable(
        "", Variable("time", np.arange(2), attributes), decode_timedelta=True
    ).values
    return times
