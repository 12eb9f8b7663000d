"""Locations of virtual chunks: parsed URLs, so that prefixes are compared by their parts and not by their text. Pure; virtual_fetch.py knows which are
allowed."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from frazil.base.record import Record
from frazil.errors import InvalidInputError

_REMOTE: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "http", "https"})
_WEB: Final = {"http": ":80", "https": ":443"}  # and their default ports
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)(.*)", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BROKEN_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_EXAMPLE: Final = 'a location is a URL such as "file:///data/sea.nc"'
# unchanged in the path of a file URL; all else is written as %XX
_SAFE: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/!$&'()*+,;=:@"


# allowed hosts: nothing that some program reads as another host, a user or a password
_WEB_HOST: Final = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_BUCKET: Final = re.compile(r"[^\\?#@:%\s]+")
_SECRETS: Final = re.compile(r"(?<=://).*@", re.DOTALL)
_QUERY: Final = re.compile(r"\?.*", re.DOTALL)


class VirtualLocation(Record):
    """A URL. parts: the names of folders and of the file. In URLs of files and web servers they are decoded, so two spellings of a path are equal; keys of
    buckets are not decoded."""

    scheme: str
    host: str
    parts: tuple[str, ...]
    folder: bool  # it ends in a slash

    def is_below(self, folder: VirtualLocation) -> bool:
        """Whether this names a file below a folder."""
        count = len(folder.parts)
        return (
            self.scheme == folder.scheme
            and self.host == folder.host
            and self.parts[:count] == folder.parts
            and len(self.parts) > count
            and not self.folder
        )

    @property
    def root(self) -> str:
        """The URL of the bucket or the web server."""
        return f"{self.scheme}://{self.host}"

    @property
    def key_prefix(self) -> str:
        """The prefix, in the store at the root, of the keys below this location."""
        return "".join([f"{part}/" for part in self.parts])

    @property
    def folder_url(self) -> str:
        """The canonical URL of this as a folder."""
        parts = [_encoded(part) if self.scheme in _DECODED else part for part in self.parts]
        return "/".join([self.root, *parts, ""])


@lru_cache(2**14)
def parse_location(text: str) -> VirtualLocation:
    """The parts of a URL; empty ones are dropped, as in the library of the alpha.

    Raises InvalidInputError for text that is not a URL, for URLs that may be misread ("..", encoded slashes, control characters, files of another machine), and
    for a user, a password or a query of a web server, as anyone may read the locations of a repository. No message contains these."""
    found = _URL.fullmatch(text)
    if found is None:
        raise _refused(text, "it is not a URL")
    if _CONTROL.search(text) is not None:
        raise _refused(text, "it has a NUL or another control character")
    scheme, host, path = found.groups()
    scheme = scheme.lower()
    local = scheme == "file"
    if local and host.lower() == "localhost":
        host = ""
    if local and host:
        raise _refused(
            text, "it has the name of a machine before its path", 'a file of this machine is "file:///data/sea.nc"'
        )
    if not local:
        host = _host(text, scheme, host)
    if scheme in _DECODED and ("?" in path or "#" in path):
        label = "a file URL" if local else "the URL of a virtual chunk"
        raise _refused(text, f"{label} has no query and no fragment", 'in a name, "?" is written %3F, "#" is %23')
    parts = tuple([_part(text, part, scheme in _DECODED) for part in path.split("/") if part])
    return VirtualLocation(scheme, host, parts, path.endswith("/") or not parts)


_DECODED: Final = frozenset({"file", *_WEB})


def _host(text: str, scheme: str, host: str) -> str:
    """The canonical form of a host. Raises InvalidInputError."""
    if not host:
        raise _refused(text, "it names no bucket or host")
    pattern = _WEB_HOST if scheme in _WEB else _BUCKET
    if pattern.fullmatch(host) is None:
        raise _refused(
            text,
            "the part before its path is not a bucket or host",
            'users and passwords belong to the store that a prefix is mapped to: virtual_prefixes={"s3://bucket/": store}',
        )
    return host.lower().removesuffix(_WEB[scheme]) if scheme in _WEB else host


def _part(text: str, part: str, decoded: bool) -> str:
    if "%" not in part:
        name = part
    elif decoded and _BROKEN_PERCENT.search(part) is not None:
        raise _refused(text, "it has a % that begins no encoded byte", 'in a name, "%" is written %25')
    else:
        try:
            name = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise _refused(text, "its percent-encoded bytes are no UTF-8") from None
    if name in {".", ".."}:
        raise _refused(text, f"it has a part {name!r}")
    if "\0" in name or (decoded and "/" in name):
        raise _refused(text, "it has an encoded slash or NUL")
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise _refused(text, "it has no UTF-8 form")
    return name if decoded else part


def _refused(text: str, reason: str, hint: str = _EXAMPLE) -> InvalidInputError:
    return InvalidInputError(
        f"not the location of a virtual chunk: {reason}", key=ascii(without_secrets(text))[1:-1], hint=hint
    )


def without_secrets(text: str) -> str:
    """A URL for messages: without user, password and query."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return text
    authority = rest.partition("/")[0]
    if "@" in authority or ":" in authority:
        text = _SECRETS.sub("***@", text)
    return _QUERY.sub("?***", text) if scheme.lower() in _WEB else text


def is_remote(text: str) -> bool:
    """Whether a text is a URL of a remote object, even if it is otherwise invalid."""
    scheme, mark, _ = text.partition("://")
    return mark != "" and scheme.lower() in _REMOTE


def file_location(path: str) -> str:
    """The URL of an absolute path on this machine. Raises InvalidInputError for other paths, and for paths that have no UTF-8 form."""
    if not path.startswith("/"):
        raise InvalidInputError("the location of a file needs its absolute path", path=path)
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise InvalidInputError("a path without a UTF-8 form has no location", path=ascii(path)) from None
    return "file://" + _encoded(encoded)


def _encoded(path: str | bytes) -> str:
    safe = _SAFE.encode()
    data = path.encode() if isinstance(path, str) else path
    return "".join([chr(byte) if byte in safe else f"%{byte:02X}" for byte in data])
