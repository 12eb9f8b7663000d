"""The `crc32c` codec: a checksum of four bytes behind the data (Zarr v3.1 core, crc32c codec). The kernel does the work."""

from __future__ import annotations

from frazil.codecs.codec import BytesToBytes, NativeCodec


class Crc32c(BytesToBytes):
    """Has no configuration."""

    name = "crc32c"

    def native(self) -> NativeCodec | None:
        return (self.name,)

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes + 4
