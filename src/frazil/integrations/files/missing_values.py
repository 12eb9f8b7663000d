"""Missing values in a variable's attributes (CF conventions, 2.5.1): `_FillValue` and `missing_value` of a file, as attributes of a Zarr v3 array. Pure.

xarray masks an array of Zarr v3 only by its attributes; the fill value of the array itself is the value of chunks that are not stored. The form of `_FillValue`
is in metadata/v3/fill_attribute.py. Arrays of bytes get none, because xarray's zarr engine cannot open an array of them with one."""

from __future__ import annotations

import math
from collections.abc import MutableMapping, MutableSequence
from typing import Final

import numpy as np

from frazil.integrations.files.scanned import Skipped
from frazil.metadata.json_text import Json, NonFinite
from frazil.metadata.v3.fill_attribute import FILL_ATTRIBUTE as _FILL
from frazil.metadata.v3.fill_attribute import encode_fill

_MISSING: Final = "missing_value"
_DEFAULTS: Final = {
    "i1": -127, "i2": -32767, "i4": -(2**31) + 1, "i8": -(2**63) + 2,
    "u1": 2**8 - 1, "u2": 2**16 - 1, "u4": 2**32 - 1, "u8": 2**64 - 2,
    "f4": float.fromhex("0x1.ep+122"), "f8": float.fromhex("0x1.ep+122"),
}  # fmt: skip


def default_fill(dtype: np.dtype[np.generic]) -> np.generic:
    """The fill value that netCDF has for elements of a dtype, for variables that define none; 0 for types that netCDF does not have."""
    element: np.generic = np.zeros(1, dtype)[0]
    return np.array([_DEFAULTS.get(dtype.str[1:], element)]).astype(dtype)[0] if dtype.kind in "iuf" else element


def set_missing_values(
    attributes: MutableMapping[str, Json],
    fill: object | None,
    dtype: np.dtype[np.generic],
    path: str,
    skipped: MutableSequence[Skipped],
) -> np.generic | None:
    """Replaces `_FillValue` and `missing_value` in the attributes of a variable by those that xarray reads from a Zarr array. Returns the fill value as an
    element; None if there is none.

    attributes  of the variable, from scanned.as_attribute; changed in place
    fill        the value of `_FillValue` in the file: bytes, a NumPy scalar or an array; None if there is none
    dtype       of the variable's elements in the file
    path        of the variable, for entries of `skipped`
    skipped     gets an entry for an attribute that is dropped: a value that no element can have masks nothing, or JSON cannot express it"""
    attributes.pop(_FILL, None)
    element: np.generic | None = None
    if fill is not None:
        element = _element(fill, dtype)
        if element is None:
            reason = (
                f"an element of {dtype.name} cannot be {_shown(fill)}, so it marks no missing values; it was dropped"
            )
            skipped.append(Skipped(path, _FILL, reason))
        elif dtype.kind in "SO":
            reason = f"xarray opens no Zarr array of text that has one; it was {_shown(fill)}, and elements that are equal to it are not marked as missing"
            skipped.append(Skipped(path, _FILL, reason))
        else:
            # in the file it may have a wider type than the elements
            attributes[_FILL] = encode_fill(np.asarray(fill).reshape(-1)[0], dtype.kind)
    missing = attributes.get(_MISSING)
    values = missing if isinstance(missing, list) else [missing]
    if dtype.kind in "iufc" and any(isinstance(value, NonFinite) for value in values):
        del attributes[_MISSING]
        skipped.append(Skipped(path, _MISSING, f"JSON has no number for {values[0]}; it was dropped"))
    return element


def _element(value: object, dtype: np.dtype[np.generic]) -> np.generic | None:
    """The value as an element of the dtype, rounded if it is a float; None for a value that is not exactly one value of an element."""
    if dtype.kind == "O":
        text = _bytes(value)
        return None if text is None else np.str_(text.decode(errors="replace"))
    if dtype.kind == "S":
        text = _bytes(value)
        if text is None or len(text) > dtype.itemsize:
            return None
        padded: np.generic = np.array([text], dtype)[0]
        return padded
    scalar = np.asarray(value).reshape(-1)
    if scalar.size != 1 or scalar.dtype.kind not in "biufc" or (scalar.dtype.kind == "c" and dtype.kind != "c"):
        return None
    if dtype.kind not in "biufcmM":  # NumPy makes text, raw bytes and some structs of a number
        return None
    with np.errstate(all="ignore"):
        element = scalar.astype(dtype)
        if dtype.kind in "fc":
            same = bool((np.isfinite(element) == np.isfinite(scalar)).all())
        else:
            same = bool((element.astype(scalar.dtype) == scalar).all())
    return element[0] if same else None


def _bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return bytes(value)
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "SO":
        return None
    item = array.reshape(-1)[0]
    return _bytes(item) if isinstance(item, str | bytes) else None


def _shown(value: object) -> str:
    if isinstance(value, str | bytes):
        return repr(value)
    array = np.asarray(value).reshape(-1)
    if array.size != 1:
        return f"{array.size} values of {array.dtype}"
    item = array.tolist()[0]
    return "NaN" if isinstance(item, float) and math.isnan(item) else repr(item)
