"""FaultyStore: it passes as a store, and fails according to its plan."""

from __future__ import annotations

import pickle
from itertools import count

import pytest

from frazil.errors import InvalidInputError, StoreError
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import WHOLE, pieces_of
from frazil.testing import Fault, FaultPlan, FaultyStore, StoreTests


class TestFaultyStoreWithoutFaults(StoreTests):
    def make_store(self) -> Store:
        return FaultyStore(MemoryStore())


def filled(*faults: Fault) -> FaultyStore:
    inner = MemoryStore()
    inner.set("a", b"0123456789")
    inner.set("b", b"xyz")
    return FaultyStore(inner, FaultPlan(faults))


def test_the_named_call_fails_and_no_other() -> None:
    store = filled(Fault("fetch", 2))
    assert store.get("a") == b"0123456789"
    with pytest.raises(StoreError) as caught:
        store.get("b")
    assert caught.value.key == "b"
    assert store.get("b") == b"xyz"
    assert store.calls["fetch"] == 3


def test_a_body_cut_short() -> None:
    store = filled(Fault("fetch", 1, "cut"), Fault("fetch", 2, "cut"))
    fetched = store.fetch(["a"], WHOLE)
    assert bytes(memoryview(fetched.sources.buffers[0])) == b"01234"  # type: ignore[arg-type]
    assert fetched.rows.tolist() == [[-1, 0, 10]], "the row still says what there should be"
    with pytest.raises(StoreError, match="5 bytes of 10"):
        store.get("a")
    assert store.get("a") == b"0123456789"


def test_a_put_that_fails_changes_nothing() -> None:
    store = filled(Fault("put_many", 1))
    with pytest.raises(StoreError):
        store.set("a", b"new")
    assert store.get("a") == b"0123456789"


def test_a_put_whose_answer_is_lost_has_landed() -> None:
    store = filled(Fault("put_many", 1, "lose"), Fault("erase_many", 1, "lose"))
    with pytest.raises(StoreError):
        store.set("a", b"new")
    assert store.get("a") == b"new"
    with pytest.raises(StoreError):
        store.erase("a")
    assert store.get("a") is None


def test_faults_of_creating_are_those_of_putting() -> None:
    store = filled(Fault("put_many", 1), Fault("put_many", 2, "cut"), Fault("put_many", 3, "lose"))
    for there in (None, None, b"new"):
        with pytest.raises(StoreError) as caught:
            store.create("c", b"new")
        assert caught.value.key == "c"
        assert store.inner.get("c") == there
    assert store.create("c", b"again") is False
    assert store.calls["put_many"] == 4


def test_a_cut_batch_is_done_in_part() -> None:
    store = filled(Fault("put_many", 1, "cut"), Fault("erase_many", 1, "cut"))
    with pytest.raises(StoreError) as caught:
        store.put_many(["a", "b", "c"], pieces_of([b"1", b"2", b"3"]), [None] * 3)
    assert caught.value.key == "b"
    assert [store.get(key) for key in "abc"] == [b"1", b"xyz", None]
    with pytest.raises(StoreError):
        store.erase_values(["a", "b"])
    assert [store.get(key) for key in "ab"] == [None, b"xyz"]


def test_listings_fail() -> None:
    store = filled(Fault("list", 1), Fault("list", 2))
    for call in (store.list, lambda: store.list_dir("")):
        with pytest.raises(StoreError):
            call()
    assert store.list() == ["a", "b"]


def test_faults_are_determined_by_the_seed() -> None:
    plan = FaultPlan(seed=5, rate=0.3)
    fate = [plan.fault("put_many", call) for call in range(1, 200)]
    assert fate == [FaultPlan(seed=5, rate=0.3).fault("put_many", call) for call in range(1, 200)]
    assert fate != [FaultPlan(seed=6, rate=0.3).fault("put_many", call) for call in range(1, 200)]
    assert 20 < sum(kind is not None for kind in fate) < 120
    assert {*fate} == {None, "fail", "cut", "lose"}
    store = FaultyStore(MemoryStore(), FaultPlan(seed=1, rate=1.0))
    with pytest.raises(StoreError):
        store.set("a", b"1")


def test_work_that_is_tried_again_gets_through() -> None:
    store = filled()
    store.plan = FaultPlan(seed=11, rate=0.4)
    for attempt in count():
        try:
            store.update("n", lambda old: b"%d" % max(int(old or b"0"), 7))
            break
        except StoreError:
            assert attempt < 100
    store.plan = FaultPlan()
    assert store.get("n") == b"7"


@pytest.mark.parametrize(
    "fault", [("fetch", 1, "lose"), ("list", 1, "cut"), ("put", 1, "fail"), ("fetch", 1, "explode")]
)
def test_unknown_faults(fault: tuple[str, int, str]) -> None:
    with pytest.raises(InvalidInputError):
        FaultPlan([Fault(*fault)])  # type: ignore[arg-type]


def test_pickle_keeps_the_plan() -> None:
    copy = pickle.loads(pickle.dumps(filled(Fault("fetch", 1))))
    with pytest.raises(StoreError):
        copy.get("a")
