"""The place of a zip archive: a file, a key of a store, or a part of a URL; which part of a location is the archive, and which a path in it. Nothing is
opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from frazil.base.late import LateModule
from frazil.errors import InvalidInputError
from frazil.stores.keys.names import check_key
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store
from frazil.stores.zip.archive_reader import Object

if TYPE_CHECKING:
    from frazil.stores.objects import object_store
else:
    object_store = LateModule("frazil.stores.objects.object_store")


def object_of(path: str | os.PathLike[str], store: Store | None, options: Mapping[str, object]) -> tuple[str, Object]:
    """The name of the archive, and its object. Raises InvalidInputError."""
    named = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if not named or not isinstance(named, str) or "\0" in named or named.endswith("/"):
        raise InvalidInputError(
            f"not the path of a zip archive: {path!r}", hint='give a str or a pathlib.Path: "x.zarr.zip"'
        )
    if store is not None:
        check_key(named)
        return named, Object(store, named)
    if isinstance(path, str) and "://" in path:
        above, _, key = path.rpartition("/")
        chosen: dict[str, Any] = dict(options)
        return path, Object(object_store.ObjectStore(above, **chosen), key)
    if options:
        raise InvalidInputError(f"the option {next(iter(options))!r} is only for a URL", path=named)
    absolute = os.path.abspath(named)
    folder, key = os.path.split(os.path.realpath(absolute))
    return absolute, Object(LocalStore(folder), key)
