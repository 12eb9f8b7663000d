"""Whole values in flight: their pieces as a few buffers, and memory for large ones, which is returned to the system as soon as it is dropped.

The C library keeps freed memory in one arena for each of many threads, and reuses it only there: with values of 8 MiB these were 200 MiB. Small buffers are
NumPy's."""

from __future__ import annotations

import itertools
import mmap
from contextlib import suppress
from typing import Final

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Octets, offsets_of
from frazil.stores.transfer.content import read_error
from frazil.stores.transfer.merged_spans import SHORT, merged_rows
from frazil.stores.values import Pieces, flat_buffer

_LARGE: Final = 2**19
_HUGE_PAGE: Final = 2**21


def empty_buffer(nbytes: int) -> Octets:
    """uint8[nbytes] with undefined content. Raises MemoryError."""
    if nbytes < _LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.empty(nbytes, np.uint8)
    # a fault for each page of 4 KiB takes longer than the copy that fills it. Huge pages begin at multiples of their size; the last bytes have small pages:
    # a huge page is memory as soon as one of its bytes is written
    huge = nbytes // _HUGE_PAGE * _HUGE_PAGE if hasattr(mmap, "MADV_HUGEPAGE") else 0
    try:
        memory = mmap.mmap(-1, nbytes + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return np.empty(nbytes, np.uint8)  # which raises MemoryError if memory is short
    whole = np.frombuffer(memory, np.uint8)
    begin = -whole.__array_interface__["data"][0] % _HUGE_PAGE
    if huge:
        with suppress(OSError):  # not every system has huge pages
            memory.madvise(mmap.MADV_HUGEPAGE, begin, huge)
    return whole[begin : begin + nbytes]


def value_buffers(pieces: Pieces, key: str | None = None) -> bytes | memoryview | list[bytes | memoryview]:
    """The bytes of one value: one buffer, or several to be sent one after the other. Pieces of at least SHORT bytes are not copied if they are in memory.
    key: of the value, for errors. Raises StoreError for a piece that cannot be read."""
    rows = merged_rows(pieces.rows)
    large = rows[:, 2] >= SHORT
    if not large.any() or (rows[:, 0] >= 0).any():
        return joined_value(pieces._replace(rows=rows), key)
    bounds = [0, *(np.flatnonzero(large[1:] | large[:-1]) + 1).tolist(), len(rows)]
    buffers: list[bytes | memoryview] = []
    for low, high in itertools.pairwise(bounds):
        blob, start, length = rows[low].tolist()
        buffer = flat_buffer(pieces.sources.buffers[-1 - blob])
        if large[low] and start + length <= len(buffer):
            buffers.append(memoryview(buffer)[start : start + length])
        else:
            buffers.append(joined_value(pieces._replace(rows=rows[low:high]), key))
    return buffers if len(buffers) > 1 else buffers[0]


def joined_value(pieces: Pieces, key: str | None = None) -> bytes | memoryview:
    """The bytes of one value; a single piece that is a whole `bytes` object is not copied. Raises StoreError for a piece that cannot be read."""
    (files, buffers), rows = pieces.sources, pieces.rows
    if not len(rows):
        return b""
    if len(rows) == 1 and rows[0, 0] < 0:
        buffer = buffers[-1 - int(rows[0, 0])]
        if isinstance(buffer, bytes) and rows[0, 1:].tolist() == [0, len(buffer)]:
            return buffer
    ends = offsets_of(rows[:, 2])
    value = empty_buffer(int(ends[-1]))
    for _, code, text in _kernel.read_rows(files, buffers, rows, value, ends, 1):
        raise read_error(code, text, key)
    return value.data
