"""Checksums of numcodecs: four bytes before or behind the data, under the names that zarr-python writes."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from frazil import _kernel
from frazil.base.optional_package import codec_package
from frazil.codecs.codec import BytesToBytes, NativeCodec, choice, integer
from frazil.errors import ChecksumError, ChunkDecodeError


class _Checksum(BytesToBytes):
    """location: "start" or "end", the place of the checksum; None: the place that numcodecs uses."""

    optional: ClassVar[tuple[str, ...]] = ("location",)
    usual = "start"

    def __init__(self, location: str | None = None) -> None:
        self.location = choice(self.usual if location is None else location, "location", ("start", "end"))

    @abstractmethod
    def checksum(self, data: bytes) -> int: ...

    def encode(self, data: bytes) -> bytes:
        checksum = self.checksum(data).to_bytes(4, "little")
        return checksum + data if self.location == "start" else data + checksum

    def decode(self, data: bytes, limit: int) -> bytes:
        if len(data) < 4:
            raise ChecksumError(f"{len(data)} bytes are too short for the checksum of {self.name}")
        stored, body = (data[:4], data[4:]) if self.location == "start" else (data[-4:], data[:-4])
        found, expected = self.checksum(body), int.from_bytes(stored, "little")
        if found != expected:
            raise ChecksumError(f"{self.name} is {found:#010x}, but {expected:#010x} was stored")
        if len(body) > limit:
            raise ChunkDecodeError(f"codec {self.name} got {len(body)} bytes; at most {limit} are possible")
        return body

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes + 4


class Crc32(_Checksum):
    """CRC-32, as in gzip files."""

    name = "numcodecs.crc32"

    def checksum(self, data: bytes) -> int:
        return zlib.crc32(data)


class Adler32(_Checksum):
    """Adler-32, as in zlib streams."""

    name = "numcodecs.adler32"

    def checksum(self, data: bytes) -> int:
        return zlib.adler32(data)


class JenkinsLookup3(_Checksum):
    """Bob Jenkins' lookup3, as in HDF5; always at the end. initval: the initial value; prefix: bytes that are hashed before the data. Needs the package
    numcodecs."""

    name = "numcodecs.jenkins_lookup3"
    optional = ("initval", "prefix")

    def __init__(self, initval: int = 0, prefix: Sequence[int] | None = None) -> None:
        super().__init__("end")
        codec_package("numcodecs", self.name, "numcodecs")
        self.initval = integer(initval, "initval", 0, 2**32 - 1)
        self.prefix = None if prefix is None else tuple(integer(byte, "prefix", 0, 255) for byte in prefix)

    def checksum(self, data: bytes) -> int:
        if not data and not self.prefix:
            return 0
        numcodecs = codec_package("numcodecs.checksum32", self.name, "numcodecs")
        whole = numcodecs.JenkinsLookup3(self.initval, bytes(self.prefix or ())).encode(data)
        return int.from_bytes(whole[-4:], "little")


class NumcodecsCrc32c(_Checksum):
    """CRC-32C, as in the core's codec, in either place."""

    name = "numcodecs.crc32c"
    usual = "end"

    def checksum(self, data: bytes) -> int:
        return _kernel.crc32c(data)


class Fletcher32(BytesToBytes):
    """Fletcher-32 of words of two bytes, high byte first, as HDF5 puts it behind chunks; always at the end. The last of an odd number of bytes is the high byte
    of a word; the sum without it, which zarrs writes, is accepted too."""

    name = "numcodecs.fletcher32"

    def native(self) -> NativeCodec | None:
        return ("fletcher32",)

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes + 4
