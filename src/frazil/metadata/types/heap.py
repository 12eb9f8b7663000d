"""The heap of one read or write: the bytes of elements of variable length, and the views that represent these elements in the engine.

The kernel reads and writes views (rust/src/elements/heap.rs); chunks of them are planned, gathered and scattered like those of any elements of 16 bytes."""

from __future__ import annotations

import struct
from _thread import allocate_lock  # the Lock of threading, without importing that module
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Columns, Values, offsets_of
from frazil.errors import ChunkDecodeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil._kernel import Buffer

_LONGEST: Final = 2**32 - 1  # bytes of an element
_VIEW: Final = np.dtype([("offset", "u8"), ("length", "u4"), ("buffer", "u4")])
_LEAST_COMPACTED: Final = 2**26  # bytes of buffers below which compaction saves too little


def field_of(array: Values, name: str) -> Values:
    """One field of a struct array, as a view."""
    part: Values = array[name]  # type: ignore[call-overload] # NumPy's stubs do not support fields of a generic array
    return part


def fill_view(data: bytes) -> bytes:
    """The view of a fill value, which is in buffer 0 of each heap."""
    return struct.pack("=QII", 0, len(data), 0)


class Heap:
    """Buffers that views point into. Buffer 0 has the fill value's bytes. Safe to use from many threads, except `compact`, `mark` and `cut`.

    target: the elements that a read fills, zero at first: views, or optional ones; None for a write
    threads: of the kernel, which convert the values of a write"""

    __slots__ = ("_limit", "_lock", "_nbytes", "_target", "buffers", "threads")

    def __init__(self, fill: bytes, target: Values | None = None, threads: int = 1) -> None:
        self.buffers: list[Buffer] = [fill]
        self.threads = threads
        self._lock, self._target, self._nbytes, self._limit = allocate_lock(), target, 0, _LEAST_COMPACTED

    @property
    def fill(self) -> Buffer:
        return self.buffers[0]

    def reserve(self, count: int) -> int:
        """Reserves numbers of buffers; returns the first of them."""
        with self._lock:
            first = len(self.buffers)
            self.buffers += [b""] * count
        return first

    def put(self, first: int, segments: Sequence[_kernel.Segment | bytes]) -> None:
        """Adds buffers under reserved numbers."""
        self.buffers[first : first + len(segments)] = segments
        with self._lock:
            self._nbytes += sum(map(len, segments))

    def add(self, data: bytes) -> int:
        """Adds one buffer; returns its number."""
        number = self.reserve(1)
        self.put(number, (data,))
        return number

    def compact(self) -> None:
        """Keeps only the bytes that views in the target point to, if most bytes are unused. No other views may be in use."""
        if self._target is None or self._nbytes < self._limit:
            return
        target = self._target
        if "value" in (target.dtype.names or ()):  # optional elements, whose views are not contiguous
            target = field_of(target, "value")
        views = np.ascontiguousarray(target)
        columns = views.reshape(-1).view(_VIEW)
        needed = int(columns["length"].sum(where=columns["buffer"] != 0, dtype=np.int64))
        if 2 * needed >= self._nbytes:
            self._limit = 2 * self._nbytes
            return
        segments = _kernel.compact_elements(self.buffers, views, 1)
        if views is not target:
            target[...] = views
        self.buffers[1:] = [segments]
        self._nbytes = len(segments)
        self._limit = max(_LEAST_COMPACTED, 2 * self._nbytes)

    def mark(self) -> int:
        """How many buffers there are, for `cut`."""
        return len(self.buffers)

    def cut(self, mark: int) -> None:
        """Drops the buffers that were added after `mark`."""
        del self.buffers[mark:]


def elements_of_views(views: Values, heap: Heap) -> list[bytes]:
    """The bytes of each element, in C order."""
    raw = np.ascontiguousarray(views).reshape(-1).view(_VIEW)
    return _kernel.elements_to_objects(heap.buffers, raw, False)  # type: ignore[return-value] # bytes, because `text` is False


def views_of_elements(elements: Sequence[bytes], heap: Heap, *, text: bool) -> Values:
    """Views of elements, one after the other, as in views_of."""
    return views_of(*columns_of(elements), heap, text=text)


def columns_of(elements: Sequence[bytes]) -> tuple[Columns, bytes]:
    """int64[n + 1] offsets of elements, and their bytes one after the other."""
    offsets = offsets_of(np.array([len(element) for element in elements], np.int64))
    return offsets, b"".join(elements)


def views_of(offsets: Columns, data: bytes, heap: Heap, *, text: bool) -> Values:
    """Views of the elements data[offsets[i]:offsets[i + 1]], which are added to the heap. Raises ChunkDecodeError for text that is not UTF-8, and for elements
    of 4 GiB.

    offsets: int64[n + 1], ascending from 0 to the length of data"""
    lengths = np.diff(offsets)
    if lengths.max(initial=0) > _LONGEST:
        raise ChunkDecodeError("an element has 4 GiB or more")
    if text:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise ChunkDecodeError(f"the elements are not UTF-8: {error}") from None
        starts = offsets[:-1][lengths > 0]
        if (np.frombuffer(data, np.uint8)[starts] & 0xC0 == 0x80).any():
            raise ChunkDecodeError("an element begins within a character")
    views: NDArray[np.void] = np.zeros(len(lengths), _VIEW)
    views["offset"], views["length"], views["buffer"] = offsets[:-1], lengths, heap.add(data)
    fill = bytes(memoryview(heap.fill))  # type: ignore[arg-type] # a buffer
    for i in np.flatnonzero(lengths == len(fill)).tolist():
        if data[offsets[i] : offsets[i + 1]] == fill:
            views[i] = (0, len(fill), 0)
    views[lengths == 0] = np.zeros((), _VIEW)
    return views
