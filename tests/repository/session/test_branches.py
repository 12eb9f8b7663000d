"""Turns and syncs of the sessions of one Repository object, beside threads and processes that end at any point."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from frazil.repository.session import branches as module
from frazil.repository.session.branches import Branches
from frazil.stores import MemoryStore


def test_a_new_turn_is_taken_before_others_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_WAIT", 0.01)
    found: list[bool] = []

    class Turns(dict[str, threading.Lock]):
        def __setitem__(self, branch: str, turn: threading.Lock) -> None:
            super().__setitem__(branch, turn)
            found.append(turn.acquire(blocking=False))  # as another thread would

    held = threading.Lock()
    held.acquire()
    branches = Branches()
    branches._turns = Turns(main=held)
    with branches.turn("main", lambda: None):
        pass
    assert found == [False]


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
        with branches.turn("main", lambda: None):
            branches.sync(Slow())

    branches.note_unsynced(["a"])
    thread = threading.Thread(target=sync)
    thread.start()
    began.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(5)  # which ends a child that waits for the thread
        waited: list[int] = []
        with branches.turn("main", lambda: waited.append(1)):
            branches.sync(MemoryStore())
        os._exit(len(waited))
    _, status = os.waitpid(child, 0)
    goes_on.set()
    thread.join()
    assert status == 0
