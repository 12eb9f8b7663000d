"""Which chunks of one array differ between two lists of manifests, and which references are equal. Pure: the caller passes a function that loads manifests.

Manifests in both lists are not read if possible, so that what a commit does not change costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import eq
from typing import Final, TypeAlias

import numpy as np

from frazil.base.arrays import Flags, Octets
from frazil.base.record import Record
from frazil.formats.ids import ObjectId
from frazil.formats.manifests import INLINE, NATIVE, VIRTUAL, FileCheck, Manifest, rows_of_array
from frazil.formats.nodes import ManifestReference
from frazil.repository.manifests.boxes import read_extents
from frazil.repository.manifests.coordinates import (
    ChunkIndex,
    ChunkKeys,
    no_coordinates,
    sorted_coordinates,
    within,
)
from frazil.repository.manifests.manifest_parts import require_box
from frazil.repository.virtual.file_checks import plain_location
from frazil.stores.values import Columns

_FEW: Final = 4  # chunks

Load: TypeAlias = "Callable[[Sequence[ObjectId]], Sequence[Manifest]]"


# --- lists of manifests -----------------------------------------------------------------------------------------------------------------


class Listed(Record):
    """An array in a snapshot. grid: chunks along each dimension; manifests: the first that has a chunk is used; free: whether the snapshot has overlays and
    extents, which only Frazil writes: otherwise no two manifests of an array have the same chunk"""

    node: int
    grid: tuple[int, ...]
    manifests: tuple[ManifestReference, ...]
    free: bool


class FoundRows(Record):
    """For each chunk the number of its manifest, or -1, and its row in it."""

    manifests: Sequence[Manifest]
    numbers: Columns
    rows: Columns

    def at(self, positions: Columns) -> FoundRows:
        return self._replace(numbers=self.numbers[positions], rows=self.rows[positions])


def own_manifests(old: Listed, new: Listed) -> list[ObjectId]:
    """The manifests that a comparison reads first: those that only one of the two lists has."""
    common = set(_common_manifests(old, new))
    return [reference.id for side in (old, new) for reference in side.manifests if reference.id not in common]


def compare_chunks(
    old: Listed, new: Listed, load: Load, only: Columns | None = None, *, exact: bool = False
) -> tuple[Columns, Columns, FoundRows]:
    """Coordinates of added or changed chunks, and of removed ones: int64[n, d], sorted; and the new references of the added or changed. Both
    arrays have the same rank. only: coordinates of the chunks that are compared, sorted; None: all

    Chunks are equal if their references are. A chunk that only the new side has in a manifest before the common ones counts as changed, whatever the common
    manifests contain, which are read for it if the comparison must be exact. Chunks outside of a grid do not count. If the grid shrinks, chunks that stay in a
    common manifest are not reported."""
    common = _common_manifests(old, new)
    sides = [_Listing(side, common, load) for side in (old, new)]
    chunks = sorted_coordinates(np.concatenate([side.chunks() for side in sides])) if only is None else only
    chunks = chunks[within(chunks, old.grid) | within(chunks, new.grid)]
    before, after = (side.find(chunks) for side in sides)
    was, now = before.numbers >= 0, after.numbers >= 0
    written = now & ~was
    both = np.flatnonzero(now & was)
    written[both] = ~_same(before, after, both)
    alone = np.flatnonzero(now & ~was) if exact else no_coordinates(1)[:, 0]
    if len(alone):
        covered = sides[0].find(chunks[alone], hidden=True)
        known = np.flatnonzero(covered.numbers >= 0)
        written[alone[known]] = ~_same(after.at(alone), covered, known)
    removed = np.flatnonzero(was & ~now)
    if not len(removed):
        return chunks[written], chunks[removed], after.at(np.flatnonzero(written))
    # chunks that are gone from the differing manifests may be in a common manifest after them
    uncovered = sides[1].find(chunks[removed], hidden=True)
    found = uncovered.numbers >= 0
    same = _same(before.at(removed), uncovered, np.flatnonzero(found))
    written[removed[found][~same]] = True
    after.numbers[removed[found]] = uncovered.numbers[found] + len(after.manifests)
    after.rows[removed[found]] = uncovered.rows[found]
    references = after._replace(manifests=[*after.manifests, *uncovered.manifests]).at(np.flatnonzero(written))
    return chunks[written], chunks[removed[~found]], references


def _common_manifests(old: Listed, new: Listed) -> list[ObjectId]:
    """The manifests of both lists, if both have them in the same order; otherwise those that both lists end with. Chunks that no other manifest has are
    equal on both sides."""
    if old.node != new.node:
        return []  # each array has its own references in it
    ours, theirs = ([reference.id for reference in side.manifests] for side in (old, new))
    both = set(ours) & set(theirs)
    our_order, their_order = ([at for at in dict.fromkeys(side) if at in both] for side in (ours, theirs))
    if our_order == their_order:
        return our_order
    count = 0
    while ours[-count - 1] == theirs[-count - 1]:
        count += 1
    return ours[len(ours) - count :]


class _Listing:
    """The manifests of one side."""

    __slots__ = ("common", "load", "own", "rank", "side")

    def __init__(self, side: Listed, common: Sequence[ObjectId], load: Load) -> None:
        self.side, self.load, self.rank, self.common = side, load, len(side.grid), set(common)
        self.own = self._loaded([reference.id for reference in side.manifests if reference.id not in self.common])

    def chunks(self) -> Columns:
        """All chunks in manifests of this side only."""
        parts = [rows_of_array(manifest, self.side.node, self.rank)[1] for manifest in self.own.values()]
        return np.concatenate([no_coordinates(self.rank), *parts])

    def find(self, chunks: Columns, *, hidden: bool = False) -> FoundRows:
        """Finds chunks, in this side's own manifests, and in common ones before these. hidden: only in common manifests, also after the own ones."""
        found = self._loaded(self._may_hold(chunks, hidden)) | ({} if hidden else self.own)
        listed = [found[reference.id] for reference in self.side.manifests if reference.id in found]
        parts = [rows_of_array(manifest, self.side.node, self.rank) for manifest in listed]
        if len(chunks) <= _FEW:
            return _find_few(listed, parts, chunks, self.side.grid)
        positions = np.empty((sum(len(rows) for rows, _ in parts) + 1, 2), np.int64)
        positions[-1] = -1
        positions[:-1, 0] = np.repeat(np.arange(len(parts)), [len(rows) for rows, _ in parts])
        positions[:-1, 1] = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in parts)])
        coordinates = np.concatenate([no_coordinates(self.rank), *(part for _, part in parts)])
        keys = ChunkKeys(self.rank, coordinates).of(coordinates)
        first = np.append(np.unique(keys, return_index=True)[1], len(keys))  # the last is for chunks that are not found
        numbers, rows = positions[first[ChunkIndex(coordinates[first[:-1]]).find(chunks)]].T
        return FoundRows(listed, np.where(within(chunks, self.side.grid), numbers, -1), rows)

    def _may_hold(self, chunks: Columns, everywhere: bool) -> list[ObjectId]:
        """Common manifests that may have some of the chunks: all, or those before the last of this side's own."""
        if not self.side.free or not len(chunks):
            return []
        listed = self.side.manifests
        own = [position for position, reference in enumerate(listed) if reference.id in self.own]
        boxes = {
            reference.id: read_extents(reference.extents, self.rank)
            for reference in (listed if everywhere else listed[: max(own, default=0)])
            if reference.id not in self.own
        }
        return [identity for identity, box in boxes.items() if box is None or box.has_each(chunks).any()]

    def _loaded(self, ids: Sequence[ObjectId]) -> dict[ObjectId, Manifest]:
        """Raises FormatError for a manifest with other references than the snapshot says."""
        loaded = dict(zip(ids, self.load(ids) if ids else [], strict=True))
        for reference in self.side.manifests if self.side.free else ():
            if (manifest := loaded.get(reference.id)) is not None:
                box = read_extents(reference.extents, self.rank)
                require_box(manifest, self.side.node, self.rank, box, reference.id)
        return loaded


def _find_few(
    manifests: Sequence[Manifest], parts: Sequence[tuple[Columns, Columns]], chunks: Columns, grid: Sequence[int]
) -> FoundRows:
    """Finds a few chunks: searching all rows is faster than building an index. parts: rows of each manifest, and their coordinates"""
    found = np.full((len(chunks), 2), -1, np.int64)
    for position, chunk in enumerate(chunks.tolist()):
        if not all(at < count for at, count in zip(chunk, grid, strict=True)):
            continue
        for number, (rows, coordinates) in enumerate(parts):
            at = (coordinates == chunk).all(axis=1).nonzero()[0]
            if at.size:
                found[position] = number, rows[at[0]]
                break
    return FoundRows(manifests, *found.T)


# --- references -------------------------------------------------------------------------------------------------------------------------


def _same(left: FoundRows, right: FoundRows, positions: Columns) -> Flags:
    """Whether both have the same references for the chunks at these positions, which both have: bool[k]."""
    same = np.zeros(len(positions), np.bool_)
    count = len(right.manifests)
    pairs, which = np.unique(left.numbers[positions] * count + right.numbers[positions], return_inverse=True)
    for number, pair in enumerate(pairs.tolist()):
        chosen = which == number
        rows = positions[chosen]
        left_manifest, other = left.manifests[pair // count], right.manifests[pair % count]
        same[chosen] = same_references(left_manifest, left.rows[rows], other, right.rows[rows])
    return same


def same_references(left: Manifest, left_rows: Columns, right: Manifest, right_rows: Columns) -> Flags:
    """bool[k]: whether row left_rows[i] of one manifest has the same reference as row right_rows[i] of another: the same inline bytes, the same span of the
    same chunk object, or of the same location. Coordinates and nodes are not compared."""
    kinds = left.kinds[left_rows]
    same: Flags = (kinds == right.kinds[right_rows]) & (left.lengths[left_rows] == right.lengths[right_rows])
    inline = kinds == INLINE
    same &= inline | (left.offsets[left_rows] == right.offsets[right_rows])
    if (check := np.flatnonzero(same & (kinds == NATIVE))).size:
        same[check] = (left.ids[left_rows[check]] == right.ids[right_rows[check]]).all(axis=1)
    if (check := np.flatnonzero(same & inline)).size:
        ours, theirs = left_rows[check], right_rows[check]
        chunks = (
            _spans(left.inline, left.offsets[ours], left.lengths[ours]),
            _spans(right.inline, right.offsets[theirs], right.lengths[theirs]),
        )
        same[check] = np.fromiter(map(eq, *chunks), np.bool_, check.size)
    if (check := np.flatnonzero(same & (kinds == VIRTUAL))).size:
        pairs = np.stack([left.locations[left_rows[check]], right.locations[right_rows[check]]], axis=1).astype(
            np.int64
        )
        folded = pairs[:, 0] * max(right.location_starts.size, 1) + pairs[:, 1]
        _, first, back = np.unique(folded, return_index=True, return_inverse=True)
        files = _texts_at if left.checks == right.checks else _files_at
        found = (files(left, pairs[first, 0]), files(right, pairs[first, 1]))
        same[check] = np.fromiter(map(eq, *found), np.bool_, first.size)[back]
    return same


def _spans(data: Octets, offsets: Columns, lengths: Columns) -> Iterator[bytes]:
    view = data.data
    for offset, length in zip(offsets.tolist(), lengths.tolist(), strict=True):
        yield view[offset : offset + length].tobytes()


def _texts_at(manifest: Manifest, locations: Columns) -> Iterator[bytes]:
    starts = manifest.location_starts[locations]
    return _spans(manifest.location_text, starts, manifest.location_starts[locations + 1] - starts)


def _files_at(manifest: Manifest, locations: Columns) -> Iterator[tuple[str, FileCheck | None]]:
    """The file at each location, and its required state."""
    for text in map(manifest.location, locations.tolist()):
        yield plain_location(text), manifest.checks.get(text)
