"""The bytes of elements transposed, under the name that zarr-python writes: `numcodecs.shuffle`. The kernel does the work."""

from __future__ import annotations

from frazil.codecs.codec import BytesToBytes, NativeCodec, integer


class Shuffle(BytesToBytes):
    """elementsize: bytes of an element; bytes after the last whole element stay at the end."""

    name = "numcodecs.shuffle"
    optional = ("elementsize",)

    def __init__(self, elementsize: int = 4) -> None:
        self.elementsize = integer(elementsize, "elementsize", 1, 2**31 - 1)

    def native(self) -> NativeCodec | None:
        return ("shuffle", self.elementsize)

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes
