"""Numbers scaled and rounded, under the name that zarr-python writes: `numcodecs.fixedscaleoffset`."""

from __future__ import annotations

from math import isfinite
from typing import ClassVar

import numpy as np

from frazil.codecs.array_to_array.element_types import Filter, native, spelled, spelled_or_open
from frazil.codecs.codec import Array
from frazil.errors import MetadataError, shown


class FixedScaleOffset(Filter):
    """Stores (x - offset) * scale, rounded to whole numbers. dtype: the type of elements (None: the data type of a new array); astype: the stored type (None:
    dtype), which must hold the numbers: integers wrap around."""

    __slots__ = ("offset", "scale")
    name: ClassVar[str] = "numcodecs.fixedscaleoffset"
    required: ClassVar[tuple[str, ...]] = ("offset", "scale")
    optional: ClassVar[tuple[str, ...]] = ("dtype", "astype")

    def __init__(self, offset: float, scale: float, dtype: object = None, astype: object = None) -> None:
        self.offset, self.scale = _number(offset, "offset"), _number(scale, "scale")
        if not scale:
            raise MetadataError("scale is 0; decoding divides the stored values by it", path="scale")
        self.dtype = spelled_or_open(dtype, "dtype", "iuf")
        self.astype = self.dtype if astype is None else spelled(astype, "astype", "iuf")

    def stored(self, elements: Array) -> Array:
        return np.around((elements - self.offset) * self.scale).astype(native(self.astype), copy=False)  # type: ignore[operator, return-value]

    def loaded(self, stored: Array) -> Array:
        return (stored / self.scale + self.offset).astype(native(self.dtype), copy=False)  # type: ignore[operator, no-any-return]


def _number(value: object, name: str) -> float:
    """A whole number stays an integer, because NumPy keeps integers then."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not isfinite(value):
        raise MetadataError(f"{name} is {shown(value)}; it must be a number", path=name)
    return int(value) if isinstance(value, int | np.integer) else float(value)
