"""Files of a folder over HTTP/1.1, like a plain web server: kept connections, ETags, ranges, redirects of folders. Lists nothing and writes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

Suffixes: TypeAlias = Literal["refused", "ignored"] | bool
WebServer: TypeAlias = Callable[..., AbstractContextManager[str]]

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_BLOCK = 1 << 18


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise a body waits until its head was acknowledged
    folder: Path
    suffix: Suffixes
    ranges: bool

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        asked = urlsplit(self.path).path
        path = (self.folder / unquote(asked).lstrip("/")).resolve()
        if path.is_dir() and not asked.endswith("/"):
            self._empty(301, {"Location": f"{asked}/"})
            return
        if not (path.is_relative_to(self.folder) and path.is_file()):
            self._empty(404)
            return
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            etag = f'"{stat.st_ino:x}-{stat.st_size:x}-{stat.st_mtime_ns:x}"'
            expected = self.headers.get("If-Match")
            if expected is not None and expected != "*" and etag not in [one.strip() for one in expected.split(",")]:
                self._empty(412)
                return
            if self.headers.get("If-None-Match") == etag:
                self._empty(304, {"ETag": etag})
                return
            status, first, end = self._range(stat.st_size)
            if status == 416:
                self._empty(416, {"Content-Range": f"bytes */{stat.st_size}"})
                return
            self.send_response(status)
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", self.date_time_string(int(stat.st_mtime)))
            self.send_header("Content-Length", str(end - first))
            if self.ranges:
                self.send_header("Accept-Ranges", "bytes")
            if status == 206:
                self.send_header("Content-Range", f"bytes {first}-{end - 1}/{stat.st_size}")
            self.end_headers()
            file.seek(first)
            while body and first < end and (block := file.read(min(_BLOCK, end - first))):
                self.wfile.write(block)
                first += len(block)

    def _range(self, size: int) -> tuple[int, int, int]:
        """The status, and the start and end of the answer's bytes. Anything but a single range is ignored, as servers may."""
        requested = _RANGE.fullmatch(self.headers.get("Range", ""))
        if requested is None or not self.ranges or requested[0] == "bytes=-":
            return 200, 0, size
        if not requested[1]:
            if self.suffix is not True:
                return (200, 0, size) if self.suffix == "ignored" else (416, 0, 0)
            length = int(requested[2])
            return (206, max(0, size - length), size) if length and size else (416, 0, 0)
        first, end = int(requested[1]), min(int(requested[2]) + 1, size) if requested[2] else size
        if requested[2] and int(requested[2]) < first:
            return 200, 0, size
        return (206, first, end) if first < size else (416, 0, 0)

    def _empty(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Logs nothing: tests read the output."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # otherwise it would wait for kept connections
    request_queue_size = 128

    def handle_error(self, *about: object) -> None:
        """Errors of disconnected clients are ignored."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The URL at which a handler answers until the end of the block."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.005,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def web_server(folder: str | os.PathLike[str], *, suffix: Suffixes = True, ranges: bool = True) -> Iterator[str]:
    """The URL of a folder, served until the end of the block. A file's ETag depends on the modification time: a replaced file has another one.

    suffix  whether the last N bytes can be requested. If not (False is "refused"), the answer is 416, as of servers that only parse the syntax; if "ignored",
            200 and the whole file, as of those that do not
    ranges  False: the header Range is ignored, all answers are 200 with the whole file"""
    handler = type("Handler", (_Handler,), {"folder": Path(folder).resolve(), "suffix": suffix, "ranges": ranges})
    with serving(handler) as url:
        yield url
