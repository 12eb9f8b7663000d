"""bzip2 streams, under the name that zarr-python writes: `numcodecs.bz2`. Python's bz2 does the work."""

from __future__ import annotations

from typing import ClassVar

from frazil.codecs.bytes_to_bytes.decompressor import decompress
from frazil.codecs.codec import BytesToBytes, integer


class Bz2(BytesToBytes):
    """level: 1 to 9, the block size in hundreds of kB."""

    __slots__ = ("level",)
    name: ClassVar[str] = "numcodecs.bz2"
    optional: ClassVar[tuple[str, ...]] = ("level",)

    def __init__(self, level: int = 1) -> None:
        self.level = integer(level, "level", 1, 9)

    def encode(self, data: bytes) -> bytes:
        import bz2

        return bz2.compress(data, self.level)

    def decode(self, data: bytes, limit: int) -> bytes:
        import bz2

        return decompress(bz2.BZ2Decompressor, data, limit, self.name)
