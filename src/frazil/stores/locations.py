"""From a location and a path in it, as users give them, to a store and a prefix of keys."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.stores import memory, wrappers
from frazil.stores.keys.names import check_key
from frazil.stores.local.local_store import LocalStore
from frazil.stores.objects import clients, object_store, storage_options
from frazil.stores.operations import foreign_stores
from frazil.stores.store import Store
from frazil.stores.zip import zip_store

if TYPE_CHECKING:
    from typing import Protocol

    from frazil.stores.objects import connections

    class Node(Protocol):
        """An Array or a Group."""

        @property
        def store_path(self) -> StorePath: ...


Location: TypeAlias = (
    "str | os.PathLike[str] | Store | StorePath | Node | connections.ObjectClient | foreign_stores.AnyStore"
)

_ALLOWED: Final = (
    'a folder or a zip archive ("sea.zarr", "sea.zarr.zip", a Path, "file:///data/sea.zarr"), "s3://bucket/prefix", "gs://", "az://", "https://", "memory://name", a Store, '
    "an object of obstore, a store of zarr-python, fsspec's (file system, path), or a dict of keys to bytes"
)


class StorePath(Record):
    """A path in a store, as a location, like zarr-python's class of this name. `path / "below"` is a path below it."""

    store: Store
    path: str = ""

    def __truediv__(self, other: str) -> StorePath:
        return StorePath(self.store, f"{self.path}/{other}".strip("/"))

    def __str__(self) -> str:
        return f"{self.store}/{self.path}".rstrip("/")


def resolve(
    location: Location,
    path: str = "",
    *,
    requests_in_flight: int = 64,
    bytes_in_flight: int = 2**26,
    redirects: Sequence[str] | None = None,
    threads: int = 0,
) -> tuple[Store, str]:
    """The store at a location, and the prefix ("" or ending in "/") of the node at `path` in it.

    location  the path of a folder or a zip archive, a file:// URL, memory://name, memory://name/path, the URL of an object store or a web server, or of a zip
              archive there, a Store, an object of obstore, a store of zarr-python, a StorePath of it or of Frazil, an Array or a Group, fsspec's FSMap or
              (file system, path), or anything that stores.adapt accepts: a StoreWithPartialAccess, a dict. Text is a URL only with "://" after a scheme of two
              letters or more, so that "C://x" and "a:b" are folders. An archive is the first part of a path that ends in ".zip" and is no folder; in a URL, the
              first part that ends in ".zip". The rest is a path in the archive
    requests_in_flight, bytes_in_flight, redirects  for an object store that is created here; threads: for a LocalStore
    Raises InvalidInputError, which names the kind of location, for other kinds. Nothing is opened or created."""
    below = key_prefix(path)
    options: dict[str, Any] = {
        "requests_in_flight": requests_in_flight,
        "bytes_in_flight": bytes_in_flight,
        "redirects": redirects,
    }
    if not isinstance(location, str):
        if isinstance(location, Store):
            return location, below
        if isinstance(location, StorePath):
            return location.store, key_prefix(location.path) + below
    if not isinstance(location, (str, os.PathLike)):
        if isinstance(node := getattr(location, "store_path", None), StorePath):  # an Array or a Group
            store = wrappers.read_only(node.store) if getattr(location, "read_only", False) else node.store
            return store, key_prefix(node.path) + below
        if clients.is_client(location):
            return object_store.ObjectStore(location, **options), below
        foreign = foreign_stores.store_over(
            location, requests_in_flight=requests_in_flight, bytes_in_flight=bytes_in_flight
        )
        if foreign is not None:
            return foreign[0], foreign[1] + below
    text = location_text(location)  # type: ignore[arg-type] # no object of obstore is left here
    scheme, rest = _split(text) if isinstance(location, str) else ("", text)
    if scheme in {"", "file"}:
        store_path = text if scheme == "" else _file_path(text, rest)
        archive = split_archive(store_path, is_url=False)
        if archive is not None:
            return zip_store.ZipStore(archive[0]), key_prefix(archive[1]) + below
        return LocalStore(store_path, threads=threads), below
    if scheme == "memory":
        name, _, inside = rest.partition("/")
        if name == "":
            raise InvalidInputError(
                "the store in memory has no name", path=text, hint='"memory://name", or MemoryStore()'
            )
        return memory.MemoryStore(name), key_prefix(inside) + below
    if scheme in clients.CLASSES:
        archive = split_archive(text, is_url=True)
        if archive is None:
            return object_store.ObjectStore(text, **options), below
        return zip_store.ZipStore(archive[0], **options), key_prefix(archive[1]) + below
    raise InvalidInputError(
        f"there is no store for the scheme {scheme!r}", path=clients.shown_url(text), hint=f"allowed are {_ALLOWED}"
    )


def given_location(location: Location | None, store: Location | None, options: Mapping[str, object] | None) -> Location:
    """The location that is given by one of two names. With storage_options of zarr-python it is an ObjectStore. Raises InvalidInputError where none or both are
    given, and for options that do not apply to the location."""
    if (location is None) == (store is None):
        problem = "no location is given" if location is None else "the location is given twice, also as store="
        raise InvalidInputError(problem, hint=f"allowed are {_ALLOWED}")
    where = location if location is not None else store
    assert where is not None
    if options is None:
        return where
    if not isinstance(options, Mapping):
        raise InvalidInputError(
            f"storage_options is a {type(options).__name__}; it must be a mapping", hint='{"anon": True}'
        )
    if not options:
        return where
    chosen: dict[str, Any] = storage_options.object_options(where, options)
    archive = split_archive(str(where), is_url=True)
    if archive is None:
        return object_store.ObjectStore(where, **chosen)  # type: ignore[arg-type] # a URL, and options that ObjectStore checks
    if archive[1]:
        raise InvalidInputError(
            "with storage_options a location must end at the zip archive",
            path=archive[0],
            hint=f"path={archive[1]!r} names the node",
        )
    return zip_store.ZipStore(archive[0], **chosen)


def split_archive(text: str, *, is_url: bool) -> tuple[str, str] | None:
    """The zip archive in a path or URL, and the rest, the path of a node. None without an archive. Folders whose name ends in ".zip" are folders."""
    lower = text.lower()
    at = lower.find(".zip", text.find("://") + 3 if is_url else 0)
    while at >= 0:
        end = at + 4
        bucket = is_url and text.find("/", text.find("://") + 3) in {-1, end}  # a host or a bucket, not an object
        if lower[end : end + 1] in {"", "/"} and not bucket and (is_url or not os.path.isdir(text[:end])):
            return text[:end], text[end:].strip("/")
        at = lower.find(".zip", end)
    return None


def key_prefix(path: str) -> str:
    """The prefix of keys below a path: "/foo/bar", "foo/bar" and "foo/bar/" are "foo/bar/", "" and "/" are "". Raises InvalidInputError."""
    if not isinstance(path, str):
        raise InvalidInputError(f"a path in a store must be text, not {type(path).__name__}", hint='"group/array"')
    if path in {"", "/"}:
        return ""
    inner = path.removeprefix("/").removesuffix("/")
    check_key(inner, "path in a store")
    return inner + "/"


def location_text(location: str | os.PathLike[str]) -> str:
    """A location as text. Raises InvalidInputError for a value that cannot be a location."""
    try:
        text = os.fspath(location)
    except TypeError:
        raise InvalidInputError(
            f"a location cannot be of type {type(location).__name__}",
            hint=f"allowed are {_ALLOWED}; frazil.stores.adapt makes a Store of objects with operations of one",
        ) from None
    if not isinstance(text, str):
        raise InvalidInputError("a location must be text, not bytes", hint="os.fsdecode(location)")
    if text == "" or "\0" in text:
        raise InvalidInputError(
            "a location must not be empty or contain NUL", path=text, hint=f"allowed are {_ALLOWED}"
        )
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidInputError(
            "a location has a character that file names cannot have", path=ascii(text)[1:-1]
        ) from None
    return text


def _split(text: str) -> tuple[str, str]:
    """(scheme, rest) of a URL; ("", text) of other text."""
    scheme, mark, rest = text.partition("://")
    if mark == "":
        return "", text
    plain = scheme.replace("+", "").replace("-", "").replace(".", "")
    if len(scheme) < 2 or not (plain.isascii() and plain.isalnum() and scheme[0].isalpha()):
        return "", text
    return scheme.lower(), rest


def _file_path(text: str, rest: str) -> str:
    from urllib.parse import unquote

    host, slash, path = rest.partition("/")
    if slash == "" or host.lower() not in {"", "localhost"}:
        raise InvalidInputError(
            "a file URL must name a folder on this machine", path=text, hint='"file:///data/sea.zarr"'
        )
    path = unquote(path)
    if "\0" in path:
        raise InvalidInputError("a location must not contain NUL", path=text)
    return "/" + path
