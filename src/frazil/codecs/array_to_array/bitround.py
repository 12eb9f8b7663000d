"""Floating-point numbers with fewer bits, under the name that zarr-python writes: `numcodecs.bitround`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec, integer
from frazil.errors import MetadataError

_BITS = {2: 10, 4: 23, 8: 52}  # of the fraction, by bytes of an element


class BitRound(ArrayToArray):
    """keepbits: how many bits of the fraction are kept, the others being rounded to 0; decoding gives what was rounded."""

    __slots__ = ("keepbits",)
    name: ClassVar[str] = "numcodecs.bitround"
    required: ClassVar[tuple[str, ...]] = ("keepbits",)

    def __init__(self, keepbits: int) -> None:
        self.keepbits = integer(keepbits, "keepbits", 0, 52)

    def configuration(self) -> dict[str, object] | None:
        return {"keepbits": self.keepbits}

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if spec.dtype.kind != "f" or spec.dtype.itemsize not in _BITS:
            raise MetadataError(f"codec {self.name} rounds floating-point numbers, not {spec.dtype}", path=path)
        if self.keepbits > _BITS[spec.dtype.itemsize]:
            raise MetadataError(
                f"keepbits is {self.keepbits}; {spec.dtype} has {_BITS[spec.dtype.itemsize]} bits",
                path=f"{path}.configuration.keepbits",
            )
        return spec

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        dropped = _BITS[spec.dtype.itemsize] - self.keepbits
        if not dropped:
            return array
        bits = np.ascontiguousarray(array).reshape(array.shape).view(f"u{spec.dtype.itemsize}")
        number = bits.dtype.type
        half = ((bits >> number(dropped)) & number(1)) + number((1 << (dropped - 1)) - 1)  # ties to even
        with np.errstate(all="ignore"):
            rounded = (bits + half) >> number(dropped) << number(dropped)
        made: Array = rounded.view(spec.dtype)
        return made

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return array
