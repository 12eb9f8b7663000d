"""A change as shown to users: which nodes differ, and how. It is made from a Delta (delta.py), which also has the new values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np

from frazil.base.record import Record, by_value
from frazil.base.reports import counted
from frazil.errors import one_line
from frazil.formats.json_values import Json
from frazil.repository.manifests.coordinates import sorted_coordinates
from frazil.stores.values import Columns

Shape: TypeAlias = tuple[int, ...]

_LISTED: Final = 100  # chunks of an array, in JSON


class Resize(Record):
    """The shapes of an array before and after, in elements, and of its chunks, which did not change."""

    old: Shape
    new: Shape
    chunk_shape: Shape


@by_value
class ChunkDifference(Record):
    """Chunks of one array, by coordinates: int64[n, d], sorted. written: added or changed; removed: missing now"""

    written: Columns
    removed: Columns

    @property
    def every(self) -> Columns:
        """All of them."""
        return sorted_coordinates(np.concatenate(self))


class Difference(Record):
    """The changed nodes of a hierarchy. Paths are absolute and sorted.

    added, removed  a path in both has another node than before, an array of another rank, or a node of another kind;
                    for added nodes only their chunks are listed too, for removed ones nothing
    renamed         old and new path, including each node below a renamed group; its other changes are listed under its new path
    metadata        arrays whose metadata changed in more than the shape; and unreadable nodes whose bytes changed
    attributes      nodes with other attributes; no attributes equal {}
    chunks          of arrays, if any differ
    resized         arrays whose metadata changed only in the shape
    arrays          which of all these paths are arrays now; for removed ones, were arrays"""

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

    def __repr__(self) -> str:
        """The text that print shows, for an interactive prompt."""
        return str(self)

    def __str__(self) -> str:
        """A line for each node that differs, by path: + added, - removed, r renamed, ~ changed."""
        changes = self._changes()
        lines = [(path, 0, f"- {path} ({self._kind(path)})") for path in self.removed]
        lines += [(path, 1, f"+ {path} ({self._kind(path)}){changes.pop(path, '')}") for path in self.added]
        lines += [(new, 1, f"r {old} -> {new}{changes.pop(new, '')}") for old, new in self.renamed]
        lines += [(path, 1, f"~ {path}{summary}") for path, summary in changes.items()]
        return "\n".join([one_line(line) for _, _, line in sorted(lines)])

    def to_json(self, chunks: int = _LISTED) -> dict[str, Json]:
        """Plain values. chunks: how many coordinates of written and of removed chunks are listed for each array; their number is always included"""
        return {
            "added": [{"path": path, "kind": self._kind(path)} for path in self.added],
            "removed": [{"path": path, "kind": self._kind(path)} for path in self.removed],
            "renamed": [{"old": old, "new": new} for old, new in self.renamed],
            "metadata": list(self.metadata),
            "attributes": list(self.attributes),
            "resized": [
                {"path": path, "old": [*lengths.old], "new": [*lengths.new]} for path, lengths in self.resized.items()
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
        """What changed in each node, in words."""
        summaries: dict[str, list[str]] = {}
        for path, (written, removed) in self.chunks.items():
            counts = [(len(written), "written"), (len(removed), "removed")]
            texts = [f"{counted(count, 'chunk')} {change}" for count, change in counts if count]
            summaries.setdefault(path, []).extend(texts)
        for path, resize in self.resized.items():
            summaries.setdefault(path, []).append(f"shape {resize.old} -> {resize.new}")
        for change, paths in (("metadata", self.metadata), ("attributes", self.attributes)):
            for path in paths:
                summaries.setdefault(path, []).append(change)
        return {path: "  " + "; ".join(texts) for path, texts in summaries.items()}
