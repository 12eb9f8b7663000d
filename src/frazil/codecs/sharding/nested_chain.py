"""A codec chain inside the configuration of a codec, run for one array: `zarrs.vlen` has one for offsets and one for bytes, `zarrs.optional` for masks and values.

Chains of inner chunks are compiled instead (chain.py)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frazil.base.record import Record
from frazil.codecs.chain import split
from frazil.codecs.codec import (
    Array,
    ArrayToArray,
    ArrayToBytes,
    BytesToBytes,
    ChunkSpec,
    Codec,
    bound_of,
    encoded_spec,
    run_decode,
    run_encode,
)
from frazil.errors import ChunkDecodeError


class NestedChain(Record):
    """The codecs, by kind. path: of their list, for messages"""

    before: tuple[ArrayToArray, ...]
    serializer: ArrayToBytes
    after: tuple[BytesToBytes, ...]
    path: str

    def check(self, spec: ChunkSpec) -> None:
        """Raises MetadataError where the chain cannot encode such an array."""
        self.serializer.check(self._specs(spec)[-1], self.path)

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        """The bytes of an array of spec.shape."""
        for codec, codec_spec in zip(self.before, self._specs(spec), strict=False):
            array = codec.encode(array, codec_spec)
        data = self.serializer.encode(np.ascontiguousarray(array), self._specs(spec)[-1])
        for after in self.after:
            data = run_encode(after, data)
        return data

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        """The array, of spec.shape and spec.dtype. Raises DataError."""
        specs = self._specs(spec)
        bounds = [bound_of(self.serializer, lambda: self.serializer.bound(specs[-1]), self.path)]
        for after in self.after:
            bounds.append(bound_of(after, lambda codec=after: codec.bound(bounds[-1]), self.path))  # type: ignore[misc]
        if len(data) > bounds[-1]:
            raise ChunkDecodeError(f"{self.path}: {len(data)} bytes where at most {bounds[-1]} are possible")
        for after, limit in zip(reversed(self.after), reversed(bounds[:-1]), strict=True):
            data = run_decode(after, data, limit)
        array = self.serializer.decode(data, specs[-1])
        for codec, codec_spec in zip(reversed(self.before), reversed(specs[:-1]), strict=True):
            array = codec.decode(array, codec_spec)
        return array

    def _specs(self, spec: ChunkSpec) -> list[ChunkSpec]:
        specs = [spec]
        for codec in self.before:
            specs.append(encoded_spec(codec, specs[-1], self.path))
        return specs


def nested_chain(codecs: Sequence[Codec], path: str) -> NestedChain:
    """Raises MetadataError for codecs that are not a valid chain."""
    before, (serializer, _), after = split(codecs, path)
    return NestedChain(tuple(codec for codec, _ in before), serializer, tuple(codec for codec, _ in after), path)
