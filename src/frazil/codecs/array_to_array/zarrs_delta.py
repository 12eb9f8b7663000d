"""The codec `zarrs.delta`: numcodecs.delta without a configuration, for elements of the array's own data type."""

from __future__ import annotations

from typing import ClassVar, Final

from frazil.codecs.array_to_array.filters import Delta
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec
from frazil.errors import MetadataError

_TYPES: Final = frozenset({"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"})


class ZarrsDelta(ArrayToArray):
    """The first element, then the difference of each to the one before it, in C order. Integers wrap around, floats are rounded."""

    name: ClassVar[str] = "zarrs.delta"

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if spec.dtype.str[1:] not in _TYPES:
            raise MetadataError(f"the codec takes integers and floats, not {spec.dtype}", path=path)
        return spec

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        return Delta(spec.dtype).encode(array, spec)

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return Delta(spec.dtype).decode(array, spec)
