"""The nodes of a snapshot: one node as a value, and all of them as an index of spans, so that only what is touched is decoded.

The rest of a snapshot lives in snapshots.py."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.errors import FormatError, InvalidInputError
from frazil.format.ids import ObjectId, decode_id, encode_id
from frazil.format.msgpack import (
    Json,
    Reader,
    write_array,
    write_map,
    write_natural,
    write_text,
    write_value,
)
from frazil.format.zarr_metadata import ZarrArrayMetadata, read_metadata, write_metadata
from frazil.record import Record

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
    "index_nodes",
]

_U32: Final = 2**32 - 1
# the kernel's rows: where an entry begins, and then
_ROW: Final = 5
_VALUE, _END, _ID, _KIND = 1, 2, 3, 4
_PIECE: Final = 2**22  # bytes of nodes that are compared at once
_NO_ROWS: Final[memoryview[int]] = memoryview(b"").cast("q")

_NODE: Final = ("id", "path", "user_attributes", "node_data")
_REFERENCE: Final = ("object_id", "extents")
_ATTRIBUTES: Final = ("object_id", "location")


class ManifestReference(Record):
    """A manifest that holds chunks of an array. extents: coordinates, kept as they are; the specification gives them no meaning"""

    id: ObjectId
    extents: tuple[tuple[int, ...], ...] = ()


class ArrayData(Record):
    """What an array has beside a group. manifests: the first that has a chunk counts"""

    metadata: ZarrArrayMetadata
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
    """A node whose bytes make no sense; the others of its snapshot are none the worse. id: None where not even that can be read"""

    path: str
    error: FormatError
    id: int | None = None


Node: TypeAlias = NodeSnapshot | BrokenNode


def index_nodes(data: bytes, at: int, count: int, key: str | None) -> tuple[Nodes, int]:
    """The nodes of a map whose `count` entries begin at `at`, and where it ends; of a path that comes twice the last counts. Raises FormatError where the bytes
    end first, or a key is no text."""
    paths, rows, end, failures = _kernel.index_nodes(data, at, count)
    for position, _, text in failures:
        raise FormatError(f"the nodes of a snapshot make no sense: {text}, at byte {position}", key=key)
    nodes = Nodes()
    nodes._data, nodes._key = data, key
    if rows is not None:
        nodes._rows = memoryview(rows).cast("q")
    nodes._entries = dict(zip(paths, range(0, _ROW * count, _ROW), strict=True))
    return nodes, end


class Nodes:
    """The nodes of a snapshot, by path. Frozen: `changed` gives another one, that shares the bytes of what did not change.

    Iteration is in the order of encoding: by the components of paths, a node before those beneath it."""

    __slots__ = ("_by_id", "_data", "_entries", "_key", "_rows", "_sorted")

    def __init__(self, nodes: Mapping[str, NodeSnapshot] | None = None) -> None:
        self._data: bytes = b""
        self._key: str | None = None
        self._rows: memoryview[int] = _NO_ROWS
        self._entries: dict[str, int | NodeSnapshot] = {}  # a number: where its row begins in _rows
        self._sorted: tuple[list[list[str]], list[str]] | None = None
        self._by_id: dict[int | None, str] | None = None
        if nodes:
            self._entries = self.changed(nodes)._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: object) -> bool:
        return path in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._order()[1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Nodes):
            return NotImplemented
        return list(self) == list(other) and all(_same(self.get(path), other.get(path)) for path in self)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._data, self._key, self._rows.tolist(), self._entries)

    def __repr__(self) -> str:
        return f"<Nodes: {len(self)}>"

    def get(self, path: str) -> Node | None:
        """The node at a path, None where there is none."""
        entry = self._entries.get(path)
        if entry is None or isinstance(entry, NodeSnapshot):
            return entry
        reader = Reader(self._data, self._key, self._rows[entry + _VALUE])
        try:
            return _read_node(reader, path)
        except FormatError as error:
            error.path = path
            return BrokenNode(path, error, self._peek(entry))

    def is_array(self, path: str) -> bool | None:
        """Whether the node is an array, without decoding it whole; None where it cannot be told."""
        entry = self._entries[path]
        if isinstance(entry, NodeSnapshot):
            return entry.array is not None
        if (kind := self._rows[entry + _KIND]) >= 0:
            return kind == 1
        reader = Reader(self._data, self._key, self._rows[entry + _VALUE])
        try:
            places = reader.struct("a node", _NODE, _NODE[2:3])
            if places is None:
                return None
            reader.go(places, 3)
            return {"Array": True, "Group": False}.get(reader.variant("the kind of a node")[0])
        except FormatError:
            return None

    def subtree(self, path: str) -> list[str]:
        """The paths at and beneath a path, in order."""
        components, paths = self._order()
        base = _components(path)
        first = bisect_left(components, base)
        # all that begin with the base lie together; the next possible name after it has a NUL behind
        last = bisect_left(components, [*base[:-1], base[-1] + "\0"], first) if path != "/" else len(paths)
        return paths[first:last]

    def path_of(self, number: int) -> str | None:
        """The path of the node with an id, None where there is none."""
        if self._by_id is None:
            self._by_id = {self._id(entry): path for path, entry in self._entries.items()}
        return self._by_id.get(number)

    def highest_id(self) -> int:
        """The highest id of any node, 0 where there is none."""
        return max([0, *[self._id(entry) or 0 for entry in self._entries.values()]])

    def id_of(self, path: str) -> int | None:
        """The id of a node, without decoding it whole; None where it cannot be told, or there is no node."""
        entry = self._entries.get(path)
        return None if entry is None else self._id(entry)

    def differing(self, other: Nodes) -> list[str]:
        """The paths in any order that only one of the two has, or where the nodes may differ: they lie in other bytes. No node is decoded."""
        differing: list[str] = [path for path in other._entries if path not in self._entries]
        paths: list[str] = []
        pairs: list[tuple[int, int]] = []  # rows here and there
        same_rows = self._rows is other._rows and self._data is other._data
        for path, entry in self._entries.items():
            match = other._entries.get(path)
            if isinstance(entry, NodeSnapshot) or match is None or isinstance(match, NodeSnapshot):
                if match is not entry:
                    differing.append(path)
            elif not (same_rows and entry == match):
                paths.append(path)
                pairs.append((entry, match))
        if pairs:
            columns = np.array(pairs, np.int64)
            left, right = (_spans(nodes._rows, columns[:, side]) for side, nodes in enumerate((self, other)))
            unequal = np.flatnonzero(~_equal_spans(self._data, left, other._data, right))
            differing += [paths[at] for at in unequal.tolist()]
        return differing

    def changed(self, changes: Mapping[str, NodeSnapshot | None]) -> Nodes:
        """These nodes with others in place of some; None removes one."""
        nodes = Nodes()
        nodes._data, nodes._key, nodes._rows, nodes._entries = self._data, self._key, self._rows, dict(self._entries)
        for path, node in changes.items():
            if node is None:
                nodes._entries.pop(path, None)
            elif node.path != path:
                raise InvalidInputError(f"the node with the path {node.path!r} cannot stand at {path!r}", path=path)
            else:
                nodes._entries[path] = node
        if nodes._entries.keys() == self._entries.keys():
            nodes._sorted = self._sorted
        return nodes

    def write(self, out: bytearray) -> None:
        """Writes the map. Nodes that did not change are copied as bytes, neighbours at once. Raises InvalidInputError for a node that the format cannot hold."""
        write_map(out, len(self._entries))
        view, rows, start, end = memoryview(self._data), self._rows, 0, 0
        for path in self:
            entry = self._entries[path]
            if isinstance(entry, NodeSnapshot):
                out += view[start:end]
                start = end = 0
                _write_entry(out, entry)
            elif rows[entry] == end:
                end = rows[entry + _END]
            else:
                out += view[start:end]
                start, end = rows[entry], rows[entry + _END]
        out += view[start:end]

    def _order(self) -> tuple[list[list[str]], list[str]]:
        if self._sorted is None:
            pairs = sorted([(_components(path), path) for path in self._entries])
            self._sorted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return self._sorted

    def _id(self, entry: int | NodeSnapshot) -> int | None:
        if isinstance(entry, NodeSnapshot):
            return entry.id
        return found if (found := self._rows[entry + _ID]) >= 0 else self._peek(entry)

    def _peek(self, entry: int) -> int | None:
        """The id of a node that is no array of four."""
        reader = Reader(self._data, self._key, self._rows[entry + _VALUE])
        try:
            reader.go(reader.struct("a node", _NODE, _NODE[2:3]), 0)
            return reader.integer("the id of a node", 0, _U32)
        except FormatError:
            return None


def _restored(data: bytes, key: str | None, rows: list[int], entries: dict[str, int | NodeSnapshot]) -> Nodes:
    nodes = Nodes()
    nodes._data, nodes._key, nodes._entries = data, key, entries
    nodes._rows = memoryview(struct.pack(f"={len(rows)}q", *rows)).cast("q")
    return nodes


def _same(left: Node | None, right: Node | None) -> bool:
    if isinstance(left, BrokenNode) and isinstance(right, BrokenNode):
        return left.path == right.path and str(left.error) == str(right.error)
    return left == right


def _spans(rows: memoryview[int], entries: Spans) -> Spans:
    """Where entries begin and end, with their keys: int64[n, 2]."""
    columns = np.frombuffer(rows, np.int64)
    return np.stack([columns[entries], columns[entries + _END]], axis=1)


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


def _components(path: str) -> list[str]:
    """What paths are ordered by. The root has none but an empty one, which sorts before all names."""
    return path.split("/")[1:] if path != "/" else [""]


# --- one node ------------------------------------------------------------------------------------------------------------------------


def _read_node(reader: Reader, key: str) -> NodeSnapshot:
    places = reader.struct("a node", _NODE, _NODE[2:3])
    reader.go(places, 0)
    number = reader.integer("the id of a node", 0, _U32)
    reader.go(places, 1)
    place = reader.at
    path = reader.text("the path of a node")
    if path != key:
        raise reader.fail(f"the node under {key!r} says that its path is {path!r}", place)
    if (reason := path_mistake(path)) is not None:
        raise reader.fail(f"the path of a node {reason}, found {path!r}", place)
    attributes = _read_attributes(reader) if reader.go(places, 2) and not reader.nil() else None
    reader.go(places, 3)
    place = reader.at
    kind, has_value = reader.variant("the kind of a node")
    if (kind, has_value) == ("Array", True):
        return NodeSnapshot(number, path, attributes, _read_array(reader))
    if (kind, has_value) == ("Group", True) and not reader.nil():
        raise reader.fail("a group has no data", place)
    if kind != "Group":
        raise reader.fail(f"a node must be a Group, or an Array with its data, found {kind[:40]!r}", place)
    return NodeSnapshot(number, path, attributes, None)


def path_mistake(path: str) -> str | None:
    """What is wrong with the path of a node, None where nothing is."""
    if path == "/":
        return None
    names = path.split("/")
    if names[0] or len(names) < 2:
        return "must begin with '/'"
    return None if not {"", ".", ".."} & set(names[1:]) else "must not have empty or relative parts"


def _read_attributes(reader: Reader) -> Mapping[str, Json] | AttributesReference:
    place = reader.at
    variant, has_value = reader.variant("user attributes")
    if not has_value or variant not in ("Inline", "Ref"):
        raise reader.fail(f"user attributes must be Inline or Ref, found {variant[:40]!r}", place)
    if variant == "Inline":
        return reader.members("user attributes")
    what = "a reference to attributes"
    places = reader.struct(what, _ATTRIBUTES)
    reader.go(places, 0)
    file = read_id(reader, "the id of an attribute file")
    reader.go(places, 1)
    location = reader.integer("the location of attributes", 0, _U32)
    reader.go(places, -1)
    return AttributesReference(file, location)


def _read_array(reader: Reader) -> ArrayData:
    if (count := reader.array("the data of an array")) != 2:
        raise reader.fail(f"the data of an array must be its metadata and its manifests, found {count} values")
    metadata = read_metadata(reader)
    manifests = [_read_reference(reader) for _ in range(reader.array("the manifests of an array"))]
    return ArrayData(metadata, tuple(manifests))


def _read_reference(reader: Reader) -> ManifestReference:
    places = reader.struct("a reference to a manifest", _REFERENCE)
    reader.go(places, 0)
    manifest = read_id(reader, "the id of a manifest")
    reader.go(places, 1)
    what = "the extents of a manifest"
    extents = [
        tuple([reader.integer(what, 0, _U32) for _ in range(reader.array(what))]) for _ in range(reader.array(what))
    ]
    reader.go(places, -1)
    return ManifestReference(manifest, tuple(extents))


def read_id(reader: Reader, what: str) -> ObjectId:
    """An id as text."""
    place = reader.at
    text = reader.text(what)
    try:
        return decode_id(text)
    except FormatError as error:
        raise reader.fail(f"{what}: {error.message}", place) from None


def _write_entry(out: bytearray, node: NodeSnapshot) -> None:
    if (reason := path_mistake(node.path)) is not None:
        raise InvalidInputError(f"the path of a node {reason}, found {node.path!r}", path=node.path)
    try:
        write_text(out, node.path)
        write_array(out, len(_NODE))
        write_natural(out, node.id, _U32, "the id of a node")
        write_text(out, node.path)
        _write_attributes(out, node.attributes)
        _write_data(out, node.array)
    except InvalidInputError as error:
        member = "" if error.path is None else f", {error.path}"
        raise InvalidInputError(f"{error.message} (of the node {node.path!r}{member})", path=node.path) from None


def _write_attributes(out: bytearray, attributes: Mapping[str, Json] | AttributesReference | None) -> None:
    if attributes is None:
        write_value(out, None)
        return
    write_map(out, 1)
    if isinstance(attributes, AttributesReference):
        write_text(out, "Ref")
        write_array(out, len(_ATTRIBUTES))
        write_text(out, encode_id(attributes.id))
        write_natural(out, attributes.location, _U32, "the location of attributes")
    else:
        write_text(out, "Inline")
        write_value(out, attributes)


def _write_data(out: bytearray, array: ArrayData | None) -> None:
    if array is None:
        write_text(out, "Group")
        return
    write_map(out, 1)
    write_text(out, "Array")
    write_array(out, 2)
    write_metadata(out, array.metadata)
    write_array(out, len(array.manifests))
    for manifest, extents in array.manifests:
        write_array(out, len(_REFERENCE))
        write_text(out, encode_id(manifest))
        write_array(out, len(extents))
        for coordinates in extents:
            write_array(out, len(coordinates))
            for coordinate in coordinates:
                write_natural(out, coordinate, _U32, "a coordinate in the extents of a manifest")
