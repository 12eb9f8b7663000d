"""Finds repositories in a store, also those of Icechunk's later formats, and refuses writes into them and their removal. Nothing here reads more of a
repository than the mark of its format. api/destinations.py guards all destinations."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from frazil.base.record import Record
from frazil.errors import AccessError, AlreadyExistsError, InvalidInputError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store
from frazil.stores.zip import zip_store

MAIN_FILES: Final = "refs/branch.main/"  # which every repository has (formats/alpha/refs.py), but those of format 2
_FIRST: Final = "ZZZZZZZZ.json"  # among them, and never removed
_STATE: Final = "repo"  # the one file of a repository of format 2 that is never removed
_MAGIC: Final = "ICE🧊CHUNK".encode()  # its first bytes (repository/alpha/branches.py)


class Outer(Record):
    """The location of a repository as text, the path of a location inside it, and whether the repository has one of Icechunk's later formats."""

    location: str
    inside: str
    later: bool


def is_repository(store: Store, prefix: str) -> bool:
    """Whether a repository is at a prefix of a store. Raises StoreError."""
    if not store.capabilities.listable:
        return store.exists(prefix + MAIN_FILES + _FIRST)
    if isinstance(store, LocalStore) and not _may_be_repository(os.path.join(store.path, prefix)):
        return False  # each new node asks this
    return not store.is_empty(prefix + MAIN_FILES) or _has_state(store, prefix + _STATE)


def _may_be_repository(folder: str) -> bool:
    return os.path.isdir(os.path.join(folder, MAIN_FILES)) or os.path.isfile(os.path.join(folder, _STATE))


def _has_state(store: Store, key: str) -> bool:
    """Whether a key is the state of a repository of format 2."""
    return store.get_partial_values([(key, (0, len(_MAGIC)))]) == [_MAGIC]


def _is_later(store: Store, prefix: str) -> bool:
    """Whether a repository has one of Icechunk's later formats."""
    return not store.exists(prefix + MAIN_FILES + _FIRST)


def check_no_repository(store: Store, prefix: str) -> None:
    """Raises AlreadyExistsError where a repository is at a prefix; StoreError."""
    if is_repository(store, prefix):
        branch = _branch_hint("sea.repo@main", later=_is_later(store, prefix))
        raise AlreadyExistsError(
            f"a repository already exists in {store}",
            path=prefix or "/",
            hint=f"{branch}; or choose another location: its history is never overwritten",
        )


def _branch_hint(name: str, *, later: bool) -> str:
    """How a repository is written to. name: of a place in one on the command line"""
    if later:
        return "it has a later format of Icechunk, which Frazil does not read yet: use Icechunk"
    return f"write to a branch of it, in a transaction or on the command line as in {name}"


def check_outside(store: Store, prefix: str) -> None:
    """Raises InvalidInputError where a prefix, "" or ending in "/", is among the files of a repository; StoreError."""
    outer = outer_repository(store, prefix)
    if outer is not None:
        raise InvalidInputError(
            f"the destination is among the files of a repository: {outer.location}",
            path=outer.inside,
            hint=f"{_branch_hint(f'{outer.location}@main/{outer.inside}', later=outer.later)}; or choose a location beside it",
        )


def check_none_below(store: Store, prefix: str) -> None:
    """Raises AlreadyExistsError where a repository is at or below a prefix that is to be overwritten; StoreError."""
    if (below := _repository_below(store, prefix)) is not None:
        raise AlreadyExistsError(
            f"a repository would be overwritten in {store}",
            path=below,
            hint="choose another location; the history of a repository is never overwritten",
        )


def outer_repository(store: Store, prefix: str) -> Outer | None:
    """The nearest repository that contains a prefix of a store; None where there is none. One at the prefix itself does not count. Raises StoreError."""
    if "\0" in prefix:
        return None  # no key has it: the store refuses the name
    if isinstance(store, LocalStore):
        return _outer_folder(os.path.realpath(os.path.join(store.path, prefix)))
    parts = prefix.split("/")[:-1]
    for count in reversed(range(len(parts))):
        below = "/".join([*parts[:count], ""]) if count else ""
        if is_repository(store, below):
            return Outer(f"{store}/{below}".rstrip("/"), "/".join(parts[count:]), _is_later(store, below))
    if isinstance(store, zip_store.ZipStore) and store.file is not None:
        return _outer_folder(store.file)
    return None


def _outer_folder(location: str) -> Outer | None:
    folder = os.path.dirname(location)
    while True:
        with suppress(AccessError):  # a file of another user: a new node beside it does no harm
            if _may_be_repository(folder) and is_repository(store := LocalStore(folder), ""):
                inside = os.path.relpath(location, folder).replace(os.sep, "/")
                return Outer(folder, inside, _is_later(store, ""))
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _repository_below(store: Store, prefix: str) -> str | None:
    """The path of a repository at a prefix or below it, "/" at the root of the store; None where there is none."""
    for page in store.list_pages(prefix):
        for key in page.keys:
            location, mark, _ = f"/{key}".partition("/" + MAIN_FILES)
            if not mark and key.rpartition("/")[2] == _STATE and _has_state(store, key):
                location, mark = f"/{key}".removesuffix(f"/{_STATE}"), _STATE
            if mark and f"{location}/".startswith(f"/{prefix}"):
                return location[1:] or "/"
    return None
