"""A client of one web server: requests by urllib3, redirects that are checked one by one, attempts, time-outs, proxies.

The client library of the object stores is not used here: it follows every redirect without reporting it, and allocates as many bytes as `Content-Length` has
(docs/design/026-web-client.md). The requests for an object, and what a response means for it, are in web_reader.py."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from errno import ECONNRESET, EPROTO, ETIMEDOUT
from typing import Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

from frazil.base.packages import http_client, urllib3
from frazil.base.record import Record
from frazil.base.retry import attempts
from frazil.errors import FrazilError, InvalidInputError, StoreError
from frazil.stores.objects import timed_pools as pools
from frazil.stores.objects.client_errors import no_answer_error, read_failure, status_failure
from frazil.stores.objects.redirects import REDIRECTS, leads_to_folder, next_address, origin_of, without_query
from frazil.stores.objects.web_options import WebOptions

T = TypeVar("T")

_MOST_REDIRECTS: Final = 10
_SAFE: Final = "/!$&'()*+,;=:@-._~"  # of a path (RFC 3986)
_IDLE: Final = 64  # connections that are kept open to one server
_DRAIN_BYTES: Final = 2**16  # bytes of a response that are read so that its connection can be used again
_BLOCK: Final = 2**20  # bytes of a body that are read at once
_RETRY_STATUSES: Final = frozenset({408, 425, 429})
_NOT_IMPLEMENTED: Final = 501
_SIZE: Final = re.compile(r"[0-9]{1,18}")


class _Busy(Record):
    """A status after which the same request may succeed later. wait: seconds that the server asks to wait, 0 if it does not say."""

    status: int
    wait: float


class WebAnswer:
    """A response whose body has not been read. Reading raises StoreError or another OSError if the body ends too early, the connection fails, or the time
    `until` (on the monotonic clock) is over.

    headers    by lower-case names; values of one name are joined by commas
    length     of the body as the server states it, None where it states none
    in_folder  whether a redirect added a slash to the path, as servers do for a folder"""

    __slots__ = ("_response", "_until", "headers", "in_folder", "length", "status")

    def __init__(self, response: urllib3.BaseHTTPResponse, until: float) -> None:
        self.status, self._response, self._until, self.in_folder = response.status, response, until, False
        self.headers: Final = {name.lower(): response.headers[name] for name in response.headers}
        self.length: Final = _stated_length(self.headers)

    def fill(self, view: memoryview) -> int:
        """Reads the body until the memory is full or the body ends. Returns how many bytes."""
        done = 0
        while done < len(view) and (block := self._read(len(view) - done)):
            view[done : done + len(block)] = block
            done += len(block)
        return done

    def skip(self, count: int) -> int:
        """Reads bytes of the body and drops them. Returns how many there were."""
        done = 0
        while done < count and (block := self._read(count - done)):
            done += len(block)
        return done

    def end(self) -> None:
        """Returns the connection to the pool. It is closed if more than a little of the body is left."""
        response = self._response
        try:
            if not response.closed and (response.length_remaining or 0) <= _DRAIN_BYTES:
                self.skip(_DRAIN_BYTES + 1)
        except OSError:
            pass
        finally:
            if not response.closed:
                response.close()
            response.release_conn()

    def _read(self, most: int) -> bytes:
        """The bytes that have arrived, at most `most`; none at the end of the body. One system call, so that the time can be checked after each."""
        if time.monotonic() > self._until:
            raise StoreError("the response took longer than the option timeout allows", errno=ETIMEDOUT)
        with _os_errors():
            return self._response.read1(min(most, _BLOCK), decode_content=False)


class WebConnections:
    """Open connections to servers, by one set of options. Safe to use from many threads."""

    __slots__ = ("__weakref__", "_lock", "_managers", "options")

    def __init__(self, options: WebOptions) -> None:
        self.options: Final = options
        self._managers: dict[tuple[str | None, bool], urllib3.PoolManager] = {}
        self._lock: Final = threading.Lock()

    def to(self, url: str) -> urllib3.PoolManager:
        """The connection pools for an address: by its scheme, and its proxy."""
        proxy, secure = self._proxy(url), url.startswith("https:")
        with self._lock:
            found = self._managers.get((proxy, secure))
            if found is None:
                tls = self._tls() if secure or (proxy or "").startswith("https:") else None
                found = self._managers[proxy, secure] = _create_manager(proxy, tls, self.options.whole)
        return found

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self.options.roots:
            context.load_verify_locations(cadata=self.options.roots)
        if not self.options.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def _proxy(self, url: str) -> str | None:
        """The URL of the proxy for an address; None: no proxy."""
        from urllib.request import getproxies, proxy_bypass

        scheme, host, _ = origin_of(url)
        if self.options.proxy is not None:
            excludes = {excluded.strip().lower().lstrip(".") for excluded in self.options.excludes.split(",")}
            named = any(excluded and (host == excluded or host.endswith(f".{excluded}")) for excluded in excludes)
            return None if named else self.options.proxy
        proxies = getproxies()
        found = proxies.get(scheme) or proxies.get("all")
        if not found or proxy_bypass(host):
            return None
        return found if "://" in found else f"http://{found}"


class WebClient:
    """Makes requests below one address. Safe to use from many threads.

    url      of the server and a path there, to which keys are added
    allowed  addresses (folders) that redirects may lead below; None: any, which `take_moved` returns"""

    def __init__(self, url: str, connections: WebConnections, allowed: Sequence[str] | None) -> None:
        parts = urlsplit(url)
        self._base = f"{parts.scheme.lower()}://{parts.netloc}{quote(parts.path, _SAFE + '%').rstrip('/')}"
        self.url: Final = without_query(url).rstrip("/")
        self.connections: Final = connections
        self.options: Final = connections.options
        self.allowed: Final = None if allowed is None else tuple(allowed)
        self._moved: list[tuple[str, str]] = []
        self._trusted: set[tuple[str, str, int]] = {origin_of(self._base)}
        self._lock = threading.Lock()

    def address(self, key: str) -> str:
        """The address of a key. Raises StoreError for a key that cannot be in a request: clients and servers resolve "." and ".."."""
        if any(part in {".", ".."} for part in key.split("/")):
            raise StoreError("a web server cannot be asked for this key", key=key, hint='it has a part "." or ".."')
        return f"{self._base}/{quote(key, _SAFE)}"

    def request(self, method: str, key: str, headers: Mapping[str, str], take: Callable[[WebAnswer], T]) -> T:
        """Requests a key, again if no response came or the server is busy, and passes the response to `take`, which reads as much of the body as it needs. If
        `take` raises an OSError without a key, the response was lost, except for EPROTO: then it is invalid.

        Raises StoreError with the key."""
        url = self.address(key)
        failed: StoreError | None = None
        wait = 0.0

        def requested_delay() -> float:
            return wait

        for attempt in attempts(self.options.backoff, requested_delay):
            wait = 0.0
            try:
                try:
                    found = self._follow(method, url, headers, take, key)
                except (ConnectionResetError, BrokenPipeError):
                    if attempt:
                        raise
                    # the server had just closed an idle connection
                    found = self._follow(method, url, headers, take, key)
            except (OSError, InvalidInputError) as error:
                if isinstance(error, FrazilError) and error.key is not None:  # about the object, and final
                    raise
                failed, again = no_answer_error(error, key, self.url)
                if not again:
                    break
            else:
                if not isinstance(found, _Busy):
                    return found
                wait = found.wait
                failed = status_failure(found.status, key, self.url, wait)
        assert failed is not None
        try:
            raise failed
        finally:
            del failed  # its traceback has this frame

    def _follow(
        self, method: str, url: str, headers: Mapping[str, str], take: Callable[[WebAnswer], T], key: str
    ) -> T | _Busy:
        until, in_folder = time.monotonic() + self.options.whole, False
        for _ in range(_MOST_REDIRECTS):
            with self._answered(method, url, headers, until) as answer:
                status = answer.status
                if status in _RETRY_STATUSES or (status >= 500 and status != _NOT_IMPLEMENTED):
                    return _Busy(status, _retry_after(answer.headers))
                if status not in REDIRECTS:
                    answer.in_folder = in_folder
                    return take(answer)
                target = next_address(url, answer.headers.get("location"), self.allowed, key)
            in_folder = in_folder or leads_to_folder(url, target)
            self._warn_of_redirect(url, target)
            url = target
        reason = f"the server redirects too many times, last to {without_query(url)}"
        raise read_failure(reason, "check the address, and the server", key, self.url)

    def _warn_of_redirect(self, url: str, target: str) -> None:
        origin = origin_of(target)
        with self._lock:
            if self.allowed is None and origin not in self._trusted:
                self._trusted.add(origin)
                self._moved.append((without_query(url), without_query(target)))

    def take_moved(self) -> Sequence[tuple[str, str]]:
        """(address, target) of each redirect that was followed to another server, once for each server and to one caller."""
        if not self._moved:
            return ()
        with self._lock:
            moved, self._moved = self._moved, []
        return moved

    # --- requests ------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _answered(self, method: str, url: str, headers: Mapping[str, str], until: float) -> Iterator[WebAnswer]:
        own = {"User-Agent": "frazil", "Accept": "*/*", "Accept-Encoding": "identity", **headers}
        if origin_of(url) == origin_of(self._base):  # headers may hold secrets, which must not reach other servers
            own |= dict(self.options.headers)
        elif url.startswith("http:") and not self.options.allow_http:
            raise StoreError("http:// is not allowed by the options", errno=EPROTO)
        timeout = max(until - time.monotonic(), 0.001)
        wait = urllib3.Timeout(connect=min(self.options.connect, timeout), read=min(self.options.read, timeout))
        pools_of_url = self.connections.to(url)
        with _os_errors():
            response = pools_of_url.request(
                method, url, headers=own, timeout=wait,
                redirect=False, retries=False, preload_content=False, decode_content=False,
            )  # fmt: skip
        try:
            answer = WebAnswer(response, until)
        except BaseException:
            response.close()
            raise
        try:
            yield answer
        finally:
            answer.end()


def _create_manager(proxy: str | None, tls: ssl.SSLContext | None, whole: float) -> urllib3.PoolManager:
    """whole: seconds for a response. Raises InvalidInputError for a proxy that has no URL. Nothing of it is shown: where a password has a slash, any part may
    be one of it."""
    if proxy is None:
        manager = urllib3.PoolManager(maxsize=_IDLE, ssl_context=tls)
    else:
        try:
            origin_of(proxy)
            parts = urlsplit(proxy)
            user = None if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers = urllib3.make_headers(proxy_basic_auth=user)
            manager = urllib3.ProxyManager(
                proxy, maxsize=_IDLE, ssl_context=tls, proxy_ssl_context=tls, proxy_headers=headers
            )
        except ValueError:
            raise InvalidInputError(
                "the URL of the proxy cannot be used",
                hint="http://host:port or https://, with the password percent-encoded (proxy_url= in client_options=, or HTTP_PROXY and the like)",
            ) from None
    manager.pool_classes_by_scheme = pools.timed_pools(whole)
    return manager


def _stated_length(headers: Mapping[str, str]) -> int | None:
    """Raises StoreError (EPROTO) for a response with two lengths, a length that is no number, or an encoding that was not requested."""
    coding = headers.get("transfer-encoding")
    stated = {value.strip() for value in headers["content-length"].split(",")} if "content-length" in headers else set()
    if len(stated) > 1 or any(_SIZE.fullmatch(value) is None for value in stated):
        raise StoreError("the response states two lengths, or one that is not a number", errno=EPROTO)
    if coding is not None and (coding.lower() != "chunked" or stated):
        raise StoreError("the response has an encoding that was not requested", errno=EPROTO)
    return int(stated.pop()) if stated else None


def _retry_after(headers: Mapping[str, str]) -> float:
    """The seconds of a Retry-After header: a number, or a time by the clock of the server (RFC 9110, section 10.2.3). 0 without the header, or for something
    else."""
    header = headers.get("retry-after", "").strip()
    if _SIZE.fullmatch(header):
        return float(header)
    then, now = http_time(header), http_time(headers.get("date"))
    return 0.0 if then is None else max(then - (time.time() if now is None else now), 0.0)


def http_time(text: str | None) -> float | None:
    """A time in a header, in seconds since 1970; None if it is none."""
    if text is None:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


@contextmanager
def _os_errors() -> Iterator[None]:
    """Errors of urllib3 as errors of the system or as StoreError: EPROTO for a response that is not HTTP, a time-out, a failure of TLS, or else a lost
    connection."""
    try:
        yield
    except urllib3.exceptions.TimeoutError as error:
        # urllib3 counts a refused connection and an unknown host as time-outs
        if isinstance(error, urllib3.exceptions.NewConnectionError) and isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        raise StoreError("the response took too long", errno=ETIMEDOUT) from error
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        parts = [part for part in (error.__cause__, *error.args) if isinstance(part, Exception)]
        system = next((part for part in parts if isinstance(part, OSError)), None)
        if system is not None:
            raise system from error
        # urllib3 wraps the error that ends a body early; for a chunked body it is an exception of http.client
        cut = urllib3.exceptions.IncompleteRead, http_client.IncompleteRead
        if any(isinstance(part, cut) for part in (error, *parts)):
            raise StoreError("the connection ended before the response did", errno=ECONNRESET) from error
        if isinstance(error, urllib3.exceptions.ProxyError):
            raise StoreError(f"the proxy does not answer: {parts[0] if parts else error}", errno=ECONNRESET) from error
        raise StoreError(f"the response is no HTTP/1.1: {parts[0] if parts else error}", errno=EPROTO) from error
