"""Complex numbers under the names of the Zarr extensions registry: complex_float32 and complex_float64, which are the core's complex64 and complex128, and
complex numbers of two small floats: NumPy has no dtype for them, so they are pairs (real, imag)."""

from __future__ import annotations

from typing import Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.metadata.extensions import Extension, no_configuration
from frazil.metadata.types.core import ComplexType, CoreDataTypes, DataType, NamedDataTypes
from frazil.metadata.types.small_numbers import FLOATS, SmallNumberTypes

_PREFIX: Final = "complex_"
_NUMPY: Final = {"complex_float32": "complex64", "complex_float64": "complex128"}


class PairType(ComplexType):
    """Two numbers of one floating-point type, which NumPy has no complex dtype for."""

    def __init__(self, name: str, part: DataType) -> None:
        super().__init__(name, np.dtype([("real", part.dtype), ("imag", part.dtype)]), part)


class RegisteredComplexTypes(NamedDataTypes):
    """The family of all these."""

    names = (*_NUMPY, "complex_float16", *(_PREFIX + name for name in FLOATS))

    def parse(self, extension: Extension, path: str) -> DataType:
        no_configuration(extension, path)
        name, part = extension.name, Extension(extension.name.removeprefix(_PREFIX))
        core = CoreDataTypes()
        if name in _NUMPY:
            return ComplexType(name, np.dtype(_NUMPY[name]), core.parse(part, path))
        return PairType(name, (core if core.matches(part.name) else SmallNumberTypes()).parse(part, path))

    def from_numpy(self, dtype: Dtype) -> DataType | None:
        """None: NumPy's complex dtypes belong to the core's types, and a pair is a struct."""
        return None
