"""The sockets and threads of a server: connections, each in a thread, of which there are only so many. What is answered is server.py's business."""

from __future__ import annotations

import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from errno import EMFILE, ENFILE, ENOBUFS, ENOMEM
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Final, Protocol

from frazil.errors import InvalidInputError, NotFoundError
from frazil.operations.serve.hosts import Hosts
from frazil.operations.serve.requests import LONGEST_TARGET, Answer, refusal

CONNECTIONS: Final = 256  # at once, where the user does not say
_SCARCE: Final = frozenset({EMFILE, ENFILE, ENOBUFS, ENOMEM})
_LONGEST_LINE: Final = LONGEST_TARGET + 1024
_LONGEST_HEADER: Final = 2**16  # bytes of one line, as in the standard library
_MOST_HEADERS: Final = 100  # likewise
_STRAY: Final = re.compile(rb"\0|\r(?!\n)")  # that one program takes for the end of a line, and another one does not
_IDLE_SECONDS: Final = 60  # that a connection may stand still
_LOOK_SECONDS: Final = 0.1  # between looks whether the server is to end
_LONGEST_REST: Final = 2**20  # bytes of a refused body that are still taken, so that the answer gets through
_REST_SECONDS: Final = 1.0


class Served(Protocol):
    """The interface of the server that answers requests."""

    def answer(
        self,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        *,
        needs_host: bool,
        is_own: Callable[[str], bool],
    ) -> tuple[Answer, Iterator[bytes]]: ...

    def failed(self, error: Exception) -> None: ...


def listen(served: Served, host: str, port: int, connections: int) -> Listener:
    """Raises InvalidInputError for a host or port that cannot be had."""
    if isinstance(connections, bool) or not isinstance(connections, int) or connections < 1:
        raise InvalidInputError(f"connections is {connections!r}; it must be a number, 1 or more")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 2**16:
        raise InvalidInputError(f"the port is {port!r}; it must be a number from 0 (any free port) to 65535")
    if not isinstance(host, str) or not host or "\0" in host:
        raise InvalidInputError(f"the host is {host!r}; it must be a name or an address of this machine")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(f"the host {host!r} is not known: {error}", hint="an address of this machine") from None
    try:
        return Listener(family, (str(address[0]), int(address[1])), served, connections)
    except OSError as error:
        raise InvalidInputError(
            f"nothing can be served at port {port} of {host}: {error.strerror or error}",
            hint="port 0 chooses any free port" if port else "an address of this machine",
        ) from None


class Listener(ThreadingHTTPServer):
    """Takes connections, each in a thread."""

    daemon_threads = True
    block_on_close = False  # connections are cut
    request_queue_size = 128

    def __init__(
        self, family: socket.AddressFamily, address: tuple[str, int], served: Served, connections: int
    ) -> None:
        self.address_family = family
        self.served: Final = served
        self.hosts = Hosts(frozenset())
        self._lock = threading.Lock()
        self._room: Final = threading.BoundedSemaphore(connections)
        self._ending = threading.Event()
        self._connections: set[socket.socket] = set()
        self._idle: dict[socket.socket, float] = {}  # those that wait for a request, and since when; the longest first
        super().__init__(address, _Connection)

    def server_bind(self) -> None:
        """Without looking for the machine's name, which may take seconds and of which nothing here makes use."""
        socketserver.TCPServer.server_bind(self)

    def run(self) -> None:
        """Serves until `end`."""
        self.serve_forever(_LOOK_SECONDS)

    def end(self) -> None:
        """Has `run` return. No error where it has done so."""
        self._ending.set()
        self.shutdown()

    def get_request(self) -> tuple[socket.socket, object]:
        """The next connection. Where the process has no file for it, one that waits is cut and others are given time: the system would offer the same at once, again and again."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _SCARCE:
                self.cut_idle()
                self._ending.wait(_LOOK_SECONDS)
            raise

    def process_request(self, request: object, client_address: object) -> None:
        """In a thread of its own, as soon as there is room. For a new connection that which waits the longest for its next request makes room."""
        assert isinstance(request, socket.socket)
        while not self._room.acquire(blocking=False):
            self.cut_idle()
            if self._room.acquire(timeout=_LOOK_SECONDS):
                break
            if self._ending.is_set():
                socketserver.TCPServer.shutdown_request(self, request)
                return
        with self._lock:
            self._connections.add(request)
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started, so that none gives the room back
            with self._lock:
                self._connections.discard(request)
            self._room.release()
            raise

    def process_request_thread(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def shutdown_request(self, request: object) -> None:
        assert isinstance(request, socket.socket)
        with self._lock:
            self._connections.discard(request)
            self._idle.pop(request, None)
        super().shutdown_request(request)

    def wait_begins(self, connection: socket.socket) -> None:
        """Says that a connection waits for a request, all of whose head counts."""
        with self._lock:
            self._idle[connection] = time.monotonic()

    def wait_ends(self, connection: socket.socket) -> None:
        """Says that a request came: its connection is not cut."""
        with self._lock:
            self._idle.pop(connection, None)

    def cut_idle(self) -> None:
        """Ends the connection that has waited longest for a request, if any waits."""
        with self._lock:
            connection = next(iter(self._idle), None)
            if connection is not None:
                del self._idle[connection]
                _cut(connection)

    def cut_connections(self) -> None:
        """Ends those that there are; their threads close them."""
        with self._lock:
            for connection in self._connections:
                _cut(connection)

    def handle_error(self, request: object, client_address: object) -> None:
        """A line in place of a traceback; nothing for a connection that is gone."""
        error = sys.exception()
        if isinstance(error, Exception) and (not isinstance(error, OSError) or isinstance(error, NotFoundError)):
            self.served.failed(error)


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended already
        pass


class _Connection(BaseHTTPRequestHandler):
    """One connection: requests one after the other."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # of a request line without one: its answer has a head as others do
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = 2**16  # heads and small values leave together
    _unread = False  # whether more of a request was sent than was read

    def handle_one_request(self) -> None:
        assert isinstance(self.server, Listener)
        try:
            self.server.wait_begins(self.connection)
            self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
            if not self.raw_requestline:
                self.close_connection = True
            elif len(self.raw_requestline) > _LONGEST_LINE:
                self._last(refusal(414, "the address is too long"))
            elif self._parse_head():
                self.server.wait_ends(self.connection)
                self._answer()
            self.wfile.flush()
            if self._unread:
                self._take_the_rest()
        except OSError:  # the other side is gone, or stands still
            self.close_connection = True

    def _parse_head(self) -> bool:
        """Checks the bytes of the headers, then calls parse_request: parsed headers no longer show which bytes ended a line. False if the request is refused."""
        lines: list[bytes] = []
        while len(lines) <= _MOST_HEADERS and (line := self.rfile.readline(_LONGEST_HEADER + 1)):
            lines.append(line)
            if line in {b"\r\n", b"\n"} or len(line) > _LONGEST_HEADER:
                break
        if _STRAY.search(self.raw_requestline) or any(_STRAY.search(line) for line in lines):
            self._last(refusal(400, "a line has a forbidden byte"))
            return False
        connection, self.rfile = self.rfile, BytesIO(b"".join(lines))
        try:
            return self.parse_request()
        finally:
            self.rfile = connection

    def _answer(self) -> None:
        assert isinstance(self.server, Listener)
        served, modern = self.server.served, self.request_version >= "HTTP/1.1"
        self._unread = "transfer-encoding" in self.headers or self.headers.get("content-length", "0").strip() != "0"
        if self._unread or not modern:
            self.close_connection = (
                True  # bodies mean nothing here, and where the next request begins is not looked for
            )
        if self.headers.defects or self.headers.get_payload():  # a line that is no header
            self._last(refusal(400, "a header is malformed"))
            return
        answer, pieces = served.answer(
            self.command, self.path, self.headers.items(), needs_host=modern, is_own=self._is_own
        )
        if answer.status == 400:  # where the next request begins is not known
            self.close_connection = self._unread = True
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

    def _is_own(self, host: str) -> bool:
        assert isinstance(self.server, Listener)
        local, port = self.connection.getsockname()[:2]
        return self.server.hosts.has(host, str(local), int(port))

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
        self._last(refusal(int(code), "the request is malformed"))

    def handle_expect_100(self) -> bool:
        """Sends no "100 Continue": the final answer comes next."""
        return True

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Requests are not logged. Failures of the store are reported where they occur."""

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 # the base class has it so
        """Nor is a connection that stands still."""
