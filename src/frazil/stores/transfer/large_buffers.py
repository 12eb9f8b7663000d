"""Whole values in flight: their pieces as a few buffers, and memory for large ones, which is used again or returned to the system.

The C library keeps freed memory in one arena for each of many threads, and reuses it only there: with values of 8 MiB these were 200 MiB. Small buffers are
NumPy's."""

from __future__ import annotations

import itertools
import mmap
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from weakref import ref

import numpy as np

from frazil import _kernel
from frazil.stores.transfer.content import read_error
from frazil.stores.transfer.merged_spans import SHORT, merged_rows
from frazil.stores.values import Pieces, flat_buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGE: Final = 2**19
_UNIT: Final = 2**18  # bytes: sizes are rounded up, so that more buffers fit into the memory of another


class BufferPool:
    """Large buffers. The memory of a dropped one is used again while others are in use, and all of it is returned to the system when none is: fresh memory takes
    page faults, which cost as much as the copy that fills it. Safe for threads, without a lock, which a forked child could find held.

    No Python code runs where a buffer ends, as an interrupt there would be lost (base/weak_references.py): buffers hold the memory of all, and the pool does not."""

    __slots__ = ("_memories",)

    def __init__(self) -> None:
        self._memories: ref[_Memories] | None = None

    def empty(self, nbytes: int) -> NDArray[np.uint8]:
        """uint8[nbytes] with undefined content. Raises MemoryError."""
        if nbytes < _LARGE or not hasattr(mmap, "MAP_PRIVATE"):
            return np.empty(nbytes, np.uint8)
        memories = None if self._memories is None else self._memories()
        if memories is None:
            memories = _Memories()
            self._memories = ref(memories)
        try:
            memory = memories.take(nbytes) or _from_the_system(nbytes)
        except (OSError, OverflowError):
            return np.empty(nbytes, np.uint8)  # which raises MemoryError if memory is short
        return memories.lend(memory, nbytes)


class _Memories:
    """All memory of a pool, in use or idle."""

    __slots__ = ("__weakref__", "_loans")

    def __init__(self) -> None:
        self._loans: Final[list[_Loan]] = []

    def lend(self, memory: mmap.mmap, nbytes: int) -> NDArray[np.uint8]:
        buffer = _Lent((nbytes,), np.uint8, memory)  # views of an array hold it, as its own base is no array
        buffer.memories = self
        self._loans.append(_Loan(memory, buffer))
        return buffer.view(np.ndarray)

    def idle(self) -> list[_Loan]:
        return [loan for loan in self._loans.copy() if loan.buffer() is None]

    def take(self, nbytes: int) -> mmap.mmap | None:
        """Idle memory of about this size. Pages behind that size are returned to the system, and all idle memory is if none fits: so it never adds to the most that was
        in use."""
        idle = sorted(self.idle(), key=_size)
        fitting = [loan for loan in idle if nbytes <= _size(loan) <= 2 * nbytes]
        for loan in fitting or idle:
            with suppress(ValueError):  # another thread has taken it meanwhile
                self._loans.remove(loan)
                if fitting:
                    return _cut(loan.memory, nbytes)
        return None


class _Lent(np.ndarray[tuple[int], np.dtype[np.uint8]]):
    """The memory in use. All memory is returned to the system when the last one of these ends."""

    __slots__ = ("memories",)

    memories: _Memories


class _Loan:
    """A piece of memory, and who uses it."""

    __slots__ = ("buffer", "memory")

    def __init__(self, memory: mmap.mmap, buffer: _Lent) -> None:
        self.memory: Final = memory
        self.buffer: Final = ref(buffer)


def _cut(memory: mmap.mmap, nbytes: int) -> mmap.mmap:
    end = _rounded(nbytes)
    if end < len(memory) and hasattr(mmap, "MADV_DONTNEED"):
        memory.madvise(mmap.MADV_DONTNEED, end, len(memory) - end)
    return memory


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _UNIT) * _UNIT


def _size(loan: _Loan) -> int:
    return len(loan.memory)


def _from_the_system(nbytes: int) -> mmap.mmap:
    """Raises OSError if memory is short."""
    memory = mmap.mmap(-1, _rounded(nbytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # not every system has huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def value_buffers(pieces: Pieces) -> bytes | memoryview | list[bytes | memoryview]:
    """The bytes of one value: one buffer, or several to be sent one after the other. Pieces of at least SHORT bytes are not copied if they are in memory.
    Raises StoreError for a piece that cannot be read."""
    rows = merged_rows(pieces.rows)
    large = rows[:, 2] >= SHORT
    if not large.any() or (rows[:, 0] >= 0).any():
        return joined_value(pieces._replace(rows=rows))
    bounds = [0, *(np.flatnonzero(large[1:] | large[:-1]) + 1).tolist(), len(rows)]
    buffers: list[bytes | memoryview] = []
    for low, high in itertools.pairwise(bounds):
        blob, start, length = rows[low].tolist()
        buffer = flat_buffer(pieces.sources.buffers[-1 - blob])
        if large[low] and start + length <= len(buffer):
            buffers.append(memoryview(buffer)[start : start + length])
        else:
            buffers.append(joined_value(pieces._replace(rows=rows[low:high])))
    return buffers if len(buffers) > 1 else buffers[0]


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
    value = BufferPool().empty(int(ends[-1]))
    for _, code, text in _kernel.read_rows(files, buffers, rows, value, ends, 1):
        raise read_error(code, text, None)
    return value.data
