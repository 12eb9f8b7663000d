"""Repositories with garbage, and helpers to observe it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np

import frazil
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.testing.memory_format import create_memory_repository

FORMATS: list[Callable[[Store], frazil.Repository]] = [
    lambda store: frazil.Repository.create(store, chunk_packing="off"),
    lambda store: create_memory_repository(store, chunk_packing="off"),
]
DAY = timedelta(days=1)
KINDS = ("snapshots/", "attributes/", "manifests/", "chunks/")


def values(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(seed).random((4, 256))


def fill(repo: frazil.Repository, commits: int = 3) -> None:
    """An array `a` of chunk files, written whole in each commit: commit n holds values(n)."""
    with repo.transaction(message="0") as root:
        root.create_array("a", data=values(0), chunks=(1, 256), codecs=[])
    for number in range(1, commits):
        with repo.transaction(message=str(number)) as root:
            root["a"][:] = values(number)


def orphan(repo: frazil.Repository) -> None:
    """Chunk files of a session that was killed."""
    session = repo.writable_session()
    session.root["a"][:2] = values(99)[:2]
    session._transaction.changes.leave_files()


def objects(store: MemoryStore) -> set[str]:
    return {key for key in store.list() if key.startswith(KINDS)}


def records(store: MemoryStore, folder: str) -> list[str]:
    return store.list_prefix(f"gc/{folder}/")


def let_pass(store: MemoryStore, age: timedelta = 2 * DAY) -> None:
    """Makes all files older."""
    times = store._table.times
    for key in times:
        times[key] -= int(age.total_seconds()) * 10**9
