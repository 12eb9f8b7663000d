"""Turns and syncs of the sessions of one Repository object, with threads and processes that end at any point."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import ConflictError
from frazil.repository.session import branches as module
from frazil.repository.session.branches import Branches
from frazil.stores import MemoryStore


def test_a_new_turn_is_taken_before_others_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_WAIT", 0.01)
    found: list[bool] = []

    class Locks(dict[str, threading.RLock]):
        def __setitem__(self, branch: str, lock: threading.RLock) -> None:
            super().__setitem__(branch, lock)
            in_thread(lambda: found.append(lock.acquire(blocking=False)))

    held = threading.RLock()
    in_thread(held.acquire)  # which ends while holding it
    branches = Branches()
    branches._commit_locks = Locks(main=held)
    with branches.serialize_commits("main", lambda: None):
        pass
    assert found == [False]


def in_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_a_thread_does_not_wait_for_its_own_turn() -> None:
    branches, waited = Branches(), list[int]()
    with branches.serialize_commits("main", lambda: None), branches.serialize_commits("main", lambda: waited.append(1)):
        in_thread(lambda: waited.append(branches._commit_locks["main"].acquire(blocking=False)))
    assert waited == [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_during_a_sync_and_a_turn() -> None:
    branches, began, goes_on = Branches(), threading.Event(), threading.Event()

    class Slow(MemoryStore):
        def sync_values(self, keys: object) -> list[str]:
            began.set()
            goes_on.wait(60)
            return []

    def sync() -> None:
        with branches.serialize_commits("main", lambda: None):
            branches.sync(Slow())

    branches.note_unsynced(["a"])
    thread = threading.Thread(target=sync)
    thread.start()
    began.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(60)  # which ends a child that waits for the thread
        waited: list[int] = []
        with branches.serialize_commits("main", lambda: waited.append(1)):
            branches.sync(MemoryStore())
        os._exit(len(waited))
    _, status = os.waitpid(child, 0)
    goes_on.set()
    thread.join()
    assert status == 0


def test_a_sync_with_a_branch_file_covers_the_files_of_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a crash could keep the branch file and lose what it refers to. Here the commit is written between the look-ups of its manifest and branch file."""
    store, synced = MemoryStore(), list[list[str]]()
    present = iter([["ref"], ["manifest"]])
    monkeypatch.setattr(
        MemoryStore,
        "sizes",
        lambda _, keys, found=present: np.array([-1 + 2 * (key in seen) for seen in [next(found)] for key in keys]),
    )
    monkeypatch.setattr(MemoryStore, "sync_values", lambda _, keys: synced.append(list(keys)) or [])
    branches = Branches()
    branches.note_unsynced(["manifest", "ref"], exist=False)
    branches.sync(store)
    assert synced == [["manifest", "ref"]]


def test_a_sync_leaves_files_that_are_not_written_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[list[str]]()
    monkeypatch.setattr(MemoryStore, "sync_values", lambda _, keys: synced.append(list(keys)) or [])
    branches, store = Branches(), MemoryStore()
    branches.note_unsynced(["manifest", "ref"], exist=False)
    branches.note_unsynced(["other"])
    branches.sync(store)
    store.set("manifest", b"1")
    branches.sync(store)
    assert synced == [["other"], ["manifest"]]


# --- recorded chunks ---------------------------------------------------------------------------------------------------------------------

KINDS = [*["write"] * 12, "erase", "grow", "shrink", "attributes", "add", "remove"]
CHANGES = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2)), min_size=1, max_size=3)
SESSIONS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("aab"), CHANGES), min_size=2, max_size=5)


@given(SESSIONS, st.sampled_from(["disjoint", "ours", "theirs"]))
def test_recorded_commits_do_not_change_a_rebase(
    sessions: list[tuple[int, str, list[tuple[str, int]]]], solver: str
) -> None:
    """Sessions of one Repository object know the chunks of each other's commits; those of several read them."""
    assert results(sessions, solver, shared=True) == results(sessions, solver, shared=False)


def test_a_rebase_over_commits_of_siblings_that_leaves_nothing() -> None:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="array") as root:
        root.create_array("a", shape=(8,), chunks=(2,), dtype="i4", fill_value=0)
    first, second = repo.writable_session(), repo.writable_session()
    first.root["a"][:2] = 1
    tip = first.commit("one")
    second.root["a"][6:] = 5
    second.root["a"][6:] = 0  # the chunk is removed again
    assert second.commit("nothing", rebase="disjoint") == tip == second.snapshot_id


def results(sessions: list[tuple[int, str, list[tuple[str, int]]]], solver: str, *, shared: bool) -> list[object]:
    """The outcome of each commit, and all data afterwards. Each session begins after some of the commits before its own."""
    store, found = MemoryStore(), list[object]()
    repo = frazil.Repository.create(store)
    with repo.transaction(message="arrays") as root:
        for name in "ab":
            root.create_array(name, shape=(8,), chunks=(2,), dtype="i4", fill_value=0)[2:6] = 9
    opened: dict[int, frazil.Session] = {}
    for number, (_, name, changes) in enumerate(sessions):
        for other, (after, _, _) in enumerate(sessions[number:], number):
            if after <= number or other == number:
                repository = repo if shared else frazil.Repository.open(store)
                opened.setdefault(other, repository.writable_session())
        session = opened[number]
        change(session.root, name, changes, number + 1)
        try:
            session.commit("one", rebase=solver, allow_empty=True)
            found.append("committed")
        except ConflictError as error:
            found.append([str(conflict) for conflict in error.conflicts])
    root = repo.readonly_session().root
    return [*found, *((path, node.attrs.asdict(), node[...].tolist()) for path, node in sorted(root.arrays()))]


def change(root: frazil.Group, name: str, changes: list[tuple[str, int]], value: int) -> None:
    array: Any = root.get(name)
    for kind, chunk in changes if array is not None else ():
        if kind == "remove":
            del root[name]
            break
        if kind == "write":
            array[2 * chunk : 2 * chunk + 2] = value
        elif kind == "erase":
            array[2 * chunk : 2 * chunk + 2] = 0
        elif kind == "attributes":
            array.attrs["value"] = value
        elif kind == "add":
            root.require_group(f"g{chunk}")
        else:
            array.resize((8 + 2 * chunk,) if kind == "grow" else (8 - 2 * chunk,))


def test_only_the_last_commits_are_recorded() -> None:
    branches, ids = Branches(), [number.to_bytes(12, "big") for number in range(module._MOST_COMMITS + 2)]
    for before, snapshot in pairwise(ids):
        branches.note_chunks(before, snapshot, {"/a": frozenset([(snapshot[-1],)])})
    assert not branches.changed_none({}, ids[0], ids[-1])
    assert branches.changed_none({"/b": frozenset([(3,)])}, ids[1], ids[-1])
    assert branches.changed_none({"/a": frozenset([(3,)])}, ids[3], ids[9])
    assert not branches.changed_none({"/a": frozenset([(3,)])}, ids[2], ids[9])
    assert not branches.changed_none({}, ids[9], ids[3])
