"""Floating-point numbers with fewer digits, under the name that zarr-python writes: `numcodecs.quantize`."""

from __future__ import annotations

from math import ceil, floor, log2, log10
from typing import ClassVar

import numpy as np

from frazil.codecs.array_to_array.element_types import (
    as_chunk,
    as_flat,
    native,
    spec_of,
    spelled,
    spelled_or_open,
    taken_shape,
)
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec, integer


class Quantize(ArrayToArray):
    """Rounds to a power of 2 that keeps `digits` decimal digits behind the point. Decoding returns the rounded values.
    dtype: the type of elements (None: the data type of a new array); astype: the stored type (None: dtype)."""

    __slots__ = ("astype", "digits", "dtype")
    name: ClassVar[str] = "numcodecs.quantize"
    required: ClassVar[tuple[str, ...]] = ("digits",)
    optional: ClassVar[tuple[str, ...]] = ("dtype", "astype")

    def __init__(self, digits: int, dtype: object = None, astype: object = None) -> None:
        self.digits = integer(digits, "digits", -300, 300)
        self.dtype = spelled_or_open(dtype, "dtype", "f")
        self.astype = self.dtype if astype is None else spelled(astype, "astype", "f")

    def configuration(self) -> dict[str, object] | None:
        types = {"dtype": self.dtype, "astype": self.astype}
        return {"digits": self.digits, **{name: text for name, text in types.items() if text}}

    def resolved(self, spec: ChunkSpec) -> Quantize:
        return self if self.dtype else Quantize(self.digits, spec.dtype, self.astype or None)

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return spec_of(spec, taken_shape(spec, self.dtype, path), native(self.astype))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        exponent = log10(10.0**-self.digits)
        exponent = floor(exponent) if exponent < 0 else ceil(exponent)
        scale = 2.0 ** ceil(log2(10.0**-exponent))
        flat = as_flat(array, self.dtype)
        with np.errstate(all="ignore"):
            made = (np.around(scale * flat) / scale).astype(native(self.astype), copy=False)  # type: ignore[operator]
        return made.reshape(taken_shape(spec, self.dtype, self.name))

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        with np.errstate(all="ignore"):
            made = array.reshape(-1).astype(native(self.dtype), copy=False)
        return as_chunk(made, self.dtype, spec)
