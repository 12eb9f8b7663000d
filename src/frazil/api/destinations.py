"""The guard of all destinations: no operation overwrites a repository or writes among its files.

All functions and commands with a destination call check_destination, or check_output for a file: create_array, create_group, open_array and open_group where
they create, Repository.create, convert, copy, import, and the outputs of get and view."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from frazil.api.ref_locations import split_ref
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.array.hierarchy.repository_locations import (
    check_no_repository,
    check_none_below,
    check_outside,
    is_repository,
    outer_repository,
)
from frazil.errors import InvalidInputError, NotFoundError
from frazil.metadata.model import ArrayMetadata
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store


def check_destination(
    location: object, store: Store, prefix: str, *, overwrite: bool = False, may_be_repository: bool = False
) -> None:
    """Refuses an unsuitable location for a new node or repository. Only reads listings.

    location           as its user wrote it: text of the form sea.repo@REF names a point in a repository, not a location
    store, prefix      the location: "" or ending in "/"
    overwrite          existing content is removed first: then no repository may be below it
    may_be_repository  a repository at the location itself is allowed, or the caller checks it: another one replaces it, or an interrupted copy of one is
                       resumed
    Raises AlreadyExistsError for a repository at the location or below it, InvalidInputError for a location inside one, StoreError."""
    _refuse_reference(location)
    if not store.capabilities.listable:
        return
    check_outside(store, prefix)
    if may_be_repository and not overwrite:
        return
    if not may_be_repository:
        check_no_repository(store, prefix)
    if overwrite and not (may_be_repository and is_repository(store, prefix)):
        check_none_below(store, prefix)


def check_output(file: str) -> None:
    """Refuses the name of an output file inside a repository's folder, that of a folder, or a point in a repository. Raises InvalidInputError."""
    with suppress(NotFoundError):  # a file hides no repository
        _refuse_reference(file)
    if file.endswith(os.sep):
        raise InvalidInputError(f"{file} is the name of a folder", hint="leave out the slash at the end")
    outer = outer_repository(LocalStore(file), "")
    if outer is not None:
        raise InvalidInputError(
            f"the file would be among the files of a repository: {outer.location}",
            path=outer.inside,
            hint="choose a location beside it",
        )


def _refuse_reference(location: object) -> None:
    named = split_ref(location)
    if named is not None:
        raise InvalidInputError(
            f"{named.ref!r} names a state of the repository {named.repository}, which can only be read",
            path=os.fspath(location),  # type: ignore[call-overload] # which split_ref took
            hint="write in a session of a branch: frazil.Repository.open(...).transaction(branch, message=...)",
        )


def check_storable(location: NodeLocation, paths: Iterable[str]) -> None:
    """Looks up the documents of arrays below a node, in one batch of requests: raises InvalidInputError or StoreError for names that the store cannot hold."""
    if location.nodes is None and (paths := list(paths)):
        location.store.sizes([location.layout.document_key(location.below(path), ArrayMetadata) for path in paths])
