"""The sockets and threads of a server: a limited number of connections, each in a thread. server.py makes the answers."""

from __future__ import annotations

import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from errno import EMFILE, ENFILE, ENOBUFS, ENOMEM
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Final, Protocol

from frazil.errors import InvalidInputError, NotFoundError
from frazil.operations.serve.hosts import Hosts
from frazil.operations.serve.requests import LONGEST_TARGET, Answer, refusal

CONNECTIONS: Final = 256  # at once, by default
_SCARCE: Final = frozenset({EMFILE, ENFILE, ENOBUFS, ENOMEM})
_LONGEST_LINE: Final = LONGEST_TARGET + 1024
_LONGEST_HEADER: Final = 2**16  # bytes of one line, as in the standard library
_MOST_HEADERS: Final = 100  # likewise
_STRAY: Final = re.compile(rb"\0|\r(?!\n)")  # that some programs accept as the end of a line, and others do not
_IDLE_SECONDS: Final = 60  # that a connection may be idle
_LOOK_SECONDS: Final = 0.1  # between checks whether the server must end
_LONGEST_REST: Final = 2**20  # bytes of a refused body that are still read, so that the answer arrives
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

    def rest(self) -> None:
        """Called several times in a second."""

    def failed(self, error: Exception) -> None: ...


def listen(served: Served, host: str, port: int, connections: int) -> Listener:
    """The listener at a host and port. Raises InvalidInputError for a host or port that is not available."""
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
    """Accepts connections, each in a thread."""

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
        """Binds without looking up the machine's name, which may take seconds and is not used here."""
        socketserver.TCPServer.server_bind(self)

    def run(self) -> None:
        """Serves until `end`."""
        self.serve_forever(_LOOK_SECONDS)

    def service_actions(self) -> None:
        self.served.rest()

    def end(self) -> None:
        """Makes `run` return. No error if it has returned."""
        self._ending.set()
        self.shutdown()

    def get_request(self) -> tuple[socket.socket, object]:
        """The next connection. If the process has no free file or memory for it, a waiting connection is cut, and the server pauses: otherwise the system would
        offer the same connection again at once. Raises only OSError: any other error would end the server."""
        try:
            return super().get_request()
        except (OSError, MemoryError) as error:
            if isinstance(error, MemoryError) or error.errno in _SCARCE:
                self.cut_idle()
                self._ending.wait(_LOOK_SECONDS)
            # socketserver goes on after an OSError alone
            refused = OSError(ENOMEM, "no memory for a connection") if isinstance(error, MemoryError) else error
            raise refused from None

    def process_request(self, request: object, client_address: object) -> None:
        """Handles a connection in its own thread, when the number of connections allows it. The connection that has waited longest for a request is cut to make
        room."""
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
        except BaseException:  # no thread was started that would release the room
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
        """Marks a connection as waiting for a request, up to the end of its head."""
        with self._lock:
            self._idle[connection] = time.monotonic()

    def wait_ends(self, connection: socket.socket) -> None:
        """Marks that a request came: its connection is not cut."""
        with self._lock:
            self._idle.pop(connection, None)

    def cut_idle(self) -> None:
        """Ends the connection that has waited longest for a request, if any waits."""
        with self._lock:
            connection = next(iter(self._idle), None)
            if connection is not None:
                del self._idle[connection]
                _shut_down(connection)

    def cut_connections(self) -> None:
        """Ends all connections; their threads close them."""
        with self._lock:
            for connection in self._connections:
                _shut_down(connection)

    def handle_error(self, request: object, client_address: object) -> None:
        """Reports an error in a line instead of a traceback; nothing for a lost connection. An error of the report does not end the server."""
        error = sys.exception()
        if isinstance(error, Exception) and (not isinstance(error, OSError) or isinstance(error, NotFoundError)):
            with suppress(Exception):
                self.served.failed(error)


def _shut_down(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has already ended
        pass


class _Connection(BaseHTTPRequestHandler):
    """One connection: requests one after the other."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # of a request line without one: its answer also has a head
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = 2**16  # heads and small values are sent together
    _unread = False  # whether a part of a request was sent but not read

    def handle_one_request(self) -> None:
        assert isinstance(self.server, Listener)
        try:
            self.server.wait_begins(self.connection)
            self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
            if not self.raw_requestline:
                self.close_connection = True
            elif len(self.raw_requestline) > _LONGEST_LINE:
                self._send_last(refusal(414, "the address is too long"))
            elif self._parse_head():
                self.server.wait_ends(self.connection)
                self._answer()
            self.wfile.flush()
            if self._unread:
                self._drain()
        except OSError:  # the client is gone, or too slow
            self.close_connection = True

    def _parse_head(self) -> bool:
        """Checks the bytes of the headers, then calls parse_request: parsed headers no longer show which bytes ended a line. False if the request is
        refused."""
        lines: list[bytes] = []
        while len(lines) <= _MOST_HEADERS and (line := self.rfile.readline(_LONGEST_HEADER + 1)):
            lines.append(line)
            if line in {b"\r\n", b"\n"} or len(line) > _LONGEST_HEADER:
                break
        if _STRAY.search(self.raw_requestline) or any(_STRAY.search(line) for line in lines):
            self._send_last(refusal(400, "a line has a forbidden byte"))
            return False
        connection, self.rfile = self.rfile, BytesIO(b"".join(lines))
        try:
            parsed = self.parse_request()
        finally:
            self.rfile = connection
        if parsed and isinstance(self.headers, dict):  # newer versions of Python read no headers of HTTP/0.9
            self.headers = self.MessageClass()
        if parsed and self.request_version < self.default_request_version:  # its answer would have no head
            self._send_last(refusal(505, "the version of HTTP is not known"))
            return False
        return parsed

    def _answer(self) -> None:
        assert isinstance(self.server, Listener)
        served, modern = self.server.served, self.request_version >= "HTTP/1.1"
        self._unread = "transfer-encoding" in self.headers or self.headers.get("content-length", "0").strip() != "0"
        if self._unread or not modern:
            # bodies are ignored, and the beginning of the next request is not searched for
            self.close_connection = True
        if self.headers.defects or self.headers.get_payload():  # a line that is not a header
            self._send_last(refusal(400, "a header is malformed"))
            return
        answer, pieces = served.answer(
            self.command, self.path, self.headers.items(), needs_host=modern, is_own=self._is_served_host
        )
        if answer.status == 400:  # the start of the next request is unknown
            self.close_connection = self._unread = True
        self._send(answer)
        if self.command == "HEAD":
            return
        self.wfile.write(answer.text)
        while True:
            try:
                piece = next(pieces, None)
            except Exception as error:  # too late for another status: an answer that ends early shows the failure
                served.failed(error)
                self.close_connection = True
                return
            if piece is None:
                return
            self.wfile.write(piece)

    def _is_served_host(self, host: str) -> bool:
        assert isinstance(self.server, Listener)
        local, port = self.connection.getsockname()[:2]
        return self.server.hosts.has(host, str(local), int(port))

    def _send(self, answer: Answer) -> None:
        """Sends the head of an answer."""
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _send_last(self, answer: Answer) -> None:
        """Sends the last answer of a connection, as later bytes cannot be interpreted."""
        self.close_connection = self._unread = True
        self.request_version = self.protocol_version
        self._send(answer)
        self.wfile.write(answer.text)

    def _drain(self) -> None:
        """Reads a limited part of the bytes that the client still sends: if a connection is closed with unread bytes, it is reset, and the answer is lost."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_REST_SECONDS)
        remaining = _LONGEST_REST
        while remaining > 0 and (received := len(self.connection.recv(2**16))):
            remaining -= received

    def version_string(self) -> str:
        """The value of the header Server, without versions."""
        return "frazil"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuses a request that the base class cannot parse, with an answer like others."""
        self._send_last(refusal(int(code), "the request is malformed"))

    def handle_expect_100(self) -> bool:
        """Sends no "100 Continue": the final answer comes next."""
        return True

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Requests are not logged. Failures of the store are reported where they occur."""

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 # as in the base class
        """Idle connections are not logged either."""
