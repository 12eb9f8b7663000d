"""Floating-point numbers with fewer digits, under the name that zarr-python writes: `numcodecs.quantize`."""

from __future__ import annotations

from math import ceil, floor, log2, log10
from typing import ClassVar

import numpy as np

from frazil.codecs.array_to_array.element_types import Filter, native, spelled, spelled_or_open
from frazil.codecs.codec import Array, integer


class Quantize(Filter):
    """Rounds to a power of 2 that keeps `digits` decimal digits behind the point. Decoding returns the rounded values.
    dtype: the type of elements (None: the data type of a new array); astype: the stored type (None: dtype)."""

    __slots__ = ("digits",)
    name: ClassVar[str] = "numcodecs.quantize"
    required: ClassVar[tuple[str, ...]] = ("digits",)
    optional: ClassVar[tuple[str, ...]] = ("dtype", "astype")

    def __init__(self, digits: int, dtype: object = None, astype: object = None) -> None:
        self.digits = integer(digits, "digits", -300, 300)
        self.dtype = spelled_or_open(dtype, "dtype", "f")
        self.astype = self.dtype if astype is None else spelled(astype, "astype", "f")

    def stored(self, elements: Array) -> Array:
        exponent = log10(10.0**-self.digits)
        exponent = floor(exponent) if exponent < 0 else ceil(exponent)
        scale = 2.0 ** ceil(log2(10.0**-exponent))
        return (np.around(scale * elements) / scale).astype(native(self.astype), copy=False)  # type: ignore[operator, return-value]

    def loaded(self, stored: Array) -> Array:
        return stored.astype(native(self.dtype), copy=False)
