"""Whether two locations overlap, and how a location is named: for operations that read one and write another."""

from __future__ import annotations

import os

from frazil.errors import InvalidInputError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.locations import resolve
from frazil.stores.memory import MemoryStore
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.operations.adapted_store import AdaptedStore
from frazil.stores.store import Store
from frazil.stores.wrappers import WrappedStore
from frazil.stores.zip.zip_store import ZipStore


def address_of(store: Store, root: str) -> tuple[object, str]:
    """A value that is equal for two locations in one store, and the place of the location in that store."""
    while isinstance(store, WrappedStore):
        store = store.inner
    if isinstance(store, AdaptedStore):
        return store.guard_name or id(store.inner), root
    if isinstance(store, LocalStore):
        return "folder", os.path.join(os.path.realpath(store.path), root, "")
    if isinstance(store, ZipStore):
        above, address = address_of(*store.location)
        return above, f"{address.rstrip('/')}/{root}"
    if isinstance(store, MemoryStore):
        return ("memory", store.mark), root
    if isinstance(store, ObjectStore):
        return f"objects {store.server}", f"{store.url}/{root}"
    return id(store), root


def address_of_zarr(array: object) -> tuple[object, str] | None:
    """address_of for an array of zarr-python; None for anything else."""
    store, path = getattr(array, "store", None), getattr(array, "path", None)
    if type(array).__module__.partition(".")[0] != "zarr" or store is None or not isinstance(path, str):
        return None
    try:
        return address_of(*resolve(store, path))
    except InvalidInputError:  # not a location of Frazil
        return None


def origin_of(store: Store, root: str) -> str:
    """A location by a name that is valid in other processes too."""
    kind, address = address_of(store, root)
    return repr((store, address)) if isinstance(kind, int) else f"{kind} {address}"


def check_no_overlap(source: tuple[object, str], destination: tuple[object, str], hint: str) -> None:
    if source[0] != destination[0]:
        return
    if source[1] == destination[1]:
        raise InvalidInputError("source and destination are the same location", hint=hint)
    if destination[1].startswith(source[1]) or source[1].startswith(destination[1]):
        raise InvalidInputError(
            "one of source and destination is inside the other", hint="choose a destination beside the source"
        )


def shown(store: Store, root: str) -> str:
    """A location as a user would name it."""
    return f"{str(store).rstrip('/')}/{root}".rstrip("/") or "/"
