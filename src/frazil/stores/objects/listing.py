"""Listing objects: of what a server says, what lies below a store's own prefix, once each, in order.

A client with a prefix takes that off the keys that have it, and hands out the others as they are: nobody could tell those of elsewhere any more. So lists are asked for without it,
and it is taken off here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from frazil.errors import StoreError

if TYPE_CHECKING:
    from obstore import ObjectMeta

    from frazil.stores.objects.clients import Clients

__all__ = ["list_below", "list_level_below"]

_PAGE: Final = 1000  # keys of one answer to a listing


def list_below(clients: Clients, prefix: str, after: str, limit: int | None) -> list[str]:
    """Keys that begin with a prefix and come after another key, ascending; as many as `limit` says at most. Raises what the client raises, and StoreError for a list that
    has no end."""
    import obstore

    client, root = clients.connection.lister, clients.root
    keys: list[str] = []
    empty: set[str] = set()
    pages = obstore.list(
        client,
        (root + prefix) or None,
        offset=root + after if after else None,
        chunk_size=_PAGE,
    )
    known: set[str] = set()
    for page in pages:
        told = {one["path"] for one in page}
        if page and len(told - known) * 2 <= len(page):  # keys come once each: this would go on for ever
            raise StoreError(
                f"{clients.place} could not be listed: its lists begin again and again",
                key=prefix or None,
                hint="check the server, and what stands before it",
            )
        known |= told
        for key, size in _below(page, root, prefix):
            # a server need not know where to begin, and one that lies is not believed
            if _after(key, after):
                keys.append(key)
                if size == 0:
                    empty.add(key)
        if limit is not None and len(keys) >= limit and _ascending(keys):
            break
    if empty:
        folders = {key[:end] for key in keys for end in _slashes(key)} & empty
        keys = [key for key in keys if key not in folders]
    if not _ascending(keys):
        keys = sorted(set(keys), key=str.encode)
    return keys if limit is None else keys[:limit]


def list_level_below(clients: Clients, prefix: str) -> tuple[list[str], list[str]]:
    """Keys that begin with a prefix and have no slash after it; and what other keys have up to that slash. Raises what the client raises."""
    import obstore

    client, root = clients.connection.lister, clients.root
    found = obstore.list_with_delimiter(client, (root + prefix) or None)
    whole = root + prefix
    below = {f"{one[len(root) :]}/" for one in found["common_prefixes"] if one.startswith(whole) and one != whole}
    keys = {key for key, size in _below(found["objects"], root, prefix) if size or f"{key}/" not in below}
    return sorted(keys, key=str.encode), sorted(below, key=str.encode)


def _below(page: Iterable[ObjectMeta], root: str, prefix: str) -> Iterator[tuple[str, int]]:
    """Keys and sizes of the objects that lie where they should. (The object that consoles make for an empty folder comes without its slash, as the folder itself: the one
    of the prefix is none of these, and those of folders with something in them are left out by the callers.)"""
    whole = root + prefix
    for one in page:
        path = one["path"]
        if path.startswith(whole) and len(path) > len(root):
            yield path[len(root) :], one["size"]


def _slashes(key: str) -> Iterator[int]:
    end = key.find("/")
    while end >= 0:
        yield end
        end = key.find("/", end + 1)


def _after(key: str, after: str) -> bool:
    return not after or key.encode() > after.encode()


def _ascending(keys: Iterable[str]) -> bool:
    last = b""
    for key in keys:
        now = key.encode()
        if now <= last:
            return False
        last = now
    return True
