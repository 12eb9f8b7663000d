"""The codecs of zarrs for elements of variable length: `zarrs.vlen`, with offsets and bytes in chains of their own, and `zarrs.vlen_v2`, which is vlen-bytes
under another name."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.array_to_bytes.vlen import MOST_BYTES, Vlen
from frazil.codecs.chain.compilation import nested_chain
from frazil.codecs.chain.python_chain import PythonChain
from frazil.codecs.codec import Array, ArrayToBytes, ChunkSpec, Codec, choice, codec_list
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError
from frazil.metadata.types.core import TEXT_VIEW
from frazil.metadata.types.heap import columns_of, elements_of_views, views_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LENGTH: Final = struct.Struct("<Q")


class ZarrsVlenV2(Vlen):
    """zarrs.vlen_v2: the bytes of vlen-bytes, for text and for bytes."""

    name = "zarrs.vlen_v2"


class ZarrsVlen(ArrayToBytes):
    """zarrs.vlen: one offset more than there are elements, and the bytes of all elements.

    index_codecs, data_codecs: the chains of both;  index_data_type: of an offset, "uint32" or "uint64";  index_location: of the offsets, with their encoded
    length, "start" or "end"."""

    name = "zarrs.vlen"
    required = ("index_codecs", "data_codecs", "index_data_type")
    nested = ("index_codecs", "data_codecs")
    optional = ("index_location",)

    def __init__(
        self,
        index_codecs: Sequence[Codec] | None = None,
        data_codecs: Sequence[Codec] | None = None,
        index_data_type: str = "uint64",
        index_location: str = "start",
    ) -> None:
        self.index_codecs = (Bytes("little"),) if index_codecs is None else codec_list(index_codecs, "index_codecs")
        self.data_codecs = (Bytes(),) if data_codecs is None else codec_list(data_codecs, "data_codecs")
        self.index_data_type = choice(index_data_type, "index_data_type", ("uint32", "uint64"))
        self.index_location = choice(index_location, "index_location", ("start", "end"))

    def check(self, spec: ChunkSpec, path: str) -> None:
        if not spec.views:
            raise MetadataError(f"codec {self.name} encodes text and bytes, not elements of {spec.dtype}", path=path)
        self._index(1)
        self._data(1)

    def bound(self, spec: ChunkSpec) -> int:
        return MOST_BYTES

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        assert spec.heap is not None, "a write has one"
        offsets, data = columns_of(elements_of_views(array, spec.heap))
        if len(data) >= 2**32 and self.index_data_type == "uint32":
            raise InvalidInputError(f"codec {self.name}: offsets of type uint32 end at 4 GiB")
        index = self._index(len(offsets)).encode(offsets.astype(self.index_data_type))
        encoded = self._data(len(data)).encode(np.frombuffer(data, np.uint8)) if data else b""
        length = _LENGTH.pack(len(index))
        return length + index + encoded if self.index_location == "start" else encoded + index + length

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        assert spec.heap is not None, "a read has one"
        count = spec.nbytes // spec.dtype.itemsize
        if len(data) < 8:
            raise ChunkDecodeError(f"codec {self.name}: {len(data)} bytes are too few for the length of an index")
        at_start = self.index_location == "start"
        (length,) = _LENGTH.unpack(data[:8] if at_start else data[-8:])
        rest = data[8:] if at_start else data[:-8]
        if length > len(rest):
            raise ChunkDecodeError(f"codec {self.name}: an index of {length} bytes in a chunk of {len(data)}")
        index, encoded = (
            (rest[:length], rest[length:]) if at_start else (rest[len(rest) - length :], rest[: len(rest) - length])
        )
        offsets: NDArray[np.uint64] = self._index(count + 1).decode(index).astype(np.uint64)
        total = int(offsets[-1])
        if int(offsets[0]) != 0 or (offsets[1:] < offsets[:-1]).any() or total > MOST_BYTES:
            raise ChunkDecodeError(f"codec {self.name}: the offsets do not ascend from 0 to at most {MOST_BYTES}")
        joined = self._data(total).decode(encoded).tobytes() if total else b""
        views = views_of(offsets.astype(np.int64), joined, spec.heap, text=spec.dtype == TEXT_VIEW)
        return views.view(spec.dtype).reshape(spec.shape)

    def _index(self, count: int) -> PythonChain:
        dtype: Dtype = np.dtype(self.index_data_type)
        spec = ChunkSpec((count,), dtype, ((0, dtype.itemsize, 1),), bytes(dtype.itemsize))
        return nested_chain(self.index_codecs, spec, "index_codecs")

    def _data(self, count: int) -> PythonChain:
        spec = ChunkSpec((count,), np.dtype(np.uint8), (), b"\0")
        return nested_chain(self.data_codecs, spec, "data_codecs")
