"""The `gzip` codec (Zarr v3.1 core, gzip codec; RFC 1952). The kernel does the work."""

from __future__ import annotations

from frazil.codecs.codec import BytesToBytes, NativeCodec, integer


class Gzip(BytesToBytes):
    """level: 0 (stored) to 9."""

    name = "gzip"
    optional = ("level",)  # the specification requires it, readers do not

    def __init__(self, level: int = 6) -> None:
        self.level = integer(level, "level", 0, 9)

    def native(self) -> NativeCodec | None:
        return ("gzip", self.level)


class NumcodecsGzip(Gzip):
    """The same codec under the name that zarr-python writes for numcodecs."""

    name = "numcodecs.gzip"

    def __init__(self, level: int = 1) -> None:
        super().__init__(level)
