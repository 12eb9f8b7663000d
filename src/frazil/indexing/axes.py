"""One axis of a box: the inner chunks that it touches, and the runs of elements within each. Columns are computed for a range of entries on demand, so an axis
of 1e8 chunks costs nothing before. box.py multiplies axes.

No arithmetic leaves int64, for arrays of any length: columns stay within the array's bounds. Values that may exceed them (the end of a chunk or shard beyond
the array's end) are computed in Python integers or as the rest of the array."""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar

import numpy as np

from frazil.base.arrays import Columns, Flags
from frazil.base.record import Record
from frazil.indexing.selection import AxisSelection

# coordinates of shards along one axis, ascending; a range of any length costs nothing
Shards: TypeAlias = "range | Columns"
Element = TypeVar("Element", int, Columns)

_FEW: Final = 4  # entries: up to as many, Python integers are faster than columns


class AxisEntries(Record):
    """A range of entries. An entry is an inner chunk that the selection touches along this axis.

    chunk    int64[k], coordinates of the chunks, ascending, unique
    entries  int64[k, 2]: (first run, number of runs), first counted from this range's first run
    runs     int64[r, 4]: (start, count, step, at) as in the kernel's decode_chunks
    covers   bool[k]: every element of the chunk along this axis is selected; False for a chunk that reaches beyond the array's end"""

    chunk: Columns
    entries: Columns
    runs: Columns
    covers: Flags


class RegularAxis:
    """Elements start, start + step, ...; only numbers are kept.

    size: the length of this axis in the result; count: number of entries; length: the array's; extent: the inner chunk's."""

    __slots__ = ("_chunk_extent", "_dense", "_first", "_start", "_step", "count", "extent", "length", "size")

    def __init__(self, selection: AxisSelection, length: int, extent: int) -> None:
        self.length = length
        self._chunk_extent = extent
        self.extent = min(extent, max(length, 1))  # a chunk beyond the array's end is cut there
        self.size = selection.size
        self._start = selection.start
        self._step = selection.step if selection.size > 1 else 1
        self._dense = self._step <= self.extent  # all chunks between the first and the last are touched
        self._first = self._start // self.extent
        last = self._start + (self.size - 1) * self._step
        self.count = 0 if not self.size else last // self.extent - self._first + 1 if self._dense else self.size

    def entries(self, low: int, high: int) -> AxisEntries:
        """Entries low to high (exclusive)."""
        if self._dense and 0 < high - low <= _FEW:
            return self._few(low, high)
        if self._dense:
            chunk = np.arange(self._first + low, self._first + high, dtype=np.int64)
            begin = np.maximum(self._number(chunk * self.extent), 0)
            count = np.empty_like(begin)
            np.subtract(begin[1:], begin[:-1], out=count[:-1])
            count[-1:] = self._before((self._first + high) * self.extent) - begin[-1:]
        else:
            begin = np.arange(low, high, dtype=np.int64)
            chunk = (begin * self._step + self._start) // self.extent
            count = np.ones(high - low, np.int64)
        runs = np.empty((high - low, 4), np.int64)
        runs[:, 0] = begin * self._step + self._start - chunk * self.extent
        runs[:, 1] = count
        runs[:, 2] = self._step
        runs[:, 3] = begin
        entries = np.ones((high - low, 2), np.int64)
        entries[:, 0] = np.arange(high - low)
        return AxisEntries(chunk, entries, runs, count == self._chunk_extent)

    def _few(self, low: int, high: int) -> AxisEntries:
        """As entries, for few of them: each number as a Python integer, which takes a third of the time of the calls of NumPy."""
        chunks, runs = range(self._first + low, self._first + high), []
        for base in [chunk * self.extent for chunk in chunks]:
            begin = self._before(base)
            count = self._before(base + self.extent) - begin
            runs.append((begin * self._step + self._start - base, count, self._step, begin))
        covers = [count == self._chunk_extent for _, count, _, _ in runs]
        entries = [(number, 1) for number in range(high - low)]
        columns = np.array(chunks, np.int64), np.array(entries, np.int64), np.array(runs, np.int64)
        return AxisEntries(*columns, np.array(covers, np.bool_))

    def _number(self, element: Element) -> Element:
        """The number in the selection of its first element from an element of the array on."""
        return element - self._start if self._step == 1 else -((self._start - element) // self._step)

    def _before(self, element: int) -> int:
        """How many elements of the selection are before an element of the array."""
        return max(min(self._number(element), self.size), 0)

    def kernel_columns(self, low: int, high: int) -> tuple[int, ...]:
        """Entries low to high, in the form of an axis for the kernel's read_shards: numbers, from which it computes the columns."""
        return self._start, self._step, self.size, self.length, self.extent, low, high

    def shards(self, low: int, high: int, shard_extent: int) -> Shards:
        """Coordinates of the shards (shard_extent inner chunks each) that entries low to high touch, ascending."""
        if self._dense:
            return range((self._first + low) // shard_extent, (self._first + high - 1) // shard_extent + 1)
        element = np.arange(low, high, dtype=np.int64) * self._step + self._start
        return _distinct(element // self.extent // shard_extent)

    def cut(self, low: int, shard_extent: int, limit: int) -> int:
        """The end of the longest range of entries from `low` with whole shards (shard_extent inner chunks each) and at most `limit` entries; the end of the
        first shard if that is already longer."""
        high: int = min(low + limit, self.count)
        if high == self.count or shard_extent == 1:
            return high
        end = self._first_entry(self._shard(high, shard_extent), shard_extent)
        return end if end > low else self._first_entry(self._shard(low, shard_extent) + 1, shard_extent)

    def _shard(self, entry: int, shard_extent: int) -> int:
        chunk = self._first + entry if self._dense else (self._start + entry * self._step) // self.extent
        return chunk // shard_extent

    def _first_entry(self, shard: int, shard_extent: int) -> int:
        if self._dense:
            entry = shard * shard_extent - self._first
        else:
            entry = self._number(shard * shard_extent * self.extent)
        return min(max(entry, 0), self.count)

    def widest(self, shard_extent: int) -> int:
        """The most entries that a shard can have."""
        dense = shard_extent if self._dense else -(-shard_extent * self.extent // self._step)
        return max(1, min(dense, self.count))

    def whole_shards(self, shards: Columns, shard_extent: int) -> Flags:
        """For each shard coordinate along this axis, whether all its in-bounds elements along this axis are selected."""
        extent = min(shard_extent * self.extent, self.length)
        base = shards * extent
        room = np.minimum(self.length - base, extent)
        begin, end = np.maximum(self._number(base), 0), np.minimum(self._number(base + room), self.size)
        whole: Flags = end - begin == room
        return whole

    def is_whole(self, shard: int, shard_extent: int) -> bool:
        """As whole_shards, for one."""
        extent = min(shard_extent * self.extent, self.length)
        begin, end = shard * extent, min((shard + 1) * extent, self.length)
        return self._before(end) - self._before(begin) == end - begin


class IndexAxis:
    """Any elements in any order, also repeated. As RegularAxis, but columns of the selection's size are kept."""

    __slots__ = (
        *("_chunk", "_chunk_extent", "_covers", "_covers_before", "_first_run", "_runs"),
        *("count", "extent", "length", "size"),
    )

    def __init__(self, indices: Columns, length: int, extent: int, positions: Columns | None = None) -> None:
        """positions: of the indices in the result, ascending; None: 0, 1, 2, ..."""
        self._set_extents(length, extent)
        self.size = indices.size
        chunk = indices // self.extent
        at = positions  # None: each index is at its own position
        if bool((chunk[1:] < chunk[:-1]).any()):
            # by position within a chunk: in a write the last position of a repeated element wins
            order = np.argsort(chunk, kind="stable")
            chunk, indices, at = chunk[order], indices[order], order if positions is None else positions[order]
        joined = (chunk[1:] == chunk[:-1]) & (indices[1:] == indices[:-1] + 1)
        if at is not None:
            joined &= at[1:] == at[:-1] + 1
        begin = np.concatenate(([0], np.flatnonzero(~joined) + 1))  # the first element of each run
        self._runs = np.empty((begin.size, 4), np.int64)
        np.subtract(indices[begin], chunk[begin] * self.extent, out=self._runs[:, 0])
        self._runs[:, 1] = np.diff(begin, append=self.size)
        self._runs[:, 2] = 1
        self._runs[:, 3] = begin if at is None else at[begin]
        of_run = chunk[begin]
        self._first_run = np.concatenate(([0], np.flatnonzero(of_run[1:] != of_run[:-1]) + 1, [begin.size]))
        self._chunk = of_run[self._first_run[:-1]]
        self.count = self._chunk.size
        room = np.minimum(self.length - self._chunk * self.extent, self.extent)
        first_element = np.append(begin, self.size)[self._first_run]
        self._covers = np.diff(first_element) >= room
        if bool(self._covers.any()):  # enough elements; they must also be distinct
            element = np.sort(indices)
            new = np.append(True, element[1:] != element[:-1])
            self._covers = np.add.reduceat(new, first_element[:-1], dtype=np.int64) == room
        self._covers_before = np.append(0, np.cumsum(self._covers, dtype=np.int64))

    def _set_extents(self, length: int, extent: int) -> None:
        self.length = length
        self._chunk_extent = extent
        self.extent = min(extent, max(length, 1))

    def entries(self, low: int, high: int) -> AxisEntries:
        first = self._first_run[low : high + 1]
        entries = np.empty((high - low, 2), np.int64)
        np.subtract(first[:-1], first[0], out=entries[:, 0])
        np.subtract(first[1:], first[:-1], out=entries[:, 1])
        runs = self._runs[int(first[0]) : int(first[-1])]
        chunk = self._chunk[low:high]
        filled = chunk < self.length // self._chunk_extent
        return AxisEntries(chunk, entries, runs, self._covers[low:high] & filled)

    def kernel_columns(self, low: int, high: int) -> tuple[Columns, Columns, Columns]:
        """As RegularAxis.kernel_columns; here as columns."""
        chunk, entries, runs, _ = self.entries(low, high)
        return chunk, entries, runs

    def shards(self, low: int, high: int, shard_extent: int) -> Shards:
        return _distinct(self._chunk[low:high] // shard_extent)

    def cut(self, low: int, shard_extent: int, limit: int) -> int:
        high: int = min(low + limit, self.count)
        if high == self.count or shard_extent == 1:
            return high
        end = self._first_entry(int(self._chunk[high]) // shard_extent * shard_extent)
        return end if end > low else self._first_entry((int(self._chunk[low]) // shard_extent + 1) * shard_extent)

    def _first_entry(self, chunk: int) -> int:
        return int(self._chunk.searchsorted(chunk)) if chunk < 2**63 else self.count

    def widest(self, shard_extent: int) -> int:
        return max(1, min(shard_extent, self.count))

    def whole_shards(self, shards: Columns, shard_extent: int) -> Flags:
        chunks = -(-self.length // self.extent)
        extent = min(shard_extent, chunks)
        base = shards * extent
        room = np.minimum(chunks - base, extent)
        before = self._covers_before
        covered = before[self._chunk.searchsorted(base + room)] - before[self._chunk.searchsorted(base)]
        whole: Flags = covered == room
        return whole

    def is_whole(self, shard: int, shard_extent: int) -> bool:
        return bool(self.whole_shards(np.array([shard], np.int64), shard_extent)[0])


Axis = RegularAxis | IndexAxis


def plan_axis(selection: AxisSelection, length: int, extent: int) -> Axis:
    """One dimension of the array, `length` elements in inner chunks of `extent`."""
    if selection.indices is None or not selection.indices.size:
        return RegularAxis(selection, length, extent)
    return IndexAxis(selection.indices, length, extent)


def _distinct(ascending: Columns) -> Columns:
    """The distinct values of an ascending column."""
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]


def spread(starts: Columns, counts: Columns) -> Columns:
    """The ranges starts[i] to starts[i] + counts[i], one after the other."""
    ends = counts.cumsum()
    total = int(ends[-1]) if ends.size else 0
    return np.repeat(starts - ends + counts, counts) + np.arange(total, dtype=np.int64)
