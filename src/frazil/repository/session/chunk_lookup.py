"""Where chunks of a session's array lie: what the session changed before what its snapshot has; for many chunks in columns, for one by plain numbers. And the versions
that they have.

Which references there are is asked of changed_references.py and manifests/references.py. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.formats.alpha.manifests import INLINE as INLINE_REFERENCE
from frazil.formats.alpha.manifests import NATIVE as NATIVE_REFERENCE
from frazil.formats.alpha.manifests import VIRTUAL as VIRTUAL_REFERENCE
from frazil.formats.ids import ID_BYTES, encode_id, encode_ids
from frazil.record import Record
from frazil.repository.session.changed_references import NATIVE, PENDING, REMOVED, VIRTUAL, ChangedReferences, Rows
from frazil.repository.virtual.mixed_fetch import VIRTUAL_KIND, ObjectNames
from frazil.stores.array_storage.chunk_storage import INLINE, NOWHERE, STORED, Located
from frazil.stores.values import Changed, Version

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.ids import ObjectId
    from frazil.repository.format import RepositoryFormat
    from frazil.repository.manifests.references import BaseReferences
    from frazil.repository.session.change_set import ChangeSet
    from frazil.repository.virtual.file_checks import FileCheck
    from frazil.stores.values import SourceBuffer

    Columns = NDArray[np.int64]
    Octets = NDArray[np.uint8]

__all__ = ["ChunkLookup", "id_texts", "set_versions"]

_FIRST: Final = np.zeros(1, np.int64)
_KINDS: Final = {kind: np.array([kind], np.uint8) for kind in (NOWHERE, STORED, INLINE)}
_FIRST.flags.writeable = False
for _kind in _KINDS.values():
    _kind.flags.writeable = False


class ChunkLookup(Record):
    """The chunks of one array of a session. changed: those that the session changed; base: those of the snapshot; changes: of the whole session. Whoever asks holds the
    session's lock. Raises what loading a manifest raises."""

    changed: ChangedReferences | None
    base: BaseReferences | None
    changes: ChangeSet
    files: RepositoryFormat

    def find(self, coordinates: Columns) -> Found:
        """Looks chunks up, int64[n, d]."""
        count = len(coordinates)
        nothing = np.full(count, -1, np.int64)
        mine = nothing if self.changed is None else self.changed.find(coordinates)
        part, row = nothing, nothing
        if self.base is not None:
            left = np.flatnonzero(mine < 0)
            if len(left) == count:
                part, row = self.base.find(coordinates)
            elif len(left):
                part, row = nothing.copy(), nothing.copy()
                part[left], row[left] = self.base.find(coordinates[left])
        return Found(mine, part, row)

    def locate(self, coordinates: Columns) -> Located:
        """Where chunks lie, int64[n, d]; distinct chunk files and locations once."""
        found = self.find(coordinates)
        placed = _Columns(len(coordinates))
        mine = np.flatnonzero(found.changed >= 0)
        if len(mine) and self.changed is not None:
            placed.take_changed(mine, self.changed.selected(found.changed[mine]), self.changes)
        if self.base is not None:
            for part in np.unique(found.part[found.part >= 0]).tolist():
                of_part = np.flatnonzero(found.part == part)
                placed.take_stored(of_part, self.base, part, found.row[of_part])
        names: list[str] = []
        if placed.native.any():
            distinct, where = _distinct_ids(placed.ids[placed.native])
            names = [self.files.key(f"chunks/{text}") for text in encode_ids(distinct)]
            placed.objects[placed.native] = where
        changed = 0 if self.changed is None else self.changed.generation
        versions = RowVersions(
            placed.kind, placed.ids, placed.offsets, placed.lengths, found, (changed, self.changes.generation)
        )
        if placed.texts:
            virtual = placed.kind == VIRTUAL_KIND
            chunks = np.zeros((len(placed.texts), coordinates.shape[1]), np.int64)
            chunks[placed.objects[virtual][::-1]] = coordinates[virtual][::-1]  # of several the first
            placed.objects[virtual] += len(names)
            names = ObjectNames(names, placed.texts, placed.checks, chunks)
        return Located(
            names, placed.kind, placed.objects, placed.offsets, placed.lengths, placed.buffers, versions, True
        )

    def locate_one(self, coordinates: tuple[int, ...]) -> Located | None:
        """As locate, for one chunk, by plain numbers; None for one in a file elsewhere."""
        changed, base = self.changed, self.base
        mine = -1 if changed is None else changed.find_one(coordinates)
        if changed is not None and mine >= 0:
            kind, file, number, offset, length = changed.row(mine)
            if kind == REMOVED:
                return _located(NOWHERE)
            if kind == NATIVE:
                return _in_file(self.files, file, offset, length)
            if kind != PENDING:
                return None
            version = row_version(changed.generation, mine, -1, -1, offset, length)
            return _located(INLINE, None, self.changes.pending.segments[number], version, offset, length)
        part, row = (-1, -1) if base is None else base.find_one(coordinates)
        if base is None or row < 0:
            return _located(NOWHERE)
        manifest = base.manifest(part)
        kind, offset, length = manifest.kinds.item(row), manifest.offsets.item(row), manifest.lengths.item(row)
        if kind == NATIVE_REFERENCE:
            return _in_file(self.files, manifest.ids[row].tobytes(), offset, length)
        if kind != INLINE_REFERENCE:
            return None
        version = row_version(self.changes.generation, -1, part, row, offset, length)
        return _located(INLINE, None, manifest.inline, version, offset, length)


class Found(Record):
    """Where n chunks are. changed: int64[n], the row among those that the session changed, -1: none; part, row: int64[n], the manifest of the snapshot and
    the row in it, -1: none. A chunk with neither is not there; nor is one that the session removed."""

    changed: Columns
    part: Columns
    row: Columns


class _Columns:
    """The columns of Located while they are filled, and the buffers and locations that they refer to."""

    __slots__ = ("buffers", "checks", "ids", "kind", "lengths", "native", "objects", "offsets", "texts")

    def __init__(self, count: int) -> None:
        self.kind, self.ids = np.zeros(count, np.uint8), np.zeros((count, ID_BYTES), np.uint8)
        self.objects, self.offsets, self.lengths = (np.zeros(count, np.int64) for _ in range(3))
        self.native = np.zeros(count, np.bool_)
        self.buffers: list[Octets] = []
        self.texts: list[str] = []
        self.checks: list[FileCheck | None] = []

    def take_changed(self, at: Columns, rows: Rows, changes: ChangeSet) -> None:
        """Chunks that the session changed."""
        kinds = rows.kinds
        self.ids[at], self.offsets[at], self.lengths[at] = rows.ids, rows.offsets, rows.lengths
        self.native[at] = kinds == NATIVE
        self.kind[at] = np.array([INLINE, STORED, VIRTUAL_KIND, NOWHERE], np.uint8)[kinds]
        pending, virtual = kinds == PENDING, kinds == VIRTUAL
        if pending.any():
            segments, where = np.unique(rows.objects[pending], return_inverse=True)
            self.objects[at[pending]] = where
            self.buffers += [changes.pending.segments[number] for number in segments.tolist()]
        if virtual.any():
            numbers, where = np.unique(rows.objects[virtual], return_inverse=True)
            self.objects[at[virtual]] = where
            self.texts += [changes.locations[number] for number in numbers.tolist()]
            self.checks += [changes.location_checks.get(text) for text in self.texts]

    def take_stored(self, at: Columns, base: BaseReferences, part: int, rows: Columns) -> None:
        """Chunks of one manifest of the snapshot."""
        manifest = base.manifest(part)
        kinds = manifest.kinds[rows]
        self.ids[at], self.offsets[at], self.lengths[at] = (
            manifest.ids[rows], manifest.offsets[rows], manifest.lengths[rows]
        )  # fmt: skip
        self.native[at] = kinds == NATIVE_REFERENCE
        self.kind[at] = np.array([INLINE, STORED, VIRTUAL_KIND], np.uint8)[kinds]
        inline, virtual = kinds == INLINE_REFERENCE, kinds == VIRTUAL_REFERENCE
        if inline.any():
            self.objects[at[inline]] = len(self.buffers)
            self.buffers.append(manifest.inline)
        if virtual.any():
            numbers, where = np.unique(manifest.locations[rows[virtual]], return_inverse=True)
            self.objects[at[virtual]] = where + len(self.texts)
            texts, checks = [manifest.location(number) for number in numbers.tolist()], base.checks(part)
            self.texts += texts
            self.checks += [checks.get(text) for text in texts]


def id_texts(ids: Octets) -> NDArray[np.bytes_]:
    """uint8[n, 12] as one value each, which can be sorted and looked up."""
    return np.ascontiguousarray(ids).view(f"S{ID_BYTES}").reshape(-1)


def _distinct_ids(ids: Octets) -> tuple[Octets, Columns]:
    """The ids, each once, and for each row which."""
    if len(ids) == 1 or (ids[1:] == ids[:1]).all():
        return ids[:1], np.zeros(len(ids), np.int64)
    texts, where = np.unique(id_texts(ids), return_inverse=True)
    return np.frombuffer(texts.tobytes(), np.uint8).reshape(-1, ID_BYTES), where


class RowVersions(Sequence["Version | None"]):
    """What tells one value of a chunk from another within a session; made when it is asked for."""

    __slots__ = ("_columns", "_found", "_generations")

    def __init__(
        self, kind: Octets, ids: Octets, offsets: Columns, lengths: Columns, found: Found, generations: tuple[int, int]
    ) -> None:
        self._columns, self._found, self._generations = (kind, ids, offsets, lengths), found, generations

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, row: int) -> Version | None:  # type: ignore[override] # nobody slices it
        kind, ids, offsets, lengths = self._columns
        if kind[row] == NOWHERE:
            return None
        if kind[row] == STORED:
            return file_version(ids[row].tobytes(), offsets.item(row), lengths.item(row))
        numbers = [column.item(row) for column in (*self._found, offsets, lengths)]
        return row_version(self._generations[numbers[0] < 0], *numbers)


def set_versions(rows: Rows, numbers: Columns, generation: int) -> list[Version | Changed]:
    """The versions that new rows have. numbers: theirs among the changed references of that generation"""
    columns = (rows.kinds, numbers, rows.offsets, rows.lengths)
    return [
        file_version(rows.ids[i].tobytes(), offset, length)
        if kind == NATIVE
        else b""
        if kind == REMOVED
        else row_version(generation, number, -1, -1, offset, length)
        for i, (kind, number, offset, length) in enumerate(zip(*(column.tolist() for column in columns), strict=True))
    ]


def _located(
    kind: int,
    name: str | None = None,
    buffer: SourceBuffer | None = None,
    version: Version | None = None,
    offset: int = 0,
    length: int = 0,
) -> Located:
    names, buffers = () if name is None else (name,), () if buffer is None else (buffer,)
    span = np.array((offset, length), np.int64)
    return Located(names, _KINDS[kind], _FIRST, span[:1], span[1:], buffers, (version,), True)


def _in_file(files: RepositoryFormat, file: ObjectId, offset: int, length: int) -> Located:
    name = files.key(f"chunks/{encode_id(file)}")
    return _located(STORED, name, None, file_version(file, offset, length), offset, length)


def file_version(file: ObjectId, offset: int, length: int) -> Version:
    """What tells a value in a chunk file from any other."""
    return b"%b%d+%d" % (file, offset, length)


def row_version(generation: int, changed: int, part: int, row: int, offset: int, length: int) -> Version:
    """What tells a value that has no chunk file from others of this process: its row among those that were changed, or the manifest and the row there, -1: none; and the
    generation of either, as numbers of rows mean other chunks after a commit."""
    return b"%d %d %d %d %d %d" % (generation, changed, part, row, offset, length)
