"""A chain of codecs that runs in Python, on one array at a time: for inner chunks with a Python codec, chains inside the configuration of a codec, and shard
indexes that the kernel does not read. Results are checked against what the codecs declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from frazil.base.record import Record
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.bytes_to_bytes.crc32c import Crc32c
from frazil.codecs.codec import (
    Array,
    ArrayToArray,
    BytesToBytes,
    ChunkSpec,
    as_bytes,
    failed_codec,
    run_decode,
    run_encode,
    running,
)
from frazil.errors import ChunkDecodeError, FrazilError, InvalidInputError

if TYPE_CHECKING:
    from frazil.metadata.types.heap import Heap


class Serializer(Protocol):
    """The methods of an array-to-bytes codec that are used here."""

    @property
    def name(self) -> str: ...

    def encode(self, array: Array, spec: ChunkSpec, /) -> bytes: ...

    def decode(self, data: bytes, spec: ChunkSpec, /) -> Array: ...


class PythonChain(Record):
    """The codecs, by kind.

    specs   the input of each array-to-array codec, and then of the array-to-bytes codec
    bounds  the most bytes after the array-to-bytes codec, and after each bytes-to-bytes codec"""

    before: tuple[ArrayToArray, ...]
    serializer: Serializer
    after: tuple[BytesToBytes, ...]
    specs: tuple[ChunkSpec, ...]
    bounds: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The most bytes of an encoded array."""
        return self.bounds[-1]

    @property
    def plain(self) -> bool:
        """Whether it consists of `bytes` and checksums: the kernel reads and writes shard indexes with such codecs."""
        return not self.before and type(self.serializer) is Bytes and all(type(codec) is Crc32c for codec in self.after)

    def with_heap(self, heap: Heap) -> PythonChain:
        return self._replace(specs=tuple([spec._replace(heap=heap) for spec in self.specs]))

    def encode(self, array: Array) -> bytes:
        """The bytes of an array of specs[0]. Raises InvalidInputError."""
        for before, spec, made in zip(self.before, self.specs[:-1], self.specs[1:], strict=True):
            with running(before.name, InvalidInputError):
                array = _checked(before.encode(array, spec), before.name, made, InvalidInputError)
        with running(self.serializer.name, InvalidInputError):
            data = as_bytes(self.serializer.encode(array, self.specs[-1]), self.serializer.name, InvalidInputError)
        for codec in self.after:
            data = run_encode(codec, data)
        return data

    def decode(self, data: bytes) -> Array:
        """The array, of specs[0]. Raises DataError."""
        if len(data) > self.nbytes:
            raise ChunkDecodeError(f"{len(data)} bytes where at most {self.nbytes} are possible")
        for codec, limit in zip(reversed(self.after), reversed(self.bounds[:-1]), strict=True):
            data = run_decode(codec, data, limit)
        with running(self.serializer.name, ChunkDecodeError):
            decoded = self.serializer.decode(data, self.specs[-1])
            array = _checked(decoded, self.serializer.name, self.specs[-1], ChunkDecodeError)
        for before, spec in zip(reversed(self.before), reversed(self.specs[:-1]), strict=True):
            with running(before.name, ChunkDecodeError):
                array = _checked(before.decode(array, spec), before.name, spec, ChunkDecodeError)
        return array


def _checked(array: object, name: str, spec: ChunkSpec, refusal: type[FrazilError]) -> Array:
    """What a codec made: of an array without dimensions, NumPy's arithmetic makes a scalar."""
    if isinstance(array, np.generic):
        array = np.asarray(array)
    if not isinstance(array, np.ndarray):
        raise failed_codec(f"codec {name} made {type(array).__name__} instead of an array", refusal)
    if array.shape != spec.shape or array.dtype != spec.dtype:
        raise refusal(f"codec {name} made {array.dtype} {array.shape} instead of {spec.dtype} {spec.shape}")
    return array
