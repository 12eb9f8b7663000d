"""Fletcher-32 of words of two bytes, high byte first, as HDF5 puts it behind chunks: `numcodecs.fletcher32`. The kernel does the work."""

from __future__ import annotations

from typing import ClassVar

from frazil.codecs.codec import BytesToBytes, NativeCodec


class Fletcher32(BytesToBytes):
    """Four bytes at the end. The last of an odd number of bytes is the high byte of a word; the sum without it, which zarrs writes, is accepted too."""

    __slots__ = ()
    name: ClassVar[str] = "numcodecs.fletcher32"

    def native(self) -> NativeCodec | None:
        return ("fletcher32",)

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes + 4
