"""When files of a local disk were changed, for code that must know which of two objects is older. Versions of stores only show whether something changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import numpy as np

from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store
from frazil.stores.values import Columns
from frazil.stores.wrappers import WrappedStore

_ALWAYS: Final = 2**63 - 1  # for files that cannot be looked at: newer than anything


def changed_at(store: Store, keys: Sequence[str]) -> Columns | None:
    """When each object could last have become another one, int64 ns since 1970; None if a store has no times.

    Includes its contents, its inode, and each folder above it up to the root, since a folder that is moved there brings old files."""
    local = _local(store)
    if local is None:
        return None
    above = {"": _change(local.path)}

    def folder(key: str) -> int:
        end = key.rfind("/")
        prefix = key[:end] if end > 0 else ""
        if prefix not in above:
            above[prefix] = max(folder(prefix), _change(f"{local.path}/{prefix}"))
        return above[prefix]

    return np.array([max(folder(key), _change(f"{local.path}/{key}")) for key in keys], np.int64)


def written_at(store: Store, keys: Sequence[str]) -> Columns | None:
    """When the contents of each object were last written, as `changed_at`; long ago for a missing object."""
    local = _local(store)
    if local is None:
        return None
    found = [_stat(f"{local.path}/{key}") for key in keys]
    return np.array([0 if stat is None else stat.st_mtime_ns for stat in found], np.int64)


def _local(store: Store) -> LocalStore | None:
    while isinstance(store, WrappedStore):
        store = store.inner
    return store if isinstance(store, LocalStore) else None


def _change(path: str) -> int:
    stat = _stat(path)
    return _ALWAYS if stat is None else max(stat.st_mtime_ns, stat.st_ctime_ns)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
