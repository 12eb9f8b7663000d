"""The nodes of a snapshot, for all formats: one node as a value, and all nodes of a file, with changes on top.

The package of each format converts them from and to bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final, Protocol, TypeAlias

import numpy as np

from frazil.base.arrays import Columns, Flags
from frazil.base.record import Record
from frazil.errors import FormatError, InvalidInputError
from frazil.formats.ids import ObjectId
from frazil.formats.json_values import Json


class ManifestReference(Record):
    """A manifest with chunks of an array. extents: the first and the last coordinates of the smallest box around these, and a tuple of their number; other
    values are not interpreted, and kept unchanged"""

    id: ObjectId
    extents: tuple[tuple[int, ...], ...] = ()


class StoredMetadata(Protocol):
    """The metadata of an array as its format stores it, without attributes; equal metadata mean the same. Only the format converts it to documents.

    chunk_shape  of the chunks that references point to (the shards of a sharded array)"""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def chunk_shape(self) -> tuple[int, ...]: ...

    def with_shape(self, shape: tuple[int, ...]) -> StoredMetadata:
        """The metadata with another shape of the same rank."""


class ArrayData(Record):
    """What an array has in addition to a group. manifests: the first that has a chunk is used"""

    metadata: StoredMetadata
    manifests: tuple[ManifestReference, ...] = ()


class AttributesReference(Record):
    """Attributes in an attribute file. location: the number of the map in it"""

    id: ObjectId
    location: int


class NodeSnapshot(Record):
    """One node. id: unique in its repository; path: absolute, "/" is the root; attributes: None if the document has no such member;
    array: None for a group"""

    id: int
    path: str
    attributes: Mapping[str, Json] | AttributesReference | None = None
    array: ArrayData | None = None

    @property
    def rank(self) -> int | None:
        """Dimensions of an array; None for a group."""
        return None if self.array is None else len(self.array.metadata.shape)


class BrokenNode(Record):
    """A node with invalid bytes; the other nodes of its snapshot are not affected. id: None if it cannot be read"""

    path: str
    error: FormatError
    id: int | None = None


Node: TypeAlias = NodeSnapshot | BrokenNode


# --- all nodes ------------------------------------------------------------------------------------------------------------------------


def sort_key(path: str) -> str:
    """Text that sorts paths by their components, a node before those below it: names end with text that is less than any in a name."""
    if "\0" in path:
        path = path.replace("\0", "\0\1")
    if path.startswith("/"):
        return path.replace("/", "\0\0")
    return path[path.find("/") :].replace("/", "\0\0") if "/" in path else ""  # a path that no node may have


class Order(Record):
    """Paths sorted by their components, and their sort keys. follows: the nodes are in this order in their file, without duplicates"""

    keys: list[str]
    paths: list[str]
    follows: bool

    def position(self, key: str, path: str) -> int:
        """The number of paths before a path, with its key."""
        at = bisect_left(self.keys, key)
        while at < len(self.keys) and self.keys[at] == key and self.paths[at] < path:
            at += 1
        return at


class NodeFiles(Record):
    """The files that a node refers to. attributes: None if they are in the node itself"""

    manifests: tuple[ObjectId, ...] = ()
    attributes: ObjectId | None = None


def files_of(node: Node | None) -> NodeFiles:
    """What a node refers to. Raises the error of a broken node."""
    if node is None:
        return NodeFiles()
    if isinstance(node, BrokenNode):
        raise node.error
    attributes = node.attributes.id if isinstance(node.attributes, AttributesReference) else None
    return NodeFiles(
        () if node.array is None else tuple([manifest.id for manifest in node.array.manifests]), attributes
    )


class StoredNodes:
    """The nodes in the file of a snapshot, each with a number, its entry. This base class has none: each format derives its own.

    Immutable except for its cache; safe to use from many threads.

    paths    in the order of the file
    entries  by path; of duplicate paths the last is used"""

    __slots__ = ("_order", "entries", "paths")

    def __init__(self, paths: list[str] | None = None, entries: Mapping[str, int] | None = None) -> None:
        self.paths: list[str] = [] if paths is None else paths
        self.entries: Mapping[str, int] = {} if entries is None else entries
        self._order: Order | None = None

    def order(self) -> Order:
        if self._order is None:
            keys = [sort_key(path) for path in self.entries]
            pairs = sorted(zip(keys, self.entries, strict=True))
            ordered, paths = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            self._order = Order(ordered, paths, paths == self.paths)
        return self._order

    def get(self, path: str) -> Node | None:
        """The node at a path, or None."""
        return None

    def document(self, path: str) -> tuple[bytes, bytes] | None:
        """As Nodes.document."""
        return None

    def files_of(self, path: str) -> NodeFiles:
        """As Nodes.files_of."""
        return NodeFiles()

    def is_array(self, entry: int) -> bool | None:
        """Whether a node is an array; None if unknown."""

    def id_at(self, entry: int) -> int | None:
        """The id of a node; None if unknown."""

    def highest_id(self) -> int:
        """The highest id of all nodes, or 0."""
        return 0

    def unequal(self, other: StoredNodes, pairs: Columns) -> Flags:
        """bool[n]: for int64[n, 2], entries here and in other nodes of the same format: whether they may differ. No node is decoded."""
        return np.ones(len(pairs), np.bool_)


_NOTHING: Final = StoredNodes()


class Nodes:
    """The nodes of a snapshot, by path. Frozen: `changed` returns another value, which shares what did not change.

    stored   the nodes of a file
    changes  new nodes that replace some of them, until the format writes them; None: the node is removed
    encoded  their bytes, if their format caches them here

    Iteration is by the components of paths, a node before those below it."""

    __slots__ = ("_order", "_count", "changes", "encoded", "stored")

    def __init__(self, nodes: Mapping[str, NodeSnapshot] | None = None) -> None:
        self.stored: StoredNodes = _NOTHING
        self.changes: dict[str, NodeSnapshot | None] = {}
        self._count = 0
        self._order: Order | None = None
        self.encoded: bytes | None = None
        if nodes:
            changed = self.changed(nodes)
            self.changes, self._count = changed.changes, changed._count

    def __len__(self) -> int:
        return self._count

    def __contains__(self, path: object) -> bool:
        if path in self.changes:
            return self.changes[path] is not None
        return path in self.stored.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.ordered().paths)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Nodes):
            return NotImplemented
        return list(self) == list(other) and all(_same(self.get(path), other.get(path)) for path in self)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return nodes_over, (self.stored, self.changes)

    def __repr__(self) -> str:
        return f"<Nodes: {len(self)}>"

    def get(self, path: str) -> Node | None:
        """The node at a path, or None."""
        return self.changes[path] if path in self.changes else self.stored.get(path)

    def document(self, path: str) -> tuple[bytes, bytes] | None:
        """The encoded attributes and metadata (of a group: nothing) of a node: equal bytes mean the same. None if there is no node, or if its bytes do not have
        the usual form: then use `get`."""
        return None if path in self.changes else self.stored.document(path)

    def files_of(self, path: str) -> NodeFiles:
        """The files that the node at a path refers to, without decoding its metadata; none if there is no node. Raises FormatError if they are unknown."""
        return files_of(self.changes[path]) if path in self.changes else self.stored.files_of(path)

    def is_array(self, path: str) -> bool | None:
        """Whether the node is an array, without decoding it completely; None if unknown, or there is no node."""
        if path in self.changes:
            node = self.changes[path]
            return None if node is None else node.array is not None
        entry = self.stored.entries.get(path)
        return None if entry is None else self.stored.is_array(entry)

    def subtree(self, path: str) -> list[str]:
        """The paths at and below a path, in order."""
        keys, paths, _ = self.ordered()
        base = sort_key(path)
        first = bisect_left(keys, base)
        # all that begin with the base are adjacent; the next possible name after it has a NUL behind
        last = bisect_left(keys, base + "\0\1", first) if path != "/" else len(paths)
        return paths[first:last]

    def highest_id(self) -> int:
        """The highest id of any node, or 0."""
        if self.changes:
            return max([0, *[self.id_of(path) or 0 for path in self]])
        return self.stored.highest_id()

    def id_of(self, path: str) -> int | None:
        """The id of a node, without decoding it completely; None if unknown, or there is no node."""
        if path in self.changes:
            node = self.changes[path]
            return None if node is None else node.id
        entry = self.stored.entries.get(path)
        return None if entry is None else self.stored.id_at(entry)

    def differing(self, other: Nodes) -> list[str]:
        """The paths, in any order, that only one of the two has, or whose nodes may differ, as their bytes do. No node is decoded."""
        changed = self.changes.keys() | other.changes.keys()
        differing = [path for path in changed if self._at(path) is not other._at(path)]
        ours, theirs = self.stored, other.stored
        if ours is theirs:
            return differing
        differing += [path for path in theirs.entries if path not in ours.entries and path not in changed]
        paths: list[str] = []
        pairs: list[tuple[int, int]] = []  # entries here and there
        for path, entry in ours.entries.items():
            if path in changed:
                continue
            match = theirs.entries.get(path)
            if match is None:
                differing.append(path)
            else:
                paths.append(path)
                pairs.append((entry, match))
        if pairs:
            unequal = ours.unequal(theirs, np.array(pairs, np.int64))
            differing += [paths[at] for at in np.flatnonzero(unequal).tolist()]
        return differing

    def _at(self, path: str) -> NodeSnapshot | int | None:
        """The changed node at a path (None: removed), or the entry of a stored one."""
        return self.changes[path] if path in self.changes else self.stored.entries.get(path)

    def changed(self, changes: Mapping[str, NodeSnapshot | None]) -> Nodes:
        """These nodes with some replaced; None removes one."""
        others = dict(self.changes)
        for path, node in changes.items():
            if node is not None and node.path != path:
                raise InvalidInputError(f"the node with the path {node.path!r} cannot be stored at {path!r}", path=path)
            if node is None and path not in self.stored.entries:
                others.pop(path, None)
            else:
                others[path] = node
        return nodes_over(self.stored, others)

    def ordered(self) -> Order:
        if self._order is None:
            index = self.stored
            order = index.order()
            removed = {path for path, node in self.changes.items() if node is None}
            new = [(sort_key(path), path) for path, node in self.changes.items() if path not in index.entries]
            if removed or new:
                remaining = [pair for pair in zip(order.keys, order.paths, strict=True) if pair[1] not in removed]
                pairs = sorted(remaining + new)
                order = Order([pair[0] for pair in pairs], [pair[1] for pair in pairs], False)
            self._order = order
        return self._order


def nodes_over(index: StoredNodes, changes: dict[str, NodeSnapshot | None]) -> Nodes:
    """The nodes of a file with changes. The callee owns `changes` from then on."""
    nodes = Nodes()
    nodes.stored, nodes.changes = index, changes
    nodes._count = len(index.entries)
    for path, node in changes.items():
        nodes._count += (node is not None) - (path in index.entries)
    return nodes


def _same(left: Node | None, right: Node | None) -> bool:
    if isinstance(left, BrokenNode) and isinstance(right, BrokenNode):
        return left.path == right.path and str(left.error) == str(right.error)
    return left == right
