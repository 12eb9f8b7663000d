"""Compressed members of zip files, decoded from their beginning to their end, in the memory that a caller asks for.

zipfile does not limit what it decodes from one piece of bzip2 or LZMA: a few KiB become gigabytes. Here a decoder never makes more bytes than are asked for."""

from __future__ import annotations

import bz2
import lzma
import struct
import zipfile
import zlib
from typing import BinaryIO, Final, Protocol

from frazil.errors import ChecksumError, ChunkDecodeError, FormatError

PIECE: Final = 2**20  # bytes that are read, or decoded, at once

_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")  # of a member; lengths of the name and the extra field come last
# version, bytes of properties (5), and these: lc, lp and pb in one byte, and bytes of the dictionary
_LZMA_HEADER: Final = struct.Struct("<2xHBI")
_LARGEST_DICTIONARY: Final = 2**26  # bytes: the most of any preset of LZMA
_ENCRYPTED: Final = 1


class _Decoder(Protocol):
    """The interface of BZ2Decompressor."""

    @property
    def needs_input(self) -> bool: ...
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Inflater:
    """zlib's decoder of raw deflate, with that interface."""

    def __init__(self) -> None:
        self._machine = zlib.decompressobj(-15)

    @property
    def needs_input(self) -> bool:
        return not self._machine.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._machine.eof

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._machine.decompress(self._machine.unconsumed_tail + data, max_length)


class Member:
    """A compressed member. All its methods raise ChunkDecodeError for a damaged one, ChecksumError at the end, and errors of the libraries: zlib.error,
    lzma.LZMAError, OSError."""

    def __init__(self, file: BinaryIO, member: zipfile.ZipInfo, name: str) -> None:
        """file: the zip file, open for reading, which nothing else uses meanwhile;  name: of it, in messages. Raises FormatError for an encrypted member and an
        unknown method."""
        self._file, self._member, self._name = file, member, name
        self._left, self._at, self._checksum = member.compress_size, 0, 0
        file.seek(data_offset(file, member, name))
        self._decoder = self._new_decoder()

    def _new_decoder(self) -> _Decoder:
        method = self._member.compress_type
        if self._member.flag_bits & _ENCRYPTED:
            raise FormatError(f"its member {self._member.filename!r} is encrypted", key=self._name)
        if method == zipfile.ZIP_DEFLATED:
            return _Inflater()
        if method == zipfile.ZIP_BZIP2:
            return bz2.BZ2Decompressor()
        if method != zipfile.ZIP_LZMA:
            raise FormatError(
                f"its member {self._member.filename!r} has the compression method {method}, which is not known here",
                key=self._name,
            )
        nbytes, properties, dictionary = _LZMA_HEADER.unpack(self._stored(_LZMA_HEADER.size))
        if nbytes != 5 or dictionary > _LARGEST_DICTIONARY:
            raise self._damaged("has damaged properties of LZMA, or needs too much memory")
        lp_pb, lc = divmod(properties, 9)
        pb, lp = divmod(lp_pb, 5)
        options = {"id": lzma.FILTER_LZMA1, "dict_size": dictionary, "lc": lc, "lp": lp, "pb": pb}
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[options])

    def tell(self) -> int:
        """How many bytes were decoded."""
        return self._at

    def read(self, size: int = PIECE) -> bytes:
        """The next bytes, as many as asked for, or fewer at the end. Takes memory for twice as many at most."""
        found: list[bytes] = []
        while size > 0 and (piece := self._decoded(min(size, PIECE))):
            found.append(piece)
            size -= len(piece)
        return b"".join(found)

    def skip(self, size: int) -> None:
        """Passes over bytes."""
        while size > 0 and (piece := self._decoded(min(size, PIECE))):
            size -= len(piece)

    def _decoded(self, size: int) -> bytes:
        """The next bytes, at most `size`; b"" only at the end."""
        while not self._decoder.eof and self._at < self._member.file_size:
            data = self._stored(min(PIECE, self._left)) if self._decoder.needs_input else b""
            found = self._decoder.decompress(data, size)
            if found:
                self._at += len(found)
                self._checksum = zlib.crc32(found, self._checksum)
                return found
            if not data and self._decoder.needs_input and not self._left:
                raise self._damaged("ends early")
        if self._at != self._member.file_size:
            raise self._damaged("does not have the size that the directory says")
        if self._checksum != self._member.CRC:
            raise ChecksumError(f"the CRC-32 of its member {self._member.filename!r} differs", key=self._name)
        return b""

    def _stored(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) != size or size > self._left:
            raise self._damaged("ends early")
        self._left -= size
        return found

    def _damaged(self, text: str) -> ChunkDecodeError:
        return ChunkDecodeError(f"its member {self._member.filename!r} {text}", key=self._name)


def data_offset(file: BinaryIO, member: zipfile.ZipInfo, name: str) -> int:
    """The first byte of a member's data in its file, which has a name for messages. Raises FormatError, struct.error."""
    file.seek(member.header_offset)
    magic, *_, named, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if magic != b"PK\3\4":
        raise FormatError(f"its member {member.filename!r} is not where the directory says", key=name)
    return int(member.header_offset + _LOCAL_HEADER.size + named + extra)
