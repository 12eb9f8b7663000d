"""Fletcher-32 of words of two bytes, the high one first, as HDF5 puts it behind chunks: `numcodecs.fletcher32`. The work is the kernel's."""

from __future__ import annotations

from typing import ClassVar

from frazil.codecs.codec import BytesToBytes, NativeCodec


class Fletcher32(BytesToBytes):
    """Four bytes at the end. Of an odd number of bytes, the last is the high one of a word; the sum without it is read, too, as zarrs writes it."""

    __slots__ = ()
    name: ClassVar[str] = "numcodecs.fletcher32"

    def configuration(self) -> dict[str, object] | None:
        return None

    def native(self) -> NativeCodec | None:
        return ("fletcher32",)

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes + 4
