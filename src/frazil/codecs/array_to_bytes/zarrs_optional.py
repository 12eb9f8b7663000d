"""The codec `zarrs.optional`: a mask, and the values that exist, each through a chain of its own. An element is a struct (valid, value)
(metadata/types/optional.py).

The bytes: the lengths of both, u64 little-endian, the encoded mask, the encoded values."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Self

import numpy as np

from frazil.base.arrays import Dtype
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.chain.compilation import nested_chain
from frazil.codecs.chain.python_chain import PythonChain
from frazil.codecs.codec import Array, ArrayToBytes, ChunkSpec, Codec, codec_list, resolve
from frazil.errors import ChunkDecodeError, MetadataError
from frazil.metadata.types.heap import field_of

_LENGTHS: Final = struct.Struct("<QQ")
_MOST_BYTES: Final = 2**33


class ZarrsOptional(ArrayToBytes):
    """mask_codecs, data_codecs: the chains of the mask and of the values."""

    name = "zarrs.optional"
    required = ("mask_codecs", "data_codecs")
    nested = required

    def __init__(self, mask_codecs: Sequence[Codec] | None = None, data_codecs: Sequence[Codec] | None = None) -> None:
        self.mask_codecs = (Bytes(),) if mask_codecs is None else codec_list(mask_codecs, "mask_codecs")
        self.data_codecs = (Bytes(),) if data_codecs is None else codec_list(data_codecs, "data_codecs")

    def resolved(self, spec: ChunkSpec) -> Self:
        if not _is_optional(spec):
            return self
        return type(self)(resolve(self.mask_codecs, _mask_spec(spec)), resolve(self.data_codecs, _value_spec(spec, 1)))

    def check(self, spec: ChunkSpec, path: str) -> None:
        if not _is_optional(spec):
            raise MetadataError(f"codec {self.name} encodes optional elements, not {spec.dtype}", path=path)
        self._mask(spec)
        self._data(spec, 1)

    def bound(self, spec: ChunkSpec) -> int:
        return _MOST_BYTES + 2 * spec.nbytes

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        valid = field_of(array, "valid").copy(order="C")  # np.ascontiguousarray makes 0-d arrays 1-d
        values = field_of(array, "value")[valid]
        mask = self._mask(spec).encode(valid)
        data = self._data(spec, len(values)).encode(values) if len(values) else b""
        return _LENGTHS.pack(len(mask), len(data)) + mask + data

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        if len(data) < _LENGTHS.size:
            raise ChunkDecodeError(f"codec {self.name}: {len(data)} bytes are too few for two lengths")
        mask_length, data_length = _LENGTHS.unpack_from(data)
        rest = data[_LENGTHS.size :]
        if mask_length + data_length != len(rest):
            raise ChunkDecodeError(
                f"codec {self.name}: lengths of {mask_length} and {data_length} in a chunk of {len(data)} bytes"
            )
        raw = self._mask(spec).decode(rest[:mask_length])
        valid = raw.view(np.uint8) != 0
        out: Array = np.zeros(spec.shape, spec.dtype)
        field_of(out, "valid")[...] = valid
        if count := int(np.count_nonzero(valid)):
            field_of(out, "value")[valid] = self._data(spec, count).decode(rest[mask_length:])
        return out

    def _mask(self, spec: ChunkSpec) -> PythonChain:
        return nested_chain(self.mask_codecs, _mask_spec(spec), "mask_codecs")

    def _data(self, spec: ChunkSpec, count: int) -> PythonChain:
        return nested_chain(self.data_codecs, _value_spec(spec, count), "data_codecs")


def _part(spec: ChunkSpec, name: str) -> Dtype:
    """The dtype of one field."""
    assert spec.dtype.fields is not None, "it is a struct"
    return spec.dtype.fields[name][0]


def _is_optional(spec: ChunkSpec) -> bool:
    return spec.dtype.names == ("valid", "value") and _part(spec, "valid") == np.bool_


def _mask_spec(spec: ChunkSpec) -> ChunkSpec:
    return ChunkSpec(spec.shape, np.dtype(np.bool_), (), b"\0")


def _value_spec(spec: ChunkSpec, count: int) -> ChunkSpec:
    dtype = _part(spec, "value")
    swaps = tuple((offset - 1, width, items) for offset, width, items in spec.swaps)
    return ChunkSpec((count,), dtype, swaps, bytes(dtype.itemsize), spec.heap)
