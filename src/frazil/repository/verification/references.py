"""The references in manifests against the listing of chunk files, in columns. Each manifest is read once, for all snapshots that have it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import FormatError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.manifests import INLINE, NATIVE, VIRTUAL, Manifest, order_manifest, rows_of_array, rows_of_node
from frazil.repository.maintenance.id_columns import id_column
from frazil.repository.manifests.boxes import read_extents
from frazil.repository.manifests.coordinates import within
from frazil.repository.verification.histories import UNREADABLE
from frazil.repository.verification.report import Findings, Kind
from frazil.repository.verification.snapshots import Expected, Use, batches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.repository.format import RepositoryFormat
    from frazil.repository.maintenance.listed import Listed
    from frazil.repository.maintenance.reachable import Progress

    Columns = NDArray[np.int64]

__all__ = ["References"]

_MANIFESTS: Final = 16  # read in one batch


class References:
    """The check of all references, and what it counted."""

    __slots__ = ("_files", "_found", "_listed", "references", "strays", "used", "virtual")

    def __init__(self, files: RepositoryFormat, listed: Listed, found: Findings) -> None:
        assert listed.sizes is not None
        self._files, self._listed, self._found = files, listed, found
        self.used = np.zeros(len(listed.ids), np.bool_)  # chunk files that something refers to
        self.references = self.strays = self.virtual = 0

    def check_all(self, expected: Expected, progress: Progress) -> None:
        """Reads and checks every manifest. Raises StoreError."""
        ids = sorted(expected.listed_manifests)
        numbers = count()
        for values in batches(self._files.manifests, ids, _MANIFESTS):
            for value, number in zip(values, numbers, strict=False):
                place, key = expected.listed_manifests[ids[number]], self._key(ids[number])
                if isinstance(value, Exception):
                    assert isinstance(value, UNREADABLE)
                    self._found.unreadable("manifest", value, place, key)
                elif order_manifest(value) is not value:
                    self._found.add(
                        "manifest", "its references are not in order, or have the same coordinates", place, key
                    )
                else:
                    self._check(ids[number], value, expected.manifests.get(ids[number], {}))
            progress("manifests read", len(values))

    def _key(self, file: ObjectId) -> str:
        return self._files.key(f"manifests/{encode_id(file)}")

    def _check(self, file: ObjectId, manifest: Manifest, uses: Mapping[tuple[int, int], Use]) -> None:
        there, ends = self._chunk_files(manifest)
        for use in uses.values():
            rows, chunks = rows_of_array(manifest, use.node.id, len(use.grid))
            self.references += rows.size
            rows, chunks = self._check_places(file, manifest, use, rows, chunks)
            kinds = manifest.kinds[rows]
            stops = manifest.offsets[rows] + manifest.lengths[rows]
            native, inline, virtual = kinds == NATIVE, kinds == INLINE, kinds == VIRTUAL
            self.virtual += int(np.count_nonzero(virtual))
            names = manifest.locations[rows]
            bad: list[tuple[Kind, str, NDArray[np.bool_]]] = [
                ("missing", "chunk files are not there", native & ~there[rows]),
                ("range", "chunk files are shorter than references say", native & there[rows] & (stops > ends[rows])),
                ("range", "inline chunks are longer than the manifest", inline & (stops > manifest.inline.size)),
                (
                    "range",
                    "virtual chunks have no location",
                    virtual & ((names < 0) | (names >= manifest.location_starts.size - 1)),
                ),
                (
                    "range",
                    "offsets or lengths are negative",
                    (manifest.offsets[rows] < 0) | (manifest.lengths[rows] < 0),
                ),
                ("reference", "references are of an unknown kind", ~(native | inline | virtual)),
            ]
            for kind, text, wrong in bad:
                self._say(kind, text, use, file, chunks, wrong)

    def _chunk_files(self, manifest: Manifest) -> tuple[NDArray[np.bool_], Columns]:
        """For each row whether its chunk file is there, and the size of that."""
        assert self._listed.sizes is not None
        there, ends = np.zeros(manifest.size, np.bool_), np.zeros(manifest.size, np.int64)
        rows = np.flatnonzero(manifest.kinds == NATIVE)
        if rows.size and len(self._listed.ids):
            ids = id_column(manifest.ids[rows])
            at = np.minimum(self._listed.ids.searchsorted(ids), len(self._listed.ids) - 1)
            sizes = self._listed.sizes[at]
            there[rows] = (self._listed.ids[at] == ids) & (sizes >= 0)  # -1: it went while it was listed
            ends[rows] = sizes
            self.used[at[there[rows]]] = True
        return there, ends

    def _check_places(
        self, file: ObjectId, manifest: Manifest, use: Use, rows: Columns, chunks: Columns
    ) -> tuple[Columns, Columns]:
        """Checks the coordinates of an array; its rows within the grid, and their coordinates."""
        own = rows_of_node(manifest, use.node.id)
        other_ranks = own.stop - own.start - rows.size
        inside = within(chunks, use.grid)
        if use.foreign:
            self.strays += other_ranks + int(np.count_nonzero(~inside))
            try:
                self._files.check_references(file, manifest, use.node)
            except FormatError as error:
                self._found.add("misplaced", error.message, use.place, self._key(file))
        else:
            if other_ranks:
                text = f"{other_ranks} references have another number of indices than the array has dimensions"
                self._found.add("reference", text, use.place, self._key(file))
            self._say("reference", "references lie outside of the grid of the array", use, file, chunks, ~inside)
        for extents in use.extents:
            box = read_extents(extents, len(use.grid))
            if box is not None:
                text = "references lie outside of the box in which readers look for them"
                self._say("reference", text, use, file, chunks, ~box.has_each(chunks))
        return (rows, chunks) if inside.all() else (rows[inside], chunks[inside])

    def _say(self, kind: Kind, text: str, use: Use, file: ObjectId, chunks: Columns, wrong: NDArray[np.bool_]) -> None:
        if wrong.any():
            self._found.add(kind, text, use.place, self._key(file), chunks[wrong])
