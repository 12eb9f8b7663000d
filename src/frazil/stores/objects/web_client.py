"""A client of one web server: connections that are kept, redirects of which each is checked, attempts, time-outs, proxies.

It is our own as the client library follows every redirect, tells of none, and takes a body of any length (docs/design/025-web-client.md). What is asked, and what an answer
means for an object, is in web_reader.py; the bytes of one connection are in web_connection.py."""

from __future__ import annotations

import base64
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import ECONNRESET, EPROTO, ETIMEDOUT
from typing import Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

from frazil.errors import FrazilError, InvalidInputError, StoreError
from frazil.record import Record
from frazil.stores.objects.client_errors import status_failure, unanswered
from frazil.stores.objects.redirects import REDIRECTS, next_address, origin_of, without_query
from frazil.stores.objects.web_connection import Connection, Head
from frazil.stores.objects.web_options import WebOptions

__all__ = ["WebAnswer", "WebClient"]

T = TypeVar("T")

_HOPS: Final = 10
_SAFE: Final = "/!$&'()*+,;=:@-._~"  # of a path (RFC 3986)
_IDLE_SECONDS: Final = 30.0
_IDLE: Final = 64  # connections that are kept
_REST: Final = 2**16  # bytes of an answer that are read over, so that its connection can be used again
_LATER: Final = frozenset({408, 425, 429})
_NEVER: Final = 501


class _Busy(Record):
    """A status that says that the same request may have an answer later."""

    status: int


class WebAnswer:
    """An answer whose body was not read yet. url: where it came from, after redirects."""

    __slots__ = ("_connection", "head", "url")

    def __init__(self, url: str, head: Head, connection: Connection) -> None:
        self.url, self.head, self._connection = url, head, connection

    def fill(self, view: memoryview) -> int:
        """Reads the body until the memory is full or the body ends: how many bytes. Raises OSError where the body ends too early."""
        done = 0
        while done < len(view) and (count := self._connection.read_into(view[done:])):
            done += count
        return done

    def skip(self, count: int) -> int:
        """Reads over bytes of the body: how many there were."""
        block, done = memoryview(bytearray(min(count, 2**20))), 0
        while done < count and (found := self.fill(block[: count - done])):
            done += found
        return done


class WebClient:
    """Asks below one address. Safe to use from many threads; connections of a process are its own.

    url      of the server and a path there, to which keys are added
    allowed  addresses (folders) that redirects may lead below; None: any, which `moved` tells of
    moved    targets of redirects that were followed to another server, in order; those told of are taken out by the caller"""

    def __init__(self, url: str, options: WebOptions, allowed: Sequence[str] | None) -> None:
        parts = urlsplit(url)
        self._base = f"{parts.scheme.lower()}://{parts.netloc}{quote(parts.path, _SAFE + '%').rstrip('/')}"
        self.place: Final = without_query(url).rstrip("/")
        self.options: Final = options
        self.allowed: Final = None if allowed is None else tuple(allowed)
        self.moved: list[tuple[str, str]] = []
        self._known: set[tuple[str, str, int]] = {origin_of(self._base)}
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    def __del__(self) -> None:
        for connections in getattr(self, "_idle", {}).values():
            for connection in connections:
                connection.close()

    def address(self, key: str) -> str:
        """The address of a key. Raises StoreError for a key that no web server can be asked for: clients and servers resolve "." and ".."."""
        if any(part in {".", ".."} for part in key.split("/")):
            raise StoreError("a web server cannot be asked for this key", key=key, hint='it has a part "." or ".."')
        return f"{self._base}/{quote(key, _SAFE)}"

    def ask(self, method: str, key: str, headers: Mapping[str, str], take: Callable[[WebAnswer], T]) -> T:
        """Asks for a key, again where no answer came or the server is busy, and hands the answer to `take`, which reads of its body what it needs. An OSError without a key that `take`
        raises is an answer that was lost, but with EPROTO one that makes no sense.

        Raises StoreError with the key."""
        url, options = self.address(key), self.options
        end = time.monotonic() + options.retry_seconds
        attempt = 0
        while True:
            try:
                found = self._follow(method, url, headers, take, key)
            except (OSError, InvalidInputError) as error:
                if isinstance(error, FrazilError) and error.key is not None:  # about the object, and final
                    raise
                failure, again = unanswered(error, key, self.place)
            else:
                if not isinstance(found, _Busy):
                    return found
                failure, again = status_failure(found.status, "could not be read", key, self.place), True
            if not again or attempt >= options.retries or time.monotonic() >= end:
                raise failure
            attempt += 1
            time.sleep(random.uniform(0.5, 1.0) * min(options.first_pause * 2**attempt, options.last_pause))

    def _follow(
        self, method: str, url: str, headers: Mapping[str, str], take: Callable[[WebAnswer], T], key: str
    ) -> T | _Busy:
        until = time.monotonic() + self.options.whole
        for _ in range(_HOPS):
            with self._answered(method, url, headers, until) as answer:
                status = answer.head.status
                if status in _LATER or (status >= 500 and status != _NEVER):
                    return _Busy(status)
                if status not in REDIRECTS:
                    return take(answer)
                target = next_address(url, answer.head.headers.get("location"), self.allowed, key)
            self._tell(url, target)
            url = target
        raise StoreError(
            f"an object of {self.place} could not be read: the server redirects again and again, last to {without_query(url)}",
            key=key,
            hint="check the address, and the server",
        )

    def _tell(self, url: str, target: str) -> None:
        origin = origin_of(target)
        with self._lock:
            if self.allowed is None and origin not in self._known:
                self._known.add(origin)
                self.moved.append((without_query(url), without_query(target)))

    # --- connections ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _answered(self, method: str, url: str, headers: Mapping[str, str], until: float) -> Iterator[WebAnswer]:
        origin = origin_of(url)
        request = self._request(method, url, headers)
        connection = self._kept(origin)
        head: Head | None = None
        if connection is not None:
            try:
                head = connection.ask(request, until, head=method == "HEAD")
            except OSError as error:  # the server closed it meanwhile, as servers may: such a request may be made again
                connection.close()
                if isinstance(error, TimeoutError) or error.errno in {EPROTO, ETIMEDOUT}:
                    raise
        if head is None or connection is None:
            connection = self._connected(origin, until)
            try:
                head = connection.ask(request, until, head=method == "HEAD")
            except BaseException:
                connection.close()
                raise
        try:
            answer = WebAnswer(url, head, connection)
            yield answer
            if not connection.reusable and (head.length or 0) <= _REST:
                with suppress(OSError):
                    answer.skip(_REST)
        finally:
            self._keep(origin, connection)

    def _request(self, method: str, url: str, headers: Mapping[str, str]) -> bytes:
        parts = urlsplit(url)
        path = quote(parts.path or "/", _SAFE + "%") + (f"?{quote(parts.query, _SAFE + '%?')}" if parts.query else "")
        own = {"Host": parts.netloc.rpartition("@")[2], "User-Agent": "frazil", "Accept": "*/*"}
        own |= {"Accept-Encoding": "identity", **headers}
        if origin_of(url) == origin_of(self._base):  # they may hold secrets, which are not for other servers
            own |= dict(self.options.headers)
        if parts.scheme == "http" and (proxy := self._proxy(url)) is not None:
            path = f"http://{own['Host']}{path}"
            own |= _proxy_headers(proxy)
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1", "replace")

    def _kept(self, origin: tuple[str, str, int]) -> Connection | None:
        with self._lock:
            connections = self._idle.get(origin, [])
            while connections:
                connection = connections.pop()
                if time.monotonic() - connection.used < _IDLE_SECONDS:
                    return connection
                connection.close()
        return None

    def _keep(self, origin: tuple[str, str, int], connection: Connection) -> None:
        if connection.reusable:
            connection.used = time.monotonic()
            with self._lock:
                connections = self._idle.setdefault(origin, [])
                if len(connections) < _IDLE:
                    connections.append(connection)
                    return
        connection.close()

    def _connected(self, origin: tuple[str, str, int], until: float) -> Connection:
        scheme, host, port = origin
        if scheme == "http" and not self.options.allow_http and origin != origin_of(self._base):
            raise StoreError("http:// is not allowed by the options", errno=EPROTO)
        proxy = self._proxy(f"{scheme}://{_bracketed(host)}:{port}/")
        at = (host, port) if proxy is None else origin_of(proxy)[1:]
        left = max(min(self.options.connect, until - time.monotonic()), 0.001)
        connected = socket.create_connection(at, left)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if scheme == "https":
                if proxy is not None:
                    self._tunnel(connected, f"{_bracketed(host)}:{port}", proxy, until)
                connected = self._tls().wrap_socket(connected, server_hostname=host)
        except BaseException:
            connected.close()
            raise
        return Connection(connected, self.options.read)

    def _tunnel(self, connected: socket.socket, target: str, proxy: str, until: float) -> None:
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        lines += [f"{name}: {value}" for name, value in _proxy_headers(proxy).items()]
        head = Connection(connected, self.options.read).ask("\r\n".join([*lines, "", ""]).encode(), until, head=True)
        if head.status != 200:
            raise StoreError(f"the proxy answered {head.status}", errno=ECONNRESET)

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                context = ssl.create_default_context()
                if self.options.roots:
                    context.load_verify_locations(cadata=self.options.roots)
                if not self.options.verify:
                    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                self._context = context
            return self._context

    def _proxy(self, url: str) -> str | None:
        """The URL of the proxy by which an address is reached; None: none."""
        from urllib.request import getproxies, proxy_bypass

        scheme, host, _ = origin_of(url)
        if self.options.proxy is not None:
            excludes = {one.strip().lower().lstrip(".") for one in self.options.excludes.split(",")}
            named = any(one and (host == one or host.endswith(f".{one}")) for one in excludes)
            return None if named else self.options.proxy
        proxies = getproxies()
        found = proxies.get(scheme) or proxies.get("all")
        if not found or proxy_bypass(host):
            return None
        return found if "://" in found else f"http://{found}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _proxy_headers(proxy: str) -> dict[str, str]:
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    said = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(said).decode()}"}
