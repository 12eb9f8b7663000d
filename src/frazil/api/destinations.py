"""The guard of everything that is made at a location: a repository, with its history, is neither overwritten nor written into, whoever writes.

All functions and commands that take a destination ask check_destination, or check_output for a file: create_array, create_group, open_array and open_group where
they create, Repository.create, convert, copy, import, and the outputs of get and view."""

from __future__ import annotations

import os
from typing import Final

from frazil.api.references import MAIN_FILES, is_repository, split_reference
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.record import Record
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store

__all__ = ["Outer", "check_destination", "check_output", "outer_repository"]

_PAGE: Final = 2**17  # keys of one listing


class Outer(Record):
    """A repository, as text that says where it is, and the path of a place inside of it."""

    place: str
    inside: str


def check_destination(
    location: object, store: Store, prefix: str, *, overwrite: bool = False, may_be_repository: bool = False
) -> None:
    """Refuses a place where something is to be made. Reads nothing but listings.

    location           as its user wrote it: text of the form sea.repo@REF names a point in a repository, and no place of its own
    store, prefix      the place: "" or ending in "/"
    overwrite          what is there is removed first: then no repository may be below it
    may_be_repository  a repository at the place itself is no mistake, or the caller finds it: it is replaced by another one, or an interrupted copy of one is gone on with
    Raises AlreadyExistsError for a repository at the place or below it, InvalidInputError for a place inside of one, StoreError."""
    _refuse_reference(location)
    if not store.capabilities.listable:
        return
    outer = outer_repository(store, prefix)
    if outer is not None:
        raise InvalidInputError(
            f"the destination lies among the files of a repository: {outer.place}",
            path=outer.inside,
            hint=f"write to a branch of it, as in {outer.place}@main/{outer.inside}, or choose a place beside it",
        )
    if may_be_repository and not overwrite:
        return
    if is_repository(store, prefix):
        if not may_be_repository:
            raise AlreadyExistsError(
                f"a repository is there already in {store!r}",
                path=prefix or "/",
                hint="copy to a branch of it, as in sea.repo@main, or choose another place; its history is never overwritten",
            )
    elif overwrite and (below := _repository_below(store, prefix)) is not None:
        raise AlreadyExistsError(
            f"a repository is in what would be overwritten, in {store!r}",
            path=below,
            hint="choose another place; the history of a repository is never overwritten",
        )


def check_output(file: str) -> None:
    """Refuses the name of a file that is to be written: one inside of a repository's folder, or a point in a repository. Raises InvalidInputError."""
    _refuse_reference(file)
    outer = outer_repository(LocalStore(file), "")
    if outer is not None:
        raise InvalidInputError(
            f"the file would lie among the files of a repository: {outer.place}",
            path=outer.inside,
            hint="choose a place beside it",
        )


def outer_repository(store: Store, prefix: str) -> Outer | None:
    """The nearest repository in which a prefix of a store lies; None where there is none. One at the prefix itself is none. Raises StoreError."""
    if "\0" in prefix:
        return None  # no key has it: the store refuses it by name
    if isinstance(store, LocalStore):
        return _outer_folder(os.path.realpath(os.path.join(store.path, prefix)))
    parts = prefix.split("/")[:-1]
    for count in reversed(range(len(parts))):
        below = "/".join([*parts[:count], ""]) if count else ""
        if is_repository(store, below):
            return Outer(f"{store!r} {below}".rstrip(), "/".join(parts[count:]))
    return None


def _outer_folder(place: str) -> Outer | None:
    folder = os.path.dirname(place)
    while True:
        if os.path.isdir(os.path.join(folder, MAIN_FILES)):
            return Outer(folder, os.path.relpath(place, folder).replace(os.sep, "/"))
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _refuse_reference(location: object) -> None:
    named = split_reference(location)
    if named is not None:
        raise InvalidInputError(
            f"a point in the repository {named.repository} is named, and not a place of its own",
            path=os.fspath(location),  # type: ignore[call-overload] # which split_reference took
            hint="write in a session of a branch: frazil.Repository.open(...).transaction(branch, message=...)",
        )


def _repository_below(store: Store, prefix: str) -> str | None:
    """The prefix of a repository below another one; None where there is none."""
    last = ""
    while True:
        keys = store.list_keys(prefix, last, _PAGE)
        for key in keys:
            place, mark, _ = key.partition("/" + MAIN_FILES)
            if mark and len(place) >= len(prefix):
                return place
        if len(keys) < _PAGE:
            return None
        last = keys[-1]
