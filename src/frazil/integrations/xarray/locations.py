"""From the place that a user gives to the group that is read or written there: a location in any form of the command line, a Group, a Session, a Repository or
a store."""

from __future__ import annotations

import os
from typing import TypeAlias

from frazil.api.node_locations import CREATES, nothing_at
from frazil.api.nodes import node_or_location
from frazil.api.ref_locations import RefLocation, at_main, has_repository, split_ref, within_repository
from frazil.api.repository import Repository
from frazil.api.session import Session
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.errors import InvalidInputError, NodeKindError, ReadOnlyError, shown
from frazil.metadata.paths import joined as joined_path
from frazil.repository.format import MAIN
from frazil.repository.virtual.prefixes import Prefixes
from frazil.stores.locations import Location

DatasetLocation: TypeAlias = "Location | Group | Session | Repository"


def joined(*paths: str | None) -> str:
    """The path of a node from its parts, all of which may be None. Raises InvalidInputError for a part that is not text."""
    for path in paths:
        if path is not None and not isinstance(path, str):
            raise InvalidInputError(f"group is {shown(path)}; it must be a path", path="group", hint='group="level1"')
    return joined_path(*[path or "" for path in paths])


def group_to_read(
    target: DatasetLocation,
    path: str | None = None,
    virtual_prefixes: Prefixes | None = None,
    zarr_format: int | None = None,
) -> Group:
    """The group at a place, and at a path below it. A repository without a reference is read at `main`.

    virtual_prefixes  places that virtual chunks of the repository that a location names may be read from, as for Repository.open
    zarr_format  that the group must have; where a location has groups of several formats, the one that is opened
    Raises NotFoundError, MetadataError, InvalidInputError for an array, and for prefixes if the location is not in a repository."""
    if virtual_prefixes:
        named = within_repository(expanded(target)) if isinstance(target, str | os.PathLike) else None
        if named is None:
            raise InvalidInputError(
                "virtual_prefixes are for a repository, and the location names none",
                hint="check the location; for an open repository: frazil.Repository.open(target, virtual_prefixes=...)",
            )
        target, path = session_at(named, virtual_prefixes), joined(named.path, path)
    if isinstance(target, Repository):
        target = target.readonly_session(MAIN)
    if isinstance(target, Session):
        node = target.open(joined(path)) if joined(path) else target.root
    elif isinstance(target, Group):
        node = target[joined(path)]
    else:
        node = _opened(expanded(target), joined(path), zarr_format)
    if zarr_format not in (None, node.metadata.zarr_format):
        raise InvalidInputError(
            f"a node of zarr_format {node.metadata.zarr_format!r} is there, not of {zarr_format!r}",
            path=node.path or "/",
        )
    if not isinstance(node, Group):
        raise NodeKindError(
            "an array is there, not a group",
            path=node.path or "/",
            hint="xarray opens groups of arrays with dimension_names: open the group that it is in, or create the array in one, by path=",
        )
    return node


def _opened(location: Location, path: str, zarr_format: int | None) -> Array | Group:
    found = node_or_location(location, path, zarr_format)
    if not isinstance(found, NodeLocation):
        return found
    if isinstance(location, str | os.PathLike) and (named := at_main(os.fspath(location))) is not None:
        session, path = session_at(named), joined(named.path, path)
        return session.open(path) if path else session.root
    error = nothing_at(found)
    error.hint = (error.hint or "").removesuffix(f"; {CREATES}") or None  # xarray's functions that open have no modes
    raise error


def session_at(named: RefLocation, virtual_prefixes: Prefixes = ()) -> Session:
    """A session that reads the repository at a reference. Raises NotFoundError."""
    repo = Repository.open(named.repository, virtual_prefixes=virtual_prefixes)
    return repo.readonly_session(snapshot=repo.lookup(named.ref or MAIN))


def expanded(target: Location) -> Location:
    """The location with a "~" at its beginning replaced by the home folder."""
    return os.path.expanduser(target) if isinstance(target, str) and "://" not in target else target


def branch_of(target: DatasetLocation) -> tuple[Session, str] | None:
    """A new writable session of the branch that sea.repo@BRANCH/PATH names, and the path; of `main` for a Repository. None for any other place. Raises
    NotFoundError."""
    if isinstance(target, Repository):
        return target.writable_session(MAIN), ""
    if not isinstance(target, str | os.PathLike) or "@" not in os.fspath(target):
        return None
    named = split_ref(expanded(target))
    if named is None:
        return None
    return Repository.open(named.repository).writable_session(named.ref or MAIN), named.path


def store_of(target: DatasetLocation) -> tuple[Location, str]:
    """The location or store to write to, and the path in it, for any place except a branch. Raises ReadOnlyError, InvalidInputError for a repository without a
    branch."""
    if isinstance(target, Session | Group):
        if target.read_only:
            raise ReadOnlyError(
                f"{target} was opened for reading",
                hint='open it with mode="r+", or use repo.writable_session("main")',
            )
        return target.store, "" if isinstance(target, Session) else target.path
    location = expanded(target)  # type: ignore[arg-type] # a Repository is a branch
    if isinstance(location, str | os.PathLike) and has_repository(location):
        raise InvalidInputError(
            "a repository is written on a branch",
            path=os.fspath(location),
            hint=f"{os.fspath(location)}@{MAIN}, or a writable session",
        )
    return location, ""
