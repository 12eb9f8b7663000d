"""Stores and repositories as plain Zarr over HTTP, to be read: the sockets and threads. What a request means, and what its answer is, is decided in
requests.py; values are read in values.py."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from errno import ENAMETOOLONG
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from secrets import token_bytes
from typing import TYPE_CHECKING, Final, Self

from frazil.api.places import open_node
from frazil.array.group import Group
from frazil.errors import ConflictError, FrazilError, InvalidInputError, NotFoundError, StoreError, one_line
from frazil.operations.serve.page import LEVELS, describe, draw_page
from frazil.operations.serve.requests import (
    LONGEST_TARGET,
    Answer,
    Request,
    answer_page,
    answer_value,
    ask_ahead,
    nothing_there,
    read_request,
    refusal,
)
from frazil.operations.serve.values import PIECE, find_value
from frazil.record import Record
from frazil.repository.session.session_store import SessionStore
from frazil.stores.local.local_store import LocalStore
from frazil.stores.locations import Location, key_prefix, resolve
from frazil.stores.store import Store

if TYPE_CHECKING:
    from frazil.api.repository import Repository

__all__ = ["LOOPBACK", "Server", "follow", "serve"]

LOOPBACK: Final = "127.0.0.1"
_LONGEST_LINE: Final = LONGEST_TARGET + 1024
_IDLE_SECONDS: Final = 60  # that a connection may stand still
_LOOK_SECONDS: Final = 0.1  # between looks whether the server is to end
_LONGEST_REST: Final = 2**20  # bytes of a refused body that are still taken, so that the answer gets through
_REST_SECONDS: Final = 1.0
_FOLLOW_SECONDS: Final = 1.0
_ATTEMPTS: Final = 10  # to read a value that others keep replacing

Source = Callable[[], Store]
Tell = Callable[[str], None]


def serve(
    location: Location, path: str = "", *, host: str = LOOPBACK, port: int = 0, tell: Tell | None = None
) -> Server:
    """Serves a store to be read over HTTP, until the server is closed: `with serve("sea.zarr") as server: print(server.url)`.

    location  a folder, a URL or a Store; of a repository the store of a session, which stays at its snapshot
    path      serves only what is below it, without it
    host      an address of this machine; the default is reached from this machine alone
    port      0: any that is free
    tell      is given a line of text for each failure of the store; None: to standard error
    Raises NotFoundError where nothing is there, InvalidInputError for a host or port that cannot be had, StoreError."""
    store, prefix = resolve(location, path)
    if store.capabilities.listable and store.is_empty(prefix):
        store.exists(f"{prefix}zarr.json")  # raises where the server answers with anything
        raise NotFoundError(f"nothing is there to serve: {store!r}", path=prefix or None, hint="check the location")
    return Server(lambda: store, prefix, host, port, tell)


def follow(
    repository: Repository,
    branch: str = "main",
    path: str = "",
    *,
    every: float = _FOLLOW_SECONDS,
    host: str = LOOPBACK,
    port: int = 0,
    tell: Tell | None = None,
) -> Server:
    """Serves what a branch has at the time of each request, not what it had at the start; otherwise as `serve`. Requests before and after a commit see
    different snapshots, as readers of a folder that is written to do.

    every  seconds for which the tip is taken to be where it was last seen
    Raises NotFoundError where there is no such branch."""
    source = _Tip(repository, branch, every)
    source()
    return Server(source, key_prefix(path), host, port, tell)


class _Tip:
    """The store of the newest snapshot of a branch."""

    def __init__(self, repository: Repository, branch: str, every: float) -> None:
        self._repository, self._branch, self._every = repository, branch, every
        self._session = repository.readonly_session(branch)
        self._looked = time.monotonic()

    def __call__(self) -> Store:
        now = time.monotonic()
        if now >= self._looked + self._every:  # several threads may look at once, which costs requests alone
            if self._repository.lookup_branch(self._branch) != self._session.snapshot_id:
                self._session = self._repository.readonly_session(self._branch)
            self._looked = now
        return self._session.store


class Server:
    """A server that runs, in threads of its own, until it is closed; made by `serve` and `follow`. url: where it is reached, ending in "/"."""

    __slots__ = ("_listener", "_thread", "url")

    def __init__(self, source: Source, prefix: str, host: str, port: int, tell: Tell | None) -> None:
        self._listener = _listen(_Served(source, prefix, _salt(source()), tell or _to_stderr), host, port)
        name, number = self._listener.server_address[:2]
        self.url: Final = f"http://{_in_url(str(name))}:{number}/"
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(_LOOK_SECONDS,), name="frazil serve", daemon=True
        )
        self._thread.start()

    def __repr__(self) -> str:
        return f"<frazil Server {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Until the server is closed, by another thread; or until Ctrl-C."""
        self._thread.join()

    def close(self) -> None:
        """Ends the server and its connections. No error where that has been done."""
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()
        self._listener.cut_connections()


def _in_url(address: str) -> str:
    """An address as URLs have it. "All addresses of this machine" is none to go to: its loopback is one of them."""
    address = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(address, address)  # noqa: S104 # is not listened at
    return f"[{address}]" if ":" in address else address


def _salt(store: Store) -> bytes:
    """What makes ETags differ from those of another run, where versions are not for ever: in memory they begin anew."""
    return b"" if isinstance(store, LocalStore | SessionStore) else token_bytes(16)


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"frazil: {one_line(line)}\n")
    sys.stderr.flush()


# --- answering -----------------------------------------------------------------------------------------------------------------------


class _Served(Record):
    """What a server serves: the store of each moment, and of its keys those below a prefix."""

    source: Source
    prefix: str
    salt: bytes
    tell: Tell

    def answer(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], *, needs_host: bool
    ) -> tuple[Answer, Iterator[bytes]]:
        """The answer to a request, and the bytes of its span, of which the first were read already: what cannot be read at all is an answer, too."""
        request = read_request(method, target, headers, needs_host=needs_host)
        if isinstance(request, Answer):
            return request, iter(())
        key = self.prefix + request.key
        try:
            store = self.source()
            return (_page(store, self.prefix, request.key), iter(())) if request.page else self._value(store, request)
        except Exception as error:
            if _cannot_be(key, error):
                return refusal(400, "the address is no key of this store"), iter(())
            self.failed(error)
            return refusal(500, "the store failed; the server's standard error says why"), iter(())

    def _value(self, store: Store, request: Request) -> tuple[Answer, Iterator[bytes]]:
        """Begins anew where the value is replaced between its look-up and the first bytes."""
        for attempt in range(_ATTEMPTS):
            value = find_value(store, self.prefix + request.key, ask_ahead(request, PIECE), self.salt)
            if value is None:
                break
            answer = answer_value(request, value.size, value.etag)
            if request.head or answer.span is None or answer.span[1] == 0:
                return answer, iter(())
            pieces = value.pieces(*answer.span)
            try:
                return answer, chain((next(pieces),), pieces)
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
        return nothing_there(), iter(())

    def failed(self, error: Exception) -> None:
        """Tells of an error in one line, whatever is in its text."""
        text = str(error) if isinstance(error, FrazilError) else f"{type(error).__name__}: {error}"
        self.tell("".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split())))


def _cannot_be(key: str, error: Exception) -> bool:
    """Whether an error says that the store can never hold a key."""
    if not isinstance(error, FrazilError) or error.key != key:
        return False
    return isinstance(error, InvalidInputError) or (isinstance(error, StoreError) and error.errno == ENAMETOOLONG)


def _page(store: Store, prefix: str, path: str) -> Answer:
    """The page at a path ("" or ending in "/"): the nodes there, or where none is, the names."""
    try:
        node = open_node(store, path=prefix + path)
    except NotFoundError:
        if not store.capabilities.listable:
            return nothing_there()
        keys, prefixes = store.list_dir(prefix + path)
        lines = [describe(name[len(prefix + path) :], None) for name in (*prefixes, *keys)]
        return answer_page(draw_page(path, lines)) if lines else nothing_there()
    if isinstance(node, Group):
        lines = [describe(name, below) for name, below in node.tree(LEVELS - 1).nodes]
    else:
        lines = [describe(".", node.metadata)]
    return answer_page(draw_page(path, lines))


# --- listening -----------------------------------------------------------------------------------------------------------------------


def _listen(served: _Served, host: str, port: int) -> _Listener:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 2**16:
        raise InvalidInputError(f"the port is {port!r}; it must be a number from 0, which is any free one, to 65535")
    if not isinstance(host, str) or not host or "\0" in host:
        raise InvalidInputError(f"the host is {host!r}; it must be a name or an address of this machine")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(f"the host {host!r} is not known: {error}", hint="an address of this machine") from None
    try:
        return _Listener(family, (str(address[0]), int(address[1])), served)
    except OSError as error:
        raise InvalidInputError(
            f"nothing can be served at port {port} of {host}: {error.strerror or error}",
            hint="port 0 is any free one" if port else "an address of this machine",
        ) from None


class _Listener(ThreadingHTTPServer):
    """Takes connections, each in a thread."""

    daemon_threads = True
    block_on_close = False  # connections are cut
    request_queue_size = 128

    def __init__(self, family: socket.AddressFamily, address: tuple[str, int], served: _Served) -> None:
        self.address_family = family
        self.served: Final = served
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        super().__init__(address, _Connection)

    def server_bind(self) -> None:
        """Without looking for the machine's name, which may take seconds and of which nothing here makes use."""
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: object) -> None:
        assert isinstance(request, socket.socket)
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        """Ends those that there are; their threads close them."""
        with self._lock:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # it has ended already
                    pass

    def handle_error(self, request: object, client_address: object) -> None:
        """A line in place of a traceback; nothing for a connection that is gone."""
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self.served.failed(error)


class _Connection(BaseHTTPRequestHandler):
    """One connection: requests one after the other."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # of a request line without one: its answer has a head as others do
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = 2**16  # heads and small values leave together
    _unread = False  # whether more of a request was sent than was read

    def handle_one_request(self) -> None:
        try:
            self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
            if not self.raw_requestline:
                self.close_connection = True
            elif len(self.raw_requestline) > _LONGEST_LINE:
                self._last(refusal(414, "the address is too long"))
            elif self.parse_request():
                self._answer()
            self.wfile.flush()
            if self._unread:
                self._take_the_rest()
        except OSError:  # the other side is gone, or stands still
            self.close_connection = True

    def _answer(self) -> None:
        assert isinstance(self.server, _Listener)
        served, modern = self.server.served, self.request_version >= "HTTP/1.1"
        self._unread = "transfer-encoding" in self.headers or self.headers.get("content-length", "0").strip() != "0"
        if self._unread or not modern:
            self.close_connection = (
                True  # bodies mean nothing here, and where the next request begins is not looked for
            )
        answer, pieces = served.answer(self.command, self.path, self.headers.items(), needs_host=modern)
        self._send(answer)
        if self.command == "HEAD":
            return
        self.wfile.write(answer.text)
        while True:
            try:
                piece = next(pieces, None)
            except Exception as error:  # too late for another status: an answer that ends too early is one that failed
                served.failed(error)
                self.close_connection = True
                return
            if piece is None:
                return
            self.wfile.write(piece)

    def _send(self, answer: Answer) -> None:
        """The head of an answer."""
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _last(self, answer: Answer) -> None:
        """An answer after which nothing that comes can be understood."""
        self.close_connection = self._unread = True
        self.request_version = self.protocol_version
        self._send(answer)
        self.wfile.write(answer.text)

    def _take_the_rest(self) -> None:
        """Of what the other side is still sending, some: a connection closed on unread bytes is reset, and the answer lost."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_REST_SECONDS)
        rest = _LONGEST_REST
        while rest > 0 and (taken := len(self.connection.recv(2**16))):
            rest -= taken

    def version_string(self) -> str:
        """Of the header Server: no versions."""
        return "frazil"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class cannot understand, as our answers are."""
        self._last(refusal(int(code), "the request cannot be understood"))

    def handle_expect_100(self) -> bool:
        """No body is asked for: it is the answer that comes next."""
        return True

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Requests are not logged; failures of the store are told by those who meet them."""

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 # the base class has it so
        """Nor is a connection that stands still."""
