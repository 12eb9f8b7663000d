"""A TIFF file as tifffile reads it, with an error for pages that form a circle: tifffile follows long circles for ever, and loses pages of short ones."""

from __future__ import annotations

import os
from collections import Counter
from typing import BinaryIO, Final

from frazil.errors import FormatError

_MOST_READS: Final = 20  # of the head of a page; sound files need up to 3


class PageReads:
    """A file that is open for reading. A page that is read again and again is a FormatError. name: for this error"""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        file.seek(0)
        self._head = 8 if b"+" in file.read(4) else 2  # bytes of the number of tags, with which a page begins
        file.seek(0)
        self._at: int | None = None  # where the file is, directly behind a seek
        self._reads: Counter[int] = Counter()

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = self._file.seek(offset, whence)
        return self._at

    def read(self, size: int = -1) -> bytes:
        if self._at is not None and size == self._head:
            self._reads[self._at] += 1
            if self._reads[self._at] > _MOST_READS:
                raise circle(self._at, self._name)
        self._at = None
        return self._file.read(size)


def circle(offset: int, name: str) -> FormatError:
    """The error for a file with this name. offset: of a page in the circle"""
    return FormatError(f"the TIFF file is damaged: its pages form a circle, at byte {offset}", key=name)
