"""Locations of virtual chunks: URLs taken apart, so that prefixes are compared by their parts and not by their text. Pure; virtual.py knows which are allowed."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from frazil.errors import InvalidInputError
from frazil.record import Record

__all__ = ["VirtualLocation", "file_location", "parse_location"]

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)(.*)", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BROKEN_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_EXAMPLE: Final = 'a location is a URL such as "file:///data/sea.nc"'
# as it is in the path of a file URL; all else is written as %XX
_SAFE: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/!$&'()*+,;=:@"


class VirtualLocation(Record):
    """A URL. `parts` are the names of folders and at last of the file; of a file URL they are decoded, so that two spellings of a path are one."""

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


@lru_cache(2**14)
def parse_location(text: str) -> VirtualLocation:
    """A URL's parts. Empty ones count for nothing, as they did for the library of the alpha.

    Raises InvalidInputError for what is no URL, and for all that might lead elsewhere than it reads: "." and "..", also when they are percent-encoded, encoded
    slashes, control characters, and files of another machine."""
    found = _URL.fullmatch(text)
    if found is None:
        raise _refused(text, "it is no URL")
    if _CONTROL.search(text) is not None:
        raise _refused(text, "it has a NUL or another control character")
    scheme, host, path = found.groups()
    scheme = scheme.lower()
    local = scheme == "file"
    if local and host.lower() == "localhost":
        host = ""
    if local and host:
        raise _refused(
            text, f"it names a file of the machine {host!r}", 'a file of this machine is "file:///data/sea.nc"'
        )
    if not local and not host:
        raise _refused(text, "it names no bucket or host")
    if local and ("?" in path or "#" in path):
        raise _refused(text, "a file URL has no query and no fragment", 'in a name, "?" is written %3F, "#" is %23')
    parts = tuple([_part(text, part, local) for part in path.split("/") if part])
    return VirtualLocation(scheme, host, parts, path.endswith("/") or not parts)


def _part(text: str, part: str, local: bool) -> str:
    if "%" not in part:
        name = part
    elif local and _BROKEN_PERCENT.search(part) is not None:
        raise _refused(text, "it has a % that begins no encoded byte", 'in a name, "%" is written %25')
    else:
        try:
            name = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise _refused(text, "its percent-encoded bytes are no UTF-8") from None
    if name in {".", ".."}:
        raise _refused(text, f"it has a part {name!r}")
    if "\0" in name or (local and "/" in name):
        raise _refused(text, "it has an encoded slash or NUL")
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise _refused(text, "it has no UTF-8 form")
    return name if local else part


def _refused(text: str, reason: str, hint: str = _EXAMPLE) -> InvalidInputError:
    return InvalidInputError(f"not the location of a virtual chunk: {reason}", key=ascii(text)[1:-1], hint=hint)


def file_location(path: str) -> str:
    """The URL of an absolute path on this machine. Raises InvalidInputError for other paths and such as have no UTF-8 form."""
    if not path.startswith("/"):
        raise InvalidInputError("the location of a file is made of its absolute path", path=path)
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise InvalidInputError("a path without a UTF-8 form has no location", path=ascii(path)) from None
    safe = _SAFE.encode()
    return "file://" + "".join([chr(byte) if byte in safe else f"%{byte:02X}" for byte in encoded])
