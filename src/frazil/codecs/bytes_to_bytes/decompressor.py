"""Shared code of the compressors of Python's standard library: decoding with a limit on the output. They are imported when first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from frazil.errors import ChunkDecodeError


class Decompressor(Protocol):
    """One stream, as bz2 and lzma decode it."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


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
