"""The cache of an opened location: bounded, evicts the least recently used entries, chunks first; in threads, forks and pickles."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.concurrent_calls import in_processes, in_threads

from frazil.stores.caches import byte_cache
from frazil.stores.caches.byte_cache import ENTRY, ByteCache, CacheSection

LIMIT = 10 * ENTRY
STEPS = st.lists(
    st.tuples(
        st.sampled_from("xyz"), st.sampled_from("abcdef"), st.integers(0, 6), st.sampled_from(["put", "get", "drop"])
    ),
    max_size=60,
)


class Model:
    """The expected cache: weights by section and name, in order of use."""

    def __init__(self) -> None:
        self.weights: dict[tuple[str, str], int] = {}

    def of(self, chunks: bool) -> list[tuple[str, str]]:
        return [key for key in self.weights if (key[0] == "z") == chunks]

    def total(self, keys: list[tuple[str, str]]) -> int:
        return sum(self.weights[key] for key in keys)

    def put(self, key: tuple[str, str], weight: int) -> None:
        self.weights.pop(key, None)
        if weight > (LIMIT // 2 if key[0] == "z" else LIMIT):
            return
        self.weights[key] = weight
        while self.total(self.of(chunks=True)) > LIMIT // 2:
            del self.weights[self.of(chunks=True)[0]]
        while self.total(list(self.weights)) > LIMIT:
            del self.weights[[*self.of(chunks=True), *self.of(chunks=False)][0]]


@given(STEPS)
def test_the_cache_is_bounded_and_drops_the_least_recently_used(steps: list[tuple[str, str, int, str]]) -> None:
    memory, model = ByteCache(LIMIT), Model()
    sections: dict[str, CacheSection[int]] = {
        label: CacheSection(memory, label, chunks=label == "z") for label in "xyz"
    }
    for number, (label, name, size, step) in enumerate(steps):
        key = label, name
        if step == "put":
            sections[label].put(name, number, size * ENTRY)
            model.put(key, (size + 1) * ENTRY)
        elif step == "drop":
            sections[label].drop([name])
            model.weights.pop(key, None)
        else:
            assert (sections[label].get(name) is None) == (key not in model.weights)
            if key in model.weights:
                model.weights[key] = model.weights.pop(key)
        assert memory.nbytes == sum(model.weights.values()) <= LIMIT
        assert len(memory) == len(model.weights)


def test_sections_of_one_label_are_one_and_others_are_not() -> None:
    memory = ByteCache(LIMIT)
    one, same, other = (CacheSection[str](memory, label) for label in ("a", "a", "b"))
    one.put("n", "value", 5)
    assert (same.get("n"), other.get("n")) == ("value", None)
    same.drop(["n", "never there"])
    assert one.get("n") is None
    assert not one


def test_a_limit_of_nothing_remembers_nothing() -> None:
    section = CacheSection[bytes](ByteCache(0), "a")
    section.put("n", b"", 0)
    assert section.get("n") is None


def test_many_chunks_leave_the_indexes_alone() -> None:
    memory = ByteCache(64 * ENTRY)
    indexes, chunks = CacheSection[int](memory, "index"), CacheSection[int](memory, "chunk", chunks=True)
    for name in range(20):
        indexes.put(name, name, ENTRY)
    for name in range(1000):
        chunks.put(name, name, ENTRY)
    assert [indexes.get(name) for name in range(20)] == list(range(20))
    assert sum(chunks.get(name) is not None for name in range(1000)) == 12
    for name in range(20, 32):
        indexes.put(name, name, ENTRY)
    assert [indexes.get(name) for name in range(32)] == list(range(32)), "chunks make room"


def test_threads_share_a_byte_cache() -> None:
    memory = ByteCache(40 * ENTRY)
    section = CacheSection[int](memory, "a")

    def use(number: int) -> None:
        rng = np.random.default_rng(number)
        for name, size in zip(rng.integers(0, 40, 2000).tolist(), rng.integers(0, 3, 2000).tolist(), strict=True):
            found = section.get(name)
            assert found in (None, name)
            if found is None:
                section.put(name, name, size * ENTRY)
            elif size == 1:
                section.drop([name])

    in_threads(8, use)
    section.drop(range(40))
    assert (memory.nbytes, len(memory)) == (0, 0), "nothing is counted that is not there"


def test_threads_that_come_first_share_what_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock and the tables are made at the first use; if several threads make them, the first ones are used."""
    monkeypatch.setattr(byte_cache, "renew_after_fork", lambda _: time.sleep(0.02))
    section = CacheSection[int](ByteCache(LIMIT), "a")
    in_threads(3, lambda number: section.put(number, number, 1))
    assert {*section.names()} == {0, 1, 2}


def test_pickles_and_forks_begin_empty_and_equal_what_they_came_from() -> None:
    memory = ByteCache(LIMIT)
    section = CacheSection[str](memory, "a")
    section.put("n", "value", 1)
    copy, again = pickle.loads(pickle.dumps((memory, memory)))
    assert copy is again
    assert copy == memory
    assert copy != ByteCache(LIMIT + 1)
    assert len(copy) == 0

    def in_child(number: int) -> None:
        assert section.get("n") is None
        section.put("n", str(number), 1)
        assert section.get("n") == str(number)

    with memory._lock:  # as another thread might hold it at the fork
        in_processes(2, in_child)
    assert section.get("n") == "value"
