"""The numbers that the elements of a chunk consist of, for codecs that work on their bits."""

from __future__ import annotations

from typing import Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.base.late import imported

_OTHER_PACKAGES = 256  # types that other packages register with NumPy have numbers from here on
_NARROW: Final = {
    "bool": 1,
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}  # bits of types that do not use all of their bytes


def number_type(dtype: Dtype) -> Dtype | None:
    """The type of the number that an element is, or of the two of a complex one. None for other elements."""
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    if dtype.names is not None:  # complex numbers that NumPy has no type for
        parts = {field[0] for field in (dtype.fields or {}).values()}
        return parts.pop() if len(parts) == 1 and len(dtype.names) == 2 else None
    if dtype.kind in "mM":
        return np.dtype(np.int64)
    return dtype if dtype.kind in "biuf" or dtype.num >= _OTHER_PACKAGES else None


def bits_of(number: Dtype) -> int:
    """The bits of a number that are used; the other bits of its bytes are not."""
    return _NARROW.get(number.name, 8 * number.itemsize)


def is_integer(number: Dtype) -> bool:
    """Whether a type is an integer of NumPy, or of two or four bits."""
    return number.kind in "iu" or number.name in {"int2", "int4", "uint2", "uint4"}


def integer_range(number: Dtype) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    bits = bits_of(number)
    return (0, (1 << bits) - 1) if number.name.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def float_range(number: Dtype) -> tuple[float, float]:
    """The least and the largest finite number of a floating-point type."""
    info = np.finfo(number.name) if number.num < _OTHER_PACKAGES else imported("ml_dtypes").finfo(number)
    return float(info.min), float(info.max)
