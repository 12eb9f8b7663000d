"""The `crc32c` codec: four bytes of checksum behind the data (Zarr v3.1 core, crc32c codec). The work is the kernel's."""

from __future__ import annotations

from typing import ClassVar

from frazil import _kernel
from frazil.codecs.codec import BytesToBytes, NativeCodec
from frazil.errors import ChecksumError, ChunkDecodeError


class Crc32c(BytesToBytes):
    """Has no configuration."""

    __slots__ = ()
    name: ClassVar[str] = "crc32c"

    def configuration(self) -> dict[str, object] | None:
        return None

    def native(self) -> NativeCodec | None:
        return (self.name,)

    def encode(self, data: bytes) -> bytes:
        return data + _kernel.crc32c(data).to_bytes(4, "little")

    def decode(self, data: bytes, limit: int) -> bytes:
        if len(data) < 4:
            raise ChecksumError(f"{len(data)} bytes are too short to end in a crc32c checksum")
        body, stored = data[:-4], int.from_bytes(data[-4:], "little")
        found = _kernel.crc32c(body)
        if found != stored:
            raise ChecksumError(f"crc32c is {found:#010x}, but {stored:#010x} was stored")
        if len(body) > limit:
            raise ChunkDecodeError(f"codec crc32c got {len(body)} bytes; at most {limit} are possible")
        return body

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes + 4
