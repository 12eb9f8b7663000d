"""ChunkCache: the same answers as the store, with fewer requests; a pass over all chunks caches nothing; chunks of repositories read twice."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.concurrent_calls import in_processes, in_threads

import frazil
from frazil import Runtime
from frazil.errors import StoreError
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.stores.caches.byte_cache import ByteCache
from frazil.stores.caches.caching_store import ChunkCache
from frazil.stores.transfer.content import read_values
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore
from frazil.testing.store_base import columns

VALUES = {"a": bytes(range(200)), "b": bytes(range(100, 250)), "c": b""}
SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 160), st.integers(-1, 40)), max_size=8)


def filled() -> CountingStore:
    inner = CountingStore(MemoryStore())
    for key, value in VALUES.items():
        inner.set(key, value)
    inner.clear()
    return inner


@given(st.lists(st.tuples(SPANS, st.booleans()), max_size=8), st.sampled_from([0, 700, 3000, 2**20]))
def test_cached_answers_equal_those_of_the_store(
    steps: list[tuple[list[tuple[int, int, int]], bool]], limit: int
) -> None:
    inner = filled()
    store, names = ChunkCache(inner, ByteCache(limit)), [*VALUES, "not there"]
    held = None
    for requested, holds in steps:
        within = [
            (row, start, min(length, 200 - 50 * row - start) if start >= 0 else length)
            for row, start, length in requested
            if row > 1 or start < 200 - 50 * row
        ]
        spans = columns(*(span if span[0] < 2 else (span[0], 0, -1) for span in within))
        held = store.fetch(names, spans, continue_from=held if holds else None)
        plain = inner.fetch(names, spans)
        assert read_values(held, names, spans) == read_values(plain, names, spans)
        assert held.status == plain.status
        assert store.memory.nbytes <= limit


def test_cached_chunks_cost_no_request() -> None:
    inner = filled()
    store = ChunkCache(inner, ByteCache(2**20))
    names, spans = ["a", "b"], columns((0, 0, 10), (0, 20, 10), (1, 5, 10))
    store.fetch(names, spans)
    assert inner.count("fetch") == 2, "neighbours are one request"
    inner.clear()
    assert read_values(store.fetch(names, spans), names, spans) == [
        VALUES["a"][:10],
        VALUES["a"][20:30],
        VALUES["b"][5:15],
    ]
    assert inner.count() == 0
    store.fetch(names, columns((0, 20, 10), (1, 5, 10), (1, 100, 5)))
    assert [(done.key, done.start, done.length) for done in inner.requests] == [("b", 100, 5)]
    inner.clear()
    store.fetch(names, columns((0, 20, 10)))
    assert [(done.operation, done.key) for done in inner.requests] == [("look up", "b")], "what was asked is asked"


def test_memory_use_equals_the_counted_bytes() -> None:
    """A range cut from a larger answer does not keep that one alive."""
    inner = CountingStore(MemoryStore())
    inner.set("a", bytes(200_000))
    store = ChunkCache(inner, ByteCache(2**20))
    store.fetch(["a"], columns((0, 0, 10), (0, 100_000, 10)))
    buffers = store.fetch(["a"], columns((0, 0, 10), (0, 100_000, 10))).sources.buffers
    assert [len(buffer) for buffer in buffers] == [10, 10]
    assert all(isinstance(buffer, bytes) for buffer in buffers)


def test_a_pass_over_everything_is_not_remembered() -> None:
    inner = CountingStore(MemoryStore())
    inner.set("a", bytes(100_000))
    store = ChunkCache(inner, ByteCache(40_000))
    store.fetch(["a"], columns((0, 0, 1000)))
    kept = len(store.memory)
    store.fetch(["a"], columns(*((0, at, 1000) for at in range(2000, 20_000, 1000))))
    assert len(store.memory) == kept
    inner.clear()
    store.fetch(["a"], columns((0, 0, 1000)))
    assert inner.count() == 0


def test_short_answers_are_not_remembered() -> None:
    inner = MemoryStore()
    inner.set("a", VALUES["a"])
    store = ChunkCache(FaultyStore(inner, FaultPlan([Fault("fetch", 1, "cut")])), ByteCache(2**20))
    spans = columns((0, 0, 100))
    with pytest.raises(StoreError):
        read_values(store.fetch(["a"], spans), ["a"], spans)
    assert read_values(store.fetch(["a"], spans), ["a"], spans) == [VALUES["a"][:100]]


# --- chunks of repositories ------------------------------------------------------------------------------------------------------------------


VALUES_2D = np.random.default_rng(5).integers(0, 2**60, (64, 64))


def repository(store: Store, shards: tuple[int, int] | None = (32, 32), limit: int = 2**26) -> frazil.Group:
    repo = frazil.Repository.create(store)
    with repo.transaction(message="first") as root:
        root.create_array("a", data=VALUES_2D, chunks=(8, 8), shards=shards, codecs=[])
    return opened(store, limit)


def opened(store: Store, limit: int = 2**26) -> frazil.Group:
    return frazil.Repository.open(store, runtime=Runtime(cache_bytes=limit)).readonly_session().root


@pytest.mark.parametrize("shards", [None, (32, 32)])
def test_a_chunk_of_a_repository_is_read_once(shards: tuple[int, int] | None) -> None:
    store = CountingStore(MemoryStore())
    root = repository(store, shards)
    for number in range(3):
        array = root["a"]  # another handle each time
        assert array[3, 3] == VALUES_2D[3, 3]
        assert (array[10:50, 10:50] == VALUES_2D[10:50, 10:50]).all()
        assert (store.count() == 0) == (number > 0)
        store.clear()


@pytest.mark.parametrize("limit", [0, 5000, 50_000])
def test_the_memory_of_a_repository_is_bounded(limit: int) -> None:
    store = CountingStore(MemoryStore())
    root = repository(store, limit=limit)
    rng = np.random.default_rng(1)
    for y, x in rng.integers(0, 60, (30, 2)).tolist():
        assert (root["a"][y : y + 4, x : x + 4] == VALUES_2D[y : y + 4, x : x + 4]).all()
        assert root["a"]._location.memory.nbytes <= limit
    store.clear()
    root["a"][0, 0]
    root["a"][0, 0]
    if not limit:
        assert store.count("fetch") >= 4, "index and chunk, twice"


def test_sessions_read_their_own_writes() -> None:
    """Chunks that a session changes are different ones, with other names."""
    store = CountingStore(MemoryStore())
    repository(store)
    repo = frazil.Repository.open(store)
    values = VALUES_2D.copy()
    for number in range(3):
        session = repo.writable_session("main")
        array = session.root["a"]
        assert (array[...] == values).all()
        values[number * 20, 5] = number
        array[number * 20, 5] = number
        assert (array[...] == values).all()
        session.commit("next")
        assert (repo.readonly_session().root["a"][...] == values).all()
        assert (opened(store)["a"][...] == values).all()


def test_threads_forks_and_pickles(tmp_path: Path) -> None:
    root = repository(CountingStore(LocalStore(tmp_path / "repo")), limit=60_000)
    copy = pickle.loads(pickle.dumps(root["a"]))

    def read(number: int) -> None:
        rng = np.random.default_rng(number)
        for y, x in rng.integers(0, 60, (20, 2)).tolist():
            for array in (root["a"], copy):
                assert (array[y : y + 9, x : x + 9] == VALUES_2D[y : y + 9, x : x + 9]).all()

    in_threads(4, read)
    with root._location.memory._lock:  # as another thread might hold it at the fork
        in_processes(2, read)


def test_a_local_repository_is_read_as_before(tmp_path: Path) -> None:
    array = repository(LocalStore(tmp_path))["a"]
    assert (array[...] == VALUES_2D).all()
    assert type(array._storage._store) is LocalStore
