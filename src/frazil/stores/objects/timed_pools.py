"""Pools of connections to web servers in which the whole of a response has a time: its head, its interim heads and its trailers too.

http.client reads these until they end, and a socket's own time-out begins anew with every byte. A body is compared with the time in web_client.py as well."""

from __future__ import annotations

import io
import socket
import time
from errno import ETIMEDOUT
from http.client import HTTPResponse
from typing import TYPE_CHECKING, ClassVar

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from frazil.errors import StoreError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class _TimedReader(io.RawIOBase):
    """What comes over a connection. Raises StoreError after `until`, on the monotonic clock."""

    def __init__(self, raw: io.RawIOBase, until: float) -> None:
        self._raw, self._until = raw, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        if time.monotonic() > self._until:
            raise StoreError("the response took longer than the option timeout allows", errno=ETIMEDOUT)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(HTTPResponse):
    """seconds: until the end of the response must be there"""

    seconds: ClassVar[float]

    def __init__(
        self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None
    ) -> None:
        super().__init__(sock, debuglevel, method, url)
        raw = self.fp.detach()  # what socket.makefile made
        self.fp = io.BufferedReader(_TimedReader(raw, time.monotonic() + self.seconds))


def timed_pools(whole: float) -> dict[str, type[HTTPConnectionPool]]:
    """The classes of pools by scheme, for a PoolManager. whole: seconds for a response"""

    class Response(_TimedResponse):
        seconds = whole

    class Connection(HTTPConnection):
        response_class = Response

    class SecureConnection(HTTPSConnection):
        response_class = Response

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = SecureConnection

    return {"http": Pool, "https": SecurePool}
