"""The nodes of a snapshot as every format has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from frazil.errors import FormatError
from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata
from frazil.formats.ids import ObjectId
from frazil.formats.msgpack import Json
from frazil.record import Record

__all__ = ["ArrayData", "AttributesReference", "BrokenNode", "ManifestReference", "Node", "NodeSnapshot"]


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
