"""Decides which manifests a commit writes, and which each array lists afterwards. Pure: the caller loads `Placing.needed`, and writes the files.

In the list of an array, the first manifest that has a chunk is used. The list has, in this order:

    overlays      fewer than SPLIT / 2 references each; each has at least TIER times as many as the one before it
    parts         SPLIT / 2 to SPLIT references each; no chunk is in two of them
    a small part  at most one, with fewer than SPLIT / 2 references; only after parts

The references of a commit become a new overlay at the front. It is merged with the following overlays while these are smaller than TIER times the merged size.
If the result reaches SPLIT / 2, it is merged with the parts whose boxes contain some of its chunks, and split evenly again. The format cannot mark a chunk as
removed: manifests that may have one, or reach outside of a grid that has shrunk, are rewritten without it; those that have nothing else are dropped unread.

Without freedoms, written chunks are first removed from the manifests that have them, extents are neither trusted nor written, and no file has references of two
arrays (repository/alpha/shared_manifests.py). If extents are not trusted, or one is invalid, all manifests of the array are loaded; if parts are not disjoint,
all are merged. Costs and reasons: docs/design/013-manifests-of-a-commit.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.manifests import Manifest, order_manifest, rows_of_array, select_rows
from frazil.formats.nodes import ManifestReference
from frazil.repository.format import ArrayPlacement
from frazil.repository.manifests.boxes import Extents, extents_of, read_extents
from frazil.repository.manifests.coordinates import among, sorted_coordinates, within
from frazil.repository.manifests.manifest_parts import join_pieces, piece_of, require_box, split_piece, trimmed
from frazil.stores.values import Columns

SPLIT: Final = 16_384  # references of a manifest, at most
TIER: Final = 4


class Placed(Record):
    """The manifests of a commit. Several arrays may share a file (only with freedoms); each has at most SPLIT references."""

    files: tuple[tuple[ObjectId, Manifest], ...]  # to be written
    references: tuple[tuple[ManifestReference, ...], ...]  # the new list of each ArrayPlacement
    unlisted: frozenset[ObjectId]  # manifests that these arrays listed before and no longer list. Other arrays may


class _Entry(Record):
    """One manifest of an array: an existing file (reference), or a piece to be written (manifest, with only this array's references)."""

    extents: Extents
    reference: ManifestReference | None = None
    manifest: Manifest | None = None


class _Plan(Record):
    """What happens to the manifests of a list, by number. The others are dropped without being read."""

    touched: Sequence[bool]  # of each, whether it may have a chunk that has to be removed
    overlays: list[int]
    parts: list[int]
    needed: list[int]
    merged: int | None  # overlays that are merged with the written references; None: unknown before some are rewritten


class Placing:
    """Places the references of a commit: `needed` lists the manifests that have to be loaded, then `place` returns the new ones.

    freedoms  lists may have overlays
    trusted   whether Frazil wrote the extents of the snapshot, which it never did without freedoms
    Raises InvalidInputError for references that do not fit their array, or are outside of its grid."""

    __slots__ = ("_arrays", "_freedoms", "_lists", "_split")

    def __init__(self, arrays: Sequence[ArrayPlacement], *, freedoms: bool, trusted: bool, split: int = SPLIT) -> None:
        self._arrays, self._freedoms, self._split = arrays, freedoms, split
        self._lists = [_List(array, split, freedoms=freedoms, trusted=trusted and freedoms) for array in arrays]

    def needed(self) -> list[ObjectId]:
        """The distinct manifests that have to be loaded."""
        return list(dict.fromkeys([identity for list_ in self._lists for identity in list_.needed()]))

    def place(self, loaded: Mapping[ObjectId, Manifest], id_of: Callable[[Manifest], ObjectId]) -> Placed:
        """The new manifests, and the new list of each array. id_of: returns the id of a manifest. Raises InvalidInputError if a wanted manifest is not
        loaded, FormatError if one has another number of references than the snapshot says."""
        lists = [list_.place(loaded) for list_ in self._lists]
        files, ids = _share_files(self._arrays, lists, self._split if self._freedoms else 0, id_of)
        references = tuple(
            tuple(
                entry.reference or ManifestReference(ids[number, at], entry.extents.listed() if self._freedoms else ())
                for at, entry in enumerate(entries)
            )
            for number, entries in enumerate(lists)
        )
        before = {reference.id for array in self._arrays for reference in array.manifests}
        return Placed(tuple(files), references, frozenset(before - {used.id for list_ in references for used in list_}))


def _share_files(
    arrays: Sequence[ArrayPlacement],
    lists: Sequence[Sequence[_Entry]],
    split: int,
    id_of: Callable[[Manifest], ObjectId],
) -> tuple[list[tuple[ObjectId, Manifest]], dict[tuple[int, int], ObjectId]]:
    """The new files, and the id for each new entry by number of the array and place in its list. Each part has its own file (so do all entries if `split` is
    0); the rest fill files in order of node: first the first entry of every array, then (few have one) the second, so that no file has two of one array."""
    files: list[tuple[ObjectId, Manifest]] = []
    ids: dict[tuple[int, int], ObjectId] = {}
    shared: list[tuple[int, int, int, int, Manifest]] = []
    for number, entries in enumerate(lists):
        small = 0
        for at, entry in enumerate(entries):
            if entry.manifest is None:
                continue
            if entry.extents.count >= split // 2:
                ids[number, at] = id_of(entry.manifest)
                files.append((ids[number, at], entry.manifest))
            else:
                shared.append((small, arrays[number].node, number, at, entry.manifest))
                small += 1
    shared.sort(key=lambda candidate: candidate[:4])
    first = 0
    while first < len(shared):
        last, rows = first, 0
        while last < len(shared) and shared[last][0] == shared[first][0] and rows + shared[last][4].size <= split:
            rows += shared[last][4].size
            last += 1
        joined = join_pieces([candidate[4] for candidate in shared[first:last]])
        files.append((id_of(joined), joined))
        ids.update({(number, at): files[-1][0] for _, _, number, at, _ in shared[first:last]})
        first = last
    return files, ids


# --- one array --------------------------------------------------------------------------------------------------------------------------


class _List:
    """The list of one array, while it changes from one snapshot to the next."""

    def __init__(self, array: ArrayPlacement, split: int, *, freedoms: bool, trusted: bool) -> None:
        self.array, self.split, self.half, self.freedoms = array, split, split // 2, freedoms
        self.loaded: Mapping[ObjectId, Manifest] = {}
        self.written = order_manifest(array.written)
        rows, self.chunks = rows_of_array(self.written, array.node, array.rank)
        self.box = extents_of(self.chunks) if len(self.chunks) else None
        if rows.size != self.written.size or not (self.box is None or self.box.lies_within(array.grid)):
            raise InvalidInputError("the references belong to another array", path=array.path)
        if array.removed.ndim != 2 or array.removed.shape[1] != array.rank or len(array.grid) != array.rank:
            raise InvalidInputError(f"a chunk of this array must have {array.rank} coordinates", path=array.path)
        self.is_whole = self.chunks.shape[0] == prod(array.grid)  # then no old reference remains
        self.removed = sorted_coordinates(array.removed)
        self.leaving = self.removed if freedoms else self._changed_chunks()
        self._listed_entries = self._by_extents() if trusted and not self.is_whole else None
        self._planned = None if self._listed_entries is None else self._plan(self._listed_entries)

    def _changed_chunks(self) -> Columns:
        if not len(self.removed):
            return self.chunks
        return sorted_coordinates(np.concatenate([self.removed, self.chunks]))

    def needed(self) -> list[ObjectId]:
        """The manifests that `place` needs."""
        if self.is_whole:
            return []
        listed = self.array.manifests
        if self._listed_entries is None or self._planned is None:
            return [reference.id for reference in listed]
        needed = [self._listed_entries[at].reference for at in self._planned.needed]
        return [reference.id for reference in needed if reference is not None]

    def place(self, loaded: Mapping[ObjectId, Manifest]) -> list[_Entry]:
        """The list after the commit."""
        self.loaded = loaded
        if self.is_whole:
            return self._new(self.written)
        entries = self._by_content() if self._listed_entries is None else self._listed_entries
        plan = self._planned or self._plan(entries)
        remaining = {
            at: entry
            for at in (*plan.overlays, *plan.parts)
            if (entry := self._remaining(entries[at]) if plan.touched[at] else entries[at]) is not None
        }
        overlays = [remaining[at] for at in plan.overlays if at in remaining]
        parts = [remaining[at] for at in plan.parts if at in remaining]
        new, overlays = self._overlay(overlays, plan.merged)
        new_entries: list[_Entry] = []
        if new is not None and new.size >= self.half:
            new_entries, parts = self._parts(new, parts)
        elif new is not None:
            overlays = [*self._new(new), *overlays]
        return self._in_order(overlays, new_entries, parts)

    # --- the present list

    def _by_extents(self) -> list[_Entry] | None:
        """The list from its extents only; None if one of them is invalid."""
        entries = []
        for reference in dict.fromkeys(self.array.manifests):
            extents = read_extents(reference.extents, self.array.rank)
            if extents is None:
                return None
            entries.append(_Entry(extents, reference))
        return entries

    def _by_content(self) -> list[_Entry]:
        """The list from the contents of its manifests; those without references of the array are dropped. Parts that are not disjoint are all joined into
        one."""
        entries: dict[ObjectId, _Entry] = {}
        chunks = []
        for reference in self.array.manifests:
            manifest = self._load(reference.id)
            _, coordinates = rows_of_array(manifest, self.array.node, self.array.rank)
            if len(coordinates) and reference.id not in entries:
                extents = extents_of(coordinates)
                if self.freedoms:
                    entries[reference.id] = _Entry(extents, reference._replace(extents=extents.listed()))
                elif len(coordinates) == manifest.size:
                    entries[reference.id] = _Entry(extents, reference)
                else:
                    entries[reference.id] = self._entry(piece_of(manifest, self.array.node, self.array.rank))
                chunks.append(coordinates)
        found = list(entries.values())
        overlays, _ = self._divide([entry.extents.count for entry in found])
        disjoint = chunks[len(overlays) :] if self.freedoms else chunks
        if len(disjoint) > 1 and len(sorted_coordinates(np.concatenate(disjoint))) < sum(map(len, disjoint)):
            return [self._entry(join_pieces([self._piece(entry) for entry in reversed(found)]))]
        return found

    def _load(self, identity: ObjectId) -> Manifest:
        manifest = self.loaded.get(identity)
        if manifest is None:
            text = f"the manifest {encode_id(identity)} is needed to place references, and is not loaded"
            raise InvalidInputError(text, path=self.array.path)
        return manifest

    # --- the plan

    def _plan(self, entries: Sequence[_Entry]) -> _Plan:
        """What happens to each manifest, from extents only. Needed are manifests that may be merged, or rewritten without some chunks."""
        extents, both = [entry.extents for entry in entries], self._changed_chunks()
        unmerged: list[int] = []
        touched = [False] * len(entries)
        for at, box in enumerate(extents):
            is_outside = reaches_out = False
            for low, high, count in zip(box.first, box.last, self.array.grid, strict=True):
                is_outside |= low >= count
                reaches_out |= high >= count
            if not is_outside and not (box.count <= len(both) and box.held(both) == box.capacity):
                unmerged.append(at)
                touched[at] = reaches_out or (len(self.leaving) > 0 and box.held(self.leaving) > 0)
        of_overlays, of_parts = self._divide([extents[at].count for at in unmerged])
        overlays, parts = [unmerged[at] for at in of_overlays], [unmerged[at] for at in of_parts]
        changes = any(touched)
        merged, size = self._merged([extents[at] for at in overlays], every=changes)
        needed = {at for at, is_touched in enumerate(touched) if is_touched}
        needed.update(overlays[:merged])
        small = [at for at in parts if extents[at].count < self.half]
        if changes or len(small) > 1:
            needed.update(small)
        if size >= self.half:
            near = [extents[at] for at in overlays[:merged]]
            needed.update(at for at in parts if extents[at].held(self.chunks) or any(map(extents[at].overlaps, near)))
        return _Plan(touched, overlays, parts, sorted(needed), None if changes else merged)

    def _divide(self, counts: Sequence[int]) -> tuple[range, range]:
        """Which are overlays (those before the first with at least SPLIT / 2 references), and which are parts."""
        first = next((at for at, count in enumerate(counts) if count >= self.half), len(counts))
        return range(first), range(first, len(counts))

    def _merged(self, overlays: Sequence[Extents], *, every: bool) -> tuple[int, int]:
        """How many overlays are merged with the written references, and the largest possible size of the result. All are merged if `every`, or if their sizes
        do not fit."""
        every = every or not _sizes_fit([overlay.count for overlay in overlays])
        box, size = self.box, len(self.chunks)
        for number, overlay in enumerate(overlays):
            if not every and overlay.count >= TIER * size:
                return number, size
            box = overlay if box is None else box.around(overlay)
            size = box.count
        return len(overlays), size

    # --- its execution

    def _remaining(self, entry: _Entry) -> _Entry | None:
        """The references that stay: the entry itself if all do, None if none does."""
        manifest = self._piece(entry)
        _, coordinates = rows_of_array(manifest, self.array.node, self.array.rank)
        stay = within(coordinates, self.array.grid) & ~among(coordinates, entry.extents.near(self.leaving))
        if stay.all():
            return entry
        return self._entry(select_rows(manifest, np.flatnonzero(stay))) if stay.any() else None

    def _overlay(self, overlays: list[_Entry], number: int | None) -> tuple[Manifest | None, list[_Entry]]:
        """The written references merged with a number of overlays, or None; and the overlays that remain after them. number: None if it is not planned"""
        if number is None:
            number, _ = self._merged([overlay.extents for overlay in overlays], every=False)
        pieces = [self._piece(overlay) for overlay in reversed(overlays[:number])]
        if self.written.size:
            pieces.append(self.written)
        return (join_pieces(pieces) if pieces else None), overlays[number:]

    def _parts(self, new: Manifest, parts: list[_Entry]) -> tuple[list[_Entry], list[_Entry]]:
        """New parts, from references and the parts whose boxes contain some of them; and the other parts."""
        _, chunks = rows_of_array(new, self.array.node, self.array.rank)
        near = [part.extents.held(chunks) > 0 for part in parts]
        merged = [self._piece(part) for part, is_near in zip(parts, near, strict=True) if is_near]
        others = [part for part, is_near in zip(parts, near, strict=True) if not is_near]
        return self._new(join_pieces([*merged, new])), others

    def _in_order(self, overlays: list[_Entry], new_entries: list[_Entry], parts: list[_Entry]) -> list[_Entry]:
        """The whole list. Small parts are joined; without larger parts they are overlays."""
        small = self._joined([part for part in parts if part.extents.count < self.half])
        # after joining, some are unchanged, and others are large now
        large = [part for part in (*small, *parts) if part.extents.count >= self.half]
        small = [part for part in small if part.extents.count < self.half]
        chain = [*overlays, *small]
        if not new_entries and not large and not _sizes_fit([entry.extents.count for entry in chain]):
            return self._new(join_pieces([self._piece(entry) for entry in reversed(chain)]))
        within_limit = [
            part_entry for part in large for part_entry in (self._new(part.manifest) if part.manifest else [part])
        ]
        return [*overlays, *new_entries, *within_limit, *small]

    def _joined(self, small: list[_Entry]) -> list[_Entry]:
        """Joins neighbours among small parts until the result is no longer small, except maybe the last."""
        if len(small) < 2:
            return small
        small = sorted(small, key=lambda part: part.extents.first)
        groups: list[list[_Entry]] = [[]]
        for part in small:
            if sum(entry.extents.count for entry in groups[-1]) >= self.half:
                groups.append([])
            groups[-1].append(part)
        return [
            group[0] if len(group) == 1 else self._entry(join_pieces([self._piece(entry) for entry in group]))
            for group in groups
        ]

    def _new(self, piece: Manifest) -> list[_Entry]:
        return [self._entry(part) for part in split_piece(piece, self.split)]

    def _entry(self, piece: Manifest) -> _Entry:
        """An entry of a piece with references of this array only, at least one."""
        return _Entry(extents_of(piece.coordinates.reshape(piece.size, self.array.rank)), None, trimmed(piece))

    def _piece(self, entry: _Entry) -> Manifest:
        """The references of an entry, of this array only."""
        if entry.manifest is not None:
            return entry.manifest
        assert entry.reference is not None
        manifest, node, rank = self._load(entry.reference.id), self.array.node, self.array.rank
        require_box(manifest, node, rank, entry.extents, entry.reference.id)
        return piece_of(manifest, node, rank)


def _sizes_fit(counts: Sequence[int]) -> bool:
    """Whether each overlay has at least TIER times as many references as the one before it."""
    before = 0
    for count in counts:  # all() of a generator takes three times as long, and each commit calls this three times
        if TIER * before > count:
            return False
        before = count
    return True
