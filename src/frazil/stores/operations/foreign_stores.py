"""Stores of zarr-python and file systems of fsspec as locations: how they are recognised, and the store over each. Neither package is imported for that.

The operations themselves are in zarr_operations.py and fsspec_operations.py; adapted_store.py adapts any object with operations."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from frazil.stores.operations import fsspec_operations, zarr_operations
from frazil.stores.operations.adapted_store import StoreWithPartialAccess, adapt
from frazil.stores.store import Store

if TYPE_CHECKING:
    from typing import Protocol

    from frazil._kernel import Buffer

    class ZarrStore(Protocol):
        """A zarr.abc.store.Store, by the attributes that distinguish it from other objects."""

        @property
        def read_only(self) -> bool: ...
        @property
        def supports_listing(self) -> bool: ...
        async def exists(self, key: str) -> bool: ...

    class ZarrStorePath(Protocol):
        """A zarr.storage.StorePath."""

        @property
        def store(self) -> ZarrStore: ...
        @property
        def path(self) -> str: ...

    class FileSystem(Protocol):
        """A fsspec.AbstractFileSystem."""

        def invalidate_cache(self, path: str | None = None) -> None: ...
        def created(self, path: str) -> object: ...

    FilesAt: TypeAlias = tuple[FileSystem, str | os.PathLike[str]]  # or a FSMap, which is a mapping
    AnyStore: TypeAlias = StoreWithPartialAccess | Mapping[str, Buffer] | ZarrStore | ZarrStorePath | FilesAt


def store_over(location: object, *, requests_in_flight: int, bytes_in_flight: int) -> tuple[Store, str] | None:
    """The store over an object of another library or of a user, and the prefix of keys that the object names; None for any other object.

    location  a zarr.abc.store.Store or a zarr.storage.StorePath; fsspec's FSMap, or (file system, path); a mapping, or a StoreWithPartialAccess
    Raises InvalidInputError for a file system without a path, and for asynchronous ones."""
    if _is_of(location, "zarr.abc.store", "Store") or _is_of(location, "zarr.storage", "StorePath"):
        return zarr_operations.store_over(location, requests_in_flight, bytes_in_flight)
    files, path = location if isinstance(location, tuple) and len(location) == 2 else (location, None)
    if _is_of(location, "fsspec.mapping", "FSMap"):
        files, path = location.fs, location.root  # type: ignore[attr-defined] # an FSMap
    if _is_of(files, "fsspec.spec", "AbstractFileSystem"):
        return fsspec_operations.store_over(files, path, requests_in_flight), ""
    if isinstance(location, StoreWithPartialAccess | Mapping):
        return adapt(location), ""
    return None


def _is_of(value: object, module: str, name: str) -> bool:
    """Whether a value is an instance of a class, without importing its module: if that is not imported, no value is."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)
