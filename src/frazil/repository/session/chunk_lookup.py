"""Finds chunks of a session's array and their versions: first among the changes of the session (changed_references.py), then in its snapshot
(manifests/references.py). Many chunks are looked up in columns, one chunk by plain numbers. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.base.arrays import Octets, distinct
from frazil.base.record import Record
from frazil.formats.ids import ID_BYTES, ObjectId, encode_id, encode_ids
from frazil.formats.manifests import NATIVE, VIRTUAL, FileCheck
from frazil.repository.format import RepositoryFormat
from frazil.repository.manifests.references import BaseReferences
from frazil.repository.session.change_set import ChangeSet
from frazil.repository.session.changed_references import (
    PENDING,
    REMOVED,
    ChangedReferences,
    Rows,
    distinct_numbers,
    manifest_rows,
)
from frazil.repository.virtual.mixed_fetch import VIRTUAL_KIND, ObjectNames
from frazil.stores.array_storage.chunk_storage import INLINE, NOWHERE, STORED, Located
from frazil.stores.values import ABSENT, Columns, Version

_LOCATED: Final = np.array([INLINE, STORED, VIRTUAL_KIND, NOWHERE], np.uint8)  # by the kinds of references
_FIRST: Final = np.zeros(1, np.int64)
_KINDS: Final = {kind: np.array([kind], np.uint8) for kind in (NOWHERE, STORED, INLINE)}
_FIRST.flags.writeable = False
for _kind in _KINDS.values():
    _kind.flags.writeable = False


class ChunkLookup(Record):
    """changed: the chunks of an array that the session changed; base: those of the snapshot; changes: of the whole session. The caller holds the session's
    lock. Raises the errors of loading a manifest."""

    changed: ChangedReferences | None
    base: BaseReferences | None
    changes: ChangeSet
    files: RepositoryFormat

    def locate(self, coordinates: Columns) -> Located:
        """Finds chunks, int64[n, d]. Each chunk file and location is listed once."""
        changed, base, changes, count = self.changed, self.base, self.changes, len(coordinates)
        placed = _Placed(count)
        changed_rows = np.full(count, -1, np.int64) if changed is None else changed.find(coordinates)
        found = np.flatnonzero(changed_rows >= 0)
        if changed is not None and len(found):
            segment, location = changes.pending.segments.__getitem__, changes.locations.__getitem__
            placed.take(found, changed.selected(changed_rows[found]), segment, location, changes.location_checks)
        part, row = np.full((2, count), -1, np.int64)
        if base is not None and len(found) < count:
            unchanged = np.flatnonzero(changed_rows < 0)
            part[unchanged], row[unchanged] = base.find(
                coordinates if len(unchanged) == count else coordinates[unchanged]
            )
            for number in distinct(part[part >= 0]).tolist():
                of_part = np.flatnonzero(part == number)
                manifest = base.manifest(number)
                rows = manifest_rows(coordinates[of_part], manifest, row[of_part])
                inline = [manifest.inline].__getitem__
                placed.take(of_part, rows, inline, manifest.location, base.checks(number))
        generations = (0 if changed is None else changed.generation, changes.generation)
        columns = placed.kind, placed.ids, placed.offsets, placed.lengths, (changed_rows, part, row), generations
        return placed.located(self.files, coordinates, _Versions(count, partial(_versions, *columns)))

    def locate_one(self, coordinates: tuple[int, ...]) -> Located | None:
        """As locate, for one chunk, by plain numbers; None if it is in a file elsewhere."""
        changed, base, changes = self.changed, self.base, self.changes
        changed_row = -1 if changed is None else changed.find_one(coordinates)
        if changed is not None and changed_row >= 0:
            kind, file, number, offset, length = changed.row(changed_row)
            buffer = changes.pending.segments[number] if kind == PENDING else None
            version = changed_version(changed.generation, changed_row)
        else:
            part, row = (-1, -1) if base is None else base.find_one(coordinates)
            if base is None or row < 0:
                return _located(NOWHERE)
            manifest = base.manifest(part)
            kind, offset, length = manifest.kinds.item(row), manifest.offsets.item(row), manifest.lengths.item(row)
            file, buffer = manifest.ids[row].tobytes() if kind == NATIVE else b"", manifest.inline
            version = base_version(changes.generation, part, row)
        if kind == NATIVE:
            name = self.files.key(f"chunks/{encode_id(file)}")
            return _located(STORED, name, None, file_version(file, offset, length), offset, length)
        if kind == PENDING:
            return _located(INLINE, None, buffer, version, offset, length)
        return _located(NOWHERE) if kind == REMOVED else None


class _Placed:
    """The columns of Located while they are filled, and their buffers and locations."""

    __slots__ = ("buffers", "checks", "ids", "kind", "lengths", "objects", "offsets", "texts")

    def __init__(self, count: int) -> None:
        self.kind, self.ids = np.zeros(count, np.uint8), np.zeros((count, ID_BYTES), np.uint8)
        self.objects, self.offsets, self.lengths = np.zeros((3, count), np.int64)
        self.buffers: list[Octets] = []
        self.texts: list[str] = []
        self.checks: list[FileCheck | None] = []

    def take(
        self,
        at: Columns,
        rows: Rows,
        segment: Callable[[int], Octets],
        location: Callable[[int], str],
        checks: Mapping[str, FileCheck],
    ) -> None:
        """Adds chunks, from their references. segment, location: by the number of an object; checks: by locations"""
        self.ids[at], self.offsets[at], self.lengths[at] = rows.ids, rows.offsets, rows.lengths
        self.kind[at] = _LOCATED[rows.kinds]
        pending, virtual = rows.kinds == PENDING, rows.kinds == VIRTUAL
        if pending.any():
            numbers, indices = distinct_numbers(rows.objects[pending])
            self.objects[at[pending]] = indices + len(self.buffers)
            self.buffers += [segment(number) for number in numbers]
        if virtual.any():
            numbers, indices = distinct_numbers(rows.objects[virtual])
            self.objects[at[virtual]] = indices + len(self.texts)
            texts = [location(number) for number in numbers]
            self.texts += texts
            self.checks += [checks.get(text) for text in texts]

    def located(self, files: RepositoryFormat, coordinates: Columns, versions: _Versions) -> Located:
        native, names = self.kind == STORED, list[str]()
        if native.any():
            distinct, indices = _distinct_ids(self.ids[native])
            names = [files.key(f"chunks/{text}") for text in encode_ids(distinct)]
            self.objects[native] = indices
        if self.texts:
            virtual = self.kind == VIRTUAL_KIND
            chunks = np.zeros((len(self.texts), coordinates.shape[1]), np.int64)
            chunks[self.objects[virtual][::-1]] = coordinates[virtual][::-1]  # of several chunks the first
            self.objects[virtual] += len(names)
            names = ObjectNames(names, self.texts, self.checks, chunks)
        return Located(names, self.kind, self.objects, self.offsets, self.lengths, self.buffers, versions, True)


def id_texts(ids: Octets) -> NDArray[np.bytes_]:
    """uint8[n, 12] as one value each, which can be sorted and looked up."""
    return np.ascontiguousarray(ids).view(f"S{ID_BYTES}").reshape(-1)


def _distinct_ids(ids: Octets) -> tuple[Octets, Columns]:
    """The distinct ids, and the place of the id of each row among them."""
    if len(ids) == 1 or (ids[1:] == ids[:1]).all():
        return ids[:1], np.zeros(len(ids), np.int64)
    texts, indices = np.unique(id_texts(ids), return_inverse=True)
    return np.frombuffer(texts.tobytes(), np.uint8).reshape(-1, ID_BYTES), indices


def _located(
    kind: int,
    name: str | None = None,
    buffer: Octets | None = None,
    version: Version | None = None,
    offset: int = 0,
    length: int = 0,
) -> Located:
    names, buffers = () if name is None else (name,), () if buffer is None else (buffer,)
    span = np.array((offset, length), np.int64)
    return Located(names, _KINDS[kind], _FIRST, span[:1], span[1:], buffers, (version,), True)


class _Versions(Sequence["Version | None"]):
    """The versions of chunks, created on first use, as few readers need them."""

    __slots__ = ("_count", "_made", "_make")

    def __init__(self, count: int, make: Callable[[], list[Version | None]]) -> None:
        self._count, self._make, self._made = count, make, list["Version | None"]()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> Version | None:  # type: ignore[override] # it is never sliced
        self._made = self._made or self._make()
        return self._made[row]

    def __iter__(self) -> Iterator[Version | None]:
        self._made = self._made or self._make()
        return iter(self._made)


def _versions(
    kinds: Octets,
    ids: Octets,
    offsets: Columns,
    lengths: Columns,
    rows: tuple[Columns, Columns, Columns],
    generations: tuple[int, int],
) -> list[Version | None]:
    """The versions of chunks, which distinguish their values within a session. rows: the row among the changed ones, -1: none; else the manifest and the row in
    it. generations: of both kinds of rows, as their numbers mean other chunks after a commit"""
    columns: list[list[int]] = [column.tolist() for column in (kinds, *rows, offsets, lengths)]
    files: list[bytes] = np.ascontiguousarray(ids).view(f"V{ID_BYTES}").reshape(-1).tolist()
    changed, base = generations
    return [
        None
        if kind == NOWHERE
        else file_version(file, offset, length)
        if kind == STORED
        else changed_version(changed, mine)
        if mine >= 0
        else base_version(base, part, row)
        for file, kind, mine, part, row, offset, length in zip(files, *columns, strict=True)
    ]


def set_versions(rows: Rows, numbers: Columns, generation: int) -> list[Version]:
    """The versions of new rows. numbers: theirs in the changed references of that generation"""
    kinds = _LOCATED[rows.kinds]
    found = _versions(kinds, rows.ids, rows.offsets, rows.lengths, (numbers, numbers, numbers), (generation, 0))
    return [version or ABSENT for version in found]


def file_version(file: ObjectId, offset: int, length: int) -> Version:
    """The version of a value in a chunk file."""
    return b"%b%d+%d" % (file, offset, length)


def changed_version(generation: int, row: int) -> Version:
    """The version of a value without a chunk file, from its row in the changed references: no other row of this process has both numbers."""
    return b"%d %d" % (generation, row)


def base_version(generation: int, part: int, row: int) -> Version:
    """The version of a value without a chunk file, from the manifest of the snapshot and the row in it."""
    return b"%d %d %d" % (generation, part, row)
