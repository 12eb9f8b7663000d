"""Reads nodes, as documents in a store or through a NodeStorage.

Not here: changes (node_changes.py), keys and documents of a dialect (metadata/layout.py), the dialect of a hierarchy (root.py), moves (move.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from frazil.array.arguments import check_transformers
from frazil.array.shards.shard_options import DEFAULT_OPTIONS, ShardOptions
from frazil.base.record import Record
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry, RuntimeTransformer
from frazil.errors import (
    FrazilError,
    InvalidInputError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
    UnknownExtensionError,
)
from frazil.metadata.layout import Candidate, Layout
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata
from frazil.metadata.paths import normalise
from frazil.metadata.v3.layout import V3
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.caches.byte_cache import ByteCache
from frazil.stores.store import Store

if TYPE_CHECKING:
    from frazil.stores.array_storage.node_storage import NodeReader, NodeStorage

M = TypeVar("M", ArrayMetadata, GroupMetadata)
_MANY = 1024  # attributes: no cache has their document


class NodeLocation(Record):
    """Where a node is and how it is treated: a store, a normalised path in its hierarchy ("" is the root), the known extensions, the limits, the dialect, and
    storage transformers that the user adds to those of documents, array side first.

    entry_store  the store without the generic extensions of the hierarchy, which do not apply to its entry point; None: there are none
    nodes        keeps the nodes instead of documents in the store, which is then only for display, with the layout of V3; None: documents
    copies       copies of the documents, which are read instead of them (consolidated metadata); None: the documents are read
    memory       shared by all nodes opened from here; None: each array has its own;  shard_options: how its arrays write shards"""

    store: Store
    path: str = ""
    registry: Registry = DEFAULT_REGISTRY
    runtime: Runtime = DEFAULT
    read_only: bool = False
    layout: Layout = V3
    transformers: tuple[RuntimeTransformer, ...] = ()
    entry_store: Store | None = None
    nodes: NodeStorage | None = None
    copies: NodeReader | None = None
    memory: ByteCache | None = None
    shard_options: ShardOptions = DEFAULT_OPTIONS

    @property
    def reader(self) -> NodeReader | None:
        """The source of nodes other than the documents of the store; None: the documents."""
        return self.copies if self.nodes is None else self.nodes

    def at(self, path: str) -> NodeLocation:
        return self if path == self.path else self._replace(path=path)

    def with_options(self, options: ShardOptions) -> NodeLocation:
        return self if options == self.shard_options else self._replace(shard_options=options)

    def below(self, path: str) -> str:
        """The checked, whole path of a node below this one, from the path that its user wrote."""
        inner = normalise(path, self.layout.check_name)
        return f"{self.path}/{inner}" if self.path and inner else self.path or inner

    def through(self, transformers: Sequence[RuntimeTransformer]) -> NodeLocation:
        """The same location with more storage transformers, array side first. Raises InvalidInputError where chunks are not in a store."""
        added = check_transformers(transformers, "transformers")
        if not added:
            return self
        if self.nodes is not None:
            raise no_transformers(self)
        return self._replace(transformers=(*added, *self.transformers))

    def require_writable(self) -> None:
        """Raises ReadOnlyError."""
        if self.nodes is not None:
            self.nodes.require_writable()
        if self.read_only:
            raise ReadOnlyError(f"{self} was opened for reading", path=self.path or "/", hint='open it with mode="r+"')

    def __str__(self) -> str:
        return f"{self.store}/{self.path}".rstrip("/")


def no_transformers(location: NodeLocation) -> InvalidInputError:
    """The error for storage transformers where chunks are not under keys of the store."""
    return InvalidInputError(
        "an array of a repository has no storage transformers: its chunks have no keys",
        path=location.path or "/",
        hint="put a store over the one that the repository is opened at",
    )


# --- reading -----------------------------------------------------------------------------------------------------------------------


def missing(location: NodeLocation) -> NotFoundError:
    """The error for a location without a node."""
    return NotFoundError(
        f"there is no array or group in {location.store}",
        key=location.layout.document_keys(location.path)[0],
        path=location.path or "/",
        hint="check the location",
    )


def find_node(location: NodeLocation, *, to_create: bool = False) -> Metadata | None:
    """The metadata of the node; None where there is no node. One batch of requests; one more for a group without a document.

    to_create  the caller creates a missing node: where the store cannot list, a group without a document counts as missing
    Raises MetadataError where its document breaks the rules, the error that a port gives instead of a node, and StoreError where only a listing can find a
    group without a document, and the store cannot list."""
    if (reader := location.reader) is not None:
        return _readable(reader.find(location.path))
    found = look_up(location, [Candidate(location.path, location.layout.document_keys(location.path))])
    node = _readable(found.get(location.path))
    unlisted = to_create and location.path and not location.store.capabilities.listable
    if node is None and not unlisted and is_implied(location):
        return GroupMetadata(zarr_format=location.layout.zarr_format, implicit=True)
    return node


def _readable(node: Metadata | FrazilError | None) -> Metadata | None:
    if isinstance(node, FrazilError):
        raise node
    return node


def is_implied(location: NodeLocation) -> bool:
    """Whether a group without a document exists: it does if nodes are below it, or if it is the root, which has the entry point. Raises StoreError where the
    store cannot list, as only a listing can show this."""
    layout, store = location.layout, location.store
    if not layout.implicit_groups:
        return False
    if not location.path:
        return True
    if not store.capabilities.listable:
        raise StoreError(
            f"{store} is not listable, and only a listing shows whether there is a group without a document",
            path=location.path,
            hint="open nodes below it by their whole path, or use create_group, which gives the group a document",
        )
    return not store.is_empty(layout.documents_prefix(location.path))


def find_nodes(location: NodeLocation, paths: Sequence[str]) -> dict[str, Metadata]:
    """The nodes at these paths that have a document, in one batch of requests. Raises MetadataError where one breaks the rules."""
    found_nodes: Mapping[str, Metadata | FrazilError | None]
    if (reader := location.reader) is not None:
        found_nodes = {path: reader.find(path) for path in paths}
    else:
        found_nodes = look_up(location, [Candidate(path, location.layout.document_keys(path)) for path in paths])
    return {path: node for path, found in found_nodes.items() if (node := _readable(found)) is not None}


def look_up(location: NodeLocation, candidates: Sequence[Candidate]) -> dict[str, Metadata | FrazilError]:
    """The candidates that exist, in one batch of requests; for an unreadable document the error."""
    layout = location.layout
    keys = [key for candidate in candidates for key in candidate.keys]
    keys += [key for candidate in candidates if (key := layout.attributes_key(candidate.path)) is not None]
    values = location.store.get_many(keys)
    stored = dict(zip(keys, values, strict=True))
    found: dict[str, Metadata | FrazilError] = {}
    for candidate in candidates:
        for key in candidate.keys:
            value = stored[key]
            if value is not None:
                try:
                    beside = stored.get(layout.attributes_key(candidate.path) or "")
                    found[candidate.path] = layout.parse(key, value, location.registry, beside)
                except (MetadataError, UnknownExtensionError) as error:
                    found[candidate.path] = error
                break
        else:
            if candidate.group:
                found[candidate.path] = GroupMetadata(zarr_format=location.layout.zarr_format, implicit=True)
    return found


def as_stored(location: NodeLocation, metadata: M) -> M:
    """The metadata of a new node as it is read when opened. Raises MetadataError for metadata that the dialect cannot express, InvalidInputError for storage
    transformers where chunks are not in a store."""
    if location.nodes is not None and isinstance(metadata, ArrayMetadata) and metadata.storage_transformers:
        raise no_transformers(location)
    return parsed(location, metadata)


def parsed(location: NodeLocation, metadata: M, document: bytes | None = None) -> M:
    """The metadata as parsed from its documents; document: the first of them. Many attributes are left out, as they are read as they are written."""
    kind, layout = type(metadata), location.layout
    many = layout.zarr_format == 3 and len(metadata.attributes) > _MANY
    if many or document is None:
        document = layout.emit(metadata.with_plain_attributes({}) if many else metadata)
    key, attributes = layout.document_key(location.path, kind), layout.emit_attributes(metadata)
    node = layout.parse(key, document, location.registry, attributes)
    assert isinstance(node, kind)
    return node.with_plain_attributes(dict(metadata.attributes)) if many else node


def node_exists(location: NodeLocation) -> bool:
    """Whether an array or a group exists, even if its document cannot be read. One request for each document that it may have; one more for a group without
    one. Raises StoreError where only a listing can show a group, and the store cannot list."""
    if (reader := location.reader) is not None:
        return reader.exists(location.path)
    keys = location.layout.document_keys(location.path)
    exists = location.store.exists(keys[0]) if len(keys) == 1 else bool((location.store.sizes(keys) >= 0).any())
    return exists or is_implied(location)
