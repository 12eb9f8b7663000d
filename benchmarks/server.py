"""Serves a folder over HTTP with range requests, and counts the requests. GET /__count__ returns the count and sets it to 0."""

from __future__ import annotations

import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    count = 0
    lock = threading.Lock()

    def do_GET(self) -> None:
        with Handler.lock:
            if self.path == "/__count__":
                self.answer(200, str(Handler.count).encode())
                Handler.count = 0
                return
            Handler.count += 1
        path = (self.folder / self.path.split("?")[0].lstrip("/")).resolve()
        if not path.is_relative_to(self.folder) or not path.is_file():
            self.answer(404, b"")
            return
        body = path.read_bytes()
        dated = {"Last-Modified": formatdate(path.stat().st_mtime, usegmt=True), "Accept-Ranges": "bytes"}
        unit, _, requested = self.headers.get("Range", "").partition("=")
        if unit != "bytes" or "," in requested:
            self.answer(200, body, dated)
            return
        first, _, last = requested.partition("-")
        start = int(first) if first else max(len(body) - int(last), 0)
        stop = min(int(last) + 1, len(body)) if first and last else len(body)
        if start >= stop:
            self.answer(416, b"", {"Content-Range": f"bytes */{len(body)}"})
            return
        self.answer(206, body[start:stop], {**dated, "Content-Range": f"bytes {start}-{stop - 1}/{len(body)}"})

    do_HEAD = do_GET

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(folder: Path) -> str:
    """Serves the folder from a daemon thread. Returns the URL."""
    Handler.folder = folder.resolve()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
