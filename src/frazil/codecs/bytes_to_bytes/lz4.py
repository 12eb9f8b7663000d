"""LZ4 blocks behind their decoded size, under the name that zarr-python writes: `numcodecs.lz4`. The kernel does the work."""

from __future__ import annotations

from typing import ClassVar

from frazil.codecs.codec import BytesToBytes, NativeCodec, integer


class Lz4(BytesToBytes):
    """acceleration: the larger, the faster, and the longer the result; below 1 means 1."""

    __slots__ = ("acceleration",)
    name: ClassVar[str] = "numcodecs.lz4"
    optional: ClassVar[tuple[str, ...]] = ("acceleration",)
    most_bytes: ClassVar[int | None] = 0x7E000000  # LZ4_MAX_INPUT_SIZE

    def __init__(self, acceleration: int = 1) -> None:
        self.acceleration = integer(acceleration, "acceleration", -(2**31), 2**31 - 1)

    def native(self) -> NativeCodec | None:
        return ("lz4", self.acceleration)
