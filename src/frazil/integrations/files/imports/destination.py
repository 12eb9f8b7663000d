"""The destination of an import: a session of a branch, which is committed at the end, or a plain store.

If nothing exists at the location, a name that ends in ".zarr" or ".zarr.zip" becomes a plain store, and any other a new repository."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from frazil.api.nodes import open_group
from frazil.api.ref_locations import has_nothing, split_ref
from frazil.api.repository import Repository
from frazil.api.session import Session
from frazil.array.hierarchy.repository_locations import is_repository, outer_repository
from frazil.base.record import Record
from frazil.errors import InvalidInputError, NotFoundError
from frazil.metadata.paths import joined
from frazil.operations.copy.journal import JOURNAL_NAME
from frazil.repository.format import MAIN
from frazil.stores.locations import Location, resolve

if TYPE_CHECKING:
    from frazil.integrations.files.imports.importer import Mode
    from frazil.runtime import Runtime

_PLAIN: Final = (".zarr", ".zarr.zip")
_SNAPSHOTS: Final = "snapshots/"  # the first files of a new repository
_REFERENCE: Final = ".repo@"  # in the name of a point of a repository


class Destination(Record):
    """target: the location or session to write to;  path: of the group there;  commits: whether the session was opened here, and is to be committed"""

    target: Session | Location
    path: str
    commits: bool


def is_plain(location: Location) -> bool:
    """Whether a location that is not a repository is, or would become, a plain store. Raises InvalidInputError if it is something else."""
    store, prefix = resolve(location)
    if not isinstance(location, str | os.PathLike) or os.fspath(location).rstrip("/").endswith(_PLAIN):
        return True
    if has_nothing(location) or store.is_empty(prefix):
        return False
    try:
        open_group(location)
    except NotFoundError:
        if not store.is_empty(prefix + _SNAPSHOTS):
            return False  # the creation of a repository was interrupted
        if store.get(prefix + JOURNAL_NAME) is None:
            raise InvalidInputError(
                "the destination is neither a repository nor a Zarr group",
                path=os.fspath(location),
                hint="choose a new location",
            ) from None
    return True


def open_destination(
    location: Location | Session | Repository,
    path: str,
    prefixes: Mapping[str, Location | None],
    mode: Mode,
    runtime: Runtime,
    rehearse: Callable[[], None],
) -> Destination:
    """Opens the destination of an import; creates a new repository if nothing exists there.

    path      of the group, below the one that the location names, as in sea.repo@dev/level2
    prefixes  as `virtual_prefixes` of a repository
    rehearse  is called before a repository is created, and raises if the import into a new one cannot succeed
    Raises NotFoundError, InvalidInputError for a location inside of a repository, and for a plain store if the mode needs a repository."""
    if isinstance(location, Session):
        return Destination(location, path, commits=False)
    if isinstance(location, Repository):
        return Destination(location.writable_session(MAIN), path, commits=True)
    named = split_ref(location)
    if named is not None:
        repo = Repository.open(named.repository, virtual_prefixes=prefixes, runtime=runtime)
        session = repo.writable_session(named.ref or MAIN)
        return Destination(session, joined(named.path, path), commits=True)
    exists = is_repository(*resolve(location))
    if not exists and is_plain(location):
        if mode != "copy":
            raise InvalidInputError(
                "only a repository can refer to chunks in files", hint="import into a repository, or copy the values"
            )
        return Destination(location, path, commits=False)
    if exists:  # perhaps without its first snapshot, if its creation was interrupted
        repo = Repository.open_or_create(location, virtual_prefixes=prefixes, runtime=runtime)
        return Destination(repo.writable_session(MAIN), path, commits=True)
    outer = outer_repository(*resolve(location))
    if outer is not None:
        raise InvalidInputError(
            f"{outer.location} is a repository", hint=f"import into that one, with the group {outer.inside} as its path"
        )
    if isinstance(location, str | os.PathLike) and _REFERENCE in os.fspath(location):
        repository = os.fspath(location).partition("@")[0]
        raise NotFoundError(
            f"there is no repository at {repository}", path=os.fspath(location), hint=f"frazil repo init {repository}"
        )
    rehearse()
    repo = Repository.create(location, virtual_prefixes=prefixes, runtime=runtime)
    return Destination(repo.writable_session(MAIN), path, commits=True)
