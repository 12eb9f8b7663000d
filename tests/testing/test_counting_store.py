"""CountingStore: it passes as a store, and counts the requests that a remote store would get."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np
import pytest
from tests.few_files import few_files

import frazil
from frazil.stores.local.local_store import LocalStore
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store
from frazil.testing import CountingStore, Request, StoreTests
from frazil.testing.store_base import columns


class TestCountingStore(StoreTests):
    def make_store(self) -> Store:
        return CountingStore(MemoryStore())


class TestCountingStoreOverFiles(StoreTests):
    @pytest.fixture(autouse=True)
    def _folders(self, tmp_path: Path) -> None:
        self.folders = (tmp_path / str(i) for i in count())

    def make_store(self) -> Store:
        return CountingStore(LocalStore(next(self.folders)))


def test_each_operation_is_counted() -> None:
    store = CountingStore(MemoryStore())
    store.set("a/b", b"0123456789")
    store.get("a/b")
    store.get_partial_values([("a/b", (-3, None)), ("a/b", (0, 2)), ("none", (0, None))])
    store.exists("a/b")
    store.list_dir("a/")
    store.list()
    store.erase("a/b")
    store.create("a/c", b"01")
    store.create("a/c", b"012")
    assert store.requests == [
        Request("put", "a/b", 0, 10, 10),
        Request("fetch", "a/b", 0, -1, 10),
        Request("fetch", "a/b", -3, -1, 3),
        Request("fetch", "a/b", 0, 2, 2),
        Request("fetch", "none", 0, -1, 0),
        Request("look up", "a/b"),
        Request("list", "a/"),
        Request("list", ""),
        Request("erase", "a/b"),
        Request("put", "a/c", 0, 2, 2),
        Request("put", "a/c", 0, 3, 3),
    ]
    assert (store.bytes_read, store.bytes_written) == (15, 15)
    assert (store.count(), store.count("fetch"), store.count("fetch", "a/b"), store.count(key="none")) == (11, 4, 3, 1)
    store.clear()
    assert store.count() == 0


def test_opening_is_one_request() -> None:
    store = CountingStore(MemoryStore())
    store.set("zarr.json", b"{}")
    store.clear()
    assert store.get_versioned("zarr.json") is not None
    assert store.count() == 1


def test_an_update_is_a_fetch_and_a_put() -> None:
    store = CountingStore(MemoryStore())
    store.update("a", lambda _: b"1")
    assert [done.operation for done in store.requests] == ["fetch", "put"]


def test_names_with_and_without_spans() -> None:
    store = CountingStore(MemoryStore())
    store.fetch(["a", "b", "c"], columns((1, 0, 5), (1, 5, 5)))
    assert [(done.operation, done.key) for done in store.requests] == [
        ("fetch", "b"),
        ("fetch", "b"),
        ("look up", "a"),
        ("look up", "c"),
    ]


def test_a_prefix_is_erased_key_by_key() -> None:
    store = CountingStore(MemoryStore())
    for key in ("a/b", "a/c", "d"):
        store.set(key, b"")
    store.clear()
    store.erase_prefix("a/")
    assert [(done.operation, done.key) for done in store.requests] == [
        ("list", "a/"),
        ("erase", "a/b"),
        ("erase", "a/c"),
    ]
    assert store.inner.list() == ["d"]


def test_more_objects_than_may_be_open(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path, shape=(700,), dtype="u2", chunks=(1,))
    array[...] = np.arange(700)
    with few_files(350):
        assert (frazil.open_array(CountingStore(LocalStore(tmp_path)))[...] == np.arange(700)).all()
