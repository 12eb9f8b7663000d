"""The index of the nodes in the bytes of a snapshot, in the order of encoding: the kernel finds them, and they are decoded on demand and cached.

formats/nodes.py adds changes on top, node_values.py has the bytes of one node."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Columns, Flags
from frazil.errors import FormatError
from frazil.formats.alpha.node_values import peek_id, peek_kind, read_attributes, read_manifests, read_node
from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata, packed_shape, read_metadata
from frazil.formats.msgpack import RESTORE, Packed, Reader
from frazil.formats.nodes import (
    ArrayData,
    AttributesReference,
    BrokenNode,
    Node,
    NodeFiles,
    NodeSnapshot,
    Order,
    StoredNodes,
    files_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil._kernel import Buffer
ROW: Final = 8  # numbers of a row from the kernel: where an entry begins, and then
END: Final = 2
_VALUE, _ID, _KIND, _ATTRIBUTES, _METADATA, _MANIFESTS = 1, 3, 4, 5, 6, 7
_NO_ROWS: Final[memoryview[int]] = memoryview(b"").cast("q")
_CACHE_SIZE, _FEW = 1024, 16  # sizes of the caches of metadata and arrays

_PIECE: Final = 2**22  # bytes of nodes that are compared at once

DocumentBytes: TypeAlias = tuple[bytes, bytes]


class NodeIndex(StoredNodes):
    """The nodes in the bytes of a snapshot.

    rows  ROW numbers for each of `paths`; an entry is the begin of a row"""

    __slots__ = ("_metadata", "_nodes", "data", "key", "rows")

    def __init__(
        self, data: bytes = b"", key: str | None = None, paths: list[str] | None = None, rows: Buffer | None = None
    ) -> None:
        paths = [] if paths is None else paths
        super().__init__(paths, dict(zip(paths, range(0, ROW * len(paths), ROW), strict=True)))
        self.data, self.key = data, key
        self.rows: memoryview[int] = _NO_ROWS if rows is None else memoryview(rows).cast("q")  # type: ignore[arg-type] # see Buffer
        self._metadata: dict[bytes, ZarrArrayMetadata] = {}
        self._nodes: dict[str, NodeSnapshot] = {}  # recently used arrays

    def __reduce__(self) -> tuple[object, ...]:
        return NodeIndex, (self.data, self.key, self.paths, self.rows.tobytes())

    def following(
        self, data: bytes, at: int, key: str | None, order: Order, written: Mapping[str, NodeSnapshot | None]
    ) -> NodeIndex:
        """The index of the nodes after they were written to a place of other bytes, in this order; it shares what is unchanged. Those `written` nodes are
        cached from the start whose attributes and metadata, except for the shape, were decoded here."""
        same = self.paths == order.paths
        paths, rows, _, _ = find_nodes(data, at, len(order.paths), key)
        index = NodeIndex(data, key, [] if same else paths, rows)
        if same:
            index.paths, index.entries = self.paths, self.entries
        index._order = Order(order.keys, order.paths, True)
        index._metadata = self._metadata
        if len(written) <= _FEW:
            for path, node in written.items():
                if node is not None and (metadata := self._unchanged_metadata(node)) is not None:
                    index._nodes[path] = node
                    entry = index.entries[path]
                    index._remember(data[index.rows[entry + _METADATA] : index.rows[entry + _MANIFESTS]], metadata)
        return index

    def _unchanged_metadata(self, node: NodeSnapshot) -> ZarrArrayMetadata | None:
        """The metadata of an array, if it and the attributes are the values returned for its node here, except for the shape: then no other
        object has them."""
        cached = self._nodes.get(node.path)
        if cached is None or cached.array is None or node.array is None or cached.attributes is not node.attributes:
            return None
        ours, new = cached.array.metadata, node.array.metadata
        if not isinstance(ours, ZarrArrayMetadata) or not isinstance(new, ZarrArrayMetadata):
            return None
        return new if new.equals_beside_shape(ours) else None

    def _remember(self, data: bytes, metadata: ZarrArrayMetadata) -> None:
        if len(self._metadata) >= _CACHE_SIZE:
            self._metadata.clear()
        self._metadata[data] = metadata

    # --- one node ------------------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Node | None:
        entry = self.entries.get(path)
        if entry is None:
            return None
        if self.rows[entry + _ATTRIBUTES] >= 0:
            cached = self._nodes.get(path)
            if cached is not None:
                return cached
            try:
                return self._plain(path, entry)
            except FormatError:  # reported for the whole node, below
                pass
        try:
            return read_node(self._reader(entry), path)
        except FormatError as error:
            error.path = path
            return BrokenNode(path, error, self.id_at(entry))

    def _plain(self, path: str, entry: int) -> NodeSnapshot:
        """A node whose parts the kernel found."""
        rows = self.rows
        reader = Reader(self.data, self.key, rows[entry + _ATTRIBUTES])
        attributes, metadata_start = read_attributes(reader), rows[entry + _METADATA]
        if metadata_start < 0:
            return NodeSnapshot(rows[entry + _ID], path, attributes, None)
        metadata = self._metadata_of(metadata_start, rows[entry + _MANIFESTS])
        reader.at = rows[entry + _MANIFESTS]
        node = NodeSnapshot(rows[entry + _ID], path, attributes, ArrayData(metadata, read_manifests(reader)))
        if len(self._nodes) >= _FEW:
            self._nodes.clear()
        self._nodes[path] = node
        return node

    def _metadata_of(self, start: int, end: int) -> ZarrArrayMetadata:
        data = self.data[start:end]
        found = self._metadata.get(data)
        if found is None:
            found = read_metadata(Reader(self.data, self.key, start))
            self._remember(data, found)
        return found

    def metadata_bytes(self, path: str, node: NodeSnapshot) -> Packed | None:
        """The encoded metadata of an array at its path, if the metadata of the node is the very value decoded from these bytes, except for the shape; else
        None."""
        entry = self.entries.get(path)
        if entry is None or node.array is None or self.rows[entry + _METADATA] < 0:
            return None
        data, metadata = self.data[self.rows[entry + _METADATA] : self.rows[entry + _MANIFESTS]], node.array.metadata
        cached = self._metadata.get(data)
        if cached is metadata:
            return Packed(data)
        if cached is not None and isinstance(metadata, ZarrArrayMetadata) and metadata.equals_beside_shape(cached):
            lengths = packed_shape(cached)
            if data.startswith(lengths):  # the shape may be written in a longer form
                return Packed(packed_shape(metadata) + data[len(lengths) :])
        return None

    def document(self, path: str) -> DocumentBytes | None:
        entry = self.entries.get(path)
        if entry is None:
            return None
        rows = self.rows
        begin, metadata_start = rows[entry + _ATTRIBUTES], rows[entry + _METADATA]
        if begin < 0:
            return None
        if metadata_start < 0:
            return self.data[begin : rows[entry + END]], b""
        return self.data[begin:metadata_start], self.data[metadata_start : rows[entry + _MANIFESTS]]

    def files_of(self, path: str) -> NodeFiles:
        entry = self.entries.get(path)
        if entry is not None and self.rows[entry + _ATTRIBUTES] >= 0:
            reader = Reader(self.data, self.key, self.rows[entry + _ATTRIBUTES])
            attributes = read_attributes(reader)
            file = attributes.id if isinstance(attributes, AttributesReference) else None
            if self.rows[entry + _METADATA] < 0:
                return NodeFiles((), file)
            reader.at = self.rows[entry + _MANIFESTS]
            return NodeFiles(tuple([reference.id for reference in read_manifests(reader)]), file)
        return files_of(self.get(path))

    def is_array(self, entry: int) -> bool | None:
        if (kind := self.rows[entry + _KIND]) >= 0:
            return kind == 1
        return peek_kind(self._reader(entry))

    def id_at(self, entry: int) -> int | None:
        return found if (found := self.rows[entry + _ID]) >= 0 else peek_id(self._reader(entry))

    def _reader(self, entry: int) -> Reader:
        return Reader(self.data, self.key, self.rows[entry + _VALUE])

    # --- all nodes -----------------------------------------------------------------------------------------------------------------

    def highest_id(self) -> int:
        """The highest id of all nodes, or 0."""
        ids = np.frombuffer(self.rows, np.int64)[_ID::ROW]
        unknown = [self.id_at(row * ROW) or 0 for row in np.flatnonzero(ids < 0).tolist()]
        return max([int(ids.max(initial=0)), *unknown])

    def check_ids(self) -> None:
        """Raises FormatError if two nodes have one id: the chunks of both would be read for each of them."""
        paths: dict[int, str] = {}
        for path, entry in self.entries.items():
            number = self.id_at(entry)
            if number is not None and (other := paths.setdefault(number, path)) != path:
                raise FormatError(
                    f"two nodes of a snapshot have the id {number}: {other} and {path}",
                    key=self.key,
                    path=path,
                    hint="restore the snapshot from a copy, or use another one of the history",
                )

    def unequal(self, other: StoredNodes, pairs: Columns) -> Flags:
        """Whether their bytes differ."""
        assert isinstance(other, NodeIndex)
        left, right = self.spans(pairs[:, 0]), other.spans(pairs[:, 1])
        return ~_equal_spans(self.data, left, other.data, right)

    def spans(self, entries: Columns) -> Columns:
        """Begin and end of entries, including their keys: int64[n, 2]."""
        columns = np.frombuffer(self.rows, np.int64)
        return np.stack([columns[entries], columns[entries + END]], axis=1)


def find_nodes(data: bytes, at: int, count: int, key: str | None) -> tuple[list[str], Buffer | None, int, bool]:
    """Paths and rows of a map whose `count` entries begin at `at`, its end, and whether all ids are known and distinct. Raises FormatError if the
    bytes end too early, or a key is not text."""
    paths, rows, end, distinct, failures = _kernel.find_nodes(data, at, count)
    for position, _, text in failures:
        raise FormatError(
            f"the nodes of a snapshot are inconsistent: {text}, at byte {position}", key=key, hint=RESTORE
        )
    return paths, rows, end, distinct


def _equal_spans(left: bytes, ours: Columns, right: bytes, theirs: Columns) -> Flags:
    """bool[n]: whether left[ours[i, 0] : ours[i, 1]] equals right[theirs[i, 0] : theirs[i, 1]]. Spans that are adjacent in both are compared at once."""
    equal: Flags = ours[:, 1] - ours[:, 0] == theirs[:, 1] - theirs[:, 0]
    order = np.flatnonzero(equal)
    order = order[np.argsort(ours[order, 0], kind="stable")]
    ours, theirs = ours[order], theirs[order]
    begins = np.ones(len(order), np.bool_)  # a run that is compared at once
    begins[1:] = (ours[1:, 0] != ours[:-1, 1]) | (theirs[1:, 0] != theirs[:-1, 1])
    begins[1:] |= ours[1:, 0] // _PIECE != ours[:-1, 0] // _PIECE
    for first, last in pairwise([*np.flatnonzero(begins).tolist(), len(order)]):
        start, end = int(ours[first, 0]), int(ours[last - 1, 1])
        other, other_end = int(theirs[first, 0]), int(theirs[last - 1, 1])
        if last - first == 1:
            equal[order[first]] = left[start:end] == right[other:other_end]
        else:
            count = end - start
            unequal = np.frombuffer(left, np.uint8, count, start) != np.frombuffer(right, np.uint8, count, other)
            equal[order[first:last]] = ~np.logical_or.reduceat(unequal, ours[first:last, 0] - start)
    return equal
