"""What users are told of a change: which nodes differ, and how. It is made of a Delta (delta.py), which also has what they are now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.msgpack import Json

    Columns = NDArray[np.int64]

__all__ = ["ChunkDifference", "Difference", "Resize"]

Shape: TypeAlias = tuple[int, ...]

_TOLD: Final = 100  # chunks of an array, in JSON


class Resize(Record):
    """The shapes that an array had and has, in elements, and that of its chunks, which stayed."""

    old: Shape
    new: Shape
    chunk_shape: Shape


class ChunkDifference(Record):
    """Chunks of one array, by coordinates: int64[n, d], sorted. written: added or changed; removed: not there any more"""

    written: Columns
    removed: Columns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChunkDifference):
            return NotImplemented
        return np.array_equal(self.written, other.written) and np.array_equal(self.removed, other.removed)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.written.tobytes(), self.removed.tobytes()))


class Difference(Record):
    """What became of the nodes of a hierarchy. Paths are absolute and sorted.

    added, removed  a path that is in both has another node than before, or an array of another rank, or a group in place of an array;
                    of added nodes only their chunks are told beside, of removed ones nothing
    renamed         old and new path, also of each node beneath a group that was renamed; all else of such a node is told under its new path
    metadata        arrays whose metadata is another, more than the shape; and nodes that cannot be read and have other bytes than before
    attributes      nodes with other attributes; none are the same as {}
    chunks          of arrays, where there are any
    resized         arrays of whose metadata only the shape is another
    arrays          which of all these paths are arrays, as they are now; of removed ones, as they were"""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    metadata: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    chunks: Mapping[str, ChunkDifference] = {}
    resized: Mapping[str, Resize] = {}
    arrays: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not any(self[:-1])

    @property
    def paths(self) -> frozenset[str]:
        """All nodes that differ and are there now."""
        moved = [new for _, new in self.renamed]
        return frozenset([*self.added, *moved, *self.metadata, *self.attributes, *self.chunks, *self.resized])

    def __repr__(self) -> str:
        """What print shows, for those who evaluate it at a prompt."""
        return str(self)

    def __str__(self) -> str:
        """A line for each node that differs, by path: + added, - removed, r renamed, ~ changed."""
        changes = self._changes()
        lines = [(path, 0, f"- {path} ({self._kind(path)})") for path in self.removed]
        lines += [(path, 1, f"+ {path} ({self._kind(path)}){changes.pop(path, '')}") for path in self.added]
        lines += [(new, 1, f"r {old} -> {new}{changes.pop(new, '')}") for old, new in self.renamed]
        lines += [(path, 1, f"~ {path}{told}") for path, told in changes.items()]
        return "\n".join([line for _, _, line in sorted(lines)])

    def as_json(self, chunks: int = _TOLD) -> dict[str, Json]:
        """Plain values. Of the chunks of each array so many coordinates are told, of those written and of those removed; how many there are is told in any
        case."""
        return {
            "added": [{"path": path, "kind": self._kind(path)} for path in self.added],
            "removed": [{"path": path, "kind": self._kind(path)} for path in self.removed],
            "renamed": [{"old": old, "new": new} for old, new in self.renamed],
            "metadata": list(self.metadata),
            "attributes": list(self.attributes),
            "resized": [
                {"path": path, "old": list(resize.old), "new": list(resize.new)}
                for path, resize in sorted(self.resized.items())
            ],
            "chunks": [
                {
                    "path": path,
                    "written": len(found.written),
                    "removed": len(found.removed),
                    "written_chunks": found.written[:chunks].tolist(),
                    "removed_chunks": found.removed[:chunks].tolist(),
                }
                for path, found in sorted(self.chunks.items())
            ],
        }

    def _kind(self, path: str) -> str:
        return "array" if path in self.arrays else "group"

    def _changes(self) -> dict[str, str]:
        """What is to be told of nodes, beside where they are."""
        told: dict[str, list[str]] = {}
        for path, (written, removed) in self.chunks.items():
            counts = [(len(written), "written"), (len(removed), "removed")]
            texts = [f"{count} chunk{'s' * (count != 1)} {what}" for count, what in counts if count]
            told.setdefault(path, []).extend(texts)
        for path, resize in self.resized.items():
            told.setdefault(path, []).append(f"shape {resize.old} -> {resize.new}")
        for what, paths in (("metadata", self.metadata), ("attributes", self.attributes)):
            for path in paths:
                told.setdefault(path, []).append(what)
        return {path: "  " + "; ".join(texts) for path, texts in told.items()}
