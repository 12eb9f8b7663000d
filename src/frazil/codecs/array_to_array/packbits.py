"""Booleans as bits, under the name that zarr-python writes: `numcodecs.packbits`.

The codec `packbits` of the registry is in array_to_bytes/packbits.py."""

from __future__ import annotations

import numpy as np

from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec
from frazil.errors import ChunkDecodeError, MetadataError


class NumcodecsPackBits(ArrayToArray):
    """Bytes: the number of unused bits of the last one, then the elements in C order, eight to a byte, the first in the highest bit."""

    name = "numcodecs.packbits"

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if spec.dtype != np.bool_:
            raise MetadataError(f"codec {self.name} packs booleans, not {spec.dtype}", path=path)
        return ChunkSpec((1 + -(-spec.nbytes // 8),), np.dtype(np.uint8), (), b"\0")

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        unused = np.array([-array.size % 8], np.uint8)
        return np.concatenate((unused, np.packbits(array.view(np.bool_))))

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        if int(array[0]) != -spec.nbytes % 8:
            raise ChunkDecodeError(
                f"codec {self.name}: the chunk declares {int(array[0])} unused bits, not {-spec.nbytes % 8}"
            )
        return np.unpackbits(array[1:].view(np.uint8), count=spec.nbytes).view(np.bool_).reshape(spec.shape)
