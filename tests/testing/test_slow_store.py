"""SlowStore: it passes as a store, reports how many rounds its calls took, and distinguishes overlapping calls from others."""

from __future__ import annotations

import pickle
import threading

import pytest

from frazil.errors import InvalidInputError, StoreError
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import NO_SPANS
from frazil.testing import SlowStore, StoreCall, StoreTests


class TestSlowStore(StoreTests):
    def make_store(self) -> Store:
        return SlowStore(MemoryStore(), 0.0)


def test_a_call_takes_as_many_rounds_as_its_requests_need(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    store = SlowStore(MemoryStore(), 0.5, in_flight=3)
    store.set("a", b"0123456789")
    store.get_partial_values([("a", (i, 1)) for i in range(7)])
    store.sizes(["a", "b", "c"])
    store.create("b", b"1")
    store.list()
    store.list_dir("")
    store.erase_values(["a", "b", "c", "d"])
    store.fetch([], store.fetch(["a"], NO_SPANS).rows)
    assert store.calls == [
        StoreCall("put", 1, 1, 0),
        StoreCall("fetch", 7, 3, 0),
        StoreCall("fetch", 3, 1, 0),
        StoreCall("put", 1, 1, 0),
        StoreCall("list", 1, 1, 0),
        StoreCall("list", 1, 1, 0),
        StoreCall("erase", 4, 2, 0),
        StoreCall("fetch", 1, 1, 0),
        StoreCall("fetch", 0, 0, 0),
    ]
    assert slept == [call.rounds * 0.5 for call in store.calls]
    assert (store.rounds, store.most_at_once) == (11, 1)
    store.clear()
    assert (store.rounds, store.most_at_once) == (0, 0)


def test_calls_that_do_not_overlap_are_reported() -> None:
    store = SlowStore(MemoryStore(), 0.0)
    store.set("a", b"1")
    store.meet(2, skip=1)
    assert store.get("a") == b"1", "the one that is skipped"
    other = threading.Thread(target=store.get, args=("a",))
    other.start()
    assert store.get("a") == b"1"
    other.join()
    assert store.most_at_once == 2
    assert store.get("a") == b"1", "only so many are held"
    store.meet(2, "put", timeout=0.01)
    assert store.get("a") == b"1", "another operation"
    with pytest.raises(StoreError, match="one after the other"):
        store.set("a", b"2")


def test_slow_stores_pickle_and_check_their_arguments() -> None:
    store = pickle.loads(pickle.dumps(SlowStore(MemoryStore(), 0.25, in_flight=5)))
    assert (store.seconds, store.in_flight, store.calls) == (0.25, 5, [])
    for seconds, in_flight in ((-1.0, 1), (float("nan"), 1), (float("inf"), 1), (0.0, 0)):
        with pytest.raises(InvalidInputError):
            SlowStore(MemoryStore(), seconds, in_flight)
    with pytest.raises(InvalidInputError, match="get"):
        store.meet(2, "get")
