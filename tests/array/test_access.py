"""What an array remembers and locks: the cache of shard indexes, bounded and safe; locks and a fork."""

from __future__ import annotations

import os
import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.together import fork, in_threads

import frazil
from frazil.array.access import TableCache, Turn


def table(entries: int) -> np.ndarray:
    return np.zeros((entries, 2), np.int64)  # 16 bytes each


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 8), st.sampled_from(["put", "get", "drop"]))))
def test_the_cache_is_bounded_and_forgets_what_was_used_least(steps: list[tuple[str, int, str]]) -> None:
    cache, model = TableCache(160), dict[str, int]()
    for name, entries, step in steps:
        if step == "put":
            cache.put(name, b"v%d" % entries, table(entries))
            model.pop(name, None)
            model[name] = entries
            while 16 * sum(model.values()) > 160:
                del model[next(iter(model))]
        elif step == "drop":
            cache.drop([name])
            model.pop(name, None)
        else:
            found = cache.get(name)
            assert (found is None) == (name not in model)
            if found is not None:
                assert found[0] == b"v%d" % model[name]
                assert len(found[1]) == model[name]
                model[name] = model.pop(name)


def test_what_is_larger_than_the_cache_is_not_kept() -> None:
    cache = TableCache(160)
    cache.put("small", b"1", table(3))
    cache.put("large", b"1", table(11))
    assert cache.get("large") is None
    assert cache.get("small") is not None


def test_the_cache_in_many_threads() -> None:
    cache = TableCache(1600)

    def use(number: int) -> None:
        rng = np.random.default_rng(number)
        for name, entries in zip(rng.integers(0, 40, 2000).tolist(), rng.integers(0, 20, 2000).tolist(), strict=True):
            found = cache.get(str(name))
            if found is None:
                cache.put(str(name), b"%d" % entries, table(entries))
            else:
                assert found[0] == b"%d" % len(found[1])
                if entries == 7:
                    cache.drop([str(name)])

    in_threads(8, use)
    for name in range(40):
        cache.drop([str(name)])
    cache.put("all", b"", table(100))
    assert cache.get("all") is not None, "nothing is counted that is not there"


def test_a_fork_finds_every_lock_open(tmp_path: object) -> None:
    """Another thread of the parent holds them all at the time, and is not in the child."""
    array = frazil.create_array(f"{tmp_path}/a", shape=(8, 8), dtype="i4", chunks=(2, 2), shards=(4, 4))
    array[...] = 1
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with array._access.turn, array._changing, array._access.tables._lock:
            held.set()
            done.wait()

    def use() -> None:
        with Turn(), array._access.turn:
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
