"""The host names by which clients may address a server: pure.

The name of another web page can be made to resolve to this machine (DNS rebinding). Requests of that page name its own host, and are refused therefore."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from frazil.base.record import Record
from frazil.errors import InvalidInputError

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/@\s]+)(?::([0-9]{1,5}))?")
_ALL: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 # compared, not listened at
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PORT: Final = 80


class Hosts(Record):
    """names: (name, port) of this server, in small letters; port None: any port."""

    names: frozenset[tuple[str, int | None]]

    def has(self, host: str, local: str, port: int) -> bool:
        """Whether `host`, as in the header Host, is this server. local, port: the address of this machine that the connection was made to. This address is
        always allowed, and at a loopback address also localhost, 127.0.0.1 and [::1]."""
        found = _split(host)
        if found is None:
            return False
        name, requested_port = found
        if (name, None) in self.names or (name, requested_port or _PORT) in self.names:
            return True
        if (requested_port or _PORT) != port:
            return False
        if _address(name) == _address(local) is not None:
            return True
        own = _address(local)
        return own is not None and ip_address(own).is_loopback and name in _LOOPBACK


def hosts_of(host: str, port: int, more: tuple[str, ...]) -> Hosts:
    """host, port: where the server listens; more: further names, each with a port or for any port. Raises InvalidInputError."""
    names: set[tuple[str, int | None]] = set() if host in _ALL else {(host.lower().rstrip("."), port)}
    for name in more:
        found = _split(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidInputError(
                f"{name!r} is not a host name", hint='"data.example.org" or "data.example.org:8000"'
            )
        names.add(found)
    return Hosts(frozenset(names))


def _split(host: str) -> tuple[str, int | None] | None:
    """(name, port) of a host; None for an invalid one."""
    found = _HOST.fullmatch(host.strip(" \t").lower())
    if found is None:
        return None
    return found[1].strip("[]").rstrip("."), None if found[2] is None else int(found[2])


def _address(name: str) -> str | None:
    """An address in its canonical spelling; None for a name."""
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
