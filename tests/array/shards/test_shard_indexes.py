"""Cached shard indexes: found by name, shared by handles, bounded by bytes."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.array.shards.shard_indexes import IndexTables, RememberedIndexes
from frazil.stores.caches.byte_cache import ByteCache


def tables(count: int, total: int, value: int, version: bytes = b"v") -> IndexTables:
    return IndexTables(np.full((count, total, 2), value, np.int64), [version] * count)


def found(indexes: RememberedIndexes, *names: str) -> list[int | None]:
    slots = indexes.find(names)
    return [None if slot is None else int(slot[0].tables[slot[1], 0, 0]) for slot in slots or [None] * len(names)]


def test_the_last_index_of_a_shard_is_found_until_it_is_dropped() -> None:
    memory = ByteCache(10**6)
    one, same = (RememberedIndexes(memory, "x", by_coordinates=False) for _ in range(2))
    other = RememberedIndexes(memory, "y", by_coordinates=False)
    assert one.find(["a"]) is None
    one.put(["a", "b"], tables(2, 3, 1))
    one.put(["b", "c"], tables(2, 3, 2))
    assert found(same, "a", "b", "c", "d") == [1, 2, 2, None]
    assert other.find(["a"]) is None
    same.drop(["b", "d"])
    assert found(one, "a", "b", "c") == [1, None, 2]
    memory.after_fork()
    assert one.find(["a"]) is None
    one.put(["a"], tables(1, 3, 5))
    assert found(one, "a") == [5]


def test_the_first_go_where_there_are_too_many() -> None:
    memory = ByteCache(20_000)
    indexes = RememberedIndexes(memory, "x", by_coordinates=False)
    for number in range(50):
        indexes.put([f"{number}"], tables(1, 100, number))
        assert memory.nbytes <= memory.limit
        assert found(indexes, f"{number}") == [number]
    kept = [number for number in range(50) if found(indexes, f"{number}") == [number]]
    assert kept == list(range(50 - len(kept), 50))
    assert 5 < len(kept) < 20
    indexes.drop(map(str, range(50)))
    assert memory.nbytes < 2000, "what was dropped takes no room"


def test_an_index_in_place_of_another_takes_its_room() -> None:
    memory = ByteCache(20_000)
    indexes = RememberedIndexes(memory, "x", by_coordinates=False)
    indexes.put(["a"], tables(1, 100, 0))
    before = memory.nbytes
    for number in range(1, 50):
        indexes.put(["a"], tables(1, 100, number))
        assert (memory.nbytes, found(indexes, "a")) == (before, [number])
    indexes.put(["a"], tables(1, 10_000, 50))
    assert not any(indexes.find(["a"]) or ()), "one that does not fit leaves no older one"
    assert memory.nbytes < before


@pytest.mark.parametrize("limit", [0, 100])
def test_indexes_beyond_the_limit_are_not_cached(limit: int) -> None:
    memory = ByteCache(limit)
    indexes = RememberedIndexes(memory, "x", by_coordinates=False)
    indexes.put(["a"], tables(1, 100, 1))
    assert indexes.find(["a"]) is None
    assert not memory.nbytes


def test_versions_are_those_of_the_store() -> None:
    columns = np.array([(1, 2, 3), (4, 5, -6)], np.int64)
    assert IndexTables(np.zeros((2, 1, 2), np.int64), columns).version(1) == columns[1].astype("<i8").tobytes()
    assert tables(2, 1, 0, b"tag").version(1) == b"tag"
    assert IndexTables(np.zeros((2, 1, 2), np.int64), None).version(0) is None
