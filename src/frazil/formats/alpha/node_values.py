"""Converts one node of a snapshot from and to bytes. nodes.py has all nodes of a snapshot, and decodes them on demand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata, pack_metadata, read_metadata
from frazil.formats.ids import ObjectId, decode_id, encode_id
from frazil.formats.json_values import Json
from frazil.formats.msgpack import DEPTH_LIMIT, Fields, Packed, Reader, checked, pack
from frazil.formats.nodes import ArrayData, AttributesReference, ManifestReference, NodeSnapshot

_U32: Final = 2**32 - 1
_CACHE_SIZE: Final = 4096  # references to manifests whose bytes are cached


def path_mistake(path: str) -> str | None:
    """What is wrong with the path of a node, or None."""
    if path == "/":
        return None
    names = path.split("/")
    if names[0] or len(names) < 2:
        return "must begin with '/'"
    return None if not {"", ".", ".."} & set(names[1:]) else "must not have empty or relative parts"


# --- reading -------------------------------------------------------------------------------------------------------------------------


def read_node(reader: Reader, key: str) -> NodeSnapshot:
    """A node, the value of `key` in the map of nodes. Raises FormatError."""
    offset = reader.at
    node = reader.struct("a node", NodeSnapshot, _NODE, _OPTIONAL)
    if node.path != key:
        raise reader.fail(f"the node under {key!r} says that its path is {node.path!r}", offset)
    if (reason := path_mistake(key)) is not None:
        raise reader.fail(f"the path of a node {reason}, found {key!r}", offset)
    return node


def peek_id(reader: Reader) -> int | None:
    """The id of a node, without reading anything else; None if unknown."""
    try:
        number: int = reader.struct("a node", lambda *fields: fields[0], {**_SKIPPED, "id": Reader.u32}, _OPTIONAL)
    except FormatError:
        return None
    return number


def peek_kind(reader: Reader) -> bool | None:
    """Whether a node is an array; None if unknown."""
    try:
        fields = {**_SKIPPED, "node_data": Reader.variant}
        name, _ = reader.struct("a node", lambda *fields: fields[3], fields, _OPTIONAL)
    except FormatError:
        return None
    return {"Array": True, "Group": False}.get(name)


def read_attributes(reader: Reader, label: str = "user attributes") -> Mapping[str, Json] | AttributesReference | None:
    """The attributes of a node, None for nil. Raises FormatError."""
    if reader.nil():
        return None
    offset = reader.at
    variant, has_value = reader.variant(label)
    if (variant, has_value) == ("Inline", True):
        return reader.members(label)
    if (variant, has_value) == ("Ref", True):
        return reader.struct("a reference to attributes", AttributesReference, _ATTRIBUTES)
    raise reader.fail(f"{label} must be Inline or Ref, found {variant[:40]!r}", offset)


def _read_data(reader: Reader, label: str) -> ArrayData | None:
    offset = reader.at
    kind, has_value = reader.variant(label)
    if kind == "Group" and (not has_value or reader.nil()):
        return None
    if (kind, has_value) != ("Array", True):
        raise reader.fail(
            f"a node must be a Group without data, or an Array with its data, found {kind[:40]!r}", offset
        )
    if (count := reader.array("the data of an array")) != 2:
        raise reader.fail(f"the data of an array must be its metadata and its manifests, found {count} values")
    return ArrayData(read_metadata(reader), read_manifests(reader))


def read_manifests(reader: Reader) -> tuple[ManifestReference, ...]:
    """The manifests that an array lists. Raises FormatError, also for one that is listed twice."""
    offset, label = reader.at, "a reference to a manifest"
    count = reader.array("the manifests of an array")
    references = tuple([reader.struct(label, ManifestReference, _REFERENCE) for _ in range(count)])
    if len({reference.id for reference in references}) < count:
        raise reader.fail("the manifests of an array must be different ones, found one twice", offset)
    return references


def _read_extents(reader: Reader, label: str) -> tuple[tuple[int, ...], ...]:
    return tuple([tuple([reader.u32(label) for _ in range(reader.array(label))]) for _ in range(reader.array(label))])


def read_id(reader: Reader, label: str) -> ObjectId:
    """An id as text."""
    offset = reader.at
    text = reader.text(label)
    try:
        return decode_id(text)
    except FormatError as error:
        raise reader.fail(f"{label}: {error.message}", offset) from None


_NODE: Final[Fields] = {
    "id": Reader.u32,
    "path": Reader.text,
    "user_attributes": read_attributes,
    "node_data": _read_data,
}
_OPTIONAL: Final = ("user_attributes",)
_SKIPPED: Final[Fields] = dict.fromkeys(_NODE, Reader.skip)
_ATTRIBUTES: Final[Fields] = {"object_id": read_id, "location": Reader.u32}
_REFERENCE: Final[Fields] = {"object_id": read_id, "extents": _read_extents}


# --- writing -------------------------------------------------------------------------------------------------------------------------


def write_entry(out: bytearray, node: NodeSnapshot, metadata: Packed | None = None) -> None:
    """A node after its path, as an entry of the map of nodes. Raises InvalidInputError for what the format cannot hold.

    metadata  the encoded metadata of the array, if known"""
    if (reason := path_mistake(node.path)) is not None:
        raise InvalidInputError(f"the path of a node {reason}, found {node.path!r}", path=node.path)
    try:
        fields = checked(node.id, _U32, "the id of a node"), node.path, _attributes(node), _data(node.array, metadata)
        out += pack(node.path)
        out += pack(fields, DEPTH_LIMIT + 2)  # the fields, and a variant, above the attributes
    except InvalidInputError as error:
        raise InvalidInputError(f"{error.message} (of the node {node.path!r})", path=node.path) from None


def _attributes(node: NodeSnapshot) -> object:
    attributes = node.attributes
    if isinstance(attributes, AttributesReference):
        return {"Ref": (encode_id(attributes.id), checked(attributes.location, _U32, "the location of attributes"))}
    return None if attributes is None else {"Inline": attributes}


def _data(array: ArrayData | None, metadata: Packed | None) -> object:
    if array is None:
        return "Group"
    if metadata is None:
        assert isinstance(array.metadata, ZarrArrayMetadata)
        metadata = pack_metadata(array.metadata)
    return {"Array": (metadata, [_packed_reference(reference) for reference in array.manifests])}


@lru_cache(_CACHE_SIZE)
def _packed_reference(reference: ManifestReference) -> Packed:
    """Cached, as most references of an array are those of its last snapshot."""
    for row in reference.extents:
        if row and (min(row) < 0 or max(row) > _U32):
            raise InvalidInputError(f"the extents of a manifest must be from 0 to {_U32}, found {row}")
    return pack((encode_id(reference.id), reference.extents))
