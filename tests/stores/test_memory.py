"""MemoryStore: the suite of all stores, and its specifics: names, pickles, no unneeded copies."""

from __future__ import annotations

import os
import pickle
import signal
import uuid
from collections.abc import Callable
from functools import partial

import pytest
from tests.faults.interrupted_lines import Interrupts

from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import WHOLE
from frazil.testing.store_tests import StoreTests


class TestMemoryStore(StoreTests):
    def make_store(self) -> Store:
        return MemoryStore()


class TestNamedMemoryStore(StoreTests):
    def make_store(self) -> Store:
        return MemoryStore(str(uuid.uuid4()))


def test_memory_stores_of_one_name_share_their_content() -> None:
    name = str(uuid.uuid4())
    MemoryStore(name).set("a", b"1")
    assert MemoryStore(name).get("a") == b"1"
    assert MemoryStore(name + "x").get("a") is None
    assert MemoryStore().get("a") is None


def test_pickle_of_a_named_store_is_its_name() -> None:
    store = MemoryStore(str(uuid.uuid4()))
    store.set("a", bytes(10_000))
    pickled = pickle.dumps(store)
    assert len(pickled) < 200
    store.set("b", b"later")
    assert pickle.loads(pickled).get("b") == b"later"


def test_pickle_of_an_unnamed_store_is_a_copy() -> None:
    store = MemoryStore()
    store.set("a", b"1")
    copy = pickle.loads(pickle.dumps(store))
    version = copy.get_versioned("a")[1]
    store.set("a", b"2")
    assert copy.get("a") == b"1"
    assert copy.put("a", b"3") != version, "the copy goes on counting versions"


def test_stored_bytes_are_handed_out_themselves() -> None:
    store, value = MemoryStore(), b"value"
    store.set("a", value)
    assert store.fetch(["a"], WHOLE).sources.buffers[0] is value
    assert store.get("a") is value


def test_listing_after_changes() -> None:
    store = MemoryStore()
    for key in ("b", "a"):
        store.set(key, b"")
    assert store.list() == ["a", "b"]
    store.set("aa", b"")
    assert store.list() == ["a", "aa", "b"]
    store.set("aa", b"again")
    store.erase("a")
    assert store.list() == ["aa", "b"]


@pytest.mark.parametrize(("change", "arguments"), [(MemoryStore.set, ("b", b"2")), (MemoryStore.erase, ("a",))])
def test_listing_after_an_interrupt(change: Callable[..., object], arguments: tuple[object, ...]) -> None:
    """Anywhere in a change."""
    ended = number = 0
    while not ended:
        store = MemoryStore()
        store.set("a", b"1")
        store.list()
        ended = Interrupts(number, modules={"memory.py"}).run(partial(change, store, *arguments))
        assert store.list() == [key for key in ("a", "b") if store.get(key)], number
        number += 1
    assert number > 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_while_another_thread_writes() -> None:
    store = MemoryStore()
    store.set("a", b"1")
    store.list()
    with store._table.lock:  # like a thread that is writing at that moment
        del store._table.objects["a"]
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # if it hangs, it dies and the test fails
            code = 1
            try:
                store.set("b", b"2")
                code = 0 if store.list() == ["b"] else 1
            finally:
                os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
