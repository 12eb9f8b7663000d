"""The codecs `vlen-utf8`, `vlen-bytes` and `vlen-array`: the number of elements, then the length and the bytes of each; numbers are u32, little-endian.

Where the other codecs of the chain are the kernel's, chain/element_stage.py runs it for many chunks at once; here it runs for one chunk."""

from __future__ import annotations

import numpy as np

from frazil.codecs.chain.element_stage import ElementStage
from frazil.codecs.codec import Array, ArrayToBytes, ChunkSpec
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError
from frazil.metadata.types.core import OBJECT_VIEW

MOST_BYTES = 2**32  # of a compressed chunk, after decompression


class Vlen(ArrayToBytes):
    """Shared code of the three codecs: they differ in name."""

    _vlen = True

    def check(self, spec: ChunkSpec, path: str) -> None:
        if not spec.views or spec.dtype == OBJECT_VIEW:
            raise MetadataError(
                f"codec {self.name} encodes the data types string and bytes, not elements of {spec.dtype}", path=path
            )

    def bound(self, spec: ChunkSpec) -> int:
        return MOST_BYTES

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        stage, views = _stage(spec), np.ascontiguousarray(array)
        encoded = stage.encode([views], np.array([[-1, 0, views.nbytes]], np.int64), 1)
        if encoded.failures:
            raise InvalidInputError(f"codec {self.name}: {encoded.failures[0][2]}")
        return bytes(encoded.buffers[0])

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        views, _, failures = _stage(spec).decode(None, [data], np.array([[-1, 0, len(data)]], np.int64), 1)
        if failures:
            raise ChunkDecodeError(failures[0][2])
        return views[0].reshape(spec.shape)


class VlenUtf8(Vlen):
    """vlen-utf8: text."""

    name = "vlen-utf8"


class VlenBytes(Vlen):
    """vlen-bytes: bytes."""

    name = "vlen-bytes"


class VlenArray(Vlen):
    """vlen-array: as vlen-bytes. numcodecs wrote ragged arrays with it, whose items have a type of their own; Zarr v3 has no such data type."""

    name = "vlen-array"


def _stage(spec: ChunkSpec) -> ElementStage:
    return ElementStage(spec.shape, spec.dtype, (), MOST_BYTES, spec.heap)
