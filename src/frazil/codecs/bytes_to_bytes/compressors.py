"""Compressors of numcodecs, under the names that programs write. The kernel does zlib (RFC 1950) and lz4, Python's standard library bz2 and lzma."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from frazil.codecs.codec import BytesToBytes, NativeCodec, integer
from frazil.errors import ChunkDecodeError, MetadataError, shown

if TYPE_CHECKING:
    from bz2 import BZ2Decompressor
    from lzma import LZMADecompressor

    Decompressor: TypeAlias = BZ2Decompressor | LZMADecompressor

_XZ, _ALONE, _RAW = 1, 2, 3  # the numbers of the formats in Python's lzma
_EXTREME = 2**31
_MEMORY = 2**30  # memory limit for decoding; the strongest preset needs 65 MiB


class Zlib(BytesToBytes):
    """level: 0 (stored) to 9."""

    name = "numcodecs.zlib"
    optional = ("level",)

    def __init__(self, level: int = 1) -> None:
        self.level = integer(level, "level", 0, 9)

    def native(self) -> NativeCodec | None:
        return ("zlib", self.level)


class Lz4(BytesToBytes):
    """Blocks behind their decoded size. acceleration: the larger, the faster, and the longer the result; below 1 means 1."""

    name = "numcodecs.lz4"
    optional = ("acceleration",)
    most_bytes = 0x7E000000  # LZ4_MAX_INPUT_SIZE

    def __init__(self, acceleration: int = 1) -> None:
        self.acceleration = integer(acceleration, "acceleration", -(2**31), 2**31 - 1)

    def native(self) -> NativeCodec | None:
        return ("lz4", self.acceleration)


class Bz2(BytesToBytes):
    """level: 1 to 9, the block size in hundreds of kB."""

    name = "numcodecs.bz2"
    optional = ("level",)

    def __init__(self, level: int = 1) -> None:
        self.level = integer(level, "level", 1, 9)

    def encode(self, data: bytes) -> bytes:
        import bz2

        return bz2.compress(data, self.level)

    def decode(self, data: bytes, limit: int) -> bytes:
        import bz2

        return decompress(bz2.BZ2Decompressor, data, limit, self.name)


class Lzma(BytesToBytes):
    """format: 1 (xz), 2 (lzma alone) or 3 (raw); check: the number of the checksum, -1 for the format's usual one; preset: None or 0 to 9,
    with 2^31 added for the extreme variants; filters: None, or a chain of objects with an `id`. All as in Python's lzma."""

    name = "numcodecs.lzma"
    optional = ("format", "check", "preset", "filters")

    def __init__(
        self,
        format: int = _XZ,  # noqa: A002  the member's name
        check: int = -1,
        preset: int | None = None,
        filters: Sequence[Mapping[str, int]] | None = None,
    ) -> None:
        self.format = integer(format, "format", _XZ, _RAW)
        self.check = integer(check, "check", -1, 15)
        self.preset = None if preset is None else integer(preset, "preset", 0, _EXTREME + 9)
        self.filters = None if filters is None else _filters(filters)
        if preset is not None and filters is not None:
            raise MetadataError(
                "preset and filters are both given; a chain of filters has its own presets", path="preset"
            )
        if self.format == _RAW and self.filters is None:
            raise MetadataError("format is 3 (raw), which needs filters", path="filters")
        if self.format != _XZ and self.check > 0:
            raise MetadataError("only format 1 (xz) has a checksum", path="check")

    def encode(self, data: bytes) -> bytes:
        import lzma

        return lzma.compress(data, self.format, self.check, self.preset, self.filters)

    def decode(self, data: bytes, limit: int) -> bytes:
        import lzma

        def start() -> Decompressor:
            if self.format == _RAW:
                return lzma.LZMADecompressor(_RAW, filters=self.filters)
            return lzma.LZMADecompressor(self.format, memlimit=_MEMORY)

        return decompress(start, data, limit, self.name)


def _filters(value: object) -> tuple[Mapping[str, int], ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise MetadataError(
            f"filters is {shown(value)}; it must be a list of objects with an id, or null", path="filters"
        )
    for at, entry in enumerate(value):
        if not isinstance(entry, Mapping) or "id" not in entry:
            raise MetadataError(f"{shown(entry)} is not an object with an id", path=f"filters[{at}]")
        for name, number in entry.items():
            integer(number, f"filters[{at}].{name}", 0, 2**32 - 1)
    return tuple({str(name): int(number) for name, number in entry.items()} for entry in value)


def decompress(start: Callable[[], Decompressor], data: bytes, limit: int, name: str) -> bytes:
    """All streams in the data, one after the other, at most `limit` bytes. start: creates a decoder of one stream. Raises ChunkDecodeError."""
    pieces: list[bytes] = []
    room = limit
    while True:
        stream = start()
        try:
            while not stream.eof:
                piece = stream.decompress(data, room + 1)
                data = b""
                room -= len(piece)
                if room < 0:
                    raise ChunkDecodeError(f"codec {name}: decodes to more than {limit} bytes")
                if not stream.eof and stream.needs_input:
                    raise ChunkDecodeError(f"codec {name}: the stream is cut short")
                pieces.append(piece)
        except ChunkDecodeError:
            raise
        except Exception as error:  # OSError, EOFError, LZMAError, ValueError
            raise ChunkDecodeError(f"codec {name}: {error}") from error
        data = stream.unused_data
        if not data:
            return b"".join(pieces)
