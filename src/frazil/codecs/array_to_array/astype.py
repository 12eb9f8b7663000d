"""Elements stored as another type, under the name that zarr-python writes: `numcodecs.astype`."""

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


class AsType(ArrayToArray):
    """decode_dtype: the type of decoded elements; encode_dtype: the type of stored elements. NumPy converts them."""

    __slots__ = ("decode_dtype", "encode_dtype")
    name: ClassVar[str] = "numcodecs.astype"
    required: ClassVar[tuple[str, ...]] = ("encode_dtype", "decode_dtype")

    def __init__(self, encode_dtype: object, decode_dtype: object) -> None:
        self.encode_dtype = spelled(encode_dtype, "encode_dtype")
        self.decode_dtype = spelled(decode_dtype, "decode_dtype")
        check_conversion(self.decode_dtype, self.encode_dtype, "encode_dtype")
        check_conversion(self.encode_dtype, self.decode_dtype, "decode_dtype")

    def configuration(self) -> dict[str, object] | None:
        return {"encode_dtype": self.encode_dtype, "decode_dtype": self.decode_dtype}

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return spec_of(spec, taken_shape(spec, self.decode_dtype, path), native(self.encode_dtype))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        with np.errstate(all="ignore"):
            made = as_flat(array, self.decode_dtype).astype(native(self.encode_dtype))
        return made.reshape(taken_shape(spec, self.decode_dtype, self.name))

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        with np.errstate(all="ignore"):
            made = array.reshape(-1).astype(native(self.decode_dtype))
        return as_chunk(made, self.decode_dtype, spec)
