"""What an array locks and shares: locks and a fork; shard indexes of one location."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork

import frazil
from frazil import Runtime
from frazil.base.fork_safety import ForkSafeLock
from frazil.stores import CachingStore, MemoryStore
from frazil.testing import CountingStore


def test_a_fork_finds_every_lock_open(tmp_path: object) -> None:
    """At that moment another thread of the parent holds them all. The child does not have that thread."""
    array = frazil.create_array(f"{tmp_path}/a", shape=(8, 8), dtype="i4", chunks=(2, 2), shards=(4, 4))
    array[...] = 1
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        assert array._access.indexes is not None
        with array._access.retry_lock.lock, array._resize_lock.lock, array._access.indexes.memory.lock:
            held.set()
            done.wait()

    def use() -> None:
        with ForkSafeLock().lock, array._access.retry_lock.lock:
            pass
        array[1:, 1:] = 5
        array.attrs["child"] = True
        assert (array[1:, 1:] == 5).all()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = fork(use)
    assert os.waitpid(pid, 0)[1] == 0
    done.set()
    thread.join()
    assert (array.refresh()[1:, 1:] == 5).all()
    assert array.attrs["child"] is True


def sharded(store: CountingStore, **options: Any) -> frazil.Group:
    root = frazil.create_group(store, **options)
    for name in ("a", "b"):
        root.create_array(name, data=np.arange(64, dtype="i4").reshape(8, 8), chunks=(2, 2), shards=(4, 4))
    store.clear()
    return frazil.open_group(store, **options)


def chunk_fetches(store: CountingStore) -> int:
    done = sum(request.operation == "fetch" and "/c/" in request.key for request in store.requests)
    store.clear()
    return done


def test_handles_of_one_location_share_indexes() -> None:
    store = CountingStore(MemoryStore())
    root = sharded(store)
    assert root["a"][0, 0] == 0
    assert chunk_fetches(store) == 2
    assert root["a"][0, 3] == 3, "another handle of the array"
    assert chunk_fetches(store) == 1
    assert root["b"][0, 3] == 3, "another array of the same shape and codecs"
    assert chunk_fetches(store) == 2
    through = root["a"].through([lambda inner: CachingStore(inner, 0)])
    assert through[0, 0] == 0
    assert chunk_fetches(store) == 2, "behind transformers other bytes may be"


def test_pickles_are_equal_and_remember_nothing_yet(tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path / "a")
    array = root.create_array("x", data=np.arange(64).reshape(8, 8), chunks=(2, 2), shards=(4, 4))
    again, same = pickle.loads(pickle.dumps((array, root)))
    assert (again[...] == array[...]).all()
    assert isinstance(same, frazil.Group)
    assert again._location.memory is same._location.memory
    assert again._location.memory is not root._location.memory


def test_an_array_created_again_with_other_chunks_is_read_by_its_own_index() -> None:
    """Handles share cached indexes by the name of the shard and its version; two handles may read one version of it in different ways."""
    store = CountingStore(MemoryStore())
    root = sharded(store)
    old = root["a"]
    assert old[0, 0] == 0
    root = frazil.open_group(store, "r+")
    root.create_array(
        "a", data=np.arange(64, dtype="i4").reshape(8, 8) + 100, chunks=(1, 4), shards=(4, 4), overwrite=True
    )
    assert (root["a"][...] == np.arange(100, 164).reshape(8, 8)).all()


@pytest.mark.parametrize("limit", [0, 1800, 2**20])
def test_the_cache_of_a_location_stays_below_its_limit(limit: int) -> None:
    store = CountingStore(MemoryStore())
    root = sharded(store, runtime=Runtime(cache_bytes=limit))
    for _ in range(2):
        for name in ("a", "b"):
            assert (root[name][1:7, 1:7] == np.arange(64).reshape(8, 8)[1:7, 1:7]).all()
            memory = root[name]._access.indexes.memory
            assert memory.nbytes <= limit
    assert (len(memory) > 0) == (limit > 0)
    if not limit:
        store.clear()
        root["a"][0, 0]
        assert chunk_fetches(store) == 2
