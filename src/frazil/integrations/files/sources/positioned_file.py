"""The part of a file object that does not depend on the source of its bytes: a position, and reads from there. Subclasses read the bytes."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


class PositionedFile(io.RawIOBase):
    """A file that is open for reading, of a known number of bytes. One reader at a time. size: set by the subclass, in bytes"""

    size: int

    def __init__(self) -> None:
        super().__init__()
        self._at = 0

    @abstractmethod
    def read_at(self, start: int, length: int) -> bytes | memoryview:
        """Bytes of the file, all of them inside it; length is not 0."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), max(self.size - self._at, 0))
        if length:
            view[:length] = self.read_at(self._at, length)
        self._at += length
        return length
