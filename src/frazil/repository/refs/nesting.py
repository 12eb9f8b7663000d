"""Whether a place lies inside of a repository: then no other one is made there, as neither would know of the files of the other."""

from __future__ import annotations

import os

from frazil.errors import InvalidInputError
from frazil.formats.alpha.refs import folder_of
from frazil.record import Record
from frazil.repository.files.file_cache import Files
from frazil.repository.refs.branches import MAIN, exists
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store

__all__ = ["Outer", "outer_repository", "refuse_inside"]


class Outer(Record):
    """A repository, as text that says where it is, and the path of a place inside of it."""

    place: str
    inside: str


def outer_repository(store: Store, prefix: str) -> Outer | None:
    """The nearest repository in which a prefix of a store lies; None where there is none. One at the prefix itself is none. Raises StoreError."""
    if isinstance(store, LocalStore):
        return _outer_folder(os.path.abspath(os.path.join(store.path, prefix)))
    parts = prefix.split("/")[:-1]
    for count in reversed(range(len(parts))):
        below = "/".join([*parts[:count], ""])
        if exists(Files(store, below)):
            return Outer(f"{store!r} {below}".rstrip(), "/".join(parts[count:]))
    return None


def _outer_folder(place: str) -> Outer | None:
    folder = os.path.dirname(place)
    while True:
        if os.path.isdir(os.path.join(folder, folder_of("branch", MAIN))):
            return Outer(folder, os.path.relpath(place, folder).replace(os.sep, "/"))
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def refuse_inside(files: Files) -> None:
    """Raises InvalidInputError for a place inside of a repository, StoreError."""
    outer = outer_repository(files.store, files.prefix)
    if outer is not None:
        raise InvalidInputError(
            f"a repository cannot be made inside of another: {outer.place} is one",
            path=outer.inside,
            hint="make a group in that one, or choose a place beside it",
        )
