"""Where virtual chunks may be read: prefixes of locations, each with the store of the files below it. Nothing is opened or read here.

virtual_fetch.py fetches and checks the files."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.formats.manifests import FileCheck
from frazil.repository.virtual.locations import (
    VirtualLocation,
    file_location,
    is_remote,
    parse_location,
    without_secrets,
)
from frazil.stores.local.local_store import LocalStore
from frazil.stores.locations import Location, resolve
from frazil.stores.objects import object_store
from frazil.stores.store import Store
from frazil.stores.values import Version
from frazil.stores.wrappers import WrappedStore

Prefixes: TypeAlias = "Iterable[str] | Mapping[str, Location | None]"

_EXAMPLE: Final = 'virtual_prefixes=["file:///data/", "s3://bucket/"]'


class StoreAt:
    """The store at a URL, opened on first use, and shared by all threads. It is pickled as the URL, so credentials are looked up where it is unpickled.
    redirects: addresses that a web server may redirect to"""

    __slots__ = ("_opened", "redirects", "requests_in_flight", "url")

    def __init__(self, url: str, requests_in_flight: int, redirects: Sequence[str] = ()) -> None:
        self.url, self.requests_in_flight, self.redirects = url, requests_in_flight, tuple(redirects)
        self._opened: dict[str, Store] = {}  # by the URL; the first one set is used

    def __reduce__(self) -> tuple[object, ...]:
        return StoreAt, (self.url, self.requests_in_flight, self.redirects)

    def __repr__(self) -> str:
        return f"StoreAt({self.url!r})"

    def get(self) -> Store:
        """The store. Raises InvalidInputError if it cannot be opened."""
        store = self._opened.get(self.url)
        if store is None:
            resolved, _ = resolve(self.url, requests_in_flight=self.requests_in_flight, redirects=self.redirects)
            store = self._opened.setdefault(self.url, resolved)
        return store


class VirtualContainer(Record):
    """Where the files below one prefix are read.

    prefix   as the user wrote it; below: its parts
    keys     prefix of the keys of its files in `source`: "", or text that ends in "/"
    address  of the folder or store that the user mapped the prefix to; "" if it is not mapped"""

    prefix: str
    below: VirtualLocation
    source: Store | StoreAt
    keys: str
    address: str

    @property
    def store(self) -> Store:
        """The store, opened if it is not yet. Raises InvalidInputError, StoreError."""
        return self.source.get() if isinstance(self.source, StoreAt) else self.source

    def key(self, location: VirtualLocation) -> str:
        """The key of a file below the prefix."""
        return self.keys + "/".join(location.parts[len(self.below.parts) :])

    def where(self, key: str) -> str:
        """The address of a file of a mapped prefix; "" if it is not mapped."""
        return f"{self.address}{key}" if self.address else ""

    def file_check(self, key: str, version: Version | None, size: int) -> FileCheck:
        """The state of a file, from the result of a fetch."""
        if isinstance(self.source, LocalStore) and version is not None and len(version) == _VERSION.size:
            return FileCheck(size, _VERSION.unpack(version)[2], "", self.where(key))
        tag = "" if version is None else version.decode() if _is_plain(version) else version.hex()
        return FileCheck(size, -1, tag, self.where(key))

    def expected(self, key: str, check: FileCheck | None) -> Version | None:
        """The version in this store of a file with this check; None if unknown. A tag of digits may stand for bytes or for text, so a file with another version
        has to be looked up."""
        if check is None or not check.tag or check.mapped_to != self.where(key) or isinstance(self.source, LocalStore):
            return None
        if len(check.tag) % 2 == 0 and _DIGITS.issuperset(check.tag):
            version = bytes.fromhex(check.tag)
            if not _is_plain(version):
                return version
        return check.tag.encode()


_VERSION: Final = struct.Struct("<qqq")  # of LocalStore: inode, size, time of change in ns
_DIGITS: Final = frozenset("0123456789abcdef")


def _is_plain(version: Version) -> bool:
    return version.isascii() and version.decode().isprintable()


def make_containers(prefixes: Prefixes, requests_in_flight: int) -> tuple[VirtualContainer, ...]:
    """The prefixes that a user allows, the longest first. Raises InvalidInputError."""
    if isinstance(prefixes, str) or not isinstance(prefixes, Iterable):
        shown = without_secrets(prefixes) if isinstance(prefixes, str) else prefixes
        raise InvalidInputError(
            f"virtual_prefixes must be a list or a mapping of URL prefixes, found {shown!r}", hint=_EXAMPLE
        )
    mapped = prefixes.items() if isinstance(prefixes, Mapping) else [(prefix, None) for prefix in prefixes]
    pairs: list[tuple[str, Location | None]] = list(mapped)
    redirects = _web_folders(pairs)
    shared: dict[str, StoreAt] = {}
    containers: list[VirtualContainer] = []
    for prefix, to in pairs:
        below = _prefix(prefix)
        if isinstance(prefixes, Mapping) and any(container.below == below for container in containers):
            raise InvalidInputError("a prefix is mapped twice, in two spellings", key=prefix)
        if to is None and below.scheme == "file":
            store = LocalStore("/" + "/".join(below.parts), read_only=True)
            containers.append(VirtualContainer(prefix, below, store, "", ""))
        elif to is None or (isinstance(to, str) and is_remote(to)):
            target = below if to is None else parse_location(f"{to}/")
            if not is_remote(target.root):
                raise InvalidInputError(
                    f"there is no store for the scheme {target.scheme!r}",
                    key=prefix,
                    hint=f'map the prefix to where its files are, as in virtual_prefixes={{{prefix!r}: "file:///copy/"}}',
                )
            source = shared.setdefault(target.root, StoreAt(target.root, requests_in_flight, redirects))
            address = _address_below(target.folder_url, below)
            containers.append(VirtualContainer(prefix, below, source, target.key_prefix, address))
        else:
            containers.append(_mapped(prefix, below, to, redirects))
    return tuple(sorted(containers, key=lambda container: -len(container.below.parts)))


def _web_folders(mapped: Iterable[tuple[object, object]]) -> tuple[str, ...]:
    """The URLs of web servers below which files may be read: prefixes, and the URLs that prefixes are mapped to."""
    read = [prefix if to is None else f"{to}/" if isinstance(to, str) else "" for prefix, to in mapped]
    return tuple(url for url in read if isinstance(url, str) and url.lower().startswith(("http://", "https://")))


def _prefix(prefix: object) -> VirtualLocation:
    if isinstance(prefix, str) and prefix.endswith("/"):
        return parse_location(prefix)
    shown = without_secrets(prefix) if isinstance(prefix, str) else prefix
    raise InvalidInputError(f"a prefix of virtual chunks is a URL that ends in a slash, found {shown!r}", hint=_EXAMPLE)


def _mapped(prefix: str, below: VirtualLocation, to: Location, redirects: Sequence[str]) -> VirtualContainer:
    """A prefix whose files are read from a given folder or store."""
    if isinstance(to, str) and without_secrets(to) != to:
        parse_location(to)  # its error contains no secrets
    store, keys = resolve(to)
    if type(store) is LocalStore:
        address = file_location(store.path.rstrip("/") + "/")
        own = below.scheme == "file" and store.path == "/" + "/".join(below.parts)
        return VirtualContainer(prefix, below, LocalStore(store.path, read_only=True), keys, "" if own else address)
    if isinstance(store, object_store.ObjectStore):
        store = store.redirected_below([*redirects, f"{store.url}/"])
    return VirtualContainer(prefix, below, store, keys, _address_below(_address(store), below))


def _address(store: Store) -> str:
    """The URL of the root of a store, or its repr."""
    inner = store
    while isinstance(inner, WrappedStore):
        inner = inner.inner
    if isinstance(inner, object_store.ObjectStore):
        with contextlib.suppress(InvalidInputError):  # the address of a client may not be a URL
            return parse_location(f"{inner.url}/").folder_url
    return f"{store!r} "


def _address_below(address: str, below: VirtualLocation) -> str:
    """The address, or "" if the store is at the prefix itself."""
    return "" if address == below.folder_url else address
