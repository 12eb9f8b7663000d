"""A server that answers requests with any bytes of a test: wrong heads, bodies without an end, or nothing at all."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import TypeAlias

from frazil.base.record import Record

Script: TypeAlias = "Callable[[Request], bytes | Iterable[bytes] | None]"


class Request(Record):
    """Header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]


class Scripted:
    """url: of the server; requests: all received so far; connections: their number; errors: that the script raised."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.requests: list[Request] = []
        self.connections = 0
        self.errors: list[Exception] = []
        self._closed, self._lock = Event(), Lock()
        self._open: set[socket.socket] = set()
        self._threads = [Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self._closed.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                if self._closed.is_set():
                    return
                continue  # the client has ended the connection, or there were too many open files
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(connection)
                self.connections += 1
            if self._closed.is_set():  # `close` may not have seen it, and waits for its thread
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            thread = Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, suppress(OSError):
            while (first := lines.readline().decode("latin-1").split()) and len(first) == 3:
                headers: dict[str, str] = {}
                while line := lines.readline().decode("latin-1").strip():
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                lines.read(int(headers.get("content-length", 0)))  # an unread body would reset the connection
                request = Request(first[0], first[1], headers)
                with self._lock:
                    self.requests.append(request)
                found = self._answer(request)
                if found is None:
                    self._closed.wait()
                    break
                for piece in [found] if isinstance(found, bytes) else found:
                    connection.sendall(piece)
                if not isinstance(found, bytes):
                    break
        with self._lock:
            self._open.discard(connection)

    def _answer(self, request: Request) -> bytes | Iterable[bytes] | None:
        try:
            return self._script(request)
        except Exception as error:  # a closed connection would be tried again for minutes
            self.errors.append(error)
            return answer(400)


@contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    """A server until the end of the block. script: the bytes of an answer; pieces of one, after which the connection is closed (the
    client may have sent its next request by then, unless the answer says `Connection: close`); or None, for no answer at all."""
    server = Scripted(script)
    try:
        yield server
    finally:
        server.close()
        for error in server.errors:
            raise error


def answer(status: int, body: bytes = b"", **headers: object) -> bytes:
    """A correct answer with these headers; underscores stand for hyphens. A header of None is left out."""
    fields = {"Content-Length": len(body), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [
        f"HTTP/1.1 {status} X",
        *(f"{name}: {value}" for name, value in fields.items() if value is not None),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1") + body
