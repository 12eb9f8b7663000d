"""The attribute `_FillValue` of a Zarr v3 array, by which xarray marks missing values: an element <-> JSON, in the form of xarray's zarr engine
(FillValueCoder). Pure.

Floats are base64 of a little-endian float64, complex numbers two of them, integers numbers, booleans true or false. Other data types have no such attribute
here, because that engine cannot open an array of text with one."""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from typing import Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.metadata.json_text import Json

FILL_ATTRIBUTE: Final = "_FillValue"
MASKED_KINDS: Final = "biufc"  # NumPy's kinds of data types that may have one

_WORDS: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def encode_fill(value: np.generic | complex, kind: str) -> Json:
    """value: an element, or a number of a wider float, which is kept as it is;  kind: NumPy's kind of the elements"""
    if kind == "c":
        return [_float64(complex(value).real), _float64(complex(value).imag)]
    if kind == "f":
        return _float64(float(value))  # type: ignore[arg-type] # a real number
    return bool(value) if kind == "b" else int(value)  # type: ignore[arg-type] # likewise


def decode_fill(value: Json, dtype: Dtype) -> np.generic | None:
    """The element of the attribute. Plain numbers and the words NaN and Infinity are accepted too, as other programs write them. None for a value that is not
    an element of the dtype."""
    if dtype.kind not in MASKED_KINDS:
        return None
    if dtype.kind == "c" and isinstance(value, list) and len(value) == 2:
        parts = [_real(part) for part in value]
        return None if None in parts else dtype.type(complex(*parts))  # type: ignore[arg-type] # two numbers
    number = _real(value) if dtype.kind in "fc" else value
    if isinstance(number, bool) is not (dtype.kind == "b") or not isinstance(number, int | float):
        return None
    if dtype.kind in "iu":
        limits = np.iinfo(dtype.str)
        # comparisons, because `in range` iterates over all integers for a float
        if not limits.min <= number <= limits.max or number != int(number):
            return None
    with np.errstate(all="ignore"):
        return dtype.type(int(number) if dtype.kind in "iu" else number)


def _real(value: Json) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if isinstance(value, float) or abs(value) < 2**1023 else None
    if not isinstance(value, str):
        return None
    if value in _WORDS:
        return _WORDS[value]
    try:
        found: float = struct.unpack("<d", b64decode(value, validate=True))[0]
    except (ValueError, struct.error):
        return None
    return found


def _float64(value: float) -> str:
    return b64encode(struct.pack("<d", value)).decode()
