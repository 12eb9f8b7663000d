"""The `n5_default` codec: blocks of N5 in its default mode, which contain their own shape (Zarr extensions registry, n5_default)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Self

import numpy as np

from frazil.codecs.array_to_array.transpose import Transpose
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.chain.compilation import nested_chain
from frazil.codecs.codec import Array, ArrayToBytes, BytesToBytes, ChunkSpec, Codec, codec_list, resolve
from frazil.errors import ChunkDecodeError, MetadataError

_LARGEST = 2**32 - 1
_MOST_LARGER = 8  # most elements of a block, as a multiple of those of a chunk


class N5Default(ArrayToBytes):
    """codecs: a transposition that reverses the dimensions, `bytes` in big-endian order, and at most one bytes-to-bytes codec."""

    name = "n5_default"
    required = ("codecs",)
    nested = required

    def __init__(self, codecs: Sequence[Codec]) -> None:
        self.codecs = codec_list(codecs, "codecs")
        transposition, serializer, after = self._parts()
        rank = len(transposition.order)
        if transposition.order != tuple(reversed(range(rank))):
            raise MetadataError("the order must reverse the dimensions", path="codecs[0].configuration.order")
        if serializer.endian == "little":
            raise MetadataError("N5 is big-endian", path="codecs[1].configuration.endian")
        if len(after) > 1:
            raise MetadataError("N5 has one compressor at most", path="codecs[3]")

    def _parts(self) -> tuple[Transpose, Bytes, tuple[BytesToBytes, ...]]:
        first, second = self.codecs[:2] if len(self.codecs) > 1 else (None, None)
        if not isinstance(first, Transpose) or not isinstance(second, Bytes):
            raise MetadataError("codecs must begin with transpose and bytes", path="codecs")
        after = tuple(codec for codec in self.codecs[2:] if isinstance(codec, BytesToBytes))
        if len(after) != len(self.codecs) - 2:
            raise MetadataError("after bytes only a bytes-to-bytes codec is allowed", path="codecs")
        return first, second, after

    def resolved(self, spec: ChunkSpec) -> Self:
        serializer = Bytes("big") if spec.swaps else self.codecs[1]
        return type(self)(resolve((self.codecs[0], serializer, *self.codecs[2:]), spec))

    def check(self, spec: ChunkSpec, path: str) -> None:
        if spec.dtype.kind not in "iuf" or spec.dtype.itemsize > 8 or spec.dtype == np.float16:
            raise MetadataError(f"N5 has no elements of {spec.dtype}", path=path)
        if max(spec.shape, default=0) > _LARGEST:
            raise MetadataError(f"N5 has no blocks of {list(spec.shape)}", path=path)
        if spec.swaps and self._parts()[1].endian is None:
            raise MetadataError("endian must be big", path=f"{path}.configuration.codecs[1].configuration.endian")
        nested_chain(self.codecs, spec, f"{path}.configuration.codecs")

    def bound(self, spec: ChunkSpec) -> int:
        nbytes = _MOST_LARGER * spec.nbytes
        for codec in self._parts()[2]:
            nbytes = codec.bound(nbytes)
        return 4 + 4 * len(spec.shape) + nbytes

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        header = struct.pack(f">HH{len(spec.shape)}I", 0, len(spec.shape), *spec.shape)
        return header + nested_chain(self.codecs, spec, self.name).encode(array)

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        rank = len(spec.shape)
        if len(data) < 4 + 4 * rank:
            raise ChunkDecodeError(f"codec {self.name} got {len(data)} bytes; the header alone has {4 + 4 * rank}")
        mode, dimensions, *shape = struct.unpack_from(f">HH{rank}I", data)
        if mode or dimensions != rank:
            raise ChunkDecodeError(f"codec {self.name}: a block of mode {mode} and {dimensions} dimensions")
        if prod(shape) > _MOST_LARGER * prod(spec.shape):
            raise ChunkDecodeError(f"codec {self.name}: a block of {shape}, where a chunk has {list(spec.shape)}")
        block = spec._replace(shape=tuple(shape))
        found = nested_chain(self.codecs, block, self.name).decode(data[4 + 4 * rank :])
        if block.shape == spec.shape:
            return found
        chunk = np.empty(spec.shape, spec.dtype)
        chunk[...] = np.frombuffer(spec.fill, spec.dtype)[0]
        shared = tuple(slice(min(a, b)) for a, b in zip(shape, spec.shape, strict=True))
        chunk[shared] = found[shared]
        return chunk
