"""The nodes of a snapshot: those that were read, as an index of their bytes, and what was changed over them; what did not change is copied when they are written.

One node as a value is in node_values.py, the index in node_index.py. The rest of a snapshot lives in snapshots.py."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import InvalidInputError
from frazil.formats.alpha.node_index import END, ROW, NodeIndex, Order, find_nodes, sort_key
from frazil.formats.alpha.node_values import write_entry
from frazil.formats.msgpack import Reader, write_map
from frazil.formats.nodes import ArrayData, AttributesReference, BrokenNode, ManifestReference, Node, NodeSnapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Spans = NDArray[np.int64]

__all__ = [
    "ArrayData",
    "AttributesReference",
    "BrokenNode",
    "ManifestReference",
    "Node",
    "NodeSnapshot",
    "Nodes",
    "read_nodes",
]

_PIECE: Final = 2**22  # bytes of nodes that are compared at once
_NOTHING: Final = NodeIndex()


def read_nodes(reader: Reader, what: str) -> Nodes:
    """The map of nodes of a snapshot. Of a path that comes twice the last counts. Raises FormatError where the bytes end first, a key is no text, or two nodes have
    one id."""
    count = reader.map(what)
    paths, rows, reader.at, distinct = find_nodes(reader.data, reader.at, count, reader.key)
    index = NodeIndex(reader.data, reader.key, paths, rows)
    if not distinct:
        index.check_ids()
    return _over(index, {})


class Nodes:
    """The nodes of a snapshot, by path. Frozen: `changed` gives another one, that shares the bytes of what did not change.

    Iteration is in the order of encoding: by the components of paths, a node before those beneath it."""

    __slots__ = ("_changes", "_count", "_encoded", "_index", "_order")

    def __init__(self, nodes: Mapping[str, NodeSnapshot] | None = None) -> None:
        self._index = _NOTHING
        self._changes: dict[str, NodeSnapshot | None] = {}  # None: a node of the index that is gone
        self._count = 0
        self._order: Order | None = None
        self._encoded: bytes | None = None
        if nodes:
            made = self.changed(nodes)
            self._changes, self._count = made._changes, made._count

    def __len__(self) -> int:
        return self._count

    def __contains__(self, path: object) -> bool:
        if path in self._changes:
            return self._changes[path] is not None
        return path in self._index.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._ordered().paths)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Nodes):
            return NotImplemented
        return list(self) == list(other) and all(_same(self.get(path), other.get(path)) for path in self)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return _over, (self._index, self._changes)

    def __repr__(self) -> str:
        return f"<Nodes: {len(self)}>"

    def get(self, path: str) -> Node | None:
        """The node at a path, None where there is none."""
        return self._changes[path] if path in self._changes else self._index.get(path)

    def document(self, path: str) -> tuple[bytes, bytes] | None:
        """The attributes and the metadata (of a group: nothing) of a node, as they are encoded: equal bytes mean the same. None where there is no node, or where it does
        not lie in the bytes in the usual form: then `get` tells all."""
        return None if path in self._changes else self._index.document(path)

    def is_array(self, path: str) -> bool | None:
        """Whether the node is an array, without decoding it whole; None where it cannot be told, or there is no node."""
        if path in self._changes:
            node = self._changes[path]
            return None if node is None else node.array is not None
        entry = self._index.entries.get(path)
        return None if entry is None else self._index.is_array(entry)

    def subtree(self, path: str) -> list[str]:
        """The paths at and beneath a path, in order."""
        keys, paths, _ = self._ordered()
        base = sort_key(path)
        first = bisect_left(keys, base)
        # all that begin with the base lie together; the next possible name after it has a NUL behind
        last = bisect_left(keys, base + "\0\1", first) if path != "/" else len(paths)
        return paths[first:last]

    def highest_id(self) -> int:
        """The highest id of any node, 0 where there is none."""
        if self._changes:
            return max([0, *[self.id_of(path) or 0 for path in self]])
        return self._index.highest_id()

    def id_of(self, path: str) -> int | None:
        """The id of a node, without decoding it whole; None where it cannot be told, or there is no node."""
        if path in self._changes:
            node = self._changes[path]
            return None if node is None else node.id
        entry = self._index.entries.get(path)
        return None if entry is None else self._index.id_at(entry)

    def differing(self, other: Nodes) -> list[str]:
        """The paths in any order that only one of the two has, or where the nodes may differ: they lie in other bytes. No node is decoded."""
        changed = self._changes.keys() | other._changes.keys()
        differing = [path for path in changed if self._at(path) is not other._at(path)]
        ours, theirs = self._index, other._index
        if ours is theirs:
            return differing
        differing += [path for path in theirs.entries if path not in ours.entries and path not in changed]
        paths: list[str] = []
        pairs: list[tuple[int, int]] = []  # rows here and there
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
            columns = np.array(pairs, np.int64)
            left, right = ours.spans(columns[:, 0]), theirs.spans(columns[:, 1])
            unequal = np.flatnonzero(~_equal_spans(ours.data, left, theirs.data, right))
            differing += [paths[at] for at in unequal.tolist()]
        return differing

    def _at(self, path: str) -> NodeSnapshot | int | None:
        """What stands for the node at a path that was changed here or elsewhere."""
        return self._changes[path] if path in self._changes else self._index.entries.get(path)

    def changed(self, changes: Mapping[str, NodeSnapshot | None]) -> Nodes:
        """These nodes with others in place of some; None removes one."""
        others = dict(self._changes)
        for path, node in changes.items():
            if node is not None and node.path != path:
                raise InvalidInputError(f"the node with the path {node.path!r} cannot stand at {path!r}", path=path)
            if node is None and path not in self._index.entries:
                others.pop(path, None)
            else:
                others[path] = node
        return _over(self._index, others)

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def encoded(self) -> bytes:
        """The map as bytes, remembered where something was changed. Nodes that did not change are copied, neighbours at once. Raises InvalidInputError for a node that
        the format cannot hold."""
        if self._encoded is not None:
            return self._encoded
        out = bytearray()
        write_map(out, self._count)
        if self._index.order().follows:
            self._splice(out)
        else:
            self._gather(out)
        data = bytes(out)
        if self._changes:
            self._encoded = data
        return data

    def _splice(self, out: bytearray) -> None:
        """Where the nodes lie in the order in which they are to be: what lies between changed ones is copied, and not looked at."""
        index, order, done = self._index, self._index.order(), 0
        for key, path in sorted([(sort_key(path), path) for path in self._changes]):
            node, entry = self._changes[path], index.entries.get(path)
            place = order.place(key, path) if entry is None else entry // ROW
            out += self._rows_between(done, place)
            done = place if entry is None else place + 1
            if node is not None:
                write_entry(out, node, index.metadata_bytes(path, node))
        out += self._rows_between(done, len(index.paths))

    def _rows_between(self, first: int, last: int) -> memoryview:
        rows = self._index.rows
        if first == last:
            return memoryview(b"")
        return memoryview(self._index.data)[rows[first * ROW] : rows[(last - 1) * ROW + END]]

    def _gather(self, out: bytearray) -> None:
        """Where they do not: node by node."""
        view, rows, start, end = memoryview(self._index.data), self._index.rows, 0, 0
        for path in self:
            node = self._changes.get(path)
            if node is not None:
                out += view[start:end]
                start = end = 0
                write_entry(out, node)
                continue
            entry = self._index.entries[path]
            if rows[entry] == end:
                end = rows[entry + END]
            else:
                out += view[start:end]
                start, end = rows[entry], rows[entry + END]
        out += view[start:end]

    def indexed(self, data: bytes, at: int, key: str | None) -> Nodes:
        """The same nodes where their encoded bytes begin at a place of `data`: what was changed lies there, too."""
        header = bytearray()
        write_map(header, self._count)
        return _over(self._index.following(data, at + len(header), key, self._ordered(), self._changes), {})

    def _ordered(self) -> Order:
        if self._order is None:
            index = self._index
            order = index.order()
            gone = {path for path, node in self._changes.items() if node is None}
            new = [(sort_key(path), path) for path, node in self._changes.items() if path not in index.entries]
            if gone or new:
                kept = [pair for pair in zip(order.keys, order.paths, strict=True) if pair[1] not in gone]
                pairs = sorted(kept + new)
                order = Order([pair[0] for pair in pairs], [pair[1] for pair in pairs], False)
            self._order = order
        return self._order


def _over(index: NodeIndex, changes: dict[str, NodeSnapshot | None]) -> Nodes:
    nodes = Nodes()
    nodes._index, nodes._changes = index, changes
    nodes._count = len(index.entries)
    for path, node in changes.items():
        nodes._count += (node is not None) - (path in index.entries)
    return nodes


def _same(left: Node | None, right: Node | None) -> bool:
    if isinstance(left, BrokenNode) and isinstance(right, BrokenNode):
        return left.path == right.path and str(left.error) == str(right.error)
    return left == right


def _equal_spans(left: bytes, ours: Spans, right: bytes, theirs: Spans) -> NDArray[np.bool_]:
    """bool[n]: whether left[ours[i, 0] : ours[i, 1]] are the bytes of right[theirs[i, 0] : theirs[i, 1]]. Spans that are neighbours in both are compared at once."""
    equal: NDArray[np.bool_] = ours[:, 1] - ours[:, 0] == theirs[:, 1] - theirs[:, 0]
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
