"""Floating-point numbers and integers of few bits: bfloat16, float8_*, float6_*, float4_*, int2, int4, uint2, uint4 (Zarr extensions registry).

NumPy gets their dtypes from the package ml_dtypes. Each element has whole bytes; the codec packbits stores only their used bits."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from typing import Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.base.late import imported
from frazil.base.optional_package import load_package
from frazil.errors import UnknownExtensionError
from frazil.metadata.extensions import Extension, no_configuration
from frazil.metadata.json_text import Json, NegativeZero, NonFinite
from frazil.metadata.members import refusal
from frazil.metadata.types.core import DataType, IntegerType, NamedDataTypes
from frazil.metadata.types.fill_values import parse_integer

_ORDER: Final = sys.byteorder
INTEGERS: Final = ("int2", "int4", "uint2", "uint4")
FLOATS: Final = (
    "bfloat16",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
_REGISTERED_WITH_NUMPY: Final = 256  # numbers of other packages' dtypes begin here


def _dtype_of(name: str, path: str) -> Dtype:
    """The NumPy dtype of a name. Raises UnknownExtensionError if ml_dtypes is not installed, or too old."""
    try:
        package = load_package("ml_dtypes", f"the data type {name} needs the package", "ml", UnknownExtensionError)
    except UnknownExtensionError as error:
        error.path = path
        raise
    if not hasattr(package, name):
        raise UnknownExtensionError(f"the data type {name} needs a newer ml_dtypes", path=path)
    dtype: Dtype = np.dtype(getattr(package, name))
    return dtype


class SmallIntegerType(IntegerType):
    """int2, int4, uint2, uint4: a byte each, whose upper bits readers ignore. In ml_dtypes they are zero, so in the fill value, too: elements are
    compared by their bytes. Elements that other programs stored may have other upper bits, which are kept."""

    def parse_bytes(self, value: Json, path: str) -> bytes:
        bits = int(self.name[-1])
        return bytes([parse_integer(value, self.dtype, path, bits)[0] & ((1 << bits) - 1)])

    def emit_bytes(self, data: bytes) -> Json:
        return int(np.frombuffer(data, self.dtype)[0])

    def user_bytes(self, value: object, path: str) -> bytes:
        return super().user_bytes(int(value) if isinstance(value, np.generic) else value, path)


class SmallFloatType(DataType):
    """A floating-point number of 16 bits or fewer. Some of these formats have no NaN, no infinity, no negative numbers or no zero."""

    def parse_bytes(self, value: Json, path: str) -> bytes:
        """A number that the format can represent after rounding, "NaN", "Infinity" and "-Infinity" if it has them, or "0x" and all digits of its bits."""
        if isinstance(value, str):
            if len(value) == 2 + 2 * self.itemsize and value.startswith("0x"):
                with suppress(ValueError):
                    return int(value[2:], 16).to_bytes(self.itemsize, _ORDER)
            number = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            number = -0.0 if isinstance(value, NegativeZero) else float(value)
        else:
            number = None
        if number is not None and (rounded := _rounded(number, self.dtype)) is not None:
            return rounded
        forms = f'"NaN", "Infinity", "-Infinity" or "0x" and {2 * self.itemsize} hexadecimal digits'
        raise refusal(path, f"a number within {self.dtype.name}, or one of {forms} that it has", value)

    def emit_bytes(self, data: bytes) -> Json:
        """The number, or a string for values that are not numbers; hexadecimal for all NaNs but one."""
        number = float(np.frombuffer(data, self.dtype)[0])
        if math.isnan(number):
            number = math.nan  # without the sign, which "NaN" does not have
        if _rounded(number, self.dtype) == data:
            return number if math.isfinite(number) else NonFinite(number).word
        return f"0x{int.from_bytes(data, _ORDER):0{2 * self.itemsize}x}"

    def user_bytes(self, value: object, path: str) -> bytes:
        """A number, rounded, or a string as in documents."""
        if isinstance(value, np.generic):
            value = float(value)
        if isinstance(value, float) and not math.isfinite(value):
            value = NonFinite(value).word
        if not isinstance(value, (int, float, str)):
            raise refusal(path, f'a number, or a string such as "NaN" ({self.dtype.name})', str(value))
        return self.parse_bytes(int(value) if isinstance(value, bool) else value, path)


def _rounded(number: float, dtype: Dtype) -> bytes | None:
    """The bits of a number, rounded half to even; None if the format has none near it. If it has no zero, 0 becomes its smallest number, as in tensorstore,
    whose documents have 0.0."""
    with np.errstate(all="ignore"):
        rounded = np.array(number, np.float64).astype(dtype)
        back = float(rounded.astype(np.float64))
    if math.isnan(number) or math.isinf(number):
        same = math.isnan(back) if math.isnan(number) else back == number
        return rounded.tobytes() if same else None
    largest = float(imported("ml_dtypes").finfo(dtype).max)
    negative = math.copysign(1.0, number) < 0
    if number == 0 and not negative and math.isnan(back):
        return bytes(dtype.itemsize)
    if (
        not math.isfinite(back)
        or abs(number) > 2 * largest
        or (negative and back > 0)
        or (back == largest < abs(number))
    ):
        return None
    return rounded.tobytes()


class SmallNumberTypes(NamedDataTypes):
    """The family of all these."""

    names = (*INTEGERS, *FLOATS)

    def parse(self, extension: Extension, path: str) -> DataType:
        no_configuration(extension, path)
        return _data_type(extension.name, _dtype_of(extension.name, path))

    def from_numpy(self, dtype: Dtype) -> DataType | None:
        foreign = dtype.num >= _REGISTERED_WITH_NUMPY and dtype.name in self.names
        return _data_type(dtype.name, dtype) if foreign else None


def _data_type(name: str, dtype: Dtype) -> DataType:
    if name in INTEGERS:
        return SmallIntegerType(name, dtype)
    return SmallFloatType(name, dtype, ((0, dtype.itemsize, 1),) if dtype.itemsize > 1 else ())
