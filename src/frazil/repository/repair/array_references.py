"""Rebuilds the references of one array from manifests of which some are damaged: good references, those of older snapshots, and lost ones.

It only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Final

import numpy as np

from frazil.base.arrays import Flags
from frazil.base.record import Record
from frazil.errors import FormatError
from frazil.formats.ids import ID_BYTES, ObjectId
from frazil.formats.manifests import NATIVE, Manifest, node_manifest, rows_of_array, rows_of_node, select_rows
from frazil.formats.nodes import ManifestReference, NodeSnapshot
from frazil.repository.format import RepositoryFormat, Rules
from frazil.repository.manifests.boxes import Extents, read_extents
from frazil.repository.manifests.chunk_comparison import same_references
from frazil.repository.manifests.coordinates import (
    ChunkIndex,
    among,
    grid_of,
    no_coordinates,
    sorted_coordinates,
    within,
)
from frazil.repository.manifests.manifest_parts import join_pieces, trimmed
from frazil.repository.repair.report import Consents
from frazil.repository.verification.histories import UNREADABLE
from frazil.repository.verification.references import ChunkFiles, faults
from frazil.stores.values import Columns

_MOST_POSITIONS: Final = 2**22  # largest number of places of a box that are looked at one by one

Source = tuple[ObjectId, Callable[[], "list[Piece]"]]  # a snapshot, and the references that the array has there


class Piece(Record):
    """The references of an array in one manifest of its list.

    id      of the manifest
    rows    of the array alone, within its grid; None if they cannot be read or trusted
    chunks  int64[n, d]: their coordinates; if rows is None, all that the manifest may have had, or None for any in `box`
    good    bool[n]: the bytes exist;  sound: bool[n]: the row can be written unchanged
    box     the box of the manifest, if known"""

    id: ObjectId
    rows: Manifest | None
    chunks: Columns | None
    good: Flags
    sound: Flags
    box: Extents | None


class Rebuilt(Record):
    """The rebuilt references of an array.

    written   all references; None if writing them would lose some, or if they did not change
    restored  references from older snapshots: the snapshot (None: another manifest), and int64[n, d] coordinates
    lost      what is wrong, and int64[n, d] coordinates; None if these are unknown
    hidden    int64[n, d]: chunks with a bad reference that a good one hides: no reader uses it, and it is dropped"""

    written: Manifest | None
    restored: tuple[tuple[ObjectId | None, Columns], ...]
    lost: tuple[tuple[str, Columns | None], ...]
    hidden: Columns


_NONE: Final = np.zeros(0, np.bool_)


def no_references(rank: int) -> Manifest:
    """A manifest without rows."""
    zero = np.zeros(0, np.int64)
    return node_manifest(0, no_coordinates(rank), np.zeros(0, np.uint8), np.zeros((0, ID_BYTES), np.uint8), zero, zero)


def read_pieces(
    files: RepositoryFormat, node: NodeSnapshot, grid: tuple[int, ...], rules: Rules, chunk_files: ChunkFiles
) -> list[Piece]:
    """The references of an array, by manifest. Those outside of `grid` are dropped. Raises StoreError."""
    assert node.array is not None
    return [
        _read_piece(files, node, reference, grid, rules, chunk_files)
        for reference in dict.fromkeys(node.array.manifests)
    ]


def _read_piece(
    files: RepositoryFormat,
    node: NodeSnapshot,
    reference: ManifestReference,
    grid: tuple[int, ...],
    rules: Rules,
    chunk_files: ChunkFiles,
) -> Piece:
    rank = len(grid)
    box = read_extents(reference.extents, rank) if rules.extents else None
    hidden = Piece(reference.id, None, None, _NONE, _NONE, box)
    try:
        (manifest,) = files.manifests([reference.id])
    except UNREADABLE:
        return hidden
    rows, chunks = rows_of_array(manifest, node.id, rank)
    own = rows_of_node(manifest, node.id)
    if rules.foreign:
        try:
            files.check_references(reference.id, manifest, node)
        except FormatError:
            return hidden._replace(chunks=chunks[within(chunks, grid)])
    elif rows.size != own.stop - own.start:
        return hidden
    if box is not None and (len(chunks) != box.count or not box.has_each(chunks).all()):
        return hidden
    inside = within(chunks, grid)
    if not inside.all():
        rows, chunks = rows[inside], chunks[inside]
    bad, broken = np.zeros(rows.size, np.bool_), np.zeros(rows.size, np.bool_)
    for fault in faults(manifest, rows, chunk_files.find(manifest)):
        bad |= fault.wrong
        if not fault.sound:
            broken |= fault.wrong
    return Piece(reference.id, select_rows(manifest, rows), chunks, ~bad, ~broken, box)


def rebuild(
    node: NodeSnapshot,
    pieces: Sequence[Piece],
    older: Iterable[Source],
    undecodable: Columns,
    consents: Consents,
    *,
    rewrite: bool = False,
) -> Rebuilt:
    """Rebuilds the references of an array. Raises StoreError.

    pieces       the first that has a chunk is used
    older        the same array in older snapshots, newest first
    undecodable  int64[n, d]: chunks whose bytes exist but cannot be decoded
    rewrite      write references even if all are good"""
    assert node.array is not None
    building = _Building(grid_of(node.array.metadata), list(older), consents)
    for piece in pieces:
        if piece.rows is None:
            building.replace(piece)
        else:
            building.take(piece, undecodable)
    return building.result(node.id, rewrite=rewrite)


class _Building:
    """The references that are rebuilt so far, starting with the first manifest of the list.

    _covered   int64[n, d], sorted: chunks that are decided
    _doubtful  boxes and coordinates of manifests that could not be replaced completely: later manifests may have older references of their chunks"""

    def __init__(self, grid: tuple[int, ...], older: list[Source], consents: Consents) -> None:
        self._grid, self._older, self._consents = grid, older, consents
        self._read: dict[int, list[Piece]] = {}
        self._covered = no_coordinates(len(grid))
        self._parts: list[Manifest] = []
        self._restored: list[tuple[ObjectId | None, Columns]] = []
        self._lost: list[tuple[str, Columns | None]] = []
        self._doubtful: list[Piece] = []
        self._hidden = no_coordinates(len(grid))
        self._lost_unlisted = False  # something is lost that has no row

    # --- good manifests

    def take(self, piece: Piece, undecodable: Columns) -> None:
        """Takes the rows whose chunks no earlier manifest has."""
        assert piece.rows is not None
        assert piece.chunks is not None
        fresh = ~among(piece.chunks, self._covered)
        good = fresh & piece.good & ~among(piece.chunks, undecodable)
        self._add(piece.rows, piece.chunks, good)
        if self._doubtful:
            doubtful = good & np.logical_or.reduce([_may_have(region, piece.chunks) for region in self._doubtful])
            if doubtful.any():
                self._restored.append((None, piece.chunks[doubtful]))
        self._hidden = np.concatenate([self._hidden, piece.chunks[~fresh & ~piece.good]])
        bad = np.flatnonzero(fresh & ~good)
        if len(bad):
            self._take_bad(piece, bad)

    def _take_bad(self, piece: Piece, bad: Columns) -> None:
        """Replaces rows whose bytes are missing: by the same reference in an older snapshot, or by an older state of the chunk if that is allowed; else it
        keeps them if it may."""
        assert piece.rows is not None
        assert piece.chunks is not None
        chunks, rows = piece.chunks[bad], select_rows(piece.rows, bad)
        unfound = np.ones(len(bad), np.bool_)
        for same in (True, False) if self._consents.older else (True,):
            for number, (snapshot, _) in enumerate(self._older):
                found = self._from_older(number, rows, chunks, unfound, same=same)
                if found.any():
                    self._restored.append((snapshot, chunks[found]))
                    unfound &= ~found
                if not unfound.any():
                    return
        text = "their bytes are missing or damaged"
        self._lost.append((text, chunks[unfound]))
        if not self._consents.accept_loss:
            self._lost_unlisted |= not piece.sound[bad[unfound]].all()
            self._add(piece.rows, piece.chunks, among(piece.chunks, chunks[unfound]))
        self._add_covered(chunks)

    def _from_older(self, number: int, bad: Manifest, chunks: Columns, unfound: Flags, *, same: bool) -> Flags:
        """Replaces bad references to `chunks` by good ones of an older snapshot, and returns which it replaced. same: only by references to the same chunk
        files."""
        found = np.zeros(len(chunks), np.bool_)
        decided = ~unfound
        for piece in self._pieces(number):
            if piece.rows is None or piece.chunks is None:
                decided |= _may_have(piece, chunks)
                continue
            at = ChunkIndex(piece.chunks).find(chunks)
            undecided = np.flatnonzero((at >= 0) & ~decided)
            decided[undecided] = True
            rows = at[undecided]
            of_file = (piece.rows.ids[rows] == bad.ids[undecided]).all(axis=1) & (bad.kinds[undecided] == NATIVE)
            fits = piece.good[rows] & ~same_references(piece.rows, rows, bad, undecided)
            if same:
                fits &= of_file
            found_older = np.zeros(len(piece.chunks), np.bool_)
            found_older[rows[fits]] = True
            self._add(piece.rows, piece.chunks, found_older)
            found[undecided[fits]] = True
        return found

    # --- damaged manifests

    def replace(self, piece: Piece) -> None:
        """Takes from older snapshots the references that an unreadable manifest may have had."""
        complete = False
        for number, (snapshot, _) in enumerate(self._older):
            theirs = self._pieces(number)
            if any(reference.id == piece.id for reference in theirs):
                continue
            complete = all(reference.rows is not None for reference in theirs)
            behind: list[Piece] = []
            for reference in theirs:
                if reference.rows is None or reference.chunks is None:
                    behind.append(reference)
                    continue
                fresh = _may_have(piece, reference.chunks) & ~among(reference.chunks, self._covered)
                for hidden in behind:
                    fresh &= ~_may_have(hidden, reference.chunks)
                self._add(reference.rows, reference.chunks, fresh & reference.good)
                if (fresh & reference.good).any():
                    self._restored.append((snapshot, reference.chunks[fresh & reference.good]))
                bad = np.flatnonzero(fresh & ~reference.good)
                if len(bad):  # snapshots before this one may have them
                    self._take_bad(reference, bad)
            if complete:
                break
        self._record_lost(piece, complete=complete)

    def _record_lost(self, piece: Piece, *, complete: bool) -> None:
        """Records what a manifest may have had and no older snapshot has."""
        if not complete:
            self._doubtful.append(piece)
        uncovered = self._uncovered(piece)
        if uncovered is not None and not len(uncovered):
            return
        box = piece.box
        certain = box is not None and box.count == box.capacity
        text = "the manifest is damaged, and no older snapshot has them"
        if not certain:
            text = "the manifest is damaged, and may have had these" + (
                "" if box is None else f", {box.count} of the box at most"
            )
        self._lost.append((text, uncovered))
        self._lost_unlisted = True

    def _uncovered(self, piece: Piece) -> Columns | None:
        """The places that a manifest may have had, and that are undecided; None if they are too many to list."""
        if piece.chunks is not None:
            return piece.chunks[~among(piece.chunks, self._covered)]
        first = (0,) * len(self._grid) if piece.box is None else piece.box.first
        stop = self._grid
        if piece.box is not None:
            stop = tuple(min(last + 1, end) for last, end in zip(piece.box.last, self._grid, strict=True))
        sides = [max(end - start, 0) for start, end in zip(first, stop, strict=True)]
        if prod(sides) > _MOST_POSITIONS:
            covered = int(np.count_nonzero(_may_have(piece, self._covered)))
            return no_coordinates(len(sides)) if covered == prod(sides) else None
        chunks = np.indices(sides, np.int64).reshape(len(sides), prod(sides)).T + np.array(first, np.int64)
        return chunks[~among(chunks, self._covered)]

    # --- the result

    def _pieces(self, number: int) -> list[Piece]:
        if number not in self._read:
            self._read[number] = self._older[number][1]()
        return self._read[number]

    def _add(self, rows: Manifest, chunks: Columns, which: Flags) -> None:
        if which.any():
            self._parts.append(rows if which.all() else trimmed(select_rows(rows, np.flatnonzero(which))))
            self._add_covered(chunks[which])

    def _add_covered(self, chunks: Columns) -> None:
        self._covered = sorted_coordinates(np.concatenate([self._covered, chunks]))

    def result(self, node: int, *, rewrite: bool) -> Rebuilt:
        restored, lost = tuple(self._restored), tuple(self._lost)
        hidden = sorted_coordinates(self._hidden)
        cannot = self._lost_unlisted and not self._consents.accept_loss
        changes = rewrite or restored or len(hidden) or (lost and self._consents.accept_loss)
        if cannot or not changes:
            return Rebuilt(None, (), lost, hidden[:0])
        if not self._parts:
            return Rebuilt(no_references(len(self._grid)), restored, lost, hidden)
        parts = [part._replace(nodes=np.full(part.size, node, np.uint32)) for part in self._parts]
        return Rebuilt(join_pieces(parts), restored, lost, hidden)


def _may_have(piece: Piece, chunks: Columns) -> Flags:
    """Which chunks an unreadable manifest may have had."""
    if piece.chunks is not None:
        return among(chunks, piece.chunks)
    return np.ones(len(chunks), np.bool_) if piece.box is None else piece.box.has_each(chunks)
