"""Locations in repositories: sea.repo@REF/PATH, where REF is a branch, a tag, the id of a snapshot or the beginning of one. Recognises and splits them.

node_locations.py opens the node there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from frazil.array.hierarchy.repository_locations import is_repository
from frazil.base.record import Record
from frazil.errors import FrazilError, NotFoundError
from frazil.repository import format as repository_format
from frazil.stores.local.local_store import LocalStore
from frazil.stores.locations import Location, resolve

_DOCUMENTS: Final = ("zarr.json", ".zarray", ".zgroup")


class RefLocation(Record):
    """The parts of sea.repo@REF/PATH. ref: a branch, a tag, an id or the beginning of one; path: of a node"""

    repository: str
    ref: str
    path: str


def split_ref(location: object) -> RefLocation | None:
    """The parts of a location of the form sea.repo@REF/PATH: text, or a path of the file system. None for any other location, and if the whole text is the name
    of an existing location. Raises InvalidInputError for an invalid location, NotFoundError if there is no repository: a node that is created at sea.repo@REF
    would hide this state of a repository that is created later."""
    if not isinstance(location, str | os.PathLike):
        return None
    text = os.fspath(location)
    if not isinstance(text, str) or "@" not in text or not has_nothing(location):
        return None
    missing = None
    for left, right in cuts(text, "@"):
        ref, _, path = right.partition("/")
        if has_repository(left):
            return RefLocation(left, ref, path)
        if left.endswith(".repo") and has_nothing(f"{left}@{ref}"):
            missing = left
    if missing is not None:
        raise NotFoundError(
            f"there is no repository at {missing}",
            path=text,
            hint=f'check the location; frazil.Repository.create("{missing}") or `frazil repo init {missing}` creates one. '
            f'For a plain store of this name give a Store, such as frazil.stores.LocalStore("{text}"), or the name of an existing folder',
        )
    return None


def within_repository(location: object) -> RefLocation | None:
    """The node of a repository that a location names, with an @ or without one; None for any other."""
    if not isinstance(location, str | os.PathLike):
        return None
    return split_ref(location) or at_main(os.fspath(location))


def at_main(location: str) -> RefLocation | None:
    """The node on `main` that a location without an @ names, where it or a parent folder is a repository; None for any other. A plain node at the location has
    priority: the caller looks for it first."""
    if has_repository(location):
        return RefLocation(location, repository_format.MAIN, "")
    for left, right in cuts(location.rstrip("/"), "/"):
        if has_repository(left):
            return RefLocation(left, repository_format.MAIN, right)
    return None


def cuts(text: str, mark: str) -> Iterator[tuple[str, str]]:
    """The text cut at each mark, the last first; the part before the mark is not empty."""
    end = text.rfind(mark)
    while end > 0:
        yield text[:end], text[end + 1 :]
        end = text.rfind(mark, 0, end)


def has_nothing(location: Location) -> bool:
    """Whether a location has no content, not even an empty folder; in a store that cannot list, such as a web server, no array or group. Raises
    InvalidInputError for an invalid location."""
    store, prefix = resolve(location)
    if isinstance(store, LocalStore):
        return not os.path.lexists(os.path.join(store.path, prefix))
    if not store.capabilities.listable:
        return bool((store.sizes([prefix + name for name in _DOCUMENTS]) < 0).all())
    return store.is_empty(prefix)


def has_repository(location: Location) -> bool:
    """Whether a repository is at a location; False for an invalid or unreadable location."""
    try:
        return is_repository(*resolve(location))
    except FrazilError:
        return False
