"""The changes from a base tree to another state of it, as one frozen value. It is made from a session or a fork (session_delta.py), or from two snapshots
(snapshot_delta.py). conflicts.py compares two deltas; apply.py makes the changes of a delta in another tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from frazil.base.record import Record
from frazil.formats.nodes import AttributesReference, NodeSnapshot, StoredMetadata
from frazil.repository.format import RepositoryFormat
from frazil.repository.merge.difference import ChunkDifference, Difference, Resize
from frazil.repository.session.attributes import Attributes, same_attributes
from frazil.repository.session.change_set import Append
from frazil.repository.session.changed_references import Rows
from frazil.repository.session.read_log import Reads


class Made(Record):
    """A new node. node: None if it cannot be read; key: that of a session; chunks and rows: as in Delta"""

    node: NodeSnapshot | None
    key: int | None = None
    chunks: ChunkDifference | None = None
    rows: Rows | None = None

    @property
    def is_array(self) -> bool:
        return self.node is not None and self.node.array is not None


class MetadataChange(Record):
    """new: the metadata; None for a node that cannot be read and has other bytes; resize: if only the shape differs; append: if a session only appended, or
    a snapshot has grown along one axis"""

    new: StoredMetadata | None
    resize: Resize | None = None
    append: Append | None = None


class Delta(Record):
    """Net changes. A node of the base is named by its path in the base, even if it moved; a new node by its path.

    removed     removed nodes, and whether they were arrays
    moved       new paths of nodes, including each node below a group that moved
    made        new nodes; one may be at the former path of another
    arrays      which of the moved nodes and of the nodes below are arrays
    attributes  the new attributes of nodes
    metadata    the new metadata of arrays, shape included
    chunks      the chunks of arrays that were written or removed
    rows        their references, in the numbers of a change set: that of the session or fork, or of the `source` of a delta of snapshots (else there are none)
    reads       what a serializable session read; None for all others"""

    removed: Mapping[str, bool] = {}
    moved: Mapping[str, str] = {}
    made: Mapping[str, Made] = {}
    arrays: frozenset[str] = frozenset()
    attributes: Mapping[str, Attributes] = {}
    metadata: Mapping[str, MetadataChange] = {}
    chunks: Mapping[str, ChunkDifference] = {}
    rows: Mapping[str, Rows] = {}
    reads: Reads | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.made or self.touched())

    def touched(self) -> set[str]:
        """The nodes of the base that changed."""
        return {*self.removed, *self.moved, *self.metadata, *self.attributes, *self.chunks}

    def name(self, path: str) -> str:
        """The present path of a node of the base; the former path of a removed node."""
        return self.moved.get(path, path)

    def resize(self, path: str) -> Resize | None:
        """The resize of an array whose other metadata did not change."""
        return self.metadata[path].resize if path in self.metadata else None

    @property
    def difference(self) -> Difference:
        """The value for users."""
        chunks = {self.name(path): found for path, found in self.chunks.items()}
        chunks |= {path: node.chunks for path, node in self.made.items() if node.chunks is not None}
        is_array = dict(self.removed) | {
            self.name(path): path in self.arrays for path in self.touched() - self.removed.keys()
        }
        is_array |= {path: node.is_array for path, node in self.made.items()}
        resized = {self.name(path): change.resize for path, change in self.metadata.items() if change.resize}
        return Difference(
            added=tuple(sorted(self.made)),
            removed=tuple(sorted(self.removed)),
            renamed=tuple(sorted(self.moved.items())),
            metadata=self._names(path for path, change in self.metadata.items() if not change.resize),
            attributes=self._names(self.attributes),
            chunks=dict(sorted(chunks.items())),
            resized=dict(sorted(resized.items())),
            arrays=frozenset([path for path, found in is_array.items() if found]),
        )

    def _names(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted([self.name(path) for path in paths]))


class DeltaBuilder:
    """Compares nodes one by one, and collects a delta. files: for attributes in files of their own"""

    def __init__(self, files: RepositoryFormat) -> None:
        self.files = files
        self.moved: dict[str, str] = {}
        self.made: dict[str, Made] = {}
        self.arrays: set[str] = set()
        self.attributes: dict[str, Attributes] = {}
        self.metadata: dict[str, MetadataChange] = {}
        self.chunks: dict[str, ChunkDifference] = {}
        self.rows: dict[str, Rows] = {}

    def compare(self, before: NodeSnapshot, after: NodeSnapshot, append: Append | None = None) -> None:
        """Compares two states of a group, or of an array. append: if the array only grew by appends. Raises NotFoundError, FormatError for an attribute
        file."""
        path = before.path
        if path != after.path:
            self.moved[path] = after.path
        if not same_attributes(self.files, before.attributes, after.attributes):
            self.attributes[path] = self.plain(after.attributes)
        if before.array is None or after.array is None:
            return
        self.arrays.add(path)
        old, new = before.array.metadata, after.array.metadata
        if old.with_shape(new.shape) != new:
            self.metadata[path] = MetadataChange(new)
        elif old.shape != new.shape:
            self.metadata[path] = MetadataChange(new, Resize(old.shape, new.shape, new.chunk_shape), append)

    def plain(self, attributes: Attributes) -> Attributes:
        """Attributes, read from their file if they have one."""
        if isinstance(attributes, AttributesReference):
            return self.files.attributes(attributes.id, attributes.location)
        return attributes

    def delta(self, removed: Mapping[str, bool], reads: Reads | None = None) -> Delta:
        found = Delta(
            removed, self.moved, self.made, frozenset(), self.attributes, self.metadata, self.chunks, self.rows, reads
        )
        return found._replace(arrays=frozenset(self.arrays & found.touched()))
