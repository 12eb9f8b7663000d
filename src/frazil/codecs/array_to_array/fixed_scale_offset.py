"""Numbers scaled and rounded, under the name that zarr-python writes: `numcodecs.fixedscaleoffset`."""

from __future__ import annotations

from math import isfinite
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
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec
from frazil.errors import MetadataError, shown


class FixedScaleOffset(ArrayToArray):
    """Stores (x - offset) * scale, rounded to whole numbers. dtype: the type of elements (None: the data type of a new array); astype: the stored type (None:
    dtype), which must hold the numbers: integers wrap around."""

    __slots__ = ("astype", "dtype", "offset", "scale")
    name: ClassVar[str] = "numcodecs.fixedscaleoffset"
    required: ClassVar[tuple[str, ...]] = ("offset", "scale")
    optional: ClassVar[tuple[str, ...]] = ("dtype", "astype")

    def __init__(self, offset: float, scale: float, dtype: object = None, astype: object = None) -> None:
        self.offset, self.scale = _number(offset, "offset"), _number(scale, "scale")
        if not scale:
            raise MetadataError("scale is 0; decoding divides the stored values by it", path="scale")
        self.dtype = spelled_or_open(dtype, "dtype", "iuf")
        self.astype = self.dtype if astype is None else spelled(astype, "astype", "iuf")

    def configuration(self) -> dict[str, object] | None:
        types = {"dtype": self.dtype, "astype": self.astype}
        return {"offset": self.offset, "scale": self.scale, **{name: text for name, text in types.items() if text}}

    def resolved(self, spec: ChunkSpec) -> FixedScaleOffset:
        return self if self.dtype else FixedScaleOffset(self.offset, self.scale, spec.dtype, self.astype or None)

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return spec_of(spec, taken_shape(spec, self.dtype, path), native(self.astype))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        flat = as_flat(array, self.dtype)
        with np.errstate(all="ignore"):
            made = np.around((flat - self.offset) * self.scale).astype(native(self.astype), copy=False)  # type: ignore[operator]
        return made.reshape(taken_shape(spec, self.dtype, self.name))

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        with np.errstate(all="ignore"):
            made = (array.reshape(-1) / self.scale + self.offset).astype(native(self.dtype), copy=False)  # type: ignore[operator]
        return as_chunk(made, self.dtype, spec)


def _number(value: object, name: str) -> float:
    """A whole number stays an integer, because NumPy keeps integers then."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not isfinite(value):
        raise MetadataError(f"{name} is {shown(value)}; it must be a number", path=name)
    return int(value) if isinstance(value, int | np.integer) else float(value)
