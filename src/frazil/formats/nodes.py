"""The nodes of a snapshot as every format has them: one node as a value, and all of them as a file holds them, with what was changed over it.

What turns bytes into them, and them into bytes, is in the package of each format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from frazil.errors import FormatError, InvalidInputError
from frazil.formats.ids import ObjectId
from frazil.formats.json_values import Json
from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ArrayData",
    "AttributesReference",
    "BrokenNode",
    "ManifestReference",
    "Node",
    "NodeFiles",
    "NodeSnapshot",
    "Nodes",
    "Order",
    "StoredMetadata",
    "StoredNodes",
    "files_of",
    "nodes_over",
    "sort_key",
]


class ManifestReference(Record):
    """A manifest that holds chunks of an array. extents: the first and the last coordinates of the smallest box around these, and a tuple of their number; anything else says
    nothing, and is kept as it is"""

    id: ObjectId
    extents: tuple[tuple[int, ...], ...] = ()


class StoredMetadata(Protocol):
    """The metadata of an array as its format stores it, without attributes; equal ones say the same. Documents are made of it by the format alone.

    chunk_shape  of the chunks that references point to: of a sharded array its shards"""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def chunk_shape(self) -> tuple[int, ...]: ...

    def with_shape(self, shape: tuple[int, ...]) -> StoredMetadata:
        """The same for an array that grew or shrank."""


class ArrayData(Record):
    """What an array has beside a group. manifests: the first that has a chunk counts"""

    metadata: StoredMetadata
    manifests: tuple[ManifestReference, ...] = ()


class AttributesReference(Record):
    """Attributes that lie in an attribute file. location: which of the maps there"""

    id: ObjectId
    location: int


class NodeSnapshot(Record):
    """One node. id: unique in its repository; path: absolute, "/" is the root; attributes: None where the document has no such member;
    array: None for a group"""

    id: int
    path: str
    attributes: Mapping[str, Json] | AttributesReference | None = None
    array: ArrayData | None = None


class BrokenNode(Record):
    """A node whose bytes make no sense, which does no harm to the others of its snapshot. id: None where not even that can be read"""

    path: str
    error: FormatError
    id: int | None = None


Node: TypeAlias = NodeSnapshot | BrokenNode


# --- all nodes ------------------------------------------------------------------------------------------------------------------------


def sort_key(path: str) -> str:
    """Text by which paths are in the order of their components, a node before those beneath it: a name ends with what is less than anything that may be in one."""
    if "\0" in path:
        path = path.replace("\0", "\0\1")
    if path.startswith("/"):
        return path.replace("/", "\0\0")
    return path[path.find("/") :].replace("/", "\0\0") if "/" in path else ""  # which no node may have


class Order(Record):
    """Paths by their components, and what they are ordered by. follows: the nodes lie in this order in their file, and none comes twice"""

    keys: list[str]
    paths: list[str]
    follows: bool

    def place(self, key: str, path: str) -> int:
        """How many come before a path, with its key."""
        at = bisect_left(self.keys, key)
        while at < len(self.keys) and self.keys[at] == key and self.paths[at] < path:
            at += 1
        return at


class NodeFiles(Record):
    """The files that a node refers to. attributes: None where they stand in the node itself"""

    manifests: tuple[ObjectId, ...] = ()
    attributes: ObjectId | None = None


def files_of(node: Node | None) -> NodeFiles:
    """What a node refers to. Raises the error of a broken node."""
    if node is None:
        return NodeFiles()
    if isinstance(node, BrokenNode):
        raise node.error
    attributes = node.attributes.id if isinstance(node.attributes, AttributesReference) else None
    return NodeFiles(() if node.array is None else tuple([one.id for one in node.array.manifests]), attributes)


class StoredNodes:
    """The nodes that the file of a snapshot holds, each with a number, its entry. This one holds none: each format derives its own.

    Never changes, but for what it remembers; safe to use from many threads.

    paths    as they come in the file
    entries  by path; of one that comes twice the last counts"""

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
        """The node at a path, None where there is none."""
        return None

    def document(self, path: str) -> tuple[bytes, bytes] | None:
        """As Nodes.document."""
        return None

    def files_of(self, path: str) -> NodeFiles:
        """As Nodes.files_of."""
        return NodeFiles()

    def is_array(self, entry: int) -> bool | None:
        """Whether a node is an array; None where it cannot be told."""

    def id_at(self, entry: int) -> int | None:
        """The id of a node; None where it cannot be told."""

    def highest_id(self) -> int:
        """The highest id of all nodes, 0 where there is none."""
        return 0

    def unequal(self, other: StoredNodes, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool[n]: for int64[n, 2] entries here and in other nodes of the same format, whether they may differ. No node is decoded."""
        return np.ones(len(pairs), np.bool_)


_NOTHING: Final = StoredNodes()


class Nodes:
    """The nodes of a snapshot, by path. Frozen: `changed` gives another one, which shares what did not change.

    stored   those that a file holds
    changes  what stands in place of some of them, for the format that writes them; None: the node is gone
    encoded  their bytes, if their format remembers them here

    Iteration is by the components of paths, a node before those beneath it."""

    __slots__ = ("_order", "_count", "changes", "encoded", "stored")

    def __init__(self, nodes: Mapping[str, NodeSnapshot] | None = None) -> None:
        self.stored: StoredNodes = _NOTHING
        self.changes: dict[str, NodeSnapshot | None] = {}
        self._count = 0
        self._order: Order | None = None
        self.encoded: bytes | None = None
        if nodes:
            made = self.changed(nodes)
            self.changes, self._count = made.changes, made._count

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
        """The node at a path, None where there is none."""
        return self.changes[path] if path in self.changes else self.stored.get(path)

    def document(self, path: str) -> tuple[bytes, bytes] | None:
        """The attributes and the metadata (of a group: nothing) of a node, as they are encoded: equal bytes mean the same. None where there is no node, or where it does
        not lie in the bytes in the usual form: then `get` tells all."""
        return None if path in self.changes else self.stored.document(path)

    def files_of(self, path: str) -> NodeFiles:
        """What the node at a path refers to, without decoding its metadata; nothing where there is no node. Raises FormatError where that cannot be told."""
        return files_of(self.changes[path]) if path in self.changes else self.stored.files_of(path)

    def is_array(self, path: str) -> bool | None:
        """Whether the node is an array, without decoding it whole; None where it cannot be told, or there is no node."""
        if path in self.changes:
            node = self.changes[path]
            return None if node is None else node.array is not None
        entry = self.stored.entries.get(path)
        return None if entry is None else self.stored.is_array(entry)

    def subtree(self, path: str) -> list[str]:
        """The paths at and beneath a path, in order."""
        keys, paths, _ = self.ordered()
        base = sort_key(path)
        first = bisect_left(keys, base)
        # all that begin with the base lie together; the next possible name after it has a NUL behind
        last = bisect_left(keys, base + "\0\1", first) if path != "/" else len(paths)
        return paths[first:last]

    def highest_id(self) -> int:
        """The highest id of any node, 0 where there is none."""
        if self.changes:
            return max([0, *[self.id_of(path) or 0 for path in self]])
        return self.stored.highest_id()

    def id_of(self, path: str) -> int | None:
        """The id of a node, without decoding it whole; None where it cannot be told, or there is no node."""
        if path in self.changes:
            node = self.changes[path]
            return None if node is None else node.id
        entry = self.stored.entries.get(path)
        return None if entry is None else self.stored.id_at(entry)

    def differing(self, other: Nodes) -> list[str]:
        """The paths in any order that only one of the two has, or where the nodes may differ: they lie in other bytes. No node is decoded."""
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
        """What stands for the node at a path that was changed here or elsewhere."""
        return self.changes[path] if path in self.changes else self.stored.entries.get(path)

    def changed(self, changes: Mapping[str, NodeSnapshot | None]) -> Nodes:
        """These nodes with others in place of some; None removes one."""
        others = dict(self.changes)
        for path, node in changes.items():
            if node is not None and node.path != path:
                raise InvalidInputError(f"the node with the path {node.path!r} cannot stand at {path!r}", path=path)
            if node is None and path not in self.stored.entries:
                others.pop(path, None)
            else:
                others[path] = node
        return nodes_over(self.stored, others)

    def ordered(self) -> Order:
        if self._order is None:
            index = self.stored
            order = index.order()
            gone = {path for path, node in self.changes.items() if node is None}
            new = [(sort_key(path), path) for path, node in self.changes.items() if path not in index.entries]
            if gone or new:
                kept = [pair for pair in zip(order.keys, order.paths, strict=True) if pair[1] not in gone]
                pairs = sorted(kept + new)
                order = Order([pair[0] for pair in pairs], [pair[1] for pair in pairs], False)
            self._order = order
        return self._order


def nodes_over(index: StoredNodes, changes: dict[str, NodeSnapshot | None]) -> Nodes:
    """Nodes that a file holds, with changes over them, which are the callee's from then on."""
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
