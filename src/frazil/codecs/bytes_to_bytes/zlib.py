"""zlib streams (RFC 1950), under the name that programs write: `numcodecs.zlib`. It is in no registry of Zarr v3. The kernel does the work."""

from __future__ import annotations

from typing import ClassVar

from frazil.codecs.codec import BytesToBytes, NativeCodec, integer


class Zlib(BytesToBytes):
    """level: 0 (stored) to 9."""

    __slots__ = ("level",)
    name: ClassVar[str] = "numcodecs.zlib"
    optional: ClassVar[tuple[str, ...]] = ("level",)

    def __init__(self, level: int = 1) -> None:
        self.level = integer(level, "level", 0, 9)

    def native(self) -> NativeCodec | None:
        return ("zlib", self.level)
