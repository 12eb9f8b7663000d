"""CachingStore: the suite of all stores; what it caches, requests and drops."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.few_files import few_files

import frazil
from frazil.errors import InvalidInputError, StoreError
from frazil.stores import (
    ABSENT,
    CachingStore,
    Capabilities,
    Changed,
    Fetched,
    LocalStore,
    MemoryStore,
    Store,
    WrappedStore,
)
from frazil.stores.caches.byte_cache import ByteCache
from frazil.stores.caches.memory_ranges import Addition, MemoryRanges, Part
from frazil.stores.transfer.content import as_buffers, read_values
from frazil.stores.values import ABSENT_KEY, FOUND, STALE, Columns
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore, StoreTests
from frazil.testing.checks import refusal, run_threads
from frazil.testing.store_base import columns

VALUES = {"a": bytes(range(100)), "b": b"another value"}


class TestOverMemory(StoreTests):
    def make_store(self) -> Store:
        return CachingStore(MemoryStore(), 2**20)


class TestTrusting(StoreTests):
    def make_store(self) -> Store:
        return CachingStore(CountingStore(MemoryStore()), 2**20)


class TestValidating(StoreTests):
    def make_store(self) -> Store:
        return CachingStore(CountingStore(MemoryStore()), 2**20, validate=True)


class TestSmall(StoreTests):
    def make_store(self) -> Store:
        return CachingStore(MemoryStore(), 12, validate=False)


class TestOverFiles(StoreTests):
    @pytest.fixture(autouse=True)
    def _folders(self, tmp_path: Path) -> None:
        self.folders = (tmp_path / str(i) for i in count())

    def make_store(self) -> Store:
        return CachingStore(LocalStore(next(self.folders)), 2**20)


class TestTrustingFiles(TestOverFiles):
    def make_store(self) -> Store:
        return CachingStore(LocalStore(next(self.folders)), 2**20, validate=False)


# --- answers from the cache --------------------------------------------------------------------------------------------------------------


def cached(limit: int = 1000, **more: bool | None) -> tuple[CountingStore, CachingStore]:
    inner = CountingStore(MemoryStore())
    for key, value in VALUES.items():
        inner.set(key, value)
    inner.clear()
    return inner, CachingStore(inner, limit, **more)


def test_a_value_is_fetched_once() -> None:
    inner, store = cached()
    assert [store.get("a") for _ in range(3)] == [VALUES["a"]] * 3
    assert [done.operation for done in inner.requests] == ["fetch"]
    assert (store.hits, store.misses, store.nbytes_kept) == (2, 1, 101)
    assert store.get_partial_values([("a", (10, 5)), ("a", (-5, None)), ("a", (90, 100)), ("a", (200, 1))]) == [
        VALUES["a"][10:15],
        VALUES["a"][-5:],
        VALUES["a"][90:],
        b"",
    ]
    assert (inner.count(), store.hits) == (1, 6)


def test_ranges_are_kept_and_the_rest_is_fetched() -> None:
    inner, store = cached()
    store.get_partial_values([("a", (10, 30)), ("b", (-5, None))])
    inner.clear()
    requested = [("a", (15, 20)), ("b", (-3, 2)), ("a", (35, 10)), ("b", (0, 5)), ("none", (0, None))]
    assert store.get_partial_values(requested) == [VALUES["a"][15:35], b"lu", VALUES["a"][35:45], b"anoth", None]
    assert [(done.operation, done.key, done.start, done.length) for done in inner.requests] == [
        ("fetch", "a", 35, 10),
        ("fetch", "b", 0, 5),
        ("fetch", "none", 0, -1),
    ]
    store.get("a")
    assert store.nbytes_kept == 100 + len("a") + 10 + len("b"), "parts of a part are not kept twice"


def test_missing_keys_are_not_cached() -> None:
    inner, store = cached()
    assert store.get("new") is None
    inner.set("new", b"now")
    assert store.get("new") == b"now"


def test_look_ups_are_never_answered_from_memory() -> None:
    inner, store = cached(validate=False)
    store.get("a")
    inner.erase("a")
    assert not store.exists("a")
    assert store.get("a") == VALUES["a"], "as nobody said that it has changed"
    store.clear()
    assert store.get("a") is None


def test_the_least_recently_used_go_first() -> None:
    inner, store = cached(250)
    for key in ("a", "b", "c"):
        inner.set(key, key.encode() * 100)
    for key in ("a", "b", "a", "c"):
        store.get(key)
    assert store.nbytes_kept == 202
    hits = store.hits
    store.get("a")
    store.get("c")
    assert store.hits == hits + 2
    store.get("b")
    assert store.hits == hits + 2
    inner.set("big", bytes(300))
    assert store.get("big") == bytes(300)
    assert store.nbytes_kept == 202, "what is larger than the limit pushes nothing out"


def test_without_room_nothing_is_kept() -> None:
    inner, store = cached(0)
    assert [store.get("a"), store.get("a")] == [VALUES["a"]] * 2
    assert (inner.count("fetch"), store.nbytes_kept, store.hits) == (2, 0, 0)


@pytest.mark.parametrize("limit", [-1, "1", 1.5, None])
def test_bad_limits(limit: object) -> None:
    refusal(InvalidInputError, lambda: CachingStore(MemoryStore(), limit))  # type: ignore[arg-type]


# --- staleness ---------------------------------------------------------------------------------------------------------------------------


def test_validating_asks_for_the_version() -> None:
    inner, store = cached(validate=True)
    store.get_partial_values([("a", (0, 5)), ("a", (50, 5))])
    inner.clear()
    assert store.get_partial_values([("a", (0, 5)), ("a", (50, 5))]) == [VALUES["a"][:5], VALUES["a"][50:55]]
    assert [done.operation for done in inner.requests] == ["look up"]
    inner.set("a", b"something new")
    inner.clear()
    assert store.get_partial_values([("a", (0, 4)), ("a", (10, 5))]) == [b"some", b"new"]
    assert [done.operation for done in inner.requests] == ["fetch", "fetch"]
    inner.set("a", b"newer")
    inner.clear()
    assert store.get("a") == b"newer"
    inner.erase("a")
    assert store.get("a") is None


def test_files_and_memory_are_validated_by_default() -> None:
    for validate, seen in ((None, b"new"), (True, b"new"), (False, b"old")):
        inner = MemoryStore()
        store = CachingStore(inner, 1000, validate=validate)
        inner.set("a", b"old")
        store.get("a")
        inner.set("a", b"new")
        assert store.get("a") == seen


def test_parts_of_two_versions_are_not_mixed() -> None:
    inner, store = cached(validate=False)
    store.get_partial_values([("a", (0, 5))])
    inner.set("a", b"something new")
    assert store.get_partial_values([("a", (0, 4)), ("a", (10, 5))]) == [b"some", b"new"], "the second is not kept"


def test_an_expected_version_is_fetched_again() -> None:
    inner, store = cached(validate=False)
    store.get("a")
    inner.set("a", b"something new")
    version = inner.get_versioned("a")[1]
    fetched = store.fetch(["a", "a", "b"], columns((0, 0, 4), (1, 0, 4)), expect=[version, None, b"other"])
    assert list(fetched.status) == [FOUND, FOUND, STALE]
    assert store.get("a") == b"something new"
    version = inner.put("a", b"and another")
    assert list(store.fetch(["a"], columns((0, 0, 4)), expect=[version]).status) == [FOUND]
    inner.erase("a")
    assert list(store.fetch(["a"], columns((0, 0, 4)), expect=[ABSENT]).status) == [ABSENT_KEY]


def test_cached_answers_can_be_continued() -> None:
    inner, store = cached(validate=False)
    store.get_partial_values([("a", (0, 5))])
    fetched = store.fetch(["a"], columns((0, 1, 3)))
    assert inner.count() == 1
    again = store.fetch(["a"], columns((0, 50, 3), (0, 2, 2)), continue_from=fetched)
    assert read_values(again, ["a"], columns((0, 50, 3), (0, 2, 2))) == [VALUES["a"][50:53], VALUES["a"][2:4]]
    inner.set("a", b"something new")
    again = store.fetch(["a"], columns((0, 80, 3)), continue_from=again)
    assert list(again.status) == [STALE], "nobody has that version any more"
    refusal(
        InvalidInputError, lambda: store.fetch(["a"], columns((0, 0, 1)), continue_from=inner.fetch(["a"], columns()))
    )


def test_a_store_without_versions() -> None:
    class Bare(MemoryStore):
        __slots__ = ()

        @property
        def capabilities(self) -> Capabilities:
            return super().capabilities._replace(conditional=False)

        def fetch(self, *arguments: Any, **options: Any) -> Fetched:
            fetched = super().fetch(*arguments, **options)
            return fetched._replace(versions=[None] * len(fetched.versions))

    for validate, hits in ((True, 0), (False, 2)):
        inner = Bare()
        store = CachingStore(inner, 1000, validate=validate)
        store.set("a", b"value")
        assert [store.get("a") for _ in range(3)] == [b"value"] * 3
        assert store.hits == hits


# --- writing -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.set("a", b"new"),
        lambda store: store.put("a", b"new", store.get_versioned("a")[1]),
        lambda store: store.append("a", b"new"),
        lambda store: store.update("a", lambda old: old + b"new"),
        lambda store: store.set_partial_values([("a", 1, b"new")]),
        lambda store: store.erase("a"),
        lambda store: store.erase_prefix(""),
        lambda store: store.copy_in(["a"], store, ["b"], shares=True),
    ],
)
def test_writes_drop_changed_values_from_the_cache(write: Callable[[Store], object]) -> None:
    inner, store = cached(validate=False)
    store.get("a")
    write(store)
    assert store.get("a") == inner.get("a") != VALUES["a"]


def test_a_write_that_lost_drops_what_is_stale() -> None:
    inner, store = cached(validate=False)
    version = store.get_versioned("a")[1]
    now = inner.put("a", b"of another writer")
    assert store.put("a", b"mine", version) == Changed(now)
    assert store.get("a") == b"of another writer"
    assert store.update("a", lambda old: old + b" and mine") is not None
    assert inner.get("a") == b"of another writer and mine"


def test_a_failed_write_drops_too() -> None:
    inner, store = cached(validate=False)
    faulty = FaultyStore(inner, FaultPlan([Fault("put_many", 1, "lose")]))
    store = CachingStore(faulty, 1000, validate=False)
    store.get("a")
    refusal(StoreError, lambda: store.set("a", b"written, and the answer lost"))
    assert store.get("a") == b"written, and the answer lost"


def test_a_creation_drops_the_existing_value_from_the_cache() -> None:
    inner, store = cached(validate=False)
    store.get("a")
    inner.set("a", b"of another writer")
    assert store.create("a", b"mine") is False
    assert store.get("a") == b"of another writer"
    assert store.create("new", b"value") is True
    assert store.get("new") == inner.get("new") == b"value"


class Interrupted(WrappedStore):
    """Something happens just before a fetch answers."""

    __slots__ = ("happens",)

    def fetch(self, *arguments: Any, **options: Any) -> Fetched:
        fetched = self.inner.fetch(*arguments, **options)
        self.happens()
        return fetched


def test_a_fetch_does_not_restore_values_dropped_meanwhile() -> None:
    inner = cached()[0]
    between = Interrupted(inner)
    store = CachingStore(between, 1000, validate=False)
    for write in (lambda: store.set("a", b"new"), lambda: store.erase_prefix("")):
        between.happens = lambda: None
        store.set("a", b"old")
        between.happens = write
        store.get("a")
        between.happens = lambda: None
        assert store.get("a") == inner.get("a")


def test_young_files_are_not_kept_where_versions_count(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for validate, hits in ((None, 0), (False, 1)):
        store = CachingStore(LocalStore(tmp_path), 1000, validate=validate)
        path.write_bytes(b"value")
        in_an_hour = time.time() + 3600  # and so recent in any case, however slow the test is
        os.utime(path, (in_an_hour, in_an_hour))
        assert [store.get("a"), store.get("a")] == [b"value"] * 2
        assert store.hits == hits
    os.utime(path, (1, 1.5))
    store = CachingStore(LocalStore(tmp_path), 1000)
    assert [store.get("a"), store.get("a")] == [b"value"] * 2
    assert store.hits == 1


# --- threads, forks, pickles -------------------------------------------------------------------------------------------------------------


def test_threads_read_and_write() -> None:
    inner = CountingStore(MemoryStore())
    store = CachingStore(inner, 3000, validate=False)
    keys = [f"k/{i}" for i in range(40)]
    for key in keys:
        store.set(key, bytes(100))

    def read() -> None:
        for n in range(300):
            key = keys[n * 7 % 40]
            found = store.get_partial_values([(key, (0, 50)), (key, (50, 50)), (key, (0, None))])
            assert {value[0] for value in found if value} == set(found[2] or b""), "of one version"

    def write(n: int) -> None:
        for i in range(100):
            store.set(keys[(i * 3 + n) % 40], bytes([n]) * 100)

    run_threads([read] * 4 + [lambda n=n: write(n) for n in range(4)])  # type: ignore[misc]
    assert all(store.get(key) == inner.get(key) for key in keys)
    assert store.nbytes_kept <= 3000
    store.clear()
    assert store.nbytes_kept == 0


def test_pickles_begin_empty() -> None:
    store = CachingStore(MemoryStore(), 10_000, validate=False)
    store.set("a", bytes(5000))
    store.get("a")
    other = pickle.loads(pickle.dumps(store))
    assert (other.nbytes, other.validate, other.nbytes_kept, other.hits) == (10_000, False, 0, 0)
    assert other.get("a") == bytes(5000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_while_another_thread_holds_the_lock() -> None:
    store = CachingStore(MemoryStore(), 1000, validate=False)
    store.set("a", b"1")
    store.get("a")
    with store._values.memory.lock:
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # if it hangs, it dies and the test fails
            code = 1
            try:
                code = 0 if store.get("a") == b"1" and store.nbytes_kept == 2 else 1
            finally:
                os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_more_objects_than_may_be_open(tmp_path: Path) -> None:
    inner = LocalStore(tmp_path)
    names = [f"{i}" for i in range(700)]
    for name in names:
        inner.set(name, name.encode())
    with few_files(350):
        store = CachingStore(inner, 10_000)
        spans = np.array([(699 - i, 0, -1) for i in range(700)], np.int64)
        for _ in range(2):
            fetched = store.fetch(names, spans, single_read=True)
            assert read_values(fetched, names, spans) == [f"{699 - i}".encode() for i in range(700)]


# --- under an array ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [None, (8, 8)])
@pytest.mark.parametrize("validate", [True, False, None])
def test_an_array_through_a_cache(shards: tuple[int, int] | None, validate: bool | None) -> None:
    inner = CountingStore(MemoryStore())
    frazil.create_array(inner, shape=(16, 16), dtype="i4", chunks=(4, 4), shards=shards)[...] = 1
    stores: list[CachingStore] = []

    def cache(store: Store) -> Store:
        stores.append(CachingStore(store, 2**20, validate=validate))
        return stores[-1]

    array = frazil.open_array(inner, "r+", storage_transformers=[cache])
    other = frazil.open_array(inner, "r+")
    assert (array[...] == 1).all()
    inner.clear()
    assert (array[3:11, 5:7] == 1).all()
    assert inner.bytes_read == 0
    assert stores[0].hits
    other[0:3, 0:3] = 2
    array[2:5, 2:5] = 3
    expected = np.ones((16, 16), "i4")
    expected[0:3, 0:3] = 2
    expected[2:5, 2:5] = 3
    assert (other[...] == expected).all(), "no write is lost, however stale the cache is"
    assert (array[...] == expected).all(), "and what lost a race is fetched anew"


# --- the cache, against a model ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 60), st.integers(1, 2)), max_size=40),
    st.integers(0, 120),
)
def test_kept_values_are_those_of_the_object(steps: list[tuple[str, int, int, int]], limit: int) -> None:
    content = {
        (key, version): np.random.default_rng((ord(key), version)).bytes(60) for key in "abc" for version in (1, 2)
    }
    kept = MemoryRanges(ByteCache(limit, entry=0), limit)
    for key, start, length, number in steps:
        version = bytes([number])
        part = kept.find([key], [(0, start, length)], [version])[1][0]
        value = content[key, number][start : start + length]
        if part is None:
            kept.add(kept.begin(), [Addition(key, version, 60, Part(start, value))])
        else:
            assert part.value[start - part.start :][:length] == value
        if len(value) + 1 <= limit and part is None:
            (known,), (part,) = kept.find([key], [(0, start, length)])
            assert None not in (known, part)
        assert kept.memory.nbytes <= limit
        for name in kept._objects.names():
            starts = kept._objects.get(name).starts  # type: ignore[union-attr]
            assert starts == sorted(set(starts))
    kept.drop_below("")
    assert (kept.memory.nbytes, len(kept.memory)) == (0, 0)


class Handless(WrappedStore):
    """Like a store over a network: a held object is read again if its version is the same. Something happens before that."""

    __slots__ = ("happens",)

    def fetch(self, names: Sequence[str], spans: Columns, **options: Any) -> Fetched:
        held = options.pop("continue_from", None)
        if held is not None:
            self.happens()
            options["expect"] = list(held.versions)
        return as_buffers(self.inner.fetch(names, spans, **options), names, spans)


def test_a_value_that_is_replaced_between_two_requests() -> None:
    inner = Handless(MemoryStore())
    store = CachingStore(inner, 1000, validate=True)
    inner.set("a", b"first value")
    store.get_partial_values([("a", (0, 5))])
    inner.set("a", b"other value")
    times = iter(range(1, 100))
    inner.happens = lambda: inner.set("a", b"value %d" % next(times)) if next(times) < 6 else None
    found = store.get_partial_values([("a", (0, 5)), ("a", (5, None))])
    assert b"".join(part or b"!" for part in found) == inner.get("a")
    inner.happens = lambda: inner.set("a", b"x" * 10)
    inner.set("a", b"y" * 10)
    store.fetch(["a"], columns())
    store.get_partial_values([("a", (0, 5))])
    inner.set("a", b"z" * 10)
    assert store.get_partial_values([("a", (0, 5)), ("a", (5, None))]) == [b"x" * 5] * 2
