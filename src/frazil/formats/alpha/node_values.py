"""One node of a snapshot as a value, and its bytes. All nodes of a snapshot, and which of them are decoded, are in nodes.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata, read_metadata, write_metadata
from frazil.formats.ids import ObjectId, decode_id, encode_id
from frazil.formats.msgpack import (
    Json,
    Reader,
    write_array,
    write_map,
    write_natural,
    write_naturals,
    write_text,
    write_value,
)
from frazil.record import Record

__all__ = [
    "ArrayData",
    "AttributesReference",
    "BrokenNode",
    "ManifestReference",
    "Node",
    "NodeSnapshot",
    "path_mistake",
    "peek_id",
    "peek_kind",
    "read_attributes",
    "read_id",
    "read_manifests",
    "read_node",
    "write_entry",
]

_U32: Final = 2**32 - 1
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


# --- reading -------------------------------------------------------------------------------------------------------------------------


def read_node(reader: Reader, key: str) -> NodeSnapshot:
    """A node, the value of `key` in the map of nodes. Raises FormatError."""
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
    attributes = read_attributes(reader) if reader.go(places, 2) else None
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


def peek_id(reader: Reader) -> int | None:
    """The id of a node, of which nothing else is read; None where it cannot be told."""
    try:
        reader.go(reader.struct("a node", _NODE, _NODE[2:3]), 0)
        return reader.integer("the id of a node", 0, _U32)
    except FormatError:
        return None


def peek_kind(reader: Reader) -> bool | None:
    """Whether a node is an array; None where it cannot be told, or only by passing over all before."""
    try:
        places = reader.struct("a node", _NODE, _NODE[2:3])
        if places is None:
            return None
        reader.go(places, 3)
        return {"Array": True, "Group": False}.get(reader.variant("the kind of a node")[0])
    except FormatError:
        return None


def path_mistake(path: str) -> str | None:
    """What is wrong with the path of a node, None where nothing is."""
    if path == "/":
        return None
    names = path.split("/")
    if names[0] or len(names) < 2:
        return "must begin with '/'"
    return None if not {"", ".", ".."} & set(names[1:]) else "must not have empty or relative parts"


def read_attributes(reader: Reader) -> Mapping[str, Json] | AttributesReference | None:
    """The attributes of a node, None for nil. Raises FormatError."""
    if reader.nil():
        return None
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
    return ArrayData(metadata, read_manifests(reader))


def read_manifests(reader: Reader) -> tuple[ManifestReference, ...]:
    """The manifests that an array lists. Raises FormatError, also for one that is listed twice."""
    place = reader.at
    references = tuple([_read_reference(reader) for _ in range(reader.array("the manifests of an array"))])
    if len({reference.id for reference in references}) < len(references):
        raise reader.fail("the manifests of an array must be different ones, found one twice", place)
    return references


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


def write_entry(out: bytearray, node: NodeSnapshot, metadata: bytes | None = None) -> None:
    """A node behind its path, as an entry of the map of nodes. Raises InvalidInputError for what the format cannot hold.

    metadata  that of the array as it is encoded, where that is known"""
    if (reason := path_mistake(node.path)) is not None:
        raise InvalidInputError(f"the path of a node {reason}, found {node.path!r}", path=node.path)
    try:
        write_text(out, node.path)
        write_array(out, len(_NODE))
        write_natural(out, node.id, _U32, "the id of a node")
        write_text(out, node.path)
        _write_attributes(out, node.attributes)
        _write_data(out, node.array, metadata)
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


def _write_data(out: bytearray, array: ArrayData | None, metadata: bytes | None) -> None:
    if array is None:
        write_text(out, "Group")
        return
    write_map(out, 1)
    write_text(out, "Array")
    write_array(out, 2)
    if metadata is None:
        write_metadata(out, array.metadata)
    else:
        out += metadata
    write_array(out, len(array.manifests))
    for manifest, extents in array.manifests:
        write_array(out, len(_REFERENCE))
        write_text(out, encode_id(manifest))
        write_array(out, len(extents))
        for coordinates in extents:
            write_naturals(out, coordinates, _U32, "a coordinate in the extents of a manifest")
