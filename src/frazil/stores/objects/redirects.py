"""Where a response of a web server may redirect a request: rules about addresses, and the warning of a redirect.

web_client.py makes the redirected request. The rules for locations of virtual chunks are in repository/virtual/locations.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from frazil.errors import InvalidInputError, RedirectWarning, StoreError
from frazil.metadata.warnings import warn_caller

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = {"http": 80, "https": 443}


def origin_of(url: str) -> tuple[str, str, int]:
    """(scheme, host, port) of an address. Raises InvalidInputError for an address without them."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname:
        raise InvalidInputError("this is not an address of a web server", path=without_query(url))
    return scheme, parts.hostname.lower().rstrip("."), parts.port or _PORTS[scheme]


def without_query(url: str) -> str:
    """An address without its secrets: signatures are often in its query, and passwords before its host. Different for each location: an "@" in its path is part
    of a key."""
    head = url.partition("?")[0].partition("#")[0]
    scheme, mark, rest = head.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def checked_folders(folders: Sequence[str]) -> tuple[str, ...]:
    """Addresses that redirects may lead below. Raises InvalidInputError for an invalid one."""
    if isinstance(folders, str):
        raise InvalidInputError(
            "redirects must be a list of addresses", hint='redirects=["https://files.example.org/data/"]'
        )
    for folder in folders:
        try:
            origin_of(folder)
        except (ValueError, AttributeError):
            raise InvalidInputError(
                "redirects must be addresses of web servers", hint='redirects=["https://files.example.org/data/"]'
            ) from None
    return tuple(folders)


def leads_to_folder(url: str, target: str) -> bool:
    """Whether a redirect of `url` only adds a slash to its path, as web servers do for a folder. Some services have values at such addresses."""
    return unquote(urlsplit(target).path) == unquote(urlsplit(url).path) + "/"


def next_address(url: str, location: str | None, allowed: Sequence[str] | None, key: str) -> str:
    """The address that a redirect of `url` leads to.

    location  the header of the response; allowed: addresses (folders), one of which must be above the target; None: any web server
    Raises StoreError, which names the target, if the redirect must not be followed: it leads outside of `allowed`, from https to http, or to no address."""
    try:
        target = urljoin(url, location or "")
        parts = urlsplit(target)
        scheme, *_ = origin_of(target)
    except ValueError:
        target, scheme, parts = "", "", urlsplit("")
    if not location or not scheme or parts.username is not None:
        raise StoreError(
            "the server redirects to something that is not an address of a web server",
            key=key,
            hint="check the address, and the server",
        )
    shown = without_query(target)
    if scheme == "http" and origin_of(url)[0] == "https":
        raise StoreError(
            f"the server redirects from https to {shown}, which anyone on the network can read and change",
            key=key,
            hint="if you trust that, open it there",
        )
    if allowed is not None and not any(_is_below(parts, urlsplit(folder)) for folder in allowed):
        raise StoreError(
            f"the server redirects to {shown}, which is not allowed",
            key=key,
            hint=f"if you trust it, allow {shown.rpartition('/')[0]}/ too, or refer to the files there",
        )
    return target.partition("#")[0]


def _is_below(address: SplitResult, folder: SplitResult) -> bool:
    if origin_of(address.geturl()) != origin_of(folder.geturl()):
        return False
    below, above = _parts(address.path), [part for part in _parts(folder.path) if part]
    return ".." not in below and "." not in below and below[: len(above)] == above and len(below) > len(above)


def _parts(path: str) -> list[str]:
    """The parts of a path. An encoded slash or backslash may make two servers see two different paths: nothing is below a folder with such a part."""
    parts = [unquote(part) for part in path.removeprefix("/").split("/")]
    return [".." if "/" in part or "\\" in part or "\0" in part else part for part in parts]


def warn_of_redirects(moved: Iterable[tuple[str, str]]) -> None:
    """Warns of servers that sent answers after a redirect. moved: (address, target)"""
    for requested, found in moved:
        warn_caller(
            f"{requested} was redirected: it is read from {found}. If you trust that server, open it there, or give the store redirects=[...]",
            RedirectWarning,
        )
