"""The references that one array has in a snapshot: its manifests, loaded when a chunk may be in them, and looked up in order.

The look-up in manifests that are there is in references.py; file_cache.py fetches them, and remembers what was made of them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.formats.alpha.manifests import nbytes_of
from frazil.formats.alpha.nodes import ArrayData, NodeSnapshot
from frazil.formats.alpha.refs import manifest_key
from frazil.formats.ids import ObjectId
from frazil.repository.manifests.coordinates import grid_of
from frazil.repository.manifests.references import Extents, References, read_extents
from frazil.repository.manifests.shared_manifests import check_references, mixed_up_nodes
from frazil.repository.virtual.file_checks import FileCheck, read_checks
from frazil.stores.caches.byte_cache import Shelf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.alpha.manifests import Manifest
    from frazil.repository.format import RepositoryFormat

    Columns = NDArray[np.int64]

__all__ = ["BaseReferences"]

_AT_HAND: Final = 64  # manifests with their indexes that one array holds, beside what the repository remembers
_ROW: Final = 32  # bytes of an index for each reference


class BaseReferences:
    """Safe to use from many threads that hold the session's lock.

    trusted  whether extents are ours, so that a manifest in whose box no wanted chunk lies need not be loaded. Elsewhere the alpha library may have mixed up
             references: those that are known to be another array's raise FormatError (shared_manifests.py)"""

    def __init__(self, files: RepositoryFormat, node: NodeSnapshot, array: ArrayData, *, trusted: bool) -> None:
        manifests, rank = array.manifests, len(array.metadata.shape)
        self._files, self._node, self._rank = files, node.id, rank
        self._mixed_up: Shelf[frozenset[int]] = Shelf(files.memory, "mixed up")
        self._checked = None if trusted else (grid_of(array.metadata), node.path)
        self._ids = [manifest.id for manifest in manifests]
        self._extents: list[Extents | None] = [
            read_extents(manifest.extents, rank) if trusted else None for manifest in manifests
        ]
        self._at_hand: dict[int, References] = {}  # what the last look-up needed
        self._kept: Shelf[References] = Shelf(files.memory, ("references", node.id, rank))
        self._checks: dict[int, Mapping[str, FileCheck]] = {}

    def find(self, coordinates: Columns) -> tuple[Columns, Columns]:
        part, row = np.full(len(coordinates), -1, np.int64), np.full(len(coordinates), -1, np.int64)
        left = np.arange(len(coordinates))
        wanted = self._wanted(coordinates)
        self._load(wanted)
        for number in wanted:
            extents = self._extents[number]
            of_part = left if extents is None else left[_inside(coordinates[left], extents)]
            if not len(of_part):
                continue
            _, rows = self._at(number).find(coordinates[of_part])
            hit = rows >= 0
            part[of_part[hit]], row[of_part[hit]] = number, rows[hit]
            left = left[part[left] < 0]
            if not len(left):
                break
        return part, row

    def find_one(self, coordinates: tuple[int, ...]) -> tuple[int, int]:
        """As find, for the coordinates of one chunk."""
        wanted = [at for at, extents in enumerate(self._extents) if extents is None or extents.has(coordinates)]
        self._load(wanted)
        for number in wanted:
            row = self._at(number).find_one(coordinates)[1]
            if row >= 0:
                return number, row
        return -1, -1

    def manifest(self, number: int) -> Manifest:
        return self._at(number).manifests[0]

    def checks(self, number: int) -> Mapping[str, FileCheck]:
        found = self._checks.get(number)
        if found is None:
            found = self._checks[number] = read_checks(self.manifest(number).flags)
        return found

    def coordinates(self) -> Columns:
        every = [self._at(number).coordinates() for number in range(len(self._ids))]
        return np.concatenate([np.zeros((0, self._rank), np.int64), *every])

    def holding(self, file: ObjectId) -> Columns:
        """int64[n, d]: the chunks that lie in a chunk file, as far as the manifests at hand say. Nothing is fetched."""
        found = [np.zeros((0, self._rank), np.int64)]
        for references in list(self._at_hand.values()):
            manifest, coordinates = references.manifests[0], references.coordinates()
            _, rows = references.find(coordinates)
            found.append(coordinates[(manifest.ids[rows] == np.frombuffer(file, np.uint8)).all(axis=1)])
        return np.concatenate(found)

    def _wanted(self, coordinates: Columns) -> list[int]:
        """The manifests in which one of the coordinates may be."""
        if not len(coordinates):
            return []
        first, last = coordinates.min(axis=0).tolist(), coordinates.max(axis=0).tolist()
        return [
            number
            for number, extents in enumerate(self._extents)
            if extents is None
            or all(
                low <= high_wanted and high >= low_wanted
                for low, high, low_wanted, high_wanted in zip(extents.first, extents.last, first, last, strict=True)
            )
        ]

    def _load(self, numbers: Sequence[int]) -> None:
        """Has manifests at hand, and no others; what nobody remembers is fetched, in one batch."""
        before = self._at_hand
        if before.keys() >= set(numbers):
            return
        found = {number: before.get(number) or self._kept.get(self._ids[number]) for number in numbers[:_AT_HAND]}
        missing = [number for number, references in found.items() if references is None]
        found |= dict(zip(missing, self._fetched(missing), strict=True))
        self._at_hand = {number: references for number, references in found.items() if references is not None}

    def _fetched(self, numbers: Sequence[int]) -> list[References]:
        made: list[References] = []
        if numbers:
            ids = [self._ids[number] for number in numbers]
            for identity, manifest in zip(ids, self._files.manifests(ids), strict=True):
                if self._checked is not None:
                    grid, path = self._checked
                    mixed_up = self._mixed_up.get(identity)
                    if mixed_up is None:
                        mixed_up = mixed_up_nodes(manifest)
                        self._mixed_up.put(identity, mixed_up, _ROW * (1 + len(mixed_up)))
                    key = self._files.key(manifest_key(identity))
                    check_references(manifest, mixed_up, self._node, grid, key, path)
                made.append(References([manifest], self._node, self._rank))
                self._kept.put(identity, made[-1], nbytes_of(manifest) + _ROW * manifest.size)
        return made

    def _at(self, number: int) -> References:
        found = self._at_hand.get(number)
        if found is None:
            found = self._kept.get(self._ids[number]) or self._fetched([number])[0]
            if len(self._at_hand) >= _AT_HAND:
                del self._at_hand[next(iter(self._at_hand))]
            self._at_hand[number] = found
        return found


def _inside(coordinates: Columns, extents: Extents) -> NDArray[np.bool_]:
    first: Columns = np.array(extents.first, np.int64)
    last: Columns = np.array(extents.last, np.int64)
    return np.asarray(((coordinates >= first) & (coordinates <= last)).all(axis=1), np.bool_)
