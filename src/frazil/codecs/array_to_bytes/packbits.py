"""The `packbits` codec: only the used bits of each element, one after the other (Zarr extensions registry, packbits)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from frazil.base.arrays import Dtype, Octets
from frazil.codecs.codec import Array, ArrayToBytes, ChunkSpec, choice, integer
from frazil.codecs.number_types import bits_of, number_type
from frazil.errors import ChunkDecodeError, MetadataError

if TYPE_CHECKING:
    Bytes = Octets

PADDINGS = ("none", "first_byte", "last_byte")
_SIGNED = frozenset({"int2", "int4", "int8", "int16", "int32", "int64"})
_BLOCK = 2**16  # numbers that are expanded to single bits at once, a multiple of 8


class PackBits(ArrayToBytes):
    """padding_encoding: whether a first or last byte has the number of unused bits of the last one; first_bit, last_bit: the bits of each number that
    are stored, counted from 0, the lowest (None: all). Complex elements are two numbers."""

    name = "packbits"
    optional = ("padding_encoding", "first_bit", "last_bit")
    omits_null = True

    def __init__(
        self, padding_encoding: str = "none", first_bit: int | None = None, last_bit: int | None = None
    ) -> None:
        self.padding_encoding = choice(padding_encoding, "padding_encoding", PADDINGS)
        self.first_bit = None if first_bit is None else integer(first_bit, "first_bit", 0, 2**16)
        self.last_bit = None if last_bit is None else integer(last_bit, "last_bit", self.first_bit or 0, 2**16)

    def check(self, spec: ChunkSpec, path: str) -> None:
        number = number_type(spec.dtype)
        if number is None:
            raise MetadataError(f"codec {self.name} packs numbers, not {spec.dtype}", path=path)
        for name, bit in (("first_bit", self.first_bit), ("last_bit", self.last_bit)):
            if bit is not None and bit >= bits_of(number):
                raise MetadataError(
                    f"{name} is {bit}; {number} has {bits_of(number)} bits", path=f"{path}.configuration.{name}"
                )

    def _range(self, spec: ChunkSpec) -> tuple[Dtype, int, int, int]:
        """The type of a number, how many numbers there are, the first bit of each, and the one behind the last."""
        number = number_type(spec.dtype)
        assert number is not None, "check has seen it"
        last = bits_of(number) - 1 if self.last_bit is None else self.last_bit
        return number, spec.nbytes // number.itemsize, self.first_bit or 0, last + 1

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        number, count, first, end = self._range(spec)
        raw = _little(np.ascontiguousarray(array).reshape(-1).view(np.uint8), number)
        if self._is_whole(spec):
            packed = raw.tobytes()
        else:
            packed = b"".join(
                np.packbits(np.unpackbits(part, axis=1, bitorder="little")[:, first:end], bitorder="little").tobytes()
                for part in _blocks(raw)
            )
        unused = bytes([-count * (end - first) % 8])
        return {"none": packed, "first_byte": unused + packed, "last_byte": packed + unused}[self.padding_encoding]

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        number, count, first, end = self._range(spec)
        expected = self.bound(spec)
        # zarrs leaves the number of unused bits out where all bits of whole bytes are stored
        padded = self.padding_encoding != "none" and (len(data), self._is_whole(spec)) != (expected - 1, True)
        if len(data) != expected and padded == (self.padding_encoding != "none"):
            raise ChunkDecodeError(f"codec {self.name} got {len(data)} bytes instead of {expected}")
        if padded:
            at = 0 if self.padding_encoding == "first_byte" else len(data) - 1
            unused = -count * (end - first) % 8
            if data[at] != unused:
                raise ChunkDecodeError(f"codec {self.name}: the chunk declares {data[at]} unused bits, not {unused}")
            data = data[:at] + data[at + 1 :]
        raw = np.frombuffer(data, np.uint8)
        if not self._is_whole(spec):
            raw = self._expanded(raw, number, count, first, end)
        return _little(raw, number).reshape(-1).view(spec.dtype).reshape(spec.shape)

    def _expanded(self, packed: Bytes, number: Dtype, count: int, first: int, end: int) -> Bytes:
        expanded = np.empty((count, number.itemsize), np.uint8)
        width, signed = end - first, number.name in _SIGNED
        for at in range(0, count, _BLOCK):
            most = min(_BLOCK, count - at)
            part = packed[at * width // 8 : -(-(at + most) * width // 8)]
            bits = np.zeros((most, 8 * number.itemsize), np.uint8)
            bits[:, first:end] = np.unpackbits(part, count=most * width, bitorder="little").reshape(most, width)
            if signed:
                bits[:, end : bits_of(number)] = bits[:, end - 1 : end]
            expanded[at : at + most] = np.packbits(bits, axis=1, bitorder="little")
        return expanded

    def _is_whole(self, spec: ChunkSpec) -> bool:
        """Whether all bits of numbers of whole bytes are stored."""
        number, _, first, end = self._range(spec)
        return (first, end) == (0, 8 * number.itemsize)

    def bound(self, spec: ChunkSpec) -> int:
        _, count, first, end = self._range(spec)
        return -(-count * (end - first) // 8) + (self.padding_encoding != "none")

    def encoded_size(self, spec: ChunkSpec) -> int | None:
        return None if self.padding_encoding != "none" and self._is_whole(spec) else self.bound(spec)


def _little(raw: Bytes, number: Dtype) -> Bytes:
    """The bytes of numbers, a row for each, converted to little-endian order, or from it."""
    rows = raw.reshape(-1, number.itemsize)
    return rows if np.little_endian else rows[:, ::-1].copy()


def _blocks(raw: Bytes) -> Iterator[Bytes]:
    return (raw[at : at + _BLOCK] for at in range(0, len(raw), _BLOCK))
