"""Differences between neighbours, under the name that zarr-python writes: `numcodecs.delta`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from frazil.codecs.array_to_array.element_types import (
    as_chunk,
    as_flat,
    check_conversion,
    native,
    spec_of,
    spelled,
    taken_shape,
)
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec
from frazil.errors import InvalidInputError


class Delta(ArrayToArray):
    """The first element, then the difference of each to the one before it, in C order. dtype: the type of elements; astype: the type of stored differences
    (None: dtype). An integer difference that it does not hold is an error."""

    __slots__ = ("astype", "dtype")
    name: ClassVar[str] = "numcodecs.delta"
    required: ClassVar[tuple[str, ...]] = ("dtype",)
    optional: ClassVar[tuple[str, ...]] = ("astype",)

    def __init__(self, dtype: object, astype: object = None) -> None:
        self.dtype = spelled(dtype, "dtype")
        self.astype = self.dtype if astype is None else spelled(astype, "astype")
        check_conversion(self.dtype, self.astype, "astype")
        check_conversion(self.astype, self.dtype, "dtype")

    def configuration(self) -> dict[str, object] | None:
        return {"dtype": self.dtype, "astype": self.astype}

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return spec_of(spec, taken_shape(spec, self.dtype, path), native(self.astype))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        flat = as_flat(array, self.dtype)
        made = np.empty(flat.shape, native(self.astype))
        with np.errstate(all="ignore"):
            made[:1] = flat[:1]
            made[1:] = np.diff(flat)
        if made.dtype != flat.dtype and flat.dtype.kind in "iu" and self._summed(made).tobytes() != flat.tobytes():
            raise InvalidInputError(
                f"codec {self.name}: differences of {self.dtype} do not fit into {self.astype}",
                hint="use a larger astype",
            )
        return made.reshape(taken_shape(spec, self.dtype, self.name))

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return as_chunk(self._summed(array.reshape(-1)), self.dtype, spec)

    def _summed(self, differences: Array) -> Array:
        made = np.empty(differences.size, native(self.dtype))
        with np.errstate(all="ignore"):
            np.cumsum(differences, out=made)
        return made
