"""Turns and syncs of the sessions of one Repository object, with threads and processes that end at any point."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from frazil.repository.session import branches as module
from frazil.repository.session.branches import Branches
from frazil.stores import MemoryStore


def test_a_new_turn_is_taken_before_others_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_WAIT", 0.01)
    found: list[bool] = []

    class Turns(dict[str, threading.RLock]):
        def __setitem__(self, branch: str, turn: threading.RLock) -> None:
            super().__setitem__(branch, turn)
            in_thread(lambda: found.append(turn.acquire(blocking=False)))

    held = threading.RLock()
    in_thread(held.acquire)  # which ends while holding it
    branches = Branches()
    branches._turns = Turns(main=held)
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
        in_thread(lambda: waited.append(branches._turns["main"].acquire(blocking=False)))
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
        signal.alarm(5)  # which ends a child that waits for the thread
        waited: list[int] = []
        with branches.serialize_commits("main", lambda: waited.append(1)):
            branches.sync(MemoryStore())
        os._exit(len(waited))
    _, status = os.waitpid(child, 0)
    goes_on.set()
    thread.join()
    assert status == 0
