"""What changed from a base tree to another state of it, as one frozen value. It comes from a session or a fork (session_delta.py), or from two snapshots
(snapshot_delta.py). Whether two of them meet is in conflicts.py; making the changes elsewhere is in apply.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from frazil.record import Record
from frazil.repository.merge.difference import ChunkDifference, Difference, Resize
from frazil.repository.session.change_set import Append

if TYPE_CHECKING:
    from frazil.formats.alpha.nodes import NodeSnapshot
    from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata
    from frazil.repository.files.attributes import Attributes
    from frazil.repository.session.changed_references import Rows
    from frazil.repository.session.read_log import Reads

__all__ = ["Delta", "Made"]


class Made(Record):
    """A new node. node: as it is now, None where it cannot be read; key: of a session; chunks: those of an array; rows: their references, as in Delta"""

    node: NodeSnapshot | None
    key: int | None = None
    chunks: ChunkDifference | None = None
    rows: Rows | None = None

    @property
    def is_array(self) -> bool:
        return self.node is not None and self.node.array is not None


class Delta(Record):
    """Net changes. Nodes of the base go by the paths that they have there, whatever their paths are now; new nodes by their paths.

    removed     nodes that are gone, and whether they were arrays
    moved       nodes with other paths: the new ones, also of each node beneath a group that moved
    made        new nodes; one may be where another was
    arrays      which of the nodes below, and of those that moved, are arrays
    attributes  nodes with other attributes: the new ones
    metadata    arrays with other metadata, a shape included: the new one; None for nodes that cannot be read and have other bytes
    resized     of these, arrays of whose metadata only the shape is another
    appends     of these, arrays that grew by appends alone
    chunks      of arrays: which were written or removed
    rows        their references, as far as they are known: those of sessions and forks, in the numbers of their change set
    reads       what a serializable session read; None for all others"""

    removed: Mapping[str, bool] = {}
    moved: Mapping[str, str] = {}
    made: Mapping[str, Made] = {}
    arrays: frozenset[str] = frozenset()
    attributes: Mapping[str, Attributes] = {}
    metadata: Mapping[str, ZarrArrayMetadata | None] = {}
    resized: Mapping[str, Resize] = {}
    appends: Mapping[str, Append] = {}
    chunks: Mapping[str, ChunkDifference] = {}
    rows: Mapping[str, Rows] = {}
    reads: Reads | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.made or self.touched())

    def touched(self) -> set[str]:
        """The nodes of the base to which anything was done."""
        return {*self.removed, *self.moved, *self.metadata, *self.attributes, *self.chunks}

    def name(self, path: str) -> str:
        """Where a node of the base is now; of one that is gone, where it was."""
        return self.moved.get(path, path)

    @property
    def difference(self) -> Difference:
        """What users are told."""
        chunks = {self.name(path): found for path, found in self.chunks.items()}
        chunks |= {path: made.chunks for path, made in self.made.items() if made.chunks is not None}
        now = {self.name(path) for path in self.touched() - self.removed.keys()}
        arrays = {self.name(path) for path in self.arrays} | {path for path, made in self.made.items() if made.is_array}
        arrays |= {path for path, was_array in self.removed.items() if was_array and path not in now | self.made.keys()}
        return Difference(
            tuple(sorted(self.made)),
            tuple(sorted(self.removed)),
            tuple(sorted(self.moved.items())),
            self._names(self.metadata.keys() - self.resized.keys()),
            self._names(self.attributes),
            dict(sorted(chunks.items())),
            {self.name(path): resize for path, resize in sorted(self.resized.items())},
            frozenset(arrays),
        )

    def _names(self, paths: Collection[str]) -> tuple[str, ...]:
        return tuple(sorted([self.name(path) for path in paths]))
