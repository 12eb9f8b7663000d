"""The `conditional` codec: each chunk records which of some codecs were applied to it (Zarr extensions registry, conditional)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from frazil.codecs.codec import BytesToBytes, ChunkSpec, Codec, integer, resolve, run_decode, run_encode
from frazil.errors import ChunkDecodeError, MetadataError


class Conditional(BytesToBytes):
    """codecs: bytes-to-bytes codecs. One is applied if it does not make a chunk longer, a shuffle always; header_bits: of the header, a multiple of 8 (None:
    the smallest possible)."""

    name = "conditional"
    required = ("codecs",)
    nested = required
    optional = ("header_bits",)
    codecs: tuple[BytesToBytes, ...]

    def __init__(self, codecs: Sequence[Codec], header_bits: int | None = None) -> None:
        bytes_codecs = []
        for at, codec in enumerate(codecs):
            if not isinstance(codec, BytesToBytes):
                raise MetadataError("only bytes-to-bytes codecs can be conditional", path=f"codecs[{at}]")
            bytes_codecs.append(codec)
        self.codecs = tuple(bytes_codecs)
        fewest = -(-len(bytes_codecs) // 8) * 8
        self.header_bits = integer(fewest if header_bits is None else header_bits, "header_bits", fewest, 2**16)
        if self.header_bits % 8:
            raise MetadataError(f"header_bits is {self.header_bits}; it must be a multiple of 8", path="header_bits")

    def resolved(self, spec: ChunkSpec) -> Self:
        return type(self)(resolve(self.codecs, spec), self.header_bits)

    def encode(self, data: bytes) -> bytes:
        applied = 0
        for bit, codec in enumerate(self.codecs):
            encoded = run_encode(codec, data)
            if len(encoded) < len(data) or codec.encoded_size(len(data)) is not None:
                data, applied = encoded, applied | 1 << bit
        return applied.to_bytes(self.header_bits // 8, "little") + data

    def decode(self, data: bytes, limit: int) -> bytes:
        size = self.header_bits // 8
        if len(data) < size:
            raise ChunkDecodeError(f"codec {self.name} got {len(data)} bytes; the header alone has {size}")
        applied, data = int.from_bytes(data[:size], "little"), data[size:]
        if applied >> len(self.codecs):
            raise ChunkDecodeError(f"codec {self.name}: the header names a codec that does not exist")
        bounds = [limit]
        for codec in self.codecs:
            bounds.append(max(bounds[-1], codec.bound(bounds[-1])))
        for bit in reversed(range(len(self.codecs))):
            if applied >> bit & 1:
                data = run_decode(self.codecs[bit], data, bounds[bit])
        if len(data) > limit:
            raise ChunkDecodeError(f"codec {self.name} made {len(data)} bytes; at most {limit} are possible")
        return data

    def bound(self, nbytes: int) -> int:
        # A codec that makes data longer is not applied, unless its result has the same length for any data.
        for codec in self.codecs:
            nbytes = max(nbytes, codec.encoded_size(nbytes) or 0)
        return nbytes + self.header_bits // 8
