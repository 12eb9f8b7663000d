"""Serves stores and repositories as plain Zarr over HTTP, for reading. listener.py has sockets and threads, requests.py parses requests and makes answers,
values.py reads values."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from errno import ENAMETOOLONG
from itertools import chain
from secrets import token_bytes
from typing import TYPE_CHECKING, Final, Self

from frazil.api.nodes import open_node
from frazil.array.group import Group
from frazil.base.record import Record
from frazil.base.retry import READS, attempts, replaced
from frazil.base.threads import to_its_end
from frazil.errors import ConflictError, FrazilError, InvalidInputError, NotFoundError, StoreError, one_line
from frazil.operations.serve.consolidated_documents import LINKS, ConsolidatedDocuments, etag_of
from frazil.operations.serve.hosts import hosts_of
from frazil.operations.serve.listener import CONNECTIONS, Listener, listen
from frazil.operations.serve.page import LEVELS, describe, draw_page
from frazil.operations.serve.requests import (
    Answer,
    Request,
    answer_page,
    answer_value,
    not_found,
    read_request,
    refusal,
    speculative_span,
    with_cors,
)
from frazil.operations.serve.served_keys import chunk_documents, is_served
from frazil.operations.serve.served_nodes import Arrays, ServedNodes, arrays_above, has_chunk
from frazil.operations.serve.values import PIECE, HeldFiles, find_value
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.local.local_store import LocalStore
from frazil.stores.locations import Location, key_prefix, resolve
from frazil.stores.store import Store
from frazil.stores.zip.zip_store import ZipStore

if TYPE_CHECKING:
    from frazil.api.repository import Repository


LOOPBACK: Final = "127.0.0.1"
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+|null", re.IGNORECASE)
_FOLLOW_SECONDS: Final = 1.0
_NODES_SECONDS: Final = 5.0

Source = Callable[[], Store]
Tell = Callable[[str], None]


def serve(
    location: Location,
    path: str = "",
    *,
    every: float = _NODES_SECONDS,
    host: str = LOOPBACK,
    port: int = 0,
    host_names: Iterable[str] = (),
    cors: Iterable[str] = (),
    connections: int = CONNECTIONS,
    tell: Tell | None = None,
) -> Server:
    """Serves a store for reading over HTTP, until the server is closed: `with serve("sea.zarr") as server: print(server.url)`.

    location  a folder, a URL or a Store; of a repository the store of a session, which stays at its snapshot
    path      serves only the keys below it, relative to it
    every     seconds for which the nodes below a group, which its document lists (consolidated metadata), are not looked up again; 0: each request lists them
    host      an address of this machine; the default is only reached from this machine
    port      0: any free port
    host_names  names by which clients may address the server, beside the address that it listens on: "data.example.org", with ":8000" only at this port
    cors      origins such as "https://viewer.example.org" whose pages may read with a browser; "*": all. By default no page of another server can read
    connections  at once; others wait until one of these ends
    tell      called with a line of text for each failure of the store; None: writes it to standard error
    Only keys of Zarr are served (served_keys.py), and no other files of a folder.
    Raises NotFoundError for an empty location, InvalidInputError for a host or port that is not available, StoreError."""
    store, prefix = resolve(location, path)
    if store.capabilities.listable and store.is_empty(prefix):
        store.exists(f"{prefix}zarr.json")  # raises if the server answers every key with a value
        raise NotFoundError(f"nothing is there to serve: {store}", path=prefix or None, hint="check the location")
    options = _Options(host, port, tuple(host_names), _origins(cors), connections, tell or _to_stderr, every)
    return Server(lambda: store, prefix, options)


def follow(
    repository: Repository,
    branch: str = "main",
    path: str = "",
    *,
    every: float = _FOLLOW_SECONDS,
    host: str = LOOPBACK,
    port: int = 0,
    host_names: Iterable[str] = (),
    cors: Iterable[str] = (),
    connections: int = CONNECTIONS,
    tell: Tell | None = None,
) -> Server:
    """Serves the newest snapshot of a branch at the time of each request; otherwise as `serve`. Requests before and after a commit see different snapshots,
    like readers of a folder during writes.

    every  seconds for which the tip is not looked up again
    Raises NotFoundError for a missing branch."""
    source = _Tip(repository, branch, every)
    source()
    options = _Options(host, port, tuple(host_names), _origins(cors), connections, tell or _to_stderr, every)
    return Server(source, key_prefix(path), options)


class _Options(Record):
    """Options of a server: where it listens, its names, the origins whose pages may read, the function that receives failures, and the seconds for which it
    remembers nodes."""

    host: str
    port: int
    host_names: tuple[str, ...]
    cors: frozenset[str]
    connections: int
    tell: Tell
    every: float


def _origins(cors: Iterable[str]) -> frozenset[str]:
    """Origins as sent by browsers. Raises InvalidInputError for an invalid origin."""
    found = frozenset([cors] if isinstance(cors, str) else cors)
    for origin in found:
        if origin != "*" and _ORIGIN.fullmatch(origin) is None:
            raise InvalidInputError(
                f"{origin!r} is not an origin of a web page",
                hint='"https://viewer.example.org" or "http://localhost:3000", without a path; "*" is every page',
            )
    return found


class _Tip:
    """The store of the newest snapshot of a branch."""

    def __init__(self, repository: Repository, branch: str, every: float) -> None:
        self._repository, self._branch, self._every = repository, branch, every
        self._session = repository.readonly_session(branch)
        self._looked = time.monotonic()

    def __call__(self) -> Store:
        now = time.monotonic()
        if now >= self._looked + self._every:  # several threads may look at once, which only costs requests
            if self._repository.lookup_branch(self._branch) != self._session.snapshot_id:
                self._session = self._repository.readonly_session(self._branch)
            self._looked = now
        return self._session.store


class Server:
    """A server that runs in its own threads until it is closed; `serve` and `follow` return it. url: its address, ending in "/"."""

    __slots__ = ("_held", "_listener", "_thread", "url")

    def __init__(self, source: Source, prefix: str, options: _Options) -> None:
        documents = ConsolidatedDocuments(options.every)
        store = source()
        self._held = _held(store)
        served = _Served(source, prefix, _salt(store), options.tell, options.cors, ServedNodes(), documents, self._held)
        # raises the errors in these arguments before anything listens
        hosts_of(options.host, options.port, options.host_names)
        self._listener: Listener = listen(served, options.host, options.port, options.connections)
        name, number = self._listener.server_address[:2]
        self._listener.hosts = hosts_of(options.host, int(number), options.host_names)
        self.url: Final = f"http://{_in_url(str(name))}:{number}/"
        self._thread = threading.Thread(target=self._listener.run, name="frazil serve", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<frazil Server {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Waits until another thread closes the server, or until Ctrl-C."""
        self._thread.join()

    def close(self) -> None:
        """Ends the server and its connections. No error if they have ended."""
        to_its_end(self._close)  # an interrupt in the Event of socketserver may keep a lock that the thread needs

    def _close(self) -> None:
        self._listener.end()
        self._thread.join()
        self._listener.server_close()
        self._listener.cut_connections()
        if self._held is not None:
            self._held.close()


def _in_url(address: str) -> str:
    """An address in the form of URLs; the loopback address for "all addresses of this machine", which is not a destination."""
    address = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(address, address)  # noqa: S104 # not listened at
    return f"[{address}]" if ":" in address else address


def _salt(store: Store) -> bytes:
    """A salt that makes ETags differ from those of another run, for stores whose versions can repeat: in memory they start again."""
    return b"" if isinstance(store, LocalStore | NodeStore) else token_bytes(16)


def _held(store: Store) -> HeldFiles | None:
    """For stores whose answers keep files open."""
    in_files = isinstance(store, LocalStore) or (isinstance(store, ZipStore) and store.file is not None)
    return HeldFiles() if in_files else None


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"frazil: {one_line(line)}\n")
    sys.stderr.flush()


# --- answering -----------------------------------------------------------------------------------------------------------------------


class _Served(Record):
    """The content of a server: the keys below a prefix, in the present store."""

    source: Source
    prefix: str
    salt: bytes
    tell: Tell
    cors: frozenset[str]
    nodes: ServedNodes
    consolidated: ConsolidatedDocuments
    held: HeldFiles | None

    def answer(
        self,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        *,
        needs_host: bool,
        is_own: Callable[[str], bool],
    ) -> tuple[Answer, Iterator[bytes]]:
        """The answer to a request, and the bytes of its span. The first bytes are already read, so that an unreadable value also gives an answer."""
        answer, pieces = self._answer(read_request(method, target, headers, needs_host=needs_host, is_own=is_own))
        origin = next((value for name, value in headers if name.lower() == "origin"), None)
        return with_cors(answer, origin, self.cors), pieces

    def _answer(self, request: Request | Answer) -> tuple[Answer, Iterator[bytes]]:
        if isinstance(request, Answer):
            return request, iter(())
        key = self.prefix + request.key
        try:
            store = self.source()
            return (self._page(store, request.key), iter(())) if request.page else self._value(store, request)
        except Exception as error:
            if _is_impossible_key(key, error):
                return refusal(400, "the address is not a key of this store"), iter(())
            if _leaves_folder(key, error):
                return not_found(), iter(())
            self.failed(error)
            return refusal(500, "the store failed; the server's standard error says why"), iter(())

    def _value(self, store: Store, request: Request) -> tuple[Answer, Iterator[bytes]]:
        """The answer with a value. Tries again if the value is replaced between its look-up and the first bytes."""
        if not self.nodes.serves(store, self.prefix + request.key):
            return not_found(), iter(())
        document = self.consolidated.document(store, self.prefix + request.key)
        if document is not None:
            answer = answer_value(request, len(document), etag_of(request.key, document))
            start, length = answer.span or (0, 0)
            return answer, iter(() if request.head or not length else (document[start : start + length],))
        for _ in attempts(READS):
            value = find_value(store, self.prefix + request.key, speculative_span(request, PIECE), self.salt, self.held)
            if value is None:
                break
            answer = answer_value(request, value.size, value.etag)
            if request.head or answer.span is None or answer.span[1] == 0:
                return answer, iter(())
            pieces = value.pieces(*answer.span)
            try:
                return answer, chain((next(pieces),), pieces)
            except ConflictError:
                continue
        else:
            raise replaced("the value was", request.key)
        return not_found(), iter(())

    def _page(self, store: Store, path: str) -> Answer:
        """The page at a path ("" or ending in "/"): the nodes there, or the served names if there is none."""
        try:
            node = open_node(store, path=self.prefix + path)
        except NotFoundError:
            lines = [describe(name[len(path) :], None) for name in self._names(store, path)]
            return answer_page(draw_page(path, lines)) if lines else not_found()
        if isinstance(node, Group):
            lines = [describe(name, below) for name, below in node.tree(LEVELS - 1).nodes]
        else:
            lines = [describe(".", node.metadata)]
        return answer_page(draw_page(path, lines))

    def _names(self, store: Store, path: str) -> list[str]:
        """The served names below a path, without the prefix."""
        if not store.capabilities.listable:
            return []
        keys, prefixes = store.list_dir(self.prefix + path)
        names = [name[len(self.prefix) :] for name in (*prefixes, *keys)]
        arrays: dict[tuple[str, ...], Arrays] = {}  # chunks of one folder have the same documents
        found: list[str] = []
        for name in names:
            key = f"{name}zarr.json" if name.endswith("/") else name
            if not is_served(key):
                continue
            documents = chunk_documents(self.prefix + key)
            if documents and documents not in arrays:
                arrays[documents] = arrays_above(store, self.prefix + key)
            if not documents or has_chunk(arrays[documents], self.prefix + key):
                found.append(name)
        return found

    def rest(self) -> None:
        if self.held is not None:
            self.held.release()

    def failed(self, error: Exception) -> None:
        """Reports an error in one line, with any text."""
        text = str(error) if isinstance(error, FrazilError) else f"{type(error).__name__}: {error}"
        self.tell("".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split())))


def _leaves_folder(key: str, error: Exception) -> bool:
    """Whether an error is due to a link in place of a requested file or folder, or of a folder on the way to it."""
    if not isinstance(error, StoreError) or error.errno not in LINKS or error.key is None:
        return False
    return error.key == key or ((key == "" or key.endswith("/")) and error.key.rpartition("/")[0] == key[:-1])


def _is_impossible_key(key: str, error: Exception) -> bool:
    """Whether an error means that the store can never hold a key."""
    if not isinstance(error, FrazilError) or error.key != key:
        return False
    return isinstance(error, InvalidInputError) or (isinstance(error, StoreError) and error.errno == ENAMETOOLONG)
