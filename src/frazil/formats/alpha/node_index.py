"""Where the nodes of a snapshot lie in its bytes: found by the kernel, decoded when they are asked for, and remembered in the order of encoding.

What was changed over it is in nodes.py, one node as a value in node_values.py."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.errors import FormatError
from frazil.formats.alpha.node_values import peek_id, peek_kind, read_attributes, read_manifests, read_node
from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata, packed_shape, read_metadata
from frazil.formats.msgpack import Packed, Reader
from frazil.formats.nodes import ArrayData, BrokenNode, Node, NodeSnapshot
from frazil.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from frazil._kernel import Buffer

    Columns = NDArray[np.int64]

__all__ = ["END", "ROW", "NodeIndex", "Order", "find_nodes", "sort_key"]

ROW: Final = 8  # numbers of a row of the kernel's: where an entry begins, and then
END: Final = 2
_VALUE, _ID, _KIND, _ATTRIBUTES, _METADATA, _MANIFESTS = 1, 3, 4, 5, 6, 7
_NO_ROWS: Final[memoryview[int]] = memoryview(b"").cast("q")
_MOST_KNOWN, _FEW = 1024, 16  # metadata and arrays that are remembered

DocumentBytes: TypeAlias = tuple[bytes, bytes]


def sort_key(path: str) -> str:
    """Text by which paths are in the order of their components, a node before those beneath it: a name ends with what is less than anything that may be in one."""
    if "\0" in path:
        path = path.replace("\0", "\0\1")
    if path.startswith("/"):
        return path.replace("/", "\0\0")
    return path[path.find("/") :].replace("/", "\0\0") if "/" in path else ""  # which no node may have


class Order(Record):
    """Paths in the order of encoding, and what they are ordered by. follows: the nodes lie in this order in the bytes, none comes twice"""

    keys: list[str]
    paths: list[str]
    follows: bool

    def place(self, key: str, path: str) -> int:
        """How many come before a path, with its key."""
        at = bisect_left(self.keys, key)
        while at < len(self.keys) and self.keys[at] == key and self.paths[at] < path:
            at += 1
        return at


class NodeIndex:
    """The nodes in the bytes of a snapshot. Never changes, but for what it remembers; safe to use from many threads.

    paths    as they come;  rows: ROW numbers for each
    entries  by path, where its row begins; of a path that comes twice the last counts"""

    __slots__ = ("_metadata", "_nodes", "_order", "data", "entries", "key", "paths", "rows")

    def __init__(
        self, data: bytes = b"", key: str | None = None, paths: list[str] | None = None, rows: Buffer | None = None
    ) -> None:
        self.data, self.key = data, key
        self.paths: list[str] = [] if paths is None else paths
        self.rows: memoryview[int] = _NO_ROWS if rows is None else memoryview(rows).cast("q")  # type: ignore[arg-type] # see Buffer
        self.entries: Mapping[str, int] = dict(zip(self.paths, range(0, ROW * len(self.paths), ROW), strict=True))
        self._order: Order | None = None
        self._metadata: dict[bytes, ZarrArrayMetadata] = {}
        self._nodes: dict[str, NodeSnapshot] = {}  # arrays that were asked for last

    def __reduce__(self) -> tuple[object, ...]:
        return NodeIndex, (self.data, self.key, self.paths, self.rows.tobytes())

    def following(
        self, data: bytes, at: int, key: str | None, order: Order, written: Mapping[str, NodeSnapshot | None]
    ) -> NodeIndex:
        """The index of the nodes that were written at a place of other bytes, in this order; what is the same in both is shared. A few `written` nodes are known from the
        start, as decoding their bytes would give the same."""
        same = self.paths == order.paths
        paths, rows, _, _ = find_nodes(data, at, len(order.paths), key)
        index = NodeIndex(data, key, [] if same else paths, rows)
        if same:
            index.paths, index.entries = self.paths, self.entries
        index._order = Order(order.keys, order.paths, True)
        index._metadata = self._metadata
        if len(written) <= _FEW:
            for path, node in written.items():
                if node is not None and node.array is not None:
                    index._know(path, node, node.array.metadata)
        return index

    def _know(self, path: str, node: NodeSnapshot, metadata: ZarrArrayMetadata) -> None:
        """Remembers an array that lies at a path."""
        entry = self.entries[path]
        start, end = self.rows[entry + _METADATA], self.rows[entry + _MANIFESTS]
        if start >= 0:
            self._nodes[path] = node
            if len(self._metadata) >= _MOST_KNOWN:
                self._metadata.clear()
            self._metadata[self.data[start:end]] = metadata

    def order(self) -> Order:
        if self._order is None:
            keys = [sort_key(path) for path in self.entries]
            pairs = sorted(zip(keys, self.entries, strict=True))
            ordered, paths = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            self._order = Order(ordered, paths, paths == self.paths)
        return self._order

    # --- one node ------------------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Node | None:
        entry = self.entries.get(path)
        if entry is None:
            return None
        if self.rows[entry + _ATTRIBUTES] >= 0:
            known = self._nodes.get(path)
            if known is not None:
                return known
            try:
                return self._plain(path, entry)
            except FormatError:  # told of the whole node, below
                pass
        try:
            return read_node(self._reader(entry), path)
        except FormatError as error:
            error.path = path
            return BrokenNode(path, error, self.id_at(entry))

    def _plain(self, path: str, entry: int) -> NodeSnapshot:
        """A node of which the kernel found the parts."""
        rows = self.rows
        reader = Reader(self.data, self.key, rows[entry + _ATTRIBUTES])
        attributes, middle = read_attributes(reader), rows[entry + _METADATA]
        if middle < 0:
            return NodeSnapshot(rows[entry + _ID], path, attributes, None)
        metadata = self._metadata_of(middle, rows[entry + _MANIFESTS])
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
            if len(self._metadata) >= _MOST_KNOWN:
                self._metadata.clear()
            self._metadata[data] = found
        return found

    def metadata_bytes(self, path: str, node: NodeSnapshot) -> Packed | None:
        """The metadata of an array as it lies at its path, where that was decoded to the very value that the node has now, but for the lengths; else None."""
        entry = self.entries.get(path)
        if entry is None or node.array is None or self.rows[entry + _METADATA] < 0:
            return None
        data, metadata = self.data[self.rows[entry + _METADATA] : self.rows[entry + _MANIFESTS]], node.array.metadata
        known = self._metadata.get(data)
        if known is metadata:
            return Packed(data)
        if known is not None and metadata.differs_in_shape_alone(known):
            lengths = packed_shape(known)
            if data.startswith(lengths):  # which may be written in a longer form
                return Packed(packed_shape(metadata) + data[len(lengths) :])
        return None

    def document(self, path: str) -> DocumentBytes | None:
        entry = self.entries.get(path)
        if entry is None:
            return None
        rows = self.rows
        begin, middle = rows[entry + _ATTRIBUTES], rows[entry + _METADATA]
        if begin < 0:
            return None
        if middle < 0:
            return self.data[begin : rows[entry + END]], b""
        return self.data[begin:middle], self.data[middle : rows[entry + _MANIFESTS]]

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
        """The highest id of all nodes, 0 where there is none."""
        ids = np.frombuffer(self.rows, np.int64)[_ID::ROW]
        unknown = [self.id_at(row * ROW) or 0 for row in np.flatnonzero(ids < 0).tolist()]
        return max([int(ids.max(initial=0)), *unknown])

    def check_ids(self) -> None:
        """Raises FormatError where two nodes have one id: the chunks of both would be taken for chunks of each."""
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

    def spans(self, entries: Columns) -> Columns:
        """Where entries begin and end, with their keys: int64[n, 2]."""
        columns = np.frombuffer(self.rows, np.int64)
        return np.stack([columns[entries], columns[entries + END]], axis=1)


def find_nodes(data: bytes, at: int, count: int, key: str | None) -> tuple[list[str], Buffer | None, int, bool]:
    """Paths and rows of a map whose `count` entries begin at `at`, where it ends, and whether all ids are known and none comes twice. Raises FormatError where the
    bytes end first, or a key is no text."""
    paths, rows, end, distinct, failures = _kernel.find_nodes(data, at, count)
    for position, _, text in failures:
        raise FormatError(f"the nodes of a snapshot make no sense: {text}, at byte {position}", key=key)
    return paths, rows, end, distinct
