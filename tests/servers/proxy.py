"""A proxy that injects faults: it forwards HTTP/1.1 requests to a server byte for byte, including the header Host (so that signatures stay valid), and chosen
requests fail."""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Final, Self, TypeAlias
from urllib.parse import urlsplit

from frazil.base.record import Record

FAULTS: Final = frozenset({"lost answer", "no answer", "sent twice", "stall", "cut body", "wrong length"})
_BLOCK = 1 << 18
_WAIT = 60.0  # seconds for a server that does not answer: no test waits for ever

# the messages of S3 with these codes, as far as clients read them
_CODES: Final = {
    200: "InternalError",
    400: "ExpiredToken",
    403: "AccessDenied",
    429: "TooManyRequests",
    500: "InternalError",
    503: "SlowDown",
}


class Request(Record):
    """One received request: `path` with the query, header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]


Match: TypeAlias = Callable[[Request], bool] | str


class _Fault:
    def __init__(self, match: Match, name: str, times: int | None) -> None:
        self.match, self.name, self.left = match, name, times

    def meets(self, request: Request) -> bool:
        if not isinstance(self.match, str):
            return self.match(request)
        method, _, path = self.match.partition(" ")
        return request.method == method and re.search(path, request.path) is not None


class FaultProxy(AbstractContextManager["FaultProxy"]):
    """Until the end of the block, `url` replaces the URL given to the proxy.

    requests  all received ones, in order
    delay     seconds that every request waits before it is forwarded; many wait at once
    dropped   names of headers, in lower case, that are removed from forwarded requests, like a server that does not support them
    """

    def __init__(self, target_url: str) -> None:
        target = urlsplit(target_url)
        assert target.scheme == "http" and target.hostname is not None
        self._target = (target.hostname, target.port or 80)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}{target.path}"
        self.requests: list[Request] = []
        self.delay = 0.0
        self.dropped: set[str] = set()
        self._faults: list[_Fault] = []
        self._lock, self._closed = Lock(), Event()
        self._threads: list[Thread] = []

    def fail(self, match: Match, fault: str, times: int | None = 1) -> None:
        """Makes the next `times` matching requests fail (None: all). If several faults match, the oldest one applies.

        match  a predicate of the request, or "METHOD regular-expression", searched for in the path with its query
        fault  "lost answer"   the server executes the request, and the connection is cut before its answer
               "sent twice"    the server executes the request twice, and its second answer is returned, as by proxies that repeat requests
               "no answer"     the connection is cut before the server gets the request
               "stall"         nothing is forwarded or answered until the client disconnects
               "cut body"      half of the answer's body is sent, then the connection is cut
               "wrong length"  the body is a byte shorter than the server's, and so is Content-Length
               "503" etc.      answered with this status, or "200", and an S3 error; the server does not get the request"""
        assert fault in FAULTS or re.fullmatch(r"200|[45]\d\d", fault), fault
        with self._lock:
            self._faults.append(_Fault(match, fault, times))

    def mend(self) -> None:
        """Removes all faults."""
        with self._lock:
            self._faults.clear()

    def requests_matching(self, match: Match) -> list[Request]:
        """The matching requests so far."""
        pattern = _Fault(match, "", None)
        return [request for request in list(self.requests) if pattern.meets(request)]

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:  # the first one starts the others
            thread.join()

    # --- connections ------------------------------------------------------------------------------------------------------------------

    def _start(self, call: Callable[..., None], *arguments: object) -> None:
        thread = Thread(target=call, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client = self._listening.accept()[0]
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with closing(client), suppress(OSError, _Cut):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reading = _Reading(client, self._closed)
            while (head := reading.head()) is not None:
                self._handle(client, reading, head)

    def _handle(self, client: socket.socket, reading: _Reading, head: bytes) -> None:
        line, headers = _parsed(head)
        method, path, _ = line.split(" ", 2)
        request = Request(method, path, headers)
        with self._lock:
            self.requests.append(request)
            fault = next((one for one in self._faults if one.left != 0 and one.meets(request)), None)
            if fault is not None and fault.left is not None:
                fault.left -= 1
        name = "" if fault is None else fault.name
        if self.delay:
            time.sleep(self.delay)
        if headers.get("expect", "").lower() == "100-continue":
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if name == "stall":
            reading.wait_for_end()
            raise _Cut
        if name == "no answer":
            raise _Cut
        if name.isdecimal():
            for _ in reading.body(headers):
                pass
            client.sendall(_refusal(int(name), bodiless=method == "HEAD"))
            return
        blocks: Iterable[bytes] = reading.body(headers)
        if name == "sent twice":
            blocks = list(blocks)
            with suppress(_Cut):
                self._forward(client, head, blocks, "lost answer", method)
        self._forward(client, head, blocks, name, method)

    def _forward(self, client: socket.socket, head: bytes, body: Iterable[bytes], fault: str, method: str) -> None:
        with socket.create_connection(self._target, timeout=_WAIT) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.sendall(_without(head, self.dropped))
            for block in body:
                server.sendall(block)
            self._answer(client, _Reading(server, self._closed), fault, method)

    def _answer(self, client: socket.socket, reading: _Reading, fault: str, method: str) -> None:
        while True:
            head = reading.head()
            if head is None:
                raise _Cut
            line, headers = _parsed(head)
            status = int(line.split(" ")[1])
            if status >= 200:
                break
        bodiless = method == "HEAD" or status in {204, 304}
        blocks = iter(()) if bodiless else reading.body(headers, until_end=True)
        if fault == "lost answer":
            for _ in blocks:
                pass
            raise _Cut
        if fault in {"cut body", "wrong length"}:
            body = b"".join(blocks)
            if fault == "cut body":
                client.sendall(head + body[: len(body) // 2])
                raise _Cut
            if "chunked" in headers.get("transfer-encoding", ""):
                body = _unchunked(body)
            length = max(0, int(headers.get("content-length", len(body))) - 1)
            lines = [
                line for line in head.split(b"\r\n") if not re.match(rb"(?i)content-length:|transfer-encoding:", line)
            ]
            client.sendall(b"\r\n".join([*lines[:-2], b"Content-Length: %d" % length, b"", body[:-1]]))
            return
        client.sendall(head)
        for block in blocks:
            client.sendall(block)
        if not bodiless and "content-length" not in headers and "chunked" not in headers.get("transfer-encoding", ""):
            raise _Cut  # the end of the connection is the end of the body


class _Cut(Exception):
    """The connection ends here."""


class _Reading:
    """Messages received over a connection."""

    def __init__(self, connection: socket.socket, closed: Event) -> None:
        self._connection, self._closed, self._kept = connection, closed, b""

    def _more(self) -> bytes:
        until, readable = time.monotonic() + _WAIT, select.poll()  # select.select takes no descriptor above 1023
        readable.register(self._connection, select.POLLIN)
        while not readable.poll(50):
            if self._closed.is_set() or time.monotonic() > until:
                raise _Cut
        return self._connection.recv(_BLOCK)

    def head(self) -> bytes | None:
        """A message up to its empty line; None if the other side has closed."""
        while (end := self._kept.find(b"\r\n\r\n")) < 0:
            if not (more := self._more()):
                return None
            self._kept += more
        head, self._kept = self._kept[: end + 4], self._kept[end + 4 :]
        return head

    def body(self, headers: dict[str, str], *, until_end: bool = False) -> Iterator[bytes]:
        """The blocks of a body as they arrive; for the chunked coding with its chunk headers."""
        if "chunked" in headers.get("transfer-encoding", ""):
            yield from self._chunked()
        elif "content-length" in headers:
            yield from self._exactly(int(headers["content-length"]))
        elif until_end:
            yield self._kept
            while more := self._more():
                yield more

    def wait_for_end(self) -> None:
        """Returns when the other side has closed."""
        while self._more():
            pass

    def _exactly(self, length: int) -> Iterator[bytes]:
        while length:
            if not self._kept:
                self._kept = self._more()
                if not self._kept:
                    raise _Cut
            block, self._kept = self._kept[:length], self._kept[length:]
            length -= len(block)
            yield block

    def _chunked(self) -> Iterator[bytes]:
        size = -1
        while size != 0:
            while b"\r\n" not in self._kept:
                if not (more := self._more()):
                    raise _Cut
                self._kept += more
            line = self._kept.partition(b"\r\n")[0]
            size = int(line.split(b";")[0], 16)
            yield from self._exactly(len(line) + 2 + size + 2)


def _parsed(head: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in lines if line]
    return first, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _without(head: bytes, dropped: set[str]) -> bytes:
    lines = head.split(b"\r\n")
    return b"\r\n".join(line for line in lines if line.partition(b":")[0].decode("latin-1").lower() not in dropped)


def _unchunked(body: bytes) -> bytes:
    parts = []
    while body:
        line, _, rest = body.partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        parts.append(rest[:size])
        body = rest[size + 2 :]
    return b"".join(parts)


def _refusal(status: int, *, bodiless: bool) -> bytes:
    code = _CODES.get(status, "Refused")
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    head = f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + (b"" if bodiless else body)
