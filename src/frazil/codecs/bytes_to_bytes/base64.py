"""Base64 text (RFC 4648, section 4), under its name in numcodecs: `numcodecs.base64`."""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64

from frazil.codecs.codec import BytesToBytes
from frazil.errors import ChunkDecodeError


class Base64(BytesToBytes):
    """Four characters for three bytes, with padding and without line breaks."""

    name = "numcodecs.base64"

    def encode(self, data: bytes) -> bytes:
        return b2a_base64(data, newline=False)

    def decode(self, data: bytes, limit: int) -> bytes:
        try:
            return a2b_base64(data, strict_mode=True)
        except Error as error:
            raise ChunkDecodeError(f"codec {self.name}: {error}") from None

    def encoded_size(self, nbytes: int) -> int | None:
        return -(-nbytes // 3) * 4
