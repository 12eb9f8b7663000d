"""From any location or object that Frazil reads or writes to a store of zarr-python over it."""

from __future__ import annotations

from typing import TypeAlias

from zarr.abc.store import Store as ZarrStore

from frazil.api.ref_locations import within_repository
from frazil.api.repository import Repository
from frazil.api.session import Session
from frazil.array.group import Group
from frazil.errors import ReadOnlyError
from frazil.integrations.xarray.locations import expanded, session_at
from frazil.integrations.zarr.store import FrazilStore
from frazil.repository.format import MAIN
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.locations import Location, key_prefix, resolve

Target: TypeAlias = "Location | Session | Group | Repository | ZarrStore"


def as_store(target: Target, *, path: str = "", read_only: bool | None = None) -> ZarrStore:
    """A store of zarr-python over anything that Frazil reads or writes: `zarr.open(frazil.zarr.as_store(session))`.

    target     a Session or its store, a Group, a Repository (read at `main`), a store, or a location: a folder, "s3://bucket/sea.zarr", "https://...",
               "sea.repo@v1". A store of zarr-python is returned unchanged
    path       of the node in it that becomes the root
    read_only  None: as the target is. Sessions of readonly_session and named points in repositories are read-only; so are web servers
    Raises InvalidInputError for an invalid location, NotFoundError, ReadOnlyError for read_only=False if the target cannot be written."""
    if isinstance(target, ZarrStore) and not isinstance(target, NodeStore):
        return target
    store = _store(target, path)
    if read_only is False and store.read_only:
        raise ReadOnlyError(
            f"{store.target} can only be read", hint="of a repository, give a session: repo.writable_session(branch)"
        )
    return store.with_read_only(True) if read_only else store


def _store(target: Location | Session | Group | Repository, path: str) -> FrazilStore:
    inside = key_prefix(path)
    if isinstance(target, Repository):
        target = target.readonly_session(MAIN)
    if isinstance(target, Session):
        return FrazilStore(target.store, inside, read_only=target.read_only)
    if isinstance(target, Group):
        return FrazilStore(target.store, key_prefix(target.path) + inside, read_only=target.read_only)
    location = expanded(target)
    named = within_repository(location)
    if named is not None:
        session = session_at(named)
        return FrazilStore(session.store, key_prefix(named.path) + inside, read_only=True)
    store, prefix = resolve(location)
    return FrazilStore(store, prefix + inside, read_only=False)
