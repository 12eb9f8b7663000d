"""The `zstd` codec (Zarr extensions registry, zstd; RFC 8878). The kernel does the work."""

from __future__ import annotations

from frazil.codecs.codec import BytesToBytes, NativeCodec, integer
from frazil.errors import MetadataError


class Zstd(BytesToBytes):
    """level: -131072 to 22, where 0 means the library's default (3); checksum: whether frames end in a checksum. It is checked when they are decoded."""

    name = "zstd"
    optional = ("level", "checksum")

    def __init__(self, level: int = 0, checksum: bool = False) -> None:
        self.level = integer(level, "level", -131072, 22)
        if not isinstance(checksum, bool):
            raise MetadataError(f"checksum is {checksum!r}; it must be true or false", path="checksum")
        self.checksum = checksum

    def native(self) -> NativeCodec | None:
        return ("zstd", self.level, self.checksum)


class NumcodecsZstd(Zstd):
    """The same codec under the name that zarr-python writes for numcodecs."""

    name = "numcodecs.zstd"
