"""The chunk references of one array that a session changed, in columns; and the bytes of chunks that are not in a file yet.

change_set.py has the changed nodes. pending_chunks.py decides where pending chunks are written."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil import _kernel
from frazil.base.arrays import Octets, offsets_of
from frazil.base.record import Record
from frazil.formats.ids import ID_BYTES
from frazil.formats.manifests import INLINE, NATIVE, VIRTUAL, Manifest, Number, filled
from frazil.repository.manifests.coordinates import ChunkKeys
from frazil.stores.transfer.content import read_error
from frazil.stores.transfer.large_buffers import empty_buffer
from frazil.stores.values import Columns, Pieces

Keys = NDArray[np.generic]

__all__ = [
    "NATIVE",
    "PENDING",
    "REMOVED",
    "SHARED",
    "VIRTUAL",
    "ChangedReferences",
    "PendingBytes",
    "Rows",
    "count_fork",
    "distinct_numbers",
    "manifest_rows",
    "removed_rows",
]

# Kinds of references; the first three are those of manifests. NATIVE: in the chunk file with the row's id. VIRTUAL: in a file elsewhere, object is a number in
# the locations of the change set.
PENDING: Final = INLINE  # in memory: object is a segment of PendingBytes
REMOVED: Final = 3  # removed
# the object of a native row whose file has more than this chunk, or may have other references
SHARED: Final = -1

_FIRST_ROOM: Final = 16
_RANKS: Final = 16  # for which the empty columns are kept
_NO_COUNTS: Final[Columns] = np.zeros(0, np.int64)


class Rows(Record):
    """n new references: coordinates int64[n, d], kinds uint8[n], ids uint8[n, 12], objects, offsets and lengths int64[n]."""

    coordinates: Columns
    kinds: Octets
    ids: Octets
    objects: Columns
    offsets: Columns
    lengths: Columns

    def pick(self, which: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Rows:
        """Some rows, by number or by a mask; a slice shares memory."""
        return Rows._make([column[which] for column in self])

    def fill(self, at: int, rows: Rows) -> None:
        """Overwrites the rows from `at` on."""
        columns: tuple[Sequence[NDArray[np.generic]], ...] = (self, rows)
        for column, new in zip(*columns, strict=True):
            column[at : at + len(rows.lengths)] = new


def manifest_rows(coordinates: Columns, manifest: Manifest, which: Columns) -> Rows:
    """Some references of a manifest, int64[n], at these coordinates: objects are those of the manifest."""
    columns = manifest.kinds, manifest.ids, manifest.locations, manifest.offsets, manifest.lengths
    return Rows._make([coordinates, *(column[which] for column in columns)])


def removed_rows(coordinates: Columns) -> Rows:
    """Rows of removed chunks."""
    rows = _empty(0, len(coordinates))
    rows.kinds.fill(REMOVED)
    return rows._replace(coordinates=coordinates)


def distinct_numbers(numbers: NDArray[np.integer]) -> tuple[list[int], Columns]:
    """The distinct numbers, and the place of each number among them. There is at least one."""
    if (numbers == numbers[0]).all():
        return [int(numbers[0])], np.zeros(len(numbers), np.int64)
    distinct, indices = np.unique(numbers, return_inverse=True)
    return distinct.tolist(), indices


class PendingBytes:
    """Bytes of chunks that are not in a file yet, in one segment for each call that wrote some. The numbers of segments ascend and are never reused. Callers
    that add hold the session's lock."""

    __slots__ = ("_next", "nbytes", "segments")

    def __init__(self, segments: Mapping[int, Octets] = {}, following: int = 0) -> None:  # it is never changed
        self.segments, self._next = dict(segments), following
        self.nbytes = sum([segment.size for segment in self.segments.values()])

    def copy(self) -> PendingBytes:
        """A copy with the same segments."""
        return PendingBytes(self.segments, self._next)

    def only(self, number: int) -> PendingBytes:
        """A copy with one of the segments."""
        return PendingBytes({number: self.segments[number]}, self._next)

    def append(self, segment: Octets) -> int:
        """Adds a segment without copying; returns its number."""
        number, self._next = self._next, self._next + 1
        self.segments[number] = segment
        self.nbytes += segment.size
        return number

    def add(self, pieces: Pieces, lengths: Columns, threads: int = 1) -> tuple[int, Columns]:
        """Copies values, one after the other. Returns the number of their segment, and where each begins in it. Raises StoreError for a piece that cannot be
        read."""
        offsets = offsets_of(lengths)
        segment = empty_buffer(offsets.item(-1))
        files, buffers = pieces.sources
        failures = _kernel.read_rows(
            files, buffers, np.ascontiguousarray(pieces.rows), segment, offsets_of(pieces.rows[:, 2]), threads
        )
        for _, code, text in failures:
            raise read_error(code, text, None)
        segment.flags.writeable = False
        return self.append(segment), offsets[:-1]


class _Run(Record):
    """keys ascending and distinct, and the row of each."""

    keys: Keys
    rows: Columns


_generations: Final = itertools.count(1)
_forks = [0]  # of this process


def count_fork() -> int:
    """Counts a fork; rows of this process that are set later have at least this number."""
    _forks[0] += 1
    return _forks[0]


class ChangedReferences:
    """References by coordinates; the last one set is current. Rows never change, except pending rows that are written to a file. Rows that are not current
    are dropped when there is no room for new ones and they are more than half. The index is a list of sorted runs, each more than twice as long as the next, so
    that a call needs no Python object per chunk.

    generation  identifies, with the number of a row, the contents of the row: no other row of this process ever has both
    inherited   the number of first rows, which a fork had from the start and keeps: they are the state before the fork"""

    __slots__ = ("_columns", "_counts", "_keys", "_runs", "count", "generation", "inherited", "rank")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.count = 0  # rows, including superseded ones
        self.inherited = 0
        self.generation = next(_generations)
        self._columns = _no_rows(rank)
        self._counts = _NO_COUNTS  # of forks, when each row was set
        self._runs: list[_Run] = []
        self._keys = ChunkKeys(rank)

    @property
    def columns(self) -> Rows:
        """All rows, in the order in which they were set."""
        return self._columns.pick(slice(self.count))

    @property
    def has_removed(self) -> bool:
        """Whether a row, current or superseded, is of a removed chunk."""
        return REMOVED in self._columns.kinds[: self.count]

    def set(self, rows: Rows) -> Columns:
        """Sets references at distinct coordinates. Returns the numbers of their rows."""
        added = len(rows.coordinates)
        if self.count:
            self._reserve(added)
            self._columns.fill(self.count, rows)
            self._counts[self.count : self.count + added] = _forks[0]
        else:  # most sessions write once to an array
            self._columns = Rows._make([column.copy() for column in rows])
            self._counts = filled(added, _forks[0], np.int64)
        first, self.count = self.count, self.count + added
        numbers = np.arange(first, self.count) if added != 1 else np.array([first])
        if added:
            if self._keys.widen(rows.coordinates):  # wider keys keep the order, which is by coordinates
                for at, run in enumerate(self._runs):
                    self._runs[at] = _Run(self._keys.of(self._columns.coordinates[run.rows]), run.rows)
            keys = self._keys.of(rows.coordinates)
            if added > 1:
                order = np.argsort(keys, kind="stable")
                self._add(_Run(keys[order], numbers[order]))
            else:
                self._add(_Run(keys, numbers))
        return numbers

    def find(self, coordinates: Columns) -> Columns:
        """The row for each of int64[k, d] coordinates, -1 where none was set: int64[k]."""
        found = np.full(len(coordinates), -1, np.int64)
        if not self._runs:
            return found
        unfound = np.flatnonzero(self._keys.has(coordinates))
        keys = self._keys.of(coordinates if len(unfound) == len(coordinates) else coordinates[unfound])
        for run in reversed(self._runs):
            positions = np.minimum(run.keys.searchsorted(keys), len(run.keys) - 1)
            hit = run.keys[positions] == keys
            found[unfound[hit]] = run.rows[positions[hit]]
            unfound, keys = unfound[~hit], keys[~hit]
            if not len(unfound):
                break
        return found

    def find_one(self, coordinates: tuple[int, ...]) -> int:
        """As find, for the coordinates of one chunk."""
        if not self._runs:
            return -1
        key = self._keys.of_one(coordinates)
        if key is None:
            return -1
        for run in reversed(self._runs):
            position = int(run.keys.searchsorted(key))
            if position < len(run.keys) and run.keys[position] == key:
                return run.rows.item(position)
        return -1

    def row(self, number: int) -> tuple[int, bytes, int, int, int]:
        """Kind, id, object, offset and length of one row."""
        _, kinds, ids, *numbers = self._columns
        objects, offsets, lengths = [column.item(number) for column in numbers]
        return kinds.item(number), ids[number].tobytes(), objects, offsets, lengths

    def current(self) -> Columns:
        """The current rows, in order of their coordinates: int64[m]."""
        while len(self._runs) > 1:
            self._merge()
        return self._runs[0].rows if self._runs else np.zeros(0, np.int64)

    def current_chunks(self) -> Columns:
        """The coordinates of the current rows, in order: int64[m, d]."""
        return _copied_rows(self._columns.coordinates, self.current())

    def assign_objects(
        self, rows: Columns, offsets: Columns, *, segment: int = SHARED, ids: Octets | None = None
    ) -> None:
        """Moves pending rows to another segment or, with ids, to chunk files that may have more chunks."""
        columns = self._columns
        changed = columns._replace(objects=columns.objects.copy(), offsets=columns.offsets.copy())
        changed.objects[rows], changed.offsets[rows] = segment, offsets
        if ids is not None:
            changed = changed._replace(kinds=columns.kinds.copy(), ids=columns.ids.copy())
            changed.kinds[rows], changed.ids[rows] = NATIVE, ids
        self._columns = changed  # all at once, so that an interrupt does no harm

    def move_pending(self, source: PendingBytes, target: PendingBytes) -> None:
        """Gives pending rows their bytes from `target`, to which the segments of `source` that they need are added."""
        columns, rows = self._columns, self.current()
        rows = rows[columns.kinds[rows] == PENDING]
        if not len(rows):
            return
        numbers, place = distinct_numbers(columns.objects[rows])
        for at, number in enumerate(numbers):
            those = rows[place == at]
            self.assign_objects(those, columns.offsets[those], segment=target.append(source.segments[number]))

    def replace_files(self, old: NDArray[np.bytes_], new: NDArray[np.bytes_]) -> None:
        """Replaces chunk files (12 bytes an element, sorted) in native rows by others with the same bytes, which may have other references, too."""
        columns = self._columns
        ids = np.ascontiguousarray(columns.ids).reshape(-1).view(old.dtype)
        at = np.minimum(old.searchsorted(ids), len(old) - 1)
        changed = (columns.kinds == NATIVE) & (old[at] == ids)
        ids, objects = ids.copy(), columns.objects.copy()
        ids[changed], objects[changed] = new[at[changed]], SHARED
        self._columns = columns._replace(ids=ids.view(np.uint8).reshape(-1, ID_BYTES), objects=objects)

    def selected(self, rows: Columns) -> Rows:
        """Some of the rows."""
        return Rows._make([_copied_rows(column, rows) for column in self._columns])

    def copy(self) -> ChangedReferences:
        """A copy with the current rows."""
        other = ChangedReferences(self.rank)
        other.count, other._keys, other.inherited = self.count, self._keys.copy(), self.inherited
        other._columns, other._counts, other._runs = self._columns, self._counts, list(self._runs)
        other._compact()
        return other

    def inherit(self) -> None:
        """Begins a fork with the current rows."""
        self.inherited = 0
        self._compact()
        self.inherited = self.count

    def whole_files(self, rows: Columns) -> Octets:
        """The chunk files that only this session refers to, for just one of these rows: uint8[k, 12]. Packs may have chunks of others; they are left to garbage
        collection."""
        alone = (self._columns.kinds[rows] == NATIVE) & (self._columns.objects[rows] != SHARED)
        ids: Octets = self._columns.ids[rows[alone]]
        return ids

    def outermost_files(self) -> Octets:
        """The chunk files of the rows that were set first and last, of the current ones: uint8[k, 12], k is 0 or 2."""
        rows = self.current()
        rows = rows[self._columns.kinds[rows] == NATIVE]
        ids: Octets = self._columns.ids[[rows.min(), rows.max()] if rows.size else []]
        return ids

    def mark_shared(self) -> None:
        """Marks the chunk files of all rows as shared; copies of the rows keep the mark."""
        self._columns.objects[self._columns.kinds == NATIVE] = SHARED

    def own(self) -> Columns:
        """The current rows that were set since the fork, in order of their coordinates."""
        rows = self.current()
        return rows[rows >= self.inherited]

    def since(self, count: int) -> Columns:
        """The current rows that were set after this number of forks, in order of their coordinates."""
        rows = self.current()
        return rows[self._counts[rows] >= count]

    def __reduce__(self) -> tuple[object, ...]:
        parts = [self.selected(part) for part in (np.arange(self.inherited), self.own())]
        return _restored, (self.rank, *parts)

    def _reserve(self, added: int) -> None:
        """Makes room for more rows; if half of all rows are not current, they are dropped first."""
        room = len(self._columns.lengths)
        if self.count + added <= room:
            return
        if 2 * (self.inherited + len(self.own())) + added <= self.count:
            self._compact()
        room = max(2 * self.count + added, _FIRST_ROOM)
        columns, counts = _empty(self.rank, room), np.zeros(room, np.int64)
        columns.fill(0, self.columns)
        counts[: self.count] = self._counts[: self.count]
        self._columns, self._counts = columns, counts

    def _compact(self) -> None:
        """Drops the rows that are neither current nor inherited. The others get new numbers, in new memory."""
        remaining = np.concatenate((np.arange(self.inherited), np.sort(self.own())))
        self._columns, self._counts = self._columns.pick(remaining), self._counts[remaining]
        self._runs = [_Run(run.keys, remaining.searchsorted(run.rows)) for run in self._runs]
        self.count, self.generation = len(remaining), next(_generations)

    def _add(self, run: _Run) -> None:
        self._runs.append(run)
        while len(self._runs) > 1 and 2 * len(self._runs[-1].rows) >= len(self._runs[-2].rows):
            self._merge()

    def _merge(self) -> None:
        """Merges the last two runs; of equal keys that of the later run stays."""
        newer, older = self._runs.pop(), self._runs.pop()
        keys = np.concatenate((older.keys, newer.keys))
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], np.concatenate((older.rows, newer.rows))[order]
        last = np.ones(len(keys), np.bool_)
        last[:-1] = keys[1:] != keys[:-1]
        self._runs.append(_Run(keys[last], rows[last]))


def _copied_rows(column: NDArray[Number], rows: Columns) -> NDArray[Number]:
    """A copy of some rows of a column. Indexing with numbers releases the GIL; for one row that costs more than the rest of a small commit."""
    if len(rows) != 1:
        return column[rows]
    at = rows.item(0)
    return column[at : at + 1].copy()


def _empty(rank: int, room: int) -> Rows:
    ids = np.zeros((room, ID_BYTES), np.uint8)
    return Rows(np.zeros((room, rank), np.int64), np.zeros(room, np.uint8), ids, *np.zeros((3, room), np.int64))


@lru_cache(_RANKS)
def _no_rows(rank: int) -> Rows:
    return _empty(rank, 0)


def _restored(rank: int, inherited: Rows, own: Rows) -> ChangedReferences:
    references = ChangedReferences(rank)
    references.set(inherited)
    references.inherited = references.count
    references.set(own)
    return references
