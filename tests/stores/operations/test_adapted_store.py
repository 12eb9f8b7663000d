"""AdaptedStore: the suite of all stores over subsets of the ten operations, over mappings and derived classes; and its specifics."""

from __future__ import annotations

import gc
import os
import pickle
from collections import UserDict
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork
from tests.no_backoff import no_pauses
from tests.stores.draft_operations import Table, subset, subsets

import frazil
from frazil.errors import InvalidInputError, ReadOnlyError, StoreError
from frazil.stores import ABSENT, AdaptedStore, Changed, MemoryStore, Store, StoreWithPartialAccess, adapt, read_only
from frazil.stores.transfer.content import read_values
from frazil.stores.values import ABSENT_KEY, FOUND, STALE, WHOLE
from frazil.testing import StoreTests
from frazil.testing.checks import refusal, run_threads
from frazil.testing.store_base import columns


@pytest.mark.rule("D65")
@pytest.mark.parametrize("names", subsets(10), ids="+".join)
class TestSubsets(StoreTests):
    @pytest.fixture(autouse=True)
    def choose(self, names: tuple[str, ...]) -> None:
        self.names = names

    def make_store(self) -> Store:
        return adapt(subset(*self.names))


@pytest.mark.parametrize("names", subsets(5), ids="+".join)
class TestSoleWriters(StoreTests):
    @pytest.fixture(autouse=True)
    def choose(self, names: tuple[str, ...]) -> None:
        self.names = names

    def make_store(self) -> Store:
        store = adapt(subset(*self.names), sole_writer=True)
        assert store.capabilities.conditional
        return store


class TestDict(StoreTests):
    def make_store(self) -> Store:
        return adapt({})


class TestUserDict(StoreTests):
    def make_store(self) -> Store:
        return adapt(UserDict[str, bytes]())


class TestEverything(StoreTests):
    def make_store(self) -> Store:
        return adapt(Table())


class PartialAlone(StoreWithPartialAccess):
    """Implements the operations with ranges and sets of keys, and minimal listing."""

    def __init__(self) -> None:
        self.table = Table()

    def get_partial_values(self, key_ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> list[bytes | None]:
        return self.table.get_partial_values(key_ranges)

    def set_partial_values(self, key_start_values: Sequence[tuple[str, int, bytes]]) -> None:
        self.table.set_partial_values(key_start_values)

    def erase_values(self, keys: Iterable[str]) -> None:
        self.table.erase_values(keys)

    def list_dir(self, prefix: str) -> tuple[Iterable[str], Iterable[str]]:
        return self.table.list_dir(prefix)


class WholeAlone(StoreWithPartialAccess):
    """Implements the operations with whole values."""

    def __init__(self) -> None:
        self.table = Table()

    def get(self, key: str) -> bytes:
        return self.table.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.table.set(key, value)

    def erase(self, key: str) -> None:
        self.table.erase(key)

    def list(self) -> Iterable[str]:
        return self.table.list()


@pytest.mark.parametrize("derived", [PartialAlone, WholeAlone])
class TestDerived(StoreTests):
    @pytest.fixture(autouse=True)
    def choose(self, derived: type[PartialAlone | WholeAlone]) -> None:
        self.derived = derived

    def make_store(self) -> Store:
        return self.derived().as_store()


# --- arrays in them ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", subsets(20), ids="+".join)
def test_arrays_and_groups(names: tuple[str, ...]) -> None:
    store = adapt(subset(*names))
    group = frazil.create_group(store)
    values = np.arange(60 * 40, dtype="<i4").reshape(60, 40)
    for name, shards in (("plain", None), ("sharded", (20, 20))):
        array = group.create_array(name, shape=(60, 40), dtype="i4", chunks=(5, 10), shards=shards, fill_value=-1)
        array[...] = values
        array[7:31, 3:17] = 5
        array.attrs["units"] = "m"
        again = frazil.open_array(store, path=name, mode="r+")
        expected = values.copy()
        expected[7:31, 3:17] = 5
        assert np.array_equal(again[...], expected)
        assert np.array_equal(again[11:40:3, ::-7], expected[11:40:3, ::-7])
        assert again.attrs["units"] == "m"
        if store.capabilities.erasable:
            again[:20, :20] = -1
            assert (again[:20, :20] == -1).all()
            assert again[20, 20] == values[20, 20]
    if store.capabilities.listable:
        assert list(group) == ["plain", "sharded"]
        assert group["sharded"].nchunks_initialized == (40 if store.capabilities.erasable else 48)  # type: ignore[union-attr]


@pytest.mark.parametrize("make", [dict, UserDict, PartialAlone, WholeAlone], ids=lambda make: make.__name__)
def test_locations(make: Callable[[], Any]) -> None:
    place = make()
    frazil.create_array(place, data=np.arange(10), path="a/b")
    array = frazil.open_array(place, path="a/b")
    assert array[3] == 3
    assert isinstance(array.store, AdaptedStore)
    assert sorted(frazil.open_group(place)) == ["a"]


def test_errors_for_unknown_locations_suggest_adapt() -> None:
    error = refusal(InvalidInputError, lambda: frazil.open_array(Table()))  # type: ignore[arg-type]
    assert "frazil.stores.adapt" in (error.hint or "")


def test_threads_write_parts_of_shards_through_adapters_of_their_own() -> None:
    table: dict[str, bytes] = {}
    frazil.create_array(table, shape=(16, 100), dtype="u1", chunks=(1, 10), shards=(16, 100))

    def write(row: int) -> None:
        frazil.open_array(table, mode="r+")[row] = row + 1

    run_threads([lambda row=row: write(row) for row in range(16)])  # type: ignore[misc]
    assert (frazil.open_array(table)[...] == np.arange(1, 17)[:, None]).all()


# --- capabilities of an object -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D61")
@pytest.mark.parametrize(
    ("names", "can"),
    [
        (("get",), {"readable"}),
        (("get_partial_values",), {"readable"}),
        (("set",), {"writable"}),
        (("set_partial_values",), set()),  # which cannot shorten a value, nor know whether it is longer
        (("set_partial_values", "erase"), {"writable", "erasable"}),
        (("get", "set_partial_values"), {"readable", "writable", "guarded"}),
        (("get", "erase"), {"readable"}),
        (("list",), {"listable"}),
        (("list_prefix",), {"listable"}),
        (("list_dir",), {"listable"}),
        (("erase_prefix", "list"), {"listable"}),
        (("get", "set", "erase", "list"), {"readable", "writable", "erasable", "listable", "guarded"}),
        (("get", "set", "erase", "version", "set_if"), {"readable", "writable", "erasable", "guarded"}),
        (("get", "set", "version", "set_if"), {"readable", "writable", "conditional"}),
        (("get", "set", "erase", "version", "set_if", "erase_if"), {"readable", "writable", "erasable", "conditional"}),
    ],
)
def test_capabilities_follow_from_the_operations(names: tuple[str, ...], can: set[str]) -> None:
    found = adapt(subset(*names)).capabilities
    flags = ("readable", "writable", "listable", "erasable", "conditional", "guarded")
    assert {flag for flag in flags if getattr(found, flag)} == can
    assert found.case_sensitive
    assert found.direct == ("get_partial_values" not in names)


def test_a_mapping_that_cannot_be_changed_is_read_only() -> None:
    store = adapt(MappingProxyType({"a/b": b"1", "c": b"2"}))
    assert (store.get("a/b"), store.list_dir("")) == (b"1", (["c"], ["a/"]))
    for call in (lambda: store.set("c", b""), lambda: store.erase("c"), lambda: store.erase_prefix("")):
        refusal(ReadOnlyError, call)
    assert read_only(store) is store


@pytest.mark.rule("D61")
def test_operations_without_fallback_are_refused() -> None:
    table = Table()
    only_set = adapt(SimpleNamespace(set=table.set))
    only_set.set("a", b"1")
    calls: list[Callable[[], object]] = [
        lambda: only_set.get("a"),
        lambda: only_set.exists("a"),
        lambda: only_set.get_partial_values([("a", (0, 1))]),
        lambda: only_set.fetch(["a"], WHOLE),
        lambda: only_set.update("a", lambda _: b""),
        lambda: only_set.set_partial_values([("a", 0, b"2")]),
        lambda: only_set.erase("a"),
        lambda: only_set.erase_prefix("a/"),
        only_set.list,
        only_set.is_empty,
    ]
    for call in calls:
        refusal(StoreError, call)
    assert table.values == {"a": b"1"}


@pytest.mark.parametrize("wrong", [object(), 5, None, "text", SimpleNamespace(get=None), StoreWithPartialAccess()])
def test_objects_without_operations(wrong: Any) -> None:
    assert "get_partial_values" in (refusal(InvalidInputError, lambda: adapt(wrong)).hint or "")


def test_asynchronous_operations_are_refused() -> None:
    class Later:
        async def get(self, key: str) -> bytes:
            return b""

        async def list(self) -> Any:
            yield ""

    for inner in (Later(), SimpleNamespace(get=Table().get, list=Later().list)):
        assert "asynchronous" in refusal(InvalidInputError, lambda inner=inner: adapt(inner)).message  # type: ignore[misc]


def test_a_store_is_its_own_adapter() -> None:
    store = MemoryStore()
    assert adapt(store) is store


def test_names() -> None:
    assert repr(adapt({"zarr.json": b"much" * 1000})) == "AdaptedStore(dict)"
    assert repr(adapt(UserDict(), sole_writer=True)) == "AdaptedStore(UserDict, sole_writer=True)"


# --- writers elsewhere -------------------------------------------------------------------------------------------------------------------


def test_values_replaced_elsewhere_are_stale() -> None:
    for names in (("get_partial_values", "size"), ("get_partial_values",)):
        table = Table()
        table.set("a", b"0123456789")
        store = adapt(SimpleNamespace(**{name: getattr(table, name) for name in names}))
        held = store.fetch(["a", "b"], columns((0, 8, 2)))
        spans = columns((0, 0, 4), (1, 0, 1))
        again = store.fetch(["a", "b"], spans, continue_from=held)
        assert list(again.status) == [FOUND, ABSENT_KEY]
        assert read_values(again, ["a", "b"], spans) == [b"0123", None]
        assert held.version_may_repeat == [True, False], "nobody may remember what nobody can tell to be the same"
        table.set("a", b"9876543210")
        assert list(store.fetch(["a", "b"], spans, continue_from=held).status) == [STALE, ABSENT_KEY]
        table.erase("a")
        assert list(store.fetch(["a", "b"], spans, continue_from=held).status) == [STALE, ABSENT_KEY]


def test_versions_of_the_object() -> None:
    table = Table()
    names = ("get", "get_partial_values", "size", "set", "erase", "version")
    store = adapt(SimpleNamespace(**{name: getattr(table, name) for name in names}))
    store.set("a", b"one")
    assert store.get_versioned("a") == (b"one", b"v1")
    fetched = store.fetch(["a"], WHOLE)
    assert fetched.version_may_repeat is None
    table.set("a", b"two")
    assert list(store.fetch(["a"], WHOLE, expect=[b"v1"]).status) == [STALE]
    assert list(store.fetch(["a"], WHOLE, expect=[b"v2"]).status) == [FOUND]
    assert store.put_many(["a"], _one(b"x"), [b"v1"]) == [Changed(b"v2")]
    assert store.put_many(["a"], _one(b"x"), [b"v2"]) == [b"v3"]
    assert store.erase_many(["a", "b"], [b"v2", ABSENT]) == [Changed(b"v3"), None]
    for wrong in ("text", b"", 5):
        bad = adapt(SimpleNamespace(get=lambda key: b"1", version=lambda key, wrong=wrong: wrong))
        refusal(StoreError, lambda bad=bad: bad.get_versioned("a"))  # type: ignore[misc]


@pytest.mark.parametrize(
    "names", [("get", "version"), ("get_partial_values", "version"), ("get", "get_partial_values", "size", "version")]
)
def test_a_version_that_is_not_wanted_is_not_asked_for(names: tuple[str, ...]) -> None:
    table = Table()
    table.set("a", b"one")
    requested: list[str] = []
    operations = {name: getattr(table, name) for name in names}
    operations["version"] = lambda key: requested.append(key) or table.version(key)
    store = adapt(SimpleNamespace(**operations))
    assert store.get("a") == b"one"
    assert store.get_many(["a", "b"]) == [b"one", None]
    assert store.get_partial_values([("a", (1, None))]) == [b"ne"]
    assert requested == []
    assert store.get_versioned("a") == (b"one", b"v1")
    assert requested == ["a"]


@no_pauses()
def test_a_value_without_a_version() -> None:
    store = adapt(SimpleNamespace(get=lambda key: b"1", version=lambda key: None))
    assert refusal(StoreError, lambda: store.get_versioned("a")).key == "a"


@no_pauses()
def test_a_value_that_changes_while_its_size_is_asked_for() -> None:
    table = Table()
    table.set("a", b"0123")

    def size(key: str) -> int:
        found = table.size(key)
        if found < 10:
            table.set("a", b"0123456789")
        return found

    store = adapt(SimpleNamespace(get_partial_values=table.get_partial_values, size=size))
    assert store.get_partial_values([("a", (-2, None))]) == [b"89"]
    liar = adapt(SimpleNamespace(get_partial_values=table.get_partial_values, size=lambda key: 99))
    assert "change faster" in refusal(StoreError, lambda: liar.get_partial_values([("a", (-2, None))])).message


def test_values_are_kept_apart_from_the_objects_buffers() -> None:
    value = bytearray(b"before")
    store = adapt({"a": value})
    fetched = store.fetch(["a"], WHOLE)
    value[:] = b"after!"
    assert read_values(fetched, ["a"], WHOLE) == [b"before"]
    assert store.get("a") == b"after!"
    array = adapt({"a": np.arange(3, dtype="<u2")})
    assert array.get("a") == b"\0\0\1\0\2\0"


def test_held_answers_of_others_are_refused() -> None:
    store = adapt({"a": b"1"})
    other = MemoryStore()
    other.set("a", b"1")
    refusal(InvalidInputError, lambda: store.fetch(["a"], WHOLE, continue_from=other.fetch(["a"], WHOLE)))
    refusal(InvalidInputError, lambda: store.fetch(["b"], WHOLE, continue_from=store.fetch(["a"], WHOLE)))


# --- processes -----------------------------------------------------------------------------------------------------------------------


def test_pickles_keep_what_they_promise() -> None:
    store = adapt({"a": b"1"}, sole_writer=True)
    version = store.put("a", b"2")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.get_versioned("a") == (b"2", version)
    assert repr(copy) == repr(store)
    assert copy.capabilities == store.capabilities
    copy.set("a", b"3")
    assert store.get("a") == b"2", "a dict is copied"


def test_a_fork_does_not_keep_a_lock() -> None:
    table = Table()
    forked: list[int] = []

    def set_and_fork(key: str, value: bytes) -> None:
        table.set(key, value)
        if not forked:
            forked.append(fork(lambda: store.set("a", b"2")))  # while the parent holds the key's lock

    store = adapt(SimpleNamespace(get=table.get, set=set_and_fork))
    store.set("a", b"1")
    assert os.waitpid(forked[0], 0)[1] == 0


def test_objects_are_let_go() -> None:
    table = Table()
    store = adapt(table)
    store.set("a", b"1")
    referrers = len(gc.get_referrers(table))
    del store
    gc.collect()
    assert len(gc.get_referrers(table)) < referrers


def _one(value: bytes) -> Any:
    from frazil.stores.values import pieces_of

    return pieces_of([value])
