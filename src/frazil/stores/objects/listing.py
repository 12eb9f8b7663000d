"""Listing objects: of what a server says, what lies below a store's own prefix, once each, in order.

A client with a prefix takes that off the keys that have it, and hands out the others as they are: nobody could tell those of elsewhere any more. So lists are asked for without it,
and it is taken off here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter, lt
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import StoreError
from frazil.stores.keys.listing import page_of
from frazil.stores.objects.range_requests import listed_version
from frazil.stores.values import PAGE, Page

if TYPE_CHECKING:
    from obstore import ObjectMeta

    from frazil.stores.objects.clients import Clients

    Row = tuple[str, ObjectMeta]

__all__ = ["list_below", "list_level_below"]

_CHUNK: Final = 1000  # objects of one answer to a listing


class _PageEnd(str):
    """`next` of a page, with the listing that goes on there: servers have tokens of their own for that, which cost no more than one request a page of theirs."""

    __slots__ = ("listing",)
    listing: _Listing | None


def list_below(clients: Clients, prefix: str, after: str, limit: int | None, *, details: bool) -> Page:
    """A page of the keys that begin with a prefix and come after a text (Store.list_page). Raises what the client raises, and StoreError for a list that has no end, or that has no
    order after its first pages."""
    listing: _Listing | None = None
    if isinstance(after, _PageEnd):
        listing, after.listing = after.listing, None  # a listing goes on once; who begins again there has a new one
    return (listing or _Listing(clients, prefix, after)).page(after, limit or PAGE, details=details)


class _Listing:
    """A listing of a server that goes on: rows (key, what the server says), of which `rest` have come and are of no page yet."""

    __slots__ = ("_chunks", "_clients", "_continued", "_last", "_prefix", "_rest", "_root")

    def __init__(self, clients: Clients, prefix: str, after: str) -> None:
        import obstore

        client, self._root = clients.connection.lister, clients.root
        self._clients, self._prefix = clients, prefix
        self._chunks = iter(
            obstore.list(
                client,
                (self._root + prefix) or None,
                offset=self._root + after if after else None,
                chunk_size=_CHUNK,
            )
        )
        self._rest: list[Row] = []
        self._last: list[str] = []  # path
        self._continued = False

    def page(self, after: str, limit: int, *, details: bool) -> Page:
        rows, ended = self._rows(after, limit)
        end: _PageEnd | None = None
        if len(rows) > limit or not ended:
            end = _PageEnd(rows[limit - 1][0])
            end.listing = None if ended else self
            self._rest, self._continued = rows[limit:], True
        empty = {key for key, meta in rows if meta["size"] == 0}
        if empty:
            empty &= {key[:end] for key, _ in rows for end in _slashes(key)}
        found = [row for row in rows[:limit] if row[0] not in empty] if empty else rows[:limit]
        page = Page([key for key, _ in found], end)
        return _with_details(page, [meta for _, meta in found], self._clients.kind) if details else page

    def _rows(self, after: str, limit: int) -> tuple[list[Row], bool]:
        """Rows after a text, ascending: one more than the limit at least, or all that there are, which is said. A server that gives them in another order is asked for all."""
        rows, self._rest = self._rest, []
        ordered = True
        known: set[str] = set()  # what has come since the order is another
        while not ordered or len(rows) <= limit:
            chunk = next(self._chunks, None)
            if chunk is None:
                return (rows if ordered else sorted(dict(rows).items(), key=itemgetter(0))), True
            told = [one["path"] for one in chunk]
            if told and len(known.union(told)) - len(known) <= len(told) // 2:  # keys come once each
                raise self._refused("its pages repeat the same keys")
            ordered = ordered and _ascend([*self._last, *told])
            if not ordered:
                known.update(told)
                if self._continued:
                    raise self._refused("its pages are not sorted, and the listing is too long to be sorted here")
            self._last = told[-1:] or self._last
            # a server need not know where to begin, and one that lies is not believed
            rows += [row for row in _below(chunk, self._root, self._prefix) if row[0] > after]
        return rows, False

    def _refused(self, what: str) -> StoreError:
        return StoreError(
            f"{self._clients.url} could not be listed: {what}",
            key=self._prefix or None,
            hint="check the server, and proxies before it",
        )


def list_level_below(clients: Clients, prefix: str, after: str, limit: int | None, *, details: bool) -> Page:
    """As list_below, of what is directly below the prefix. Raises what the client raises."""
    import obstore

    client, root = clients.connection.lister, clients.root
    found = obstore.list_with_delimiter(client, (root + prefix) or None)
    whole = root + prefix
    below = {f"{one[len(root) :]}/" for one in found["common_prefixes"] if one.startswith(whole) and one != whole}
    metas = {
        key: meta for key, meta in _below(found["objects"], root, prefix) if meta["size"] or f"{key}/" not in below
    }
    page = page_of(sorted([*metas, *below]), after, limit)
    return _with_details(page, [metas.get(row) for row in page.keys], clients.kind) if details else page


def _with_details(page: Page, metas: Sequence[ObjectMeta | None], kind: str) -> Page:
    """The page with its last columns; None: of a prefix."""
    return page._replace(
        sizes=np.array([-1 if meta is None else meta["size"] for meta in metas], np.int64),
        versions=[None if meta is None else listed_version(meta, kind) for meta in metas],
        modified=np.array([-1 if meta is None else _nanoseconds(meta) for meta in metas], np.int64),
    )


def _nanoseconds(meta: ObjectMeta) -> int:
    """When an object was stored; -1 where the server does not say: the client tells the first second of 1970 then."""
    return round(meta["last_modified"].timestamp() * 1e6) * 1000 or -1


def _below(page: Iterable[ObjectMeta], root: str, prefix: str) -> Iterator[Row]:
    """The rows of the objects that lie where they should. (The object that consoles make for an empty folder comes without its slash, as the folder itself: the one
    of the prefix is none of these, and those of folders with something in them are left out by the callers.)"""
    whole = root + prefix
    for one in page:
        path = one["path"]
        if path.startswith(whole) and len(path) > len(root):
            yield path[len(root) :], one


def _slashes(key: str) -> Iterator[int]:
    end = key.find("/")
    while end >= 0:
        yield end
        end = key.find("/", end + 1)


def _ascend(keys: Sequence[str]) -> bool:
    return all(map(lt, keys, islice(keys, 1, None)))
