"""What a serializable session has read: nodes, listings, chunks. Whoever notes something holds the session's lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.record import Record
from frazil.repository.manifests.coordinates import sorted_coordinates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.alpha.nodes import Nodes

    Columns = NDArray[np.int64]

__all__ = ["ReadLog", "Reads"]

_LOOSE: Final = 2**16  # coordinates of one array that may be noted twice


class Reads(Record):
    """What a session looked at.

    nodes   paths in the session, also those where nothing was; listed: groups whose members were listed
    chunks  of arrays, by their paths in the snapshot: int64[n, d], the coordinates of those that were read, or found missing
    arrays  by their paths in the snapshot, those of which all chunks were listed"""

    nodes: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    chunks: Mapping[str, Columns] = {}
    arrays: frozenset[str] = frozenset()


class ReadLog:
    """Nodes and groups are noted by their paths in the session, arrays whose chunks were read by their paths in the snapshot. A group whose whole tree was listed
    stands in `deep`, too."""

    __slots__ = ("_arrays", "_chunks", "_deep", "_listed", "_loose", "_nodes")

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._listed: set[str] = set()
        self._deep: set[str] = set()
        self._arrays: set[str] = set()
        self._chunks: dict[str, list[Columns]] = {}
        self._loose: dict[str, int] = {}

    def node(self, path: str) -> None:
        self._nodes.add(path)

    def listing(self, path: str, *, deep: bool = False) -> None:
        self._listed.add(path)
        if deep:
            self._deep.add(path)

    def chunks(self, path: str, coordinates: Columns) -> None:
        self._chunks.setdefault(path, []).append(coordinates)
        self._loose[path] = self._loose.get(path, 0) + len(coordinates)
        if self._loose[path] > _LOOSE:
            self._chunks[path] = [sorted_coordinates(np.concatenate(self._chunks[path]))]
            self._loose[path] = 0

    def all_chunks(self, path: str) -> None:
        self._arrays.add(path)

    def add(self, reads: Reads) -> None:
        """Notes what another log of the same snapshot has."""
        self._nodes |= reads.nodes
        self._listed |= reads.listed
        self._arrays |= reads.arrays
        for path, coordinates in reads.chunks.items():
            self.chunks(path, coordinates)

    def over(self, there: Callable[[str], str | None]) -> ReadLog:
        """The same over another snapshot. there: where a node of this one is in that one"""
        other = ReadLog()
        other._nodes, other._listed, other._deep = set(self._nodes), set(self._listed), set(self._deep)
        other._arrays = {found for path in self._arrays if (found := there(path)) is not None}
        for path, parts in self._chunks.items():
            found = there(path)
            if found is not None:
                other._chunks[found], other._loose[found] = parts, self._loose[path]
        return other

    def reads(self, base: Nodes) -> Reads:
        """What was read, each once. base: the nodes of the snapshot"""
        below = [at for path in self._deep for at in base.subtree(path)]
        chunks = {path: sorted_coordinates(np.concatenate(parts)) for path, parts in self._chunks.items()}
        return Reads(
            frozenset(self._nodes.union(below)),
            frozenset(self._listed.union(below)),
            chunks,
            frozenset(self._arrays),
        )
