"""The options of a web client: obstore's names (client_options=, retry_config=) as values for our own client. Pure, except that it reads the environment's
proxies.

What the options mean for a request is in web_client.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from frazil.base.record import Record
from frazil.base.retry import REQUESTS, Backoff
from frazil.errors import InvalidInputError

_CONNECT, _READ, _WHOLE = 10.0, 30.0, 600.0  # seconds
_UNITS: Final = {
    **dict.fromkeys(("nsec", "ns"), 1e-9),
    **dict.fromkeys(("usec", "us"), 1e-6),
    **dict.fromkeys(("msec", "ms"), 1e-3),
    **dict.fromkeys(("seconds", "second", "sec", "s"), 1.0),
    **dict.fromkeys(("minutes", "minute", "min", "m"), 60.0),
    **dict.fromkeys(("hours", "hour", "hr", "h"), 3600.0),
    **dict.fromkeys(("days", "day", "d"), 86400.0),
}
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]+)\s*")
_FORBIDDEN: Final = re.compile(r"[\r\n\0]")


class WebOptions(Record):
    """connect, read, whole  seconds: to connect, to receive the next bytes, and for a request with its response
    backoff              how a request whose response was lost is repeated
    headers              of every request to the store's own server
    allow_http           whether http:// is allowed
    verify, roots        whether certificates are checked; certificates that are trusted beside the system's, PEM
    proxy, excludes      the URL of a proxy (None: from the environment), and hosts that are reached without it
    """

    connect: float = _CONNECT
    read: float = _READ
    whole: float = _WHOLE
    backoff: Backoff = REQUESTS
    headers: tuple[tuple[str, str], ...] = ()
    allow_http: bool = False
    verify: bool = True
    roots: str = ""
    proxy: str | None = None
    excludes: str = ""


def web_options(client: Mapping[str, object], retry: Mapping[str, object]) -> WebOptions:
    """The options of a client. Raises InvalidInputError for an invalid value; options of HTTP/2 and of pools have no meaning here and are ignored."""
    headers = client.get("default_headers")
    named = {f"{name}": _text(value) for name, value in (headers.items() if isinstance(headers, Mapping) else ())}
    if (agent := client.get("user_agent")) is not None:
        named["User-Agent"] = _text(agent)
    for name, value in named.items():
        if _FORBIDDEN.search(name + value) or ":" in name:
            raise InvalidInputError(f"the header {name!r} cannot be sent", hint="a header has a name and one line")
    return WebOptions(
        connect=_seconds(client, "connect_timeout", _CONNECT),
        read=_seconds(client, "read_timeout", _READ),
        whole=request_time(client),
        backoff=backoff_of(retry),
        headers=tuple(named.items()),
        allow_http=_flag(client.get("allow_http")),
        verify=not _flag(client.get("allow_invalid_certificates")),
        roots="".join(_text(client[name]) for name in ("root_certificate", "proxy_ca_certificate") if name in client),
        proxy=None if client.get("proxy_url") is None else _text(client["proxy_url"]),
        excludes=_text(client.get("proxy_excludes", "")),
    )


def request_time(client: Mapping[str, object]) -> float:
    """Seconds for a request with its response (`timeout` in client_options=). Raises InvalidInputError."""
    return _seconds(client, "timeout", _WHOLE)


def backoff_of(retry: Mapping[str, object]) -> Backoff:
    """The repetition of requests that retry_config= defines. Raises InvalidInputError."""
    retries, pauses = retry.get("max_retries", REQUESTS.attempts - 1), retry.get("backoff")
    if not isinstance(retries, int) or retries < 0:
        raise InvalidInputError(f"max_retries is {retries!r}; it must be a number, 0 or more")
    named = pauses if isinstance(pauses, Mapping) else {}
    return Backoff(
        retries + 1,
        _seconds(named, "init_backoff", REQUESTS.first),
        _seconds(named, "max_backoff", REQUESTS.last),
        _seconds(retry, "retry_timeout", REQUESTS.within),
    )


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else f"{value}"


def _flag(value: object) -> bool:
    return value is True or f"{value}".lower() in {"true", "1", "on", "yes", "y"}


def _seconds(options: Mapping[str, object], name: str, default: float) -> float:
    value = options.get(name)
    if value is None:
        return default
    seconds = value.total_seconds() if isinstance(value, timedelta) else _parsed(value) if isinstance(value, str) else 0
    if seconds <= 0:
        raise InvalidInputError(
            f"{name} is {value!r}; it must be a span of time", hint='a text such as "30s" or "500ms", or a timedelta'
        )
    return seconds


def _parsed(text: str) -> float:
    total, at = 0.0, 0
    text = text.strip()
    while (found := _DURATION.match(text, at)) is not None and found[2] in _UNITS:
        total, at = total + int(found[1]) * _UNITS[found[2]], found.end()
    return total if at == len(text) else 0.0
