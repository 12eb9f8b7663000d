"""Listing objects: the objects below a store's own prefix from a server's lists, each once and in order.

A client with a prefix removes it from the keys that have it, and returns other keys as they are: foreign keys could not be recognised any more. So lists are
requested without a client prefix, and it is removed here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from errno import EPROTO
from itertools import islice
from operator import itemgetter, lt
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from frazil.base.packages import asyncio, obstore
from frazil.base.retry import retry
from frazil.errors import StoreError
from frazil.stores.keys.listing import page_of
from frazil.stores.objects.client_errors import breaks_off
from frazil.stores.objects.versions import listed_version
from frazil.stores.values import PAGE, Page

if TYPE_CHECKING:
    from obstore import ListResult, ObjectMeta

    from frazil.stores.objects.clients import Clients

    Row = tuple[str, ObjectMeta]

T = TypeVar("T")

_CHUNK: Final = 1000  # objects of one answer to a listing
_ROWS: Final = 1000  # of a page of S3 and GCS
_PAGES: Final = 10  # times the time for a request: the most that all pages of a level may take, or 1,000 objects


class _PageEnd(str):
    """`next` of a page, with the listing that continues there: servers have their own tokens for that, which cost one request for each of their pages."""

    __slots__ = ("listing",)
    listing: _Listing | None


def list_below(clients: Clients, prefix: str, after: str, limit: int | None, *, details: bool) -> Page:
    """A page of the keys that begin with a prefix and come after a text (Store.list_page). Raises what the client raises, and StoreError for a list without an
    end, or without an order after its first pages."""
    listing: _Listing | None = None
    if isinstance(after, _PageEnd):
        listing, after.listing = after.listing, None  # a listing continues once; later readers start a new one
    return (listing or _Listing(clients, prefix, after)).page(after, limit or PAGE, details=details)


class _Listing:
    """A listing of a server in progress: rows (key, metadata from the server), of which `rest` were received and are in no page yet."""

    __slots__ = (
        "_after",
        "_asked",
        "_chunks",
        "_clients",
        "_continued",
        "_count",
        "_last",
        "_prefix",
        "_rest",
        "_root",
    )

    def __init__(self, clients: Clients, prefix: str, after: str) -> None:
        self._clients, self._prefix, self._root = clients, prefix, clients.root
        self._after = self._root + after if after else None
        self._chunks: AsyncIterator[Sequence[ObjectMeta]] | None = None  # from the server
        self._rest: list[Row] = []
        self._last: list[str] = []  # the paths of the last two objects
        self._continued = False
        self._count = 0  # objects received since the server's list began, or began again
        self._asked: list[str] | None = None  # _last when it ended, and was requested again

    def page(self, after: str, limit: int, *, details: bool) -> Page:
        rows, ended = self._rows(after, limit)
        end: _PageEnd | None = None
        if len(rows) > limit or not ended:
            end = _PageEnd(rows[limit - 1][0])
            end.listing = None if ended else self
            self._rest, self._continued = rows[limit:], True
        empty = {key for key, meta in rows if meta["size"] == 0}
        if empty:
            keys = [key for key, _ in rows]  # ascending
            empty = {key for key in empty if _has_below(keys, f"{key}/")}
        found = [row for row in rows[:limit] if row[0] not in empty] if empty else rows[:limit]
        page = Page([key for key, _ in found], end)
        return _with_details(page, [meta for _, meta in found], self._clients.kind) if details else page

    def _rows(self, after: str, limit: int) -> tuple[list[Row], bool]:
        """Rows after a text, ascending: at least one more than the limit, or all rows, and whether these are all. Without order the list is read completely."""
        rows, self._rest = self._rest, []
        ordered = True
        keys: set[str] = set()  # keys received since the order was lost
        while not ordered or len(rows) <= limit:
            chunk = self._next_chunk(ordered=ordered)
            if chunk is None:
                # whether there is any row (limit 1) is asked before conditional writes, which find what is there
                if limit > 1 and ordered and self._begins_again():
                    continue
                return (rows if ordered else sorted(dict(rows).items(), key=itemgetter(0))), True
            if self._asked and ordered:  # the server may ignore where to continue
                chunk = [meta for meta in chunk if meta["path"] > self._last[-1]]
            listed = [meta["path"] for meta in chunk]
            if listed and len(keys.union(listed)) - len(keys) <= len(listed) // 2:  # each key comes once
                raise _refused(self._clients, self._prefix, "its pages repeat the same keys")
            ordered = ordered and _is_ascending([*self._last[-1:], *listed])
            if not ordered:
                keys.update(listed)
                if self._continued:
                    message = "its pages are not sorted, and the listing is too long to be sorted here"
                    raise _refused(self._clients, self._prefix, message)
            self._last = [*self._last, *listed][-2:]
            # a server may not support a starting point, or ignore it: so rows are filtered again
            rows += [row for row in _below(chunk, self._root, self._prefix) if row[0] > after]
        return rows, False

    def _begins_again(self) -> bool:
        """Whether a list that ended is requested again, once from the same object, with which it begins: so an answer without objects is no list."""
        if not _may_break_off(self._clients, self._count) or self._asked == self._last:
            return False
        self._asked = self._last
        return True

    def _next_chunk(self, *, ordered: bool) -> Sequence[ObjectMeta] | None:
        """The next objects from the server; None at the end. If a response breaks off, or is none, the listing continues after the last object, as long as they
        are ordered."""

        def again(error: Exception) -> bool:
            return ordered and (breaks_off(error) or (isinstance(error, StoreError) and error.errno == EPROTO))

        return retry(self._received, self._clients.backoff, again)

    def _received(self) -> Sequence[ObjectMeta] | None:
        if self._chunks is None:
            self._count = 0
            offset = self._last[-1 if self._asked is None else 0] if self._last else self._after
            client, prefix = self._clients.connection.lister, (self._root + self._prefix) or None
            self._chunks = aiter(obstore.list(client, prefix, offset=offset, chunk_size=_CHUNK))
        chunks = self._chunks
        try:
            found = _run_with_timeout(self._clients, self._prefix, lambda: anext(chunks, None))
        except Exception:
            self._chunks = None
            raise
        self._count += len(found or ())
        if found is None:
            self._chunks = None
            repeats = self._asked is not None and len(self._last) > 1
            if repeats and not self._count and self._is_there(self._last[-1]):
                raise _refused(self._clients, self._prefix, "it ends before an object that exists", errno=EPROTO)
        return found

    def _is_there(self, path: str) -> bool:
        try:
            _run_with_timeout(
                self._clients, self._prefix, lambda: obstore.head_async(self._clients.connection.lister, path)
            )
        except FileNotFoundError:
            return False
        return True


def _may_break_off(clients: Clients, count: int) -> bool:
    """Whether a listing that ended after this many rows may lack some: for the client an error document of S3 or GCS with a status of success is the last page,
    without rows. So the rows before it are whole pages, or none."""
    return count % _ROWS == 0 and clients.kind != "AzureStore"


def _refused(
    clients: Clients,
    prefix: str,
    message: str,
    hint: str = "check the server, and proxies before it",
    errno: int | None = None,
) -> StoreError:
    return StoreError(f"{clients.url} could not be listed: {message}", key=prefix or None, hint=hint, errno=errno)


def _run_with_timeout(clients: Clients, prefix: str, call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call of the client. It follows tokens for further pages by itself, also if a server sends the same one again and again; so the call is
    ended after the time for _PAGES requests. On a thread without an event loop."""
    seconds = _PAGES * clients.whole

    async def run() -> T:
        async with asyncio.timeout(seconds):
            return await call()

    try:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner, _woken(runner.get_loop()):
            return runner.run(run())
    except TimeoutError:
        hint = "check the server, and proxies before it; timeout= in client_options= allows more time"
        raise _refused(clients, prefix, f"its pages did not end within {seconds:g} s", hint) from None


@contextmanager
def _woken(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Waits at the end until the thread of the client that brought the result has left Python. It may still be about to, as it wakes the loop by a system call;
    if the process ended then, Python would end that thread within the client's code, which aborts the process."""
    inside, wake = RLock(), loop.call_soon_threadsafe

    def call_soon_threadsafe(*arguments: Any, **named: Any) -> asyncio.Handle:
        with inside:
            return wake(*arguments, **named)

    loop.call_soon_threadsafe = call_soon_threadsafe  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del loop.call_soon_threadsafe
        with inside:
            pass


def list_level_below(clients: Clients, prefix: str, after: str, limit: int | None, *, details: bool) -> Page:
    """As list_below, for the level directly below the prefix. Raises what the client raises."""
    client, root = clients.connection.lister, clients.root

    def listed() -> ListResult[Sequence[ObjectMeta]]:
        return _run_with_timeout(
            clients, prefix, lambda: obstore.list_with_delimiter_async(client, (root + prefix) or None)
        )

    found = retry(listed, clients.backoff, breaks_off)
    if _may_break_off(clients, len(found["objects"]) + len(found["common_prefixes"])):
        again = retry(listed, clients.backoff, breaks_off)
        found = max(found, again, key=lambda one: len(one["objects"]) + len(one["common_prefixes"]))
    whole = root + prefix
    below = {
        f"{folder[len(root) :]}/" for folder in found["common_prefixes"] if folder.startswith(whole) and folder != whole
    }
    metas = {
        key: meta for key, meta in _below(found["objects"], root, prefix) if meta["size"] or f"{key}/" not in below
    }
    page = page_of(sorted([*metas, *below]), after, limit)
    return _with_details(page, [metas.get(row) for row in page.keys], clients.kind) if details else page


def _with_details(page: Page, metas: Sequence[ObjectMeta | None], kind: str) -> Page:
    """The page with its last columns; None: for a prefix."""
    return page._replace(
        sizes=np.array([-1 if meta is None else meta["size"] for meta in metas], np.int64),
        versions=[None if meta is None else listed_version(meta, kind) for meta in metas],
        modified=np.array([-1 if meta is None else _nanoseconds(meta) for meta in metas], np.int64),
    )


def _nanoseconds(meta: ObjectMeta) -> int:
    """When an object was stored; -1 if the server does not say: then the client returns the first second of 1970."""
    return round(meta["last_modified"].timestamp() * 1e6) * 1000 or -1


def _below(page: Iterable[ObjectMeta], root: str, prefix: str) -> Iterator[Row]:
    """The rows of the objects that are below root and prefix. (The object that consoles create for an empty folder is listed without its slash, like the folder
    itself. The one of the prefix is not among these rows; the callers leave out those of folders that are not empty.)"""
    whole = root + prefix
    for meta in page:
        path = meta["path"]
        if path.startswith(whole) and len(path) > len(root):
            yield path[len(root) :], meta


def _has_below(keys: Sequence[str], prefix: str) -> bool:
    """Whether one of the ascending keys begins with a prefix."""
    at = bisect_left(keys, prefix)
    return at < len(keys) and keys[at].startswith(prefix)


def _is_ascending(keys: Sequence[str]) -> bool:
    return all(map(lt, keys, islice(keys, 1, None)))
