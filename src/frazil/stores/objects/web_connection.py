"""One HTTP/1.1 connection to a web server (RFC 9112): requests without a body are sent, heads and bodies of answers are read.

No length that a server tells is believed: a body is read into memory that the caller has, and never beyond it. Which server is asked, and what its answers mean, is in
web_client.py and web_reader.py."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping
from errno import ECONNRESET, EPROTO, ETIMEDOUT
from typing import Final

from frazil.errors import StoreError
from frazil.record import Record

__all__ = ["Connection", "Head"]

_LONGEST_HEAD: Final = 2**16  # bytes
_LONGEST_LINE: Final = 2**10  # of a chunk's length
_BLOCK: Final = 2**16
_TRAILERS: Final = 100
_INTERIM: Final = 8  # answers of status 1xx before the one that counts
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SIZE: Final = re.compile(r"[0-9]{1,18}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")


class Head(Record):
    """headers: by names in small letters; several of one name are one text, with commas. length: of the body as it is told, None where it is not told."""

    status: int
    headers: Mapping[str, str]
    length: int | None


class Connection:
    """One connection. One request after the other: the next may be sent when all of the last answer was read (`reusable`).

    Raises OSError where the connection fails, breaks off (ECONNRESET) or takes too long (ETIMEDOUT), and for an answer that is no HTTP (EPROTO)."""

    __slots__ = ("_buffer", "_chunked", "_keeps", "_left", "_read", "_socket", "_until", "reusable", "used")

    def __init__(self, connected: socket.socket, read: float) -> None:
        """read: seconds that may pass without a byte."""
        self._socket, self._read = connected, read
        self._buffer = bytearray()
        self._left: int | None = (
            0  # bytes of the body, or of its chunk, that were not read; None: all up to the end of the connection
        )
        self._chunked = False
        self._keeps = True  # whether the server keeps the connection open after the answer
        self._until = 0.0
        self.reusable = True
        self.used = time.monotonic()

    def close(self) -> None:
        self.reusable = False
        self._socket.close()

    def ask(self, request: bytes, until: float, *, head: bool = False) -> Head:
        """Sends a request and reads the head of its answer. until: on the monotonic clock, for all of the answer; head: whether the request is a HEAD."""
        self._until, self.reusable = until, False
        self._wait()
        self._socket.sendall(request)
        for _ in range(_INTERIM):
            found = self._head()
            if found[1] >= 200:
                return self._begin_body(*found, head=head)
        raise StoreError("the server never comes to the answer", errno=EPROTO)

    def read_into(self, view: memoryview) -> int:
        """Reads bytes of the body: how many, 0 at its end. Raises StoreError where it ends too early."""
        if not len(view):
            return 0
        if self._chunked and self._left == 0:
            self._next_chunk()
        if self._left == 0:
            return 0
        most = len(view) if self._left is None else min(len(view), self._left)
        if self._buffer:
            count = min(most, len(self._buffer))
            view[:count] = self._buffer[:count]
            del self._buffer[:count]
        else:
            self._wait()
            count = self._socket.recv_into(view[:most])
            if count == 0:
                if self._left is None:
                    self._left = 0
                    return 0
                raise StoreError("the answer broke off", errno=ECONNRESET)
        if self._left is not None:
            self._left -= count
            if self._chunked and self._left == 0:
                self._expect_line_end()
            elif self._left == 0:
                self.reusable = self._keeps and not self._buffer
        return count

    # --- heads ---------------------------------------------------------------------------------------------------------------------

    def _head(self) -> tuple[int, int, dict[str, str]]:
        """(minor version, status, headers)."""
        text = self._take_until(b"\r\n\r\n", _LONGEST_HEAD)
        first, *lines = text.split(b"\r\n")
        status = _STATUS.fullmatch(first)
        if status is None:
            raise StoreError("the answer is no HTTP/1.1", errno=EPROTO)
        headers: dict[str, str] = {}
        for line in lines:
            name, mark, value = line.decode("latin-1").partition(":")
            if not mark or _NAME.fullmatch(name) is None:
                raise StoreError("a header of the answer makes no sense", errno=EPROTO)
            name, value = name.lower(), value.strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return int(status[1]), int(status[2]), headers

    def _begin_body(self, minor: int, status: int, headers: dict[str, str], *, head: bool) -> Head:
        connection = headers.get("connection", "").lower()
        self._keeps = "close" not in connection and (minor == 1 or "keep-alive" in connection)
        coding = headers.get("transfer-encoding")
        told = {one.strip() for one in headers["content-length"].split(",")} if "content-length" in headers else set()
        if len(told) > 1 or any(_SIZE.fullmatch(one) is None for one in told):
            raise StoreError("the answer tells two lengths, or none that is a number", errno=EPROTO)
        if coding is not None and (coding.lower() != "chunked" or told):
            raise StoreError("the answer is encoded in a way that was not asked for", errno=EPROTO)
        length = int(told.pop()) if told else None
        without = head or status in {204, 304}
        self._chunked = coding is not None and not without
        self._left = 0 if without or self._chunked else length
        self.reusable = self._left == 0 and not self._chunked and self._keeps
        return Head(status, headers, length)

    # --- bytes ---------------------------------------------------------------------------------------------------------------------

    def _next_chunk(self) -> None:
        line = _CHUNK.fullmatch(self._take_until(b"\r\n", _LONGEST_LINE))
        if line is None:
            raise StoreError("the answer has a chunk without a length", errno=EPROTO)
        self._left = int(line[1], 16)
        if self._left == 0:
            self._chunked = False
            for _ in range(_TRAILERS):
                if not self._take_until(b"\r\n", _LONGEST_HEAD):
                    break  # trailers tell nothing that is needed
            else:
                raise StoreError("the answer has trailers without an end", errno=EPROTO)
            self.reusable = self._keeps and not self._buffer

    def _expect_line_end(self) -> None:
        if self._take_until(b"\r\n", 2):
            raise StoreError("the answer has a chunk that is longer than it says", errno=EPROTO)

    def _take_until(self, mark: bytes, most: int) -> bytes:
        """What comes before a mark, at most `most` bytes, which is taken away together with it."""
        seen = 0
        while (end := self._buffer.find(mark, seen)) < 0:
            seen = max(len(self._buffer) - len(mark) + 1, 0)
            if len(self._buffer) > most:
                raise StoreError("the answer has a head without an end", errno=EPROTO)
            self._wait()
            block = self._socket.recv(_BLOCK)
            if not block:
                raise StoreError("the connection was closed before the answer", errno=ECONNRESET)
            self._buffer += block
        found = bytes(self._buffer[:end])
        del self._buffer[: end + len(mark)]
        return found

    def _wait(self) -> None:
        """Sets how long the socket may wait."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise StoreError("the answer took longer than the option timeout allows", errno=ETIMEDOUT)
        self._socket.settimeout(min(self._read, left))
