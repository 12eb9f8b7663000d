"""Converts the metadata of the nodes of a snapshot for documents. Equal bytes are converted once. documents.py converts values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from frazil.errors import FrazilError
from frazil.formats import json_values
from frazil.formats.alpha.node_values import read_attributes
from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata
from frazil.formats.msgpack import Reader
from frazil.formats.nodes import AttributesReference, BrokenNode, Node, Nodes
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.json_text import Json, copied
from frazil.metadata.members import INT64_MAX
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata
from frazil.metadata.registry import MetadataExtensions
from frazil.repository.alpha.documents import to_attributes, to_metadata
from frazil.repository.alpha.file_cache import Files

_Converted: TypeAlias = "tuple[ZarrArrayMetadata, ArrayMetadata]"

_CACHE_SIZE: Final = 1024  # arrays, and attributes
_SMALL: Final = 4096  # largest size that is cached
_GROUP: Final = GroupMetadata()


class NodeDocuments:
    """Safe to use from many threads and after a fork: entries of the cache are only added, or all cleared. Returned attributes are copies."""

    __slots__ = ("_arrays", "_attributes", "_extensions", "_files", "_parts")

    def __init__(self, files: Files, extensions: MetadataExtensions) -> None:
        self._files, self._extensions = files, extensions
        self._arrays: dict[bytes, ArrayMetadata] = {}  # by their encoded metadata, without attributes
        self._attributes: dict[bytes, dict[str, Json]] = {}  # by their encoded form
        self._parts: dict[int, _Converted] = {}  # by the identity of the codecs

    def at(self, nodes: Nodes, path: str, document: tuple[bytes, bytes]) -> Metadata | FrazilError:
        """The metadata of a node from the result of Nodes.document, or its error."""
        attributes, metadata = document
        array = self._arrays.get(metadata) if metadata else None
        try:
            if array is not None:
                return array.with_plain_attributes(self._plain_attributes(attributes))
            if not metadata:
                return _GROUP.with_plain_attributes(self._plain_attributes(attributes))
        except FrazilError:  # reported below, with the whole node
            pass
        node = nodes.get(path)
        assert node is not None
        found = self.of(node)
        if isinstance(found, ArrayMetadata) and len(metadata) <= _SMALL:
            _make_room(self._arrays)
            self._arrays[metadata] = found.with_plain_attributes({})
        return found

    def _plain_attributes(self, data: bytes) -> dict[str, Json]:
        """A copy of attributes. Raises the errors of reading them."""
        cached = self._attributes.get(data)
        if cached is None:
            cached = to_attributes(self._loaded(read_attributes(Reader(data, None))))
            if len(data) <= _SMALL:
                _make_room(self._attributes)
                self._attributes[data] = cached
        return {name: copied(value) for name, value in cached.items()}

    def of(self, node: Node) -> Metadata | FrazilError:
        """The metadata of a node, or its error."""
        if isinstance(node, BrokenNode):
            return node.error
        try:
            attributes = self._loaded(node.attributes)
            if node.array is None:
                return GroupMetadata(attributes=to_attributes(attributes))
            assert isinstance(node.array.metadata, ZarrArrayMetadata)
            return self._array(node.array.metadata, attributes)
        except FrazilError as error:
            error.path = error.path if error.path and error.path.startswith("/") else node.path
            return error

    def _array(self, stored: ZarrArrayMetadata, attributes: Mapping[str, json_values.Json] | None) -> ArrayMetadata:
        """The metadata of an array. Arrays that differ only in their shape, as a growing array does, are converted once."""
        cached = self._parts.get(id(stored.codecs))
        fits = max(stored.shape, default=0) <= INT64_MAX
        if fits and cached is not None and stored.equals_beside_shape(cached[0]):
            return cached[1].with_plain_members(shape=stored.shape, attributes=to_attributes(attributes))
        found = to_metadata(stored, attributes, self._extensions)
        if type(found.chunk_grid) is RegularGrid:
            _make_room(self._parts)
            self._parts[id(stored.codecs)] = stored, found.with_plain_attributes({})
        return found

    def _loaded(
        self, attributes: Mapping[str, json_values.Json] | AttributesReference | None
    ) -> Mapping[str, json_values.Json] | None:
        """Attributes, read from their file if they have one."""
        if isinstance(attributes, AttributesReference):
            return self._files.attributes(attributes.id, attributes.location)
        return attributes


def _make_room(cache: dict[bytes, ArrayMetadata] | dict[bytes, dict[str, Json]] | dict[int, _Converted]) -> None:
    if len(cache) >= _CACHE_SIZE:
        cache.clear()
