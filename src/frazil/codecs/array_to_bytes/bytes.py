"""The `bytes` codec: elements one after the other in C order, in a given byte order (Zarr v3.1 core, bytes codec)."""

from __future__ import annotations

import sys

import numpy as np

from frazil.codecs.codec import Array, ArrayToBytes, ChunkSpec, choice
from frazil.errors import ChunkDecodeError, MetadataError


class Bytes(ArrayToBytes):
    """endian: "little" or "big"; None for types without a byte order, and, in arguments from users, for the usual "little". Structs without it are
    read as little-endian, because zarr-python 3.0 and 3.1 left it out."""

    name = "bytes"
    optional = ("endian",)
    not_null = optional
    omits_null = True

    def __init__(self, endian: str | None = None) -> None:
        self.endian = None if endian is None else choice(endian, "endian", ("little", "big"))

    def resolved(self, spec: ChunkSpec) -> Bytes:
        return Bytes("little") if self.endian is None and spec.swaps else self

    def check(self, spec: ChunkSpec, path: str) -> None:
        if spec.has_views:
            raise MetadataError(
                "codec bytes encodes only elements of a fixed size", path=path, hint="use vlen-utf8 or vlen-bytes"
            )
        if self.endian is None and spec.swaps and spec.dtype.names is None:
            raise MetadataError(
                f"codec bytes needs a member endian (little or big) for elements of {spec.dtype}",
                path=f"{path}.configuration.endian",
            )

    def swaps(self, spec: ChunkSpec) -> tuple[tuple[int, int, int], ...]:
        """Items of an element, (offset, width, count), whose stored byte order is not this machine's."""
        return () if (self.endian or "little") == sys.byteorder else spec.swaps

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        return self._swapped(np.ascontiguousarray(array), spec).tobytes()

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        if len(data) != spec.nbytes:
            raise ChunkDecodeError(f"codec bytes got {len(data)} bytes for a chunk of {spec.nbytes}")
        return self._swapped(np.frombuffer(data, spec.dtype).reshape(spec.shape), spec)

    def _swapped(self, array: Array, spec: ChunkSpec) -> Array:
        swaps = self.swaps(spec)
        if not swaps:
            return array
        itemsize = spec.dtype.itemsize
        order = np.arange(itemsize)
        for offset, width, count in swaps:
            items = order[offset : offset + width * count].reshape(count, width)
            items[:] = items[:, ::-1].copy()
        raw = array.reshape(-1).view(np.uint8).reshape(-1, itemsize)
        return np.ascontiguousarray(raw[:, order]).reshape(-1).view(spec.dtype).reshape(array.shape)

    def encoded_size(self, spec: ChunkSpec) -> int | None:
        return spec.nbytes
