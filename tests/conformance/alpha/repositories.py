"""A small repository for the tests of statements, and the content of its store. Holds no tests."""

from __future__ import annotations

import frazil
from frazil.stores import LocalStore, MemoryStore
from frazil.testing import CountingStore


def filled(store: MemoryStore | LocalStore | CountingStore, **options: object) -> frazil.Repository:
    """A repository with one commit: `a`, whose 4 chunks of 4,000 bytes are native, and `b`, whose chunk is inline."""
    repo = frazil.Repository.create(store, **options)  # type: ignore[arg-type]
    with repo.transaction(message="first") as root:
        root.create_array("a", shape=(2000, 2), dtype="f4", chunks=(1000, 1), codecs=["bytes"])[...] = 1
        root.create_array("b", shape=(4,), dtype="i4", chunks=(4,), codecs=["bytes"])[...] = 2
    return repo


def contents(store: MemoryStore) -> dict[str, bytes]:
    return {key: store.get(key) or b"" for key in store.list()}
