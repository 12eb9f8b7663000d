"""Stores: keys <-> bytes, in batches, with versions. port.py is the port, store.py what is written once on top of it, locations.py which locations are
accepted.

local/, objects/, zip/ and memory.py are stores; caches/, transformer/, operations/ and wrappers.py are stores over stores; array_storage/ has the ports between
arrays and stores, keys/ what a key is and how keys are listed and locked, transfer/ what moves bytes between stores and memory.
Not here: what the bytes mean (codecs/, metadata/, formats/)."""

from typing import TYPE_CHECKING

from frazil.base.late import late_modules, late_names
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store
from frazil.stores.values import ABSENT, ANY, Capabilities, Changed, Columns, Fetched, Page, Pieces, Sources, Version

late_modules(__name__, "location_overlap", "memory", "wrappers")

if TYPE_CHECKING:
    from frazil.stores.array_storage.chunk_storage import ChunkStorage, Located, PlainChunks
    from frazil.stores.caches.caching_store import CachingStore
    from frazil.stores.memory import MemoryStore
    from frazil.stores.objects.object_store import ObjectStore
    from frazil.stores.operations.adapted_store import AdaptedStore, StoreWithPartialAccess, adapt
    from frazil.stores.transformer.sharding_store import ShardingStore
    from frazil.stores.wrappers import ReadOnlyStore, WrappedStore, read_only
    from frazil.stores.zip.zip_store import ZipStore

__all__ = [
    "ABSENT",
    "ANY",
    "AdaptedStore",
    "CachingStore",
    "Capabilities",
    "Changed",
    "ChunkStorage",
    "Columns",
    "Fetched",
    "LocalStore",
    "Located",
    "MemoryStore",
    "ObjectStore",
    "Page",
    "Pieces",
    "PlainChunks",
    "ReadOnlyStore",
    "ShardingStore",
    "Sources",
    "Store",
    "StoreWithPartialAccess",
    "Version",
    "WrappedStore",
    "ZipStore",
    "adapt",
    "read_only",
]
if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        __name__,
        {
            **dict.fromkeys(
                ("AdaptedStore", "StoreWithPartialAccess", "adapt"), "frazil.stores.operations.adapted_store"
            ),
            **dict.fromkeys(("ReadOnlyStore", "WrappedStore", "read_only"), "frazil.stores.wrappers"),
            "CachingStore": "frazil.stores.caches.caching_store",
            "MemoryStore": "frazil.stores.memory",
            **dict.fromkeys(("ChunkStorage", "Located", "PlainChunks"), "frazil.stores.array_storage.chunk_storage"),
            "ObjectStore": "frazil.stores.objects.object_store",
            "ShardingStore": "frazil.stores.transformer.sharding_store",
            "ZipStore": "frazil.stores.zip.zip_store",
        },
    )
