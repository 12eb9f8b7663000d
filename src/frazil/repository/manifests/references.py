"""The chunk references of one array in a snapshot: its manifests, loaded when they may have a requested chunk. The first that has a chunk is used.

placement.py decides which manifests a commit writes; chunk_comparison.py compares two snapshots."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from frazil.formats.ids import ObjectId
from frazil.formats.manifests import FileCheck, Manifest, nbytes_of, rows_of_array, rows_of_node
from frazil.formats.nodes import ArrayData, NodeSnapshot
from frazil.repository.format import RepositoryFormat
from frazil.repository.manifests.boxes import extents_of, read_extents
from frazil.repository.manifests.coordinates import ChunkIndex, no_coordinates
from frazil.repository.manifests.manifest_parts import require_box
from frazil.stores.caches.byte_cache import CacheSection
from frazil.stores.values import Columns

_AT_HAND: Final = 64  # manifests with their indexes that one array holds, besides the cache of the repository
_ROW: Final = 32  # bytes of an index for each reference


class References:
    """The references of an array in one ordered manifest. Safe for many threads; at worst two make the same index."""

    __slots__ = ("_index", "manifest", "node", "rank")

    def __init__(self, manifest: Manifest, node: int, rank: int) -> None:
        self.manifest, self.node, self.rank = manifest, node, rank
        self._index: tuple[ChunkIndex, Columns] | None = None

    def coordinates(self) -> Columns:
        """int64[n, d]: all chunks that have a reference, in order."""
        return rows_of_array(self.manifest, self.node, self.rank)[1]

    def find(self, coordinates: Columns) -> Columns:
        """The row of the manifest for each of int64[k, d] coordinates, or -1: int64[k]."""
        index, rows = self._index or self._indexed()
        return rows[index.find(coordinates)]

    def find_one(self, coordinates: Sequence[int]) -> int:
        """As find, for one chunk. No index is made for it."""
        if self._index is not None:
            index, rows = self._index
            return rows.item(index.find_one(coordinates))
        own, target = rows_of_node(self.manifest, self.node), list(coordinates)
        row = bisect_left(range(own.stop), target, own.start, key=self._coordinates_at)
        return row if row < own.stop and self._coordinates_at(row) == target else -1

    def _coordinates_at(self, row: int) -> list[int]:
        starts = self.manifest.starts
        found: list[int] = self.manifest.coordinates[starts.item(row) : starts.item(row + 1)].tolist()
        return found

    def _indexed(self) -> tuple[ChunkIndex, Columns]:
        rows, coordinates = rows_of_array(self.manifest, self.node, self.rank)
        self._index = ChunkIndex(coordinates), np.append(rows, -1)  # the last is for chunks that are not found
        return self._index


class BaseReferences:
    """All references of an array of a snapshot. Safe to use from many threads that hold the session's lock.

    trusted  whether Frazil wrote the extents, so that a manifest need not be loaded if its box has no requested chunk. Otherwise the alpha library may have
             mixed up references: those known to belong to another array raise FormatError (RepositoryFormat.check_references)"""

    def __init__(self, files: RepositoryFormat, node: NodeSnapshot, array: ArrayData, *, trusted: bool) -> None:
        manifests, rank = array.manifests, len(array.metadata.shape)
        self._files, self._node, self._rank = files, node.id, rank
        self._checked = None if trusted else node
        self._ids = [manifest.id for manifest in manifests]
        self._extents = [read_extents(manifest.extents, rank) if trusted else None for manifest in manifests]
        self._at_hand: dict[int, References] = {}  # those that the last look-up needed
        self._kept: CacheSection[References] = CacheSection(files.memory, ("references", node.id, rank))

    def find(self, coordinates: Columns) -> tuple[Columns, Columns]:
        """For each of int64[k, d] coordinates the number of its manifest and its row in it, or -1 for both: int64[k]."""
        part, row = np.full(len(coordinates), -1, np.int64), np.full(len(coordinates), -1, np.int64)
        if not len(coordinates):
            return part, row
        unfound, requested = np.arange(len(coordinates)), extents_of(coordinates)
        candidates = [at for at, extents in enumerate(self._extents) if extents is None or extents.overlaps(requested)]
        self._load(candidates)
        for number in candidates:
            extents = self._extents[number]
            of_part = unfound if extents is None else unfound[extents.has_each(coordinates[unfound])]
            if not len(of_part):
                continue
            rows = self._at(number).find(coordinates[of_part])
            hit = rows >= 0
            part[of_part[hit]], row[of_part[hit]] = number, rows[hit]
            unfound = unfound[part[unfound] < 0]
            if not len(unfound):
                break
        return part, row

    def find_one(self, coordinates: tuple[int, ...]) -> tuple[int, int]:
        """As find, for one chunk."""
        candidates = [at for at, extents in enumerate(self._extents) if extents is None or extents.has(coordinates)]
        self._load(candidates)
        for number in candidates:
            row = self._at(number).find_one(coordinates)
            if row >= 0:
                return number, row
        return -1, -1

    def manifest(self, number: int) -> Manifest:
        return self._at(number).manifest

    def checks(self, number: int) -> Mapping[str, FileCheck]:
        """The checks in a manifest of the files of its virtual chunks, by location."""
        return self.manifest(number).checks

    def coordinates(self) -> Columns:
        """int64[n, d]: the chunks that have a reference; repeated if several manifests have one."""
        every = [self._at(number).coordinates() for number in range(len(self._ids))]
        return np.concatenate([no_coordinates(self._rank), *every])

    def holding(self, file: ObjectId) -> Columns:
        """int64[n, d]: the chunks in a chunk file, from the loaded manifests. Nothing is fetched."""
        found = [no_coordinates(self._rank)]
        for manifest in [references.manifest for references in self._at_hand.values()]:
            rows, coordinates = rows_of_array(manifest, self._node, self._rank)
            found.append(coordinates[(manifest.ids[rows] == np.frombuffer(file, np.uint8)).all(axis=1)])
        return np.concatenate(found)

    def _load(self, numbers: Sequence[int]) -> None:
        """Holds these manifests, and no others; those that are not cached are fetched in one batch."""
        before = self._at_hand
        if before.keys() >= set(numbers):
            return
        found = {number: before.get(number) or self._kept.get(self._ids[number]) for number in numbers[:_AT_HAND]}
        missing = [number for number, references in found.items() if references is None]
        found |= dict(zip(missing, self._fetched(missing), strict=True))
        self._at_hand = {number: references for number, references in found.items() if references is not None}

    def _at(self, number: int) -> References:
        found = self._at_hand.get(number)
        if found is None:
            found = self._kept.get(self._ids[number]) or self._fetched([number])[0]
            if len(self._at_hand) >= _AT_HAND:
                del self._at_hand[next(iter(self._at_hand))]
            self._at_hand[number] = found
        return found

    def _fetched(self, numbers: Sequence[int]) -> list[References]:
        ids = [self._ids[number] for number in numbers]
        loaded = []
        for number, identity, manifest in zip(numbers, ids, self._files.manifests(ids) if ids else [], strict=True):
            if self._checked is not None:
                self._files.check_references(identity, manifest, self._checked)
            loaded.append(References(manifest, self._node, self._rank))
            require_box(manifest, self._node, self._rank, self._extents[number], identity)
            self._kept.put(identity, loaded[-1], nbytes_of(manifest) + _ROW * manifest.size)
        return loaded
