"""Memory for whole values in flight: large ones get pages of their own, which are returned to the system as soon as they are dropped.

The C library keeps freed memory in one arena for each of many threads, and reuses it only there: with values of 8 MiB these were 200 MiB. Small buffers are
NumPy's."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil import _kernel
from frazil.stores.transfer.content import read_error
from frazil.stores.values import Pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGE: Final = 2**19


def empty_buffer(nbytes: int) -> NDArray[np.uint8]:
    """uint8[nbytes] with undefined content. Raises MemoryError."""
    if nbytes < _LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.empty(nbytes, np.uint8)
    try:
        return np.frombuffer(mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    except OSError:
        return np.empty(nbytes, np.uint8)  # which raises MemoryError if memory is short


def joined_value(pieces: Pieces) -> bytes | memoryview:
    """The bytes of one value; a single piece that is a whole `bytes` object is not copied. Raises StoreError for a piece that cannot be read."""
    (files, buffers), rows = pieces.sources, pieces.rows
    if not len(rows):
        return b""
    if len(rows) == 1 and rows[0, 0] < 0:
        buffer = buffers[-1 - int(rows[0, 0])]
        if isinstance(buffer, bytes) and rows[0, 1:].tolist() == [0, len(buffer)]:
            return buffer
    ends = np.concatenate(([0], np.cumsum(rows[:, 2])))
    value = empty_buffer(int(ends[-1]))
    for _, code, text in _kernel.read_rows(files, buffers, rows, value, ends, 1):
        raise read_error(code, text, None)
    return value.data
