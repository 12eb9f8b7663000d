"""The bytes of elements side by side, under the name that zarr-python writes: `numcodecs.shuffle`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from frazil.codecs.codec import BytesToBytes, integer
from frazil.errors import ChunkDecodeError


class Shuffle(BytesToBytes):
    """elementsize: bytes of an element; what is no whole element stays at the end."""

    __slots__ = ("elementsize",)
    name: ClassVar[str] = "numcodecs.shuffle"
    optional: ClassVar[tuple[str, ...]] = ("elementsize",)

    def __init__(self, elementsize: int = 4) -> None:
        self.elementsize = integer(elementsize, "elementsize", 1, 2**31 - 1)

    def configuration(self) -> dict[str, object] | None:
        return {"elementsize": self.elementsize}

    def encode(self, data: bytes) -> bytes:
        whole = len(data) // self.elementsize * self.elementsize
        elements = np.frombuffer(data, np.uint8, whole).reshape(-1, self.elementsize)
        return elements.T.tobytes() + data[whole:]

    def decode(self, data: bytes, limit: int) -> bytes:
        if len(data) > limit:
            raise ChunkDecodeError(f"codec {self.name} got {len(data)} bytes; at most {limit} are possible")
        whole = len(data) // self.elementsize * self.elementsize
        planes = np.frombuffer(data, np.uint8, whole).reshape(self.elementsize, -1)
        return planes.T.tobytes() + data[whole:]

    def encoded_size(self, nbytes: int) -> int | None:
        return nbytes
