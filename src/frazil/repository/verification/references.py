"""Compares the references in manifests with the listing of chunk files, in columns. Each manifest is read once, for all snapshots that use it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.base.record import Record
from frazil.base.reports import counted
from frazil.errors import FormatError
from frazil.formats.ids import ObjectId, encode_id, encode_ids
from frazil.formats.manifests import INLINE, NATIVE, VIRTUAL, Manifest, order_manifest, rows_of_array, rows_of_node
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.id_columns import Ids, id_column, join, octets
from frazil.repository.maintenance.object_listing import Listed
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.manifests.boxes import read_extents
from frazil.repository.manifests.coordinates import no_coordinates, sorted_coordinates, sorting_order, within
from frazil.repository.verification.histories import UNREADABLE
from frazil.repository.verification.report import Findings, Kind
from frazil.repository.verification.snapshots import Expected, Use, batches
from frazil.repository.verification.virtual_files import VirtualFiles
from frazil.stores.values import Columns

_MANIFESTS: Final = 16  # read in one batch
DIFFERS: Final = 1
UNREAD: Final = 2
_NAMED: Final = 3  # chunk files that the text of a problem names


class ChunkStates(Record):
    """The chunk file of each of n rows: bool[n] whether it exists, int64[n] its bytes, int8[n] as in ChunkFiles."""

    there: NDArray[np.bool_]
    ends: Columns
    read_faults: NDArray[np.int8]


class ChunkFiles:
    """The listed chunk files.

    ids      sorted;  sizes: int64[n], bytes
    used     bool[n]: files that have a reference
    read_faults  int8[n]: DIFFERS for files with other bytes than were written, UNREAD for those that cannot be read, else 0 (digests.py)"""

    __slots__ = ("_missing", "read_faults", "ids", "sizes", "used")

    def __init__(self, listed: Listed) -> None:
        assert listed.sizes is not None
        self.ids, self.sizes = listed.ids, listed.sizes
        self.used, self.read_faults = np.zeros(len(listed.ids), np.bool_), np.zeros(len(listed.ids), np.int8)
        self._missing: list[Ids] = []

    @property
    def missing(self) -> Ids:
        """The chunk files that manifests have named so far and that are not listed, sorted."""
        return join(self._missing)

    def find(self, manifest: Manifest) -> ChunkStates:
        """What is known of the chunk file of each row of a manifest."""
        exists, ends = np.zeros(manifest.size, np.bool_), np.zeros(manifest.size, np.int64)
        read_faults = np.zeros(manifest.size, np.int8)
        rows = np.flatnonzero(manifest.kinds == NATIVE)
        ids = id_column(manifest.ids[rows])
        if rows.size and len(self.ids):
            at = np.minimum(self.ids.searchsorted(ids), len(self.ids) - 1)
            sizes = self.sizes[at]
            exists[rows] = self.ids[at] == ids
            ends[rows] = sizes
            read_faults[rows] = np.where(exists[rows], self.read_faults[at], 0)
            self.used[at[exists[rows]]] = True
        if not exists[rows].all():
            self._missing.append(ids[~exists[rows]])
        return ChunkStates(exists, ends, read_faults)


class Fault(Record):
    """What is wrong with some rows of a manifest. wrong: bool[k]; sound: whether the rows can be written again unchanged"""

    kind: Kind
    text: str
    wrong: NDArray[np.bool_]
    sound: bool = False


def faults(manifest: Manifest, rows: Columns, states: ChunkStates) -> list[Fault]:
    """What is wrong with int64[k] rows of a manifest. Pure."""
    exists, ends, read_faults = states
    kinds, offsets, lengths, names = (
        column[rows] for column in (manifest.kinds, manifest.offsets, manifest.lengths, manifest.locations)
    )
    stops = offsets + lengths
    native, inline, virtual = kinds == NATIVE, kinds == INLINE, kinds == VIRTUAL
    nowhere = (names < 0) | (names >= manifest.location_starts.size - 1)
    negative = (offsets < 0) | (lengths < 0)
    return [
        Fault("missing", "chunk files are missing", native & ~exists[rows], sound=True),
        Fault(
            "range",
            "chunk files are shorter than references say",
            native & exists[rows] & (stops > ends[rows]) & ~negative,
            sound=True,
        ),
        Fault(
            "digest",
            "chunk files have other bytes than were written",
            native & (read_faults[rows] == DIFFERS),
            sound=True,
        ),
        Fault("access", "chunk files cannot be read", native & (read_faults[rows] == UNREAD), sound=True),
        Fault("range", "inline chunks are longer than the manifest", inline & (stops > manifest.inline.size)),
        Fault("range", "virtual chunks have no location", virtual & nowhere),
        Fault("range", "offsets or lengths are negative", negative),
        Fault("reference", "references are of an unknown kind", ~(native | inline | virtual)),
    ]


class References:
    """The check of all references, and its counts. chunk_files: the listed files; virtual_files: checks files elsewhere, None: they are not contacted"""

    __slots__ = ("_chunk_files", "_files", "_found", "_virtual_files", "references", "strays", "virtual")

    def __init__(
        self,
        files: RepositoryFormat,
        chunk_files: ChunkFiles,
        found: Findings,
        virtual_files: VirtualFiles | None = None,
    ) -> None:
        self._files, self._chunk_files, self._found = files, chunk_files, found
        self._virtual_files = virtual_files
        self.references = self.strays = self.virtual = 0

    def check_all(self, expected: Expected, progress: Progress) -> None:
        """Reads and checks every manifest. Raises StoreError."""
        ids = sorted(expected.listed_manifests)
        numbers = count()
        for values in batches(self._files.manifests, ids, _MANIFESTS):
            for value, number in zip(values, numbers, strict=False):
                subject, key = expected.listed_manifests[ids[number]], self._key(ids[number])
                if isinstance(value, Exception):
                    assert isinstance(value, UNREADABLE)
                    self._found.unreadable("manifest", value, subject, key)
                elif order_manifest(value) is not value:
                    self._found.add(
                        "manifest", "its references are not in order, or have the same coordinates", subject, key
                    )
                else:
                    self._check(ids[number], value, expected.manifests.get(ids[number], {}))
            progress("manifests read", len(values))

    def check_disjoint(self, expected: Expected) -> None:
        """Finds chunks that two manifests of an array contain: programs differ in which one they read. Unreadable manifests are already reported. Raises
        StoreError."""
        for (node, rank, ids), subject in expected.disjoint.items():
            parts = [no_coordinates(rank)]
            for values in batches(self._files.manifests, ids, _MANIFESTS):
                parts += [
                    rows_of_array(manifest, node, rank)[1] for manifest in values if isinstance(manifest, Manifest)
                ]
            chunks = np.concatenate(parts)
            chunks = chunks[sorting_order(chunks)]
            twice = chunks[1:][(chunks[1:] == chunks[:-1]).all(axis=1)]
            if len(twice):
                text = "several manifests of the array have these chunks, and programs differ in which one they read"
                self._found.add("reference", text, subject, None, sorted_coordinates(twice))

    def _names(self, manifest: Manifest, rows: Columns) -> str:
        """The keys of the chunk files of some rows, as far as there is room."""
        ids = join([id_column(manifest.ids[rows])])
        names = [self._files.key(f"chunks/{text}") for text in encode_ids(octets(ids[:_NAMED]))]
        return f": {', '.join(names)}" + (f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else "")

    def _key(self, file: ObjectId) -> str:
        return self._files.key(f"manifests/{encode_id(file)}")

    def _check(self, file: ObjectId, manifest: Manifest, uses: Mapping[tuple[int, int], Use]) -> None:
        states = self._chunk_files.find(manifest)
        for use in uses.values():
            rows, chunks = rows_of_array(manifest, use.node.id, len(use.grid))
            self.references += rows.size
            rows, chunks = self._check_positions(file, manifest, use, rows, chunks)
            self.virtual += int(np.count_nonzero(manifest.kinds[rows] == VIRTUAL))
            for fault in faults(manifest, rows, states):
                if fault.wrong.any():
                    text = fault.text + (self._names(manifest, rows[fault.wrong]) if fault.sound else "")
                    self._add_problem(fault.kind, text, use, file, chunks, fault.wrong)
            if self._virtual_files is not None:
                for text, wrong in self._virtual_files.faults(manifest, rows):
                    self._add_problem("virtual", text, use, file, chunks, wrong)

    def _check_positions(
        self, file: ObjectId, manifest: Manifest, use: Use, rows: Columns, chunks: Columns
    ) -> tuple[Columns, Columns]:
        """Checks the coordinates of an array. Returns its rows within the grid, and their coordinates."""
        own = rows_of_node(manifest, use.node.id)
        other_ranks = own.stop - own.start - rows.size
        inside = within(chunks, use.grid)
        if use.foreign:
            self.strays += other_ranks + int(np.count_nonzero(~inside))
            try:
                self._files.check_references(file, manifest, use.node)
            except FormatError as error:
                self._found.add("misplaced", error.message, use.subject, self._key(file))
        else:
            if other_ranks:
                text = f"{counted(int(other_ranks), 'reference')} with another number of indices than the array has dimensions"
                self._found.add("reference", text, use.subject, self._key(file))
            self._add_problem(
                "reference", "references are outside of the grid of the array", use, file, chunks, ~inside
            )
        for extents in use.extents:
            box = read_extents(extents, len(use.grid))
            if box is None:
                continue
            if len(chunks) != box.count and not other_ranks:
                text = f"it has {counted(len(chunks), 'reference')} of the array, and the snapshot says {box.count}"
                self._found.add("manifest", text, use.subject, self._key(file))
            else:
                text = "references are outside of the box in which readers look for them"
                self._add_problem("reference", text, use, file, chunks, ~box.has_each(chunks))
        return (rows, chunks) if inside.all() else (rows[inside], chunks[inside])

    def _add_problem(
        self, kind: Kind, text: str, use: Use, file: ObjectId, chunks: Columns, wrong: NDArray[np.bool_]
    ) -> None:
        if wrong.any():
            self._found.add(kind, text, use.subject, self._key(file), chunks[wrong])
