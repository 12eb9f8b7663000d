"""Complex numbers under the names of the Zarr extensions registry: complex_float32 and complex_float64, which are the core's complex64 and complex128, and
complex numbers of two small floats: NumPy has no dtype for them, so they are pairs (real, imag)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from frazil.metadata.extensions import Extension, no_configuration
from frazil.metadata.json_text import Json, item
from frazil.metadata.members import refusal
from frazil.metadata.types.core import ComplexType, DataType, NamedDataTypes
from frazil.metadata.types.fill_values import FillValue, emit_float, float_from_user, parse_float
from frazil.metadata.types.small_numbers import (
    FLOATS,
    dtype_of,
    emit_small_float,
    parse_small_float,
    small_float_from_user,
)

_PREFIX: Final = "complex_"
_NUMPY: Final = {"complex_float32": "complex64", "complex_float64": "complex128"}


class PairType(DataType):
    """Two numbers of one floating-point type. part: that type"""

    __slots__ = ("part",)
    part: np.dtype[np.generic]

    def __init__(self, name: str, part: np.dtype[np.generic]) -> None:
        width = part.itemsize
        super().__init__(name, np.dtype([("real", part), ("imag", part)]), ((0, width, 2),) if width > 1 else ())
        self.part = part

    def parse_bytes(self, value: Json, path: str) -> bytes:
        """An array of two floating-point fill values, the real and the imaginary part."""
        if not isinstance(value, list) or len(value) != 2:
            raise refusal(path, "an array of two floating-point values, [real, imaginary]", value)
        half = self.part
        if half == np.float16:
            return b"".join([parse_float(part, 2, item(path, at)) for at, part in enumerate(value)])
        return b"".join([parse_small_float(part, half, item(path, at)) for at, part in enumerate(value)])

    def emit_bytes(self, data: bytes) -> Json:
        width = self.part.itemsize
        if self.part == np.float16:
            return [emit_float(data[:width]), emit_float(data[width:])]
        return [emit_small_float(data[:width], self.part), emit_small_float(data[width:], self.part)]

    def fill_from_user(self, value: object, path: str = "fill_value") -> FillValue:
        """A number, a pair of numbers, or a scalar of the dtype; None is zero."""
        if isinstance(value, np.void) and value.dtype != self.dtype:
            value = value.item()
        return super().fill_from_user(value, path)

    def user_bytes(self, value: object, path: str) -> bytes:
        if isinstance(value, complex):
            parts: tuple[object, ...] = (value.real, value.imag)
        elif isinstance(value, (list, tuple)) and len(value) == 2:
            parts = tuple(value)
        elif isinstance(value, (int, float, np.generic)):
            parts = (value, 0)
        else:
            raise refusal(path, f"a number, or its two parts [real, imaginary] ({self.name})", str(value))
        convert: Callable[[object, str], bytes] = (
            (lambda part, path: float_from_user(part, 2, path))
            if self.part == np.float16
            else (lambda part, path: small_float_from_user(part, self.part, path))
        )
        return b"".join([convert(part, item(path, at)) for at, part in enumerate(parts)])


class RegisteredComplexTypes(NamedDataTypes):
    """The family of all these."""

    names = (*_NUMPY, "complex_float16", *(_PREFIX + name for name in FLOATS))

    def parse(self, extension: Extension, path: str) -> DataType:
        no_configuration(extension, path)
        name = extension.name
        if name in _NUMPY:
            dtype: np.dtype[np.generic] = np.dtype(_NUMPY[name])
            return ComplexType(name, dtype, ((0, dtype.itemsize // 2, 2),))
        part = name.removeprefix(_PREFIX)
        return PairType(name, np.dtype(np.float16) if part == "float16" else dtype_of(part, path))

    def from_numpy(self, dtype: np.dtype[np.generic]) -> DataType | None:
        """None: NumPy's complex dtypes belong to the core's types, and a pair is a struct."""
        return None
