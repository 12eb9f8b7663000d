"""The stores of zarr.storage, with the same names and arguments, for scripts that only replace `zarr` by `frazil`. Each gives a store of frazil.stores, which
has more options.

Locations work without them: frazil.open("sea.zarr"), frazil.open("s3://bucket/sea.zarr"), frazil.open({})."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from frazil.base.late import late_names
from frazil.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from frazil.stores import memory, wrappers
from frazil.stores.local import local_store
from frazil.stores.locations import Location, StorePath, given_location, resolve
from frazil.stores.objects import object_store
from frazil.stores.operations import fsspec_operations
from frazil.stores.store import Store
from frazil.stores.zip import zip_store

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.stores.objects import connections
    from frazil.stores.operations import foreign_stores

__all__ = ["FsspecStore", "LocalStore", "MemoryStore", "ObjectStore", "StoreLike", "StorePath", "ZipStore"]

StoreLike: TypeAlias = Store | StorePath | os.PathLike[str] | str | dict[str, bytes]


class _StoreName(type):
    """A name of zarr.storage. A call gives a store of frazil.stores, which isinstance knows; a store over a store counts as that one, too."""

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> _StoreName:
        if bases:
            raise InvalidInputError(
                f"{bases[0].__name__} of frazil.storage cannot be a base class",
                hint="frazil.stores.WrappedStore is a store over a store",
            )
        return super().__new__(cls, name, bases, members)

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, Store):
            return False
        kinds = cls.kinds()  # type: ignore[attr-defined] # which each class has
        while not isinstance(instance, kinds):
            inner = getattr(instance, "inner", instance)
            if inner is instance:
                return False
            instance = inner
        return True


class LocalStore(metaclass=_StoreName):
    """A folder. Raises InvalidInputError if `root` is not a path."""

    def __new__(cls, root: str | os.PathLike[str], *, read_only: bool = False) -> local_store.LocalStore:  # type: ignore[misc] # a Store
        return local_store.LocalStore(root, read_only=read_only)

    kinds = staticmethod(lambda: (local_store.LocalStore,))


class MemoryStore(metaclass=_StoreName):
    """A store in memory. store_dict: the mapping that holds the values, as bytes; None: a new one."""

    def __new__(cls, store_dict: Mapping[str, Buffer] | None = None, *, read_only: bool = False) -> Store:  # type: ignore[misc] # a Store
        return _resolved_store(memory.MemoryStore() if store_dict is None else store_dict, read_only)

    kinds = staticmethod(lambda: (memory.MemoryStore, dict))


class ZipStore(metaclass=_StoreName):
    """A zip archive.

    mode         r: read an archive; a: read and write; w: replace it by an empty one; x: create a new one
    compression  0: entries are stored as they are, because chunks are compressed already
    allowZip64   without effect: archives that need it have it
    Raises InvalidInputError, NotFoundError if there is no archive to read; with mode w also FormatError for a file that is not a zip archive, StoreError for a
    folder."""

    def __new__(  # type: ignore[misc] # a Store
        cls,
        path: str | os.PathLike[str],
        *,
        mode: str = "r",
        read_only: bool | None = None,
        compression: int = 0,
        allowZip64: bool = True,  # noqa: ARG004, N803
    ) -> zip_store.ZipStore:
        if mode not in ("r", "a", "w", "x"):
            raise InvalidInputError(f"mode is {mode!r}; it must be one of r, a, w, x")
        if mode == "w" and read_only:
            raise InvalidInputError(
                'mode "w" replaces the archive, and read_only=True forbids that', hint="leave one out"
            )
        if compression:
            raise InvalidInputError(
                f"compression is {compression!r}; entries are stored as they are", hint="chunks are compressed already"
            )
        if not isinstance(path, str | os.PathLike):
            raise InvalidInputError(
                f"a {type(path).__name__} is not the path of an archive",
                hint="frazil.stores.ZipStore reads one in a store, too",
            )
        exists = os.path.lexists(path)
        if mode == "r" and not exists:
            raise NotFoundError("no archive is there", key=os.fspath(path), hint='mode="w" makes one')
        if mode == "x" and exists:
            raise AlreadyExistsError("the file already exists", key=os.fspath(path), hint='mode="w" replaces it')
        store = zip_store.ZipStore(path, read_only=mode == "r" if read_only is None else read_only)
        if mode == "w":
            store.clear()
        return store

    kinds = staticmethod(lambda: (zip_store.ZipStore,))


class ObjectStore(metaclass=_StoreName):
    """A store over a store object of obstore. frazil.stores.ObjectStore takes URLs, too."""

    def __new__(cls, store: connections.ObjectClient, *, read_only: bool = False) -> Store:  # type: ignore[misc] # a Store
        return _resolved_store(store, read_only)

    kinds = staticmethod(lambda: (object_store.ObjectStore,))


class FsspecStore(metaclass=_StoreName):
    """A folder of a file system of fsspec: FsspecStore(fs, path="bucket/sea.zarr") is a Store."""

    def __new__(  # type: ignore[misc] # a Store, not an object of this class
        cls, fs: foreign_stores.FileSystem, *, read_only: bool = False, path: str = "/"
    ) -> Store:
        return _resolved_store((fs, path), read_only)

    @staticmethod
    def from_url(url: str, storage_options: Mapping[str, object] | None = None, *, read_only: bool = False) -> Store:
        """The store at a URL; storage_options as in frazil.open. Raises InvalidInputError for a URL that names a node in a store."""
        return _resolved_store(given_location(url, None, storage_options), read_only)

    @staticmethod
    def from_mapper(fs_map: foreign_stores.AnyStore, *, read_only: bool = False) -> Store:
        """The store over the result of fs.get_mapper."""
        return _resolved_store(fs_map, read_only)

    kinds = staticmethod(lambda: (fsspec_operations.FileSystemOperations,))


def _resolved_store(location: Location, read_only: bool) -> Store:
    store, prefix = resolve(location)
    if prefix:
        raise InvalidInputError(
            "the location is a node within a store, not a store",
            path=prefix,
            hint="give the location itself to the function that opens",
        )
    return wrappers.read_only(store) if read_only else store


if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, {})
