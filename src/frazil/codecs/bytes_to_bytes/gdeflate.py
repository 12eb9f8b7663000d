"""GDeflate in pages of 64 KiB, under the name that zarrs writes: `zarrs.gdeflate`. The kernel does the work."""

from __future__ import annotations

from frazil.codecs.codec import BytesToBytes, NativeCodec, integer


class Gdeflate(BytesToBytes):
    """level: 0 (stored) to 12."""

    name = "zarrs.gdeflate"
    optional = ("level",)  # the specification requires it, readers do not

    def __init__(self, level: int = 6) -> None:
        self.level = integer(level, "level", 0, 12)

    def native(self) -> NativeCodec | None:
        return ("gdeflate", self.level)
