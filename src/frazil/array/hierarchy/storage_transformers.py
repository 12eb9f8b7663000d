"""The chunk storage of an array: the hierarchy's store, behind the storage transformers of the document and of the user; or the storage that a NodeStorage
gives.

A sharding transformer directly at the array is not among them: it is read as the sharding codec (metadata/draft/transformers.py). Behind a transformer of the
user it runs as a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from frazil.array.hierarchy import root
from frazil.array.hierarchy.nodes import NodeLocation, no_transformers
from frazil.errors import InvalidInputError
from frazil.metadata.draft import transformers
from frazil.metadata.extension_guard import CheckedKeys, ExtensionCall
from frazil.metadata.extensions import Extension
from frazil.metadata.grids.chunk_keys import SeparatedKeys
from frazil.metadata.json_text import item
from frazil.metadata.members import check_object
from frazil.metadata.model import ArrayMetadata
from frazil.stores.array_storage.chunk_storage import ChunkStorage, plain_chunks
from frazil.stores.store import Store
from frazil.stores.transformer import sharding_store


def chunk_storage(location: NodeLocation, metadata: ArrayMetadata, largest: int | None = None) -> ChunkStorage:
    """The chunks of the array at a location. largest: the most bytes of an encoded chunk. Raises UnknownExtensionError, InvalidInputError."""
    if location.nodes is not None:
        if location.transformers or metadata.storage_transformers:
            raise no_transformers(location)
        return location.nodes.chunks(location.path, metadata)
    store, prefix = transformed(location, metadata), location.layout.data_prefix(location.path)
    keys = metadata.chunk_key_encoding
    is_own = isinstance(keys, SeparatedKeys) and type(keys).__module__.startswith("frazil.")
    own = store is location.store  # a transformer may store other bytes than the codecs give
    return plain_chunks(store, prefix, keys if is_own else CheckedKeys(keys), metadata.ndim, largest if own else None)


def transformed(location: NodeLocation, metadata: ArrayMetadata) -> Store:
    """The store behind the transformers. Array side first: those of the user, then those of the document. Raises UnknownExtensionError, InvalidInputError."""
    store = location.store
    entries = metadata.storage_transformers
    if not entries and not location.transformers:
        return store
    listed = (metadata.document or {}).get("storage_transformers")
    before = len(listed) - len(entries) if isinstance(listed, list) else 0  # these were read as the sharding codec
    for i, entry in reversed(list(enumerate(entries))):
        path = item("storage_transformers", before + i)
        if metadata.zarr_format != 3 and transformers.is_sharding(entry.name):
            configuration = check_object(entry.configuration.get("configuration"), path)
            kind, old = entry.configuration.get("type"), metadata.zarr_format == "draft-2021"
            counts = transformers.read_configuration(kind, configuration, metadata.ndim, path, old=old)
            prefix = location.layout.data_prefix(location.path)
            store = sharding_store.ShardingStore(store, prefix, metadata.chunk_key_encoding, counts)
        else:
            transformer = cast("Callable[[Extension, Store], object]", location.registry.transformer(entry, path))
            with ExtensionCall("storage transformer", entry.name, path):
                store = root.as_store(
                    transformer(entry, store), f"the storage transformer {entry.name}", location, path
                )
    for i, added in reversed(list(enumerate(location.transformers))):
        transform = cast("Callable[[Store], object]", added)
        with ExtensionCall("storage transformer", repr(added), f"storage_transformers[{i}]", InvalidInputError):
            store = root.as_store(transform(store), "a storage transformer", location, f"added[{i}]")
    return store
