"""Codecs as a user would write them, in Python: of each kind, of fixed and of variable size."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from frazil.codecs import DEFAULT_REGISTRY, ArrayToArray, ArrayToBytes, BytesToBytes, ChunkSpec
from frazil.codecs.codec import Array, integer
from frazil.errors import ChunkDecodeError, MetadataError


class Delta(ArrayToArray):
    """Differences along one dimension, of the bits taken as integers. axis: the dimension."""

    __slots__ = ("axis",)
    name: ClassVar[str] = "test.delta"
    optional: ClassVar[tuple[str, ...]] = ("axis",)

    def __init__(self, axis: int = 0) -> None:
        self.axis = integer(axis, "axis", 0, 31)

    def configuration(self) -> dict[str, object] | None:
        return {"axis": self.axis}

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if self.axis >= len(spec.shape) or spec.dtype.itemsize not in {1, 2, 4, 8}:
            raise MetadataError(f"there is no dimension {self.axis} to take differences along", path=path)
        return spec._replace(dtype=_bits(spec.dtype), fill=spec.fill)

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        return np.diff(array.view(_bits(array.dtype)), axis=self.axis, prepend=_bits(array.dtype).type(0))

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return np.cumsum(array, axis=self.axis, dtype=array.dtype).view(spec.dtype)


def _bits(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return np.dtype(f"u{dtype.itemsize}")


class Widen(ArrayToArray):
    """Bytes as numbers of 32 bits: the elements change their type and get a byte order that they did not have."""

    __slots__ = ()
    name: ClassVar[str] = "test.widen"

    def configuration(self) -> dict[str, object] | None:
        return None

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if spec.dtype != np.uint8:
            raise MetadataError(f"elements of {spec.dtype} cannot be widened", path=path)
        return spec._replace(dtype=np.dtype("i4"), swaps=((0, 4, 1),), fill=np.int32(spec.fill[0]).tobytes())

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        return array.astype("i4")

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return array.astype("u1")


class Flatten(ArrayToArray):
    """All dimensions as one."""

    __slots__ = ()
    name: ClassVar[str] = "test.flatten"

    def configuration(self) -> dict[str, object] | None:
        return None

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return spec._replace(shape=(spec.nbytes // spec.dtype.itemsize,))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        return array.reshape(-1)

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return array.reshape(spec.shape)


class Hexadecimal(ArrayToBytes):
    """Elements as text, one per line; leading zeros are left out, so that the size depends on the values."""

    __slots__ = ()
    name: ClassVar[str] = "test.hexadecimal"

    def configuration(self) -> dict[str, object] | None:
        return None

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        raw, size = array.tobytes(), spec.dtype.itemsize
        return b"\n".join(b"%x" % int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size))

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        try:
            elements = [int(line, 16).to_bytes(spec.dtype.itemsize, "little") for line in data.split(b"\n")]
            return np.frombuffer(b"".join(elements), spec.dtype).reshape(spec.shape)
        except (ValueError, OverflowError) as error:
            raise ChunkDecodeError(f"not a chunk in hexadecimal: {error}") from error

    def bound(self, spec: ChunkSpec) -> int:
        return spec.nbytes // spec.dtype.itemsize * (2 * spec.dtype.itemsize + 1)


class Invert(BytesToBytes):
    """Every bit inverted."""

    __slots__ = ()
    name: ClassVar[str] = "test.invert"

    def configuration(self) -> dict[str, object] | None:
        return None

    def encode(self, data: bytes) -> bytes:
        return bytes(byte ^ 0xFF for byte in data)

    def decode(self, data: bytes, limit: int) -> bytes:
        if len(data) > limit:
            raise ChunkDecodeError(f"{len(data)} bytes, more than {limit}")
        return self.encode(data)

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes


class Runs(BytesToBytes):
    """Runs of equal bytes as (length, byte)."""

    __slots__ = ()
    name: ClassVar[str] = "test.runs"

    def configuration(self) -> dict[str, object] | None:
        return None

    def encode(self, data: bytes) -> bytes:
        encoded = bytearray()
        for byte in data:
            if encoded and encoded[-1] == byte and encoded[-2] < 255:
                encoded[-2] += 1
            else:
                encoded += bytes((1, byte))
        return bytes(encoded)

    def decode(self, data: bytes, limit: int) -> bytes:
        if len(data) % 2 or sum(data[::2]) > limit:
            raise ChunkDecodeError(f"not runs of at most {limit} bytes in all")
        return b"".join(bytes([byte]) * count for count, byte in zip(data[::2], data[1::2], strict=True))

    def bound(self, nbytes: int) -> int:
        return 2 * nbytes


REGISTRY = DEFAULT_REGISTRY
for _codec in (Delta, Widen, Flatten, Hexadecimal, Invert, Runs):
    REGISTRY = REGISTRY.with_codec(_codec)
