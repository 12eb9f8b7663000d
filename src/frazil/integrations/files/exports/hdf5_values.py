"""The conversion of the elements of an array to those of an HDF5 or NetCDF4 dataset: data type, fill value, attributes that describe elements, and each slab of
values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from frazil.array.array import Array
from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.metadata.types.datetimes import in_unit

Values = NDArray[np.generic]

_UNITS: Final = {  # of CF conventions, by those of NumPy
    "ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "D": "days",
}  # fmt: skip
_AS_DAYS: Final = frozenset({"Y", "M", "W"})  # of datetimes: whole numbers of days


class StoredValues(Record):
    """dtype       of the dataset, in h5py's form
    fill        the dataset's fill value; None: the format's own
    attributes  that describe the elements; an array with other values for these names is refused
    is_text     whether elements are text of variable length, which filters do not compress
    source, as_times  dtype of the array; the dtype in which times are counted, None for others
    is_utf8     whether elements are bytes that programs decode as UTF-8"""

    dtype: Any
    fill: object
    attributes: Mapping[str, object]
    is_text: bool
    source: np.dtype[np.generic]
    as_times: np.dtype[np.generic] | None = None
    is_utf8: bool = False

    def of(self, values: Values, path: str) -> Values:
        """Values of the array as those of the dataset. Raises InvalidInputError for values that the format cannot hold."""
        if self.is_text:
            texts = values.astype(object)
            if not is_plain("".join(texts.reshape(-1).tolist())):
                raise InvalidInputError(
                    "HDF5 cannot hold text with the character NUL, or a half of a surrogate pair",
                    path=path,
                    hint="leave it out: skip=",
                )
            return texts
        if self.is_utf8 and not _are_utf8(values):
            raise InvalidInputError(
                "NetCDF4 holds text as UTF-8, and these bytes are not",
                path=path,
                hint="choose HDF5, or leave it out: skip=",
            )
        if self.as_times is None:
            return values
        return in_unit(values, self.as_times, path).view(np.int64)


def stored_values(h5py: ModuleType, path: str, array: Array, *, netcdf: bool) -> StoredValues:
    """The stored form of an array. Raises InvalidInputError for a data type that the format does not have, and for attributes that contradict the stored
    form."""
    dtype, unwritten = array.dtype, array.metadata.fill_value.scalar
    found = None
    if _is_text(array):
        found = StoredValues(h5py.string_dtype(), None, {}, True, dtype)
    elif dtype.kind in "mM":
        found = _times(dtype, unwritten)
    elif _has_type(dtype, "biufS" if netcdf else "biufcSV"):
        # NetCDF has neither booleans nor floats of two bytes
        stored = np.dtype({"?": "i1", "e": "f4"}.get(dtype.char, dtype.str)) if netcdf else dtype
        fill = None if dtype.kind == "S" and netcdf else unwritten.astype(stored)
        found = StoredValues(stored, fill, {"dtype": "bool"} if netcdf and dtype.kind == "b" else {}, False, dtype)
        found = found._replace(is_utf8=netcdf and dtype.kind == "S")
    if found is None:
        raise InvalidInputError(
            f"{'NetCDF4' if netcdf else 'HDF5'} has no counterpart of the data type {array.metadata.data_type.label}",
            path=path,
            hint="leave it out with skip=",
        )
    for name, value in found.attributes.items():
        if name in array.attrs and array.attrs[name] != value:
            raise InvalidInputError(
                f"the attribute {name!r} is {array.attrs[name]!r}, and contradicts {dtype} in such a file",
                path=path,
                hint="remove it",
            )
    return found


def is_plain(text: str) -> bool:
    """Whether HDF5 can hold a text: UTF-8 without NUL."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _are_utf8(values: Values) -> bool:
    try:
        for text in () if values.tobytes().isascii() else values.reshape(-1).tolist():
            text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_text(array: Array) -> bool:
    if array.dtype.kind == "T":
        return not hasattr(array.dtype, "na_object")  # optional text
    return array.dtype.kind == "U" or array.metadata.data_type.label == "string"


def _has_type(dtype: np.dtype[np.generic], kinds: str) -> bool:
    """Whether the format has a type for these elements, or for all fields of a struct."""
    if dtype.kind == "V":
        fields = [field[0] for field in (dtype.fields or {}).values()]
        return "V" in kinds and bool(fields) and all(_has_type(field, kinds) for field in fields)
    return dtype.kind in kinds and dtype.isbuiltin != 2 and not (dtype.kind == "f" and dtype.itemsize > 8)


def _times(dtype: np.dtype[np.generic], fill: np.generic) -> StoredValues | None:
    """Datetimes and timedeltas, as CF conventions count them and xarray writes them: NaT is the smallest int64. None for units that they do not have."""
    unit = np.datetime_data(dtype)[0]  # type: ignore[arg-type] # NumPy's stubs want the kind
    if unit in _AS_DAYS and dtype.kind == "M":
        unit = "D"
    if unit not in _UNITS:
        return None
    counted = np.dtype(f"{dtype.kind}8[{unit}]")
    if dtype.kind == "M":
        attributes = {"units": f"{_UNITS[unit]} since 1970-01-01", "calendar": "proleptic_gregorian"}
    else:
        attributes = {"units": _UNITS[unit], "dtype": f"timedelta64[{unit}]"}
    return StoredValues(np.dtype(np.int64), fill.astype(counted).view(np.int64), attributes, False, dtype, counted)
