"""A TIFF file as tifffile reads it, with an error for pages that form a circle: tifffile follows long circles for ever, and loses pages of short ones."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, BinaryIO, Final, Literal

from frazil.errors import FormatError

_MOST_READS: Final = 20  # of the head of a page; sound files need up to 3
_LONG: Final = 128  # pages. tifffile compares the first 100
_MOST_TAGS: Final = 4096  # of a page; tifffile follows no page with more


class PageReads:
    """A file that is open for reading. A page that is read again and again is a FormatError. name: for this error"""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        file.seek(0)
        self._head = 8 if b"+" in file.read(4) else 2  # bytes of the number of tags, with which a page begins
        file.seek(0)
        self._at: int | None = None  # where the file is, directly behind a seek
        self._reads: Counter[int] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = self._file.seek(offset, whence)
        return self._at

    def read(self, size: int = -1) -> bytes:
        if self._at is not None and size == self._head:
            self._reads[self._at] += 1
            if self._reads[self._at] > _MOST_READS:
                raise _circle(self._at, self._name)
        self._at = None
        return self._file.read(size)


def check_first_pages(file: BinaryIO, tiff: Any, name: str) -> None:
    """Raises FormatError if the first pages form a circle. No more pages are read: they may take two requests each."""
    form, offset = tiff.tiff, int(tiff.pages.first.offset)
    order: Literal["little", "big"] = "little" if tiff.byteorder == "<" else "big"
    found: set[int] = set()
    while 0 < offset < tiff.filehandle.size and len(found) < _LONG:
        if offset in found:
            raise _circle(offset, name)
        found.add(offset)
        file.seek(offset)
        tags = int.from_bytes(file.read(form.tagnosize), order)
        if tags > _MOST_TAGS:
            return
        file.seek(offset + form.tagnosize + tags * form.tagsize)
        offset = int.from_bytes(file.read(form.offsetsize), order)


def _circle(offset: int, name: str) -> FormatError:
    return FormatError(f"the TIFF file is damaged: its pages form a circle, at byte {offset}", key=name)
