"""What a serializable session has read: nodes, listings, chunks. Whoever notes something holds the session's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.repository.manifests.coordinates import sorted_coordinates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]

__all__ = ["ReadLog"]

_LOOSE: Final = 2**16  # coordinates of one array that may be noted twice


class ReadLog:
    """nodes and listed: absolute paths; a group whose whole tree was listed stands in `deep`, too."""

    __slots__ = ("_chunks", "_loose", "deep", "listed", "nodes")

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.listed: set[str] = set()
        self.deep: set[str] = set()
        self._chunks: dict[int, list[Columns]] = {}
        self._loose: dict[int, int] = {}

    def node(self, path: str) -> None:
        self.nodes.add(path)

    def listing(self, path: str, *, deep: bool = False) -> None:
        self.listed.add(path)
        if deep:
            self.deep.add(path)

    def chunks(self, key: int, coordinates: Columns) -> None:
        self._chunks.setdefault(key, []).append(coordinates)
        self._loose[key] = self._loose.get(key, 0) + len(coordinates)
        if self._loose[key] > _LOOSE:
            self._chunks[key] = [sorted_coordinates(np.concatenate(self._chunks[key]))]
            self._loose[key] = 0

    def chunks_read(self) -> dict[int, Columns]:
        """The coordinates that were looked at, by key of the array, each once."""
        return {key: sorted_coordinates(np.concatenate(parts)) for key, parts in self._chunks.items()}
