"""What a serializable session has read. Callers that add hold the session's lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from frazil.base.record import Record
from frazil.formats.nodes import Nodes
from frazil.repository.manifests.coordinates import sorted_coordinates
from frazil.stores.values import Columns

_MOST_DUPLICATES: Final = 2**16  # coordinates of one array that may contain duplicates


class Reads(Record):
    """What a session read.

    nodes   paths in the session, also of missing nodes; listed: groups whose members were listed
    chunks  of arrays, by their paths in the snapshot: int64[n, d], the coordinates of chunks that were read or found missing
    arrays  whose chunks were all listed, by their paths in the snapshot"""

    nodes: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    chunks: Mapping[str, Columns] = {}
    arrays: frozenset[str] = frozenset()


class ReadLog:
    """nodes, listed: as in Reads;  deep: groups whose whole tree was listed;  arrays: as in Reads"""

    __slots__ = ("_chunks", "_loose", "arrays", "deep", "listed", "nodes")

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.listed: set[str] = set()
        self.deep: set[str] = set()
        self.arrays: set[str] = set()
        self._chunks: dict[str, list[Columns]] = {}
        self._loose: dict[str, int] = {}

    def chunks(self, path: str, coordinates: Columns) -> None:
        """Records chunks of an array, by its path in the snapshot."""
        self._chunks.setdefault(path, []).append(coordinates)
        self._loose[path] = self._loose.get(path, 0) + len(coordinates)
        if self._loose[path] > _MOST_DUPLICATES:
            self._chunks[path] = [sorted_coordinates(np.concatenate(self._chunks[path]))]
            self._loose[path] = 0

    def add(self, reads: Reads) -> None:
        """Adds the contents of another log of the same snapshot."""
        self.nodes |= reads.nodes
        self.listed |= reads.listed
        self.arrays |= reads.arrays
        for path, coordinates in reads.chunks.items():
            self.chunks(path, coordinates)

    def over(self, new_path: Callable[[str], str | None]) -> ReadLog:
        """The same log for another snapshot. new_path: the path in that snapshot of a node of this one"""
        other = ReadLog()
        other.nodes, other.listed, other.deep = set(self.nodes), set(self.listed), set(self.deep)
        other.arrays = {found for path in self.arrays if (found := new_path(path)) is not None}
        for path, parts in self._chunks.items():
            found = new_path(path)
            if found is not None:
                other._chunks[found], other._loose[found] = parts, self._loose[path]
        return other

    def reads(self, base: Nodes) -> Reads:
        """Everything that was read, without duplicates. base: the nodes of the snapshot"""
        below = [at for path in self.deep for at in base.subtree(path)]
        chunks = {path: sorted_coordinates(np.concatenate(parts)) for path, parts in self._chunks.items()}
        return Reads(
            frozenset(self.nodes.union(below)),
            frozenset(self.listed.union(self.deep, below)),
            chunks,
            frozenset(self.arrays),
        )
