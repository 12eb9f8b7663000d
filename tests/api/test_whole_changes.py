"""Commits, rebases, forks and discards while another thread is in the middle of an append: they have all of it or nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from threading import Event, RLock, Thread

import numpy as np
import pytest

import frazil
from frazil.repository.session.whole_changes import WholeChanges
from frazil.storage import MemoryStore
from tests.faults.interrupted_lines import Interrupts, ends


def _with_rows(count: int) -> frazil.Repository:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction("main", message="an array") as group:
        group.create_array("rows", shape=(count,), dtype="i4", chunks=(8,), fill_value=0)
    return repo


def _append_paused(
    monkeypatch: pytest.MonkeyPatch, session: frazil.Session, act: Callable[[], object]
) -> tuple[list[str], tuple[int, ...]]:
    """Appends three rows in a thread, which stops between its two steps until `act`, in this thread, waits for it or has ended. Returns what ended first, and
    the shape after the append."""
    longer, awaited, ended = Event(), Event(), list[str]()
    write_rows, wait = frazil.Array._write_rows, WholeChanges.wait

    def paused(self: frazil.Array, *arguments: object) -> None:
        longer.set()
        assert awaited.wait(60)
        write_rows(self, *arguments)  # type: ignore[arg-type]

    def noted(self: WholeChanges) -> None:
        awaited.set()
        wait(self)

    shapes: list[tuple[int, ...]] = []

    def append() -> None:
        array = session["rows"]
        assert isinstance(array, frazil.Array)
        shapes.append(array.append(np.full(3, 7, np.int32)))
        ended.append("append")

    thread = Thread(target=append)
    with monkeypatch.context() as patched:
        patched.setattr(frazil.Array, "_write_rows", paused)
        thread.start()
        assert longer.wait(60)
        patched.setattr(WholeChanges, "wait", noted)
        try:
            act()
            ended.append("act")
        finally:
            awaited.set()
            thread.join(60)
    return ended, shapes[0]


def _read(session: frazil.Session) -> list[int]:
    array = session["rows"]
    assert isinstance(array, frazil.Array)
    return list(array[:].tolist())


def test_a_commit_waits_for_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    repo = _with_rows(0)
    session = repo.writable_session("main")
    ended, _ = _append_paused(monkeypatch, session, lambda: session.commit("rows", allow_empty=True))
    assert ended == ["append", "act"]
    assert _read(repo.readonly_session("main")) == [7, 7, 7]
    assert not session.has_changes


def test_a_rebase_waits_for_an_append_and_moves_all_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    repo = _with_rows(0)
    session = repo.writable_session("main")
    with repo.transaction("main", message="others") as group:
        array = group["rows"]
        assert isinstance(array, frazil.Array)
        array.append(np.full(2, 9, np.int32))
    ended, _ = _append_paused(monkeypatch, session, session.rebase)
    assert ended == ["append", "act"]
    session.commit("ours")
    assert _read(repo.readonly_session("main")) == [9, 9, 7, 7, 7]


def test_forks_and_merges_have_the_whole_append(monkeypatch: pytest.MonkeyPatch) -> None:
    session = _with_rows(0).writable_session("main")
    forks: list[frazil.Session] = []
    ended, _ = _append_paused(monkeypatch, session, lambda: forks.append(session.fork()))
    assert ended == ["append", "act"]
    assert _read(forks[0]) == [7, 7, 7]
    ended, _ = _append_paused(monkeypatch, forks[0], lambda: session.merge(forks[0]))
    assert ended == ["append", "act"]
    assert _read(session) == [7] * 6


def test_a_discard_has_the_whole_append(monkeypatch: pytest.MonkeyPatch) -> None:
    session = _with_rows(1).writable_session("main")
    ended, shape = _append_paused(monkeypatch, session, session.discard)
    assert (ended, shape) == (["append", "act"], (4,))
    assert _read(session) == [0]


def test_a_rebase_beside_another_commit_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rebase copies rows while the commit waits for the same append: it must not have half of the rebased session."""
    repo = _with_rows(4)
    session = repo.writable_session("main")
    with repo.transaction("main", message="others") as group:
        array = group["rows"]
        assert isinstance(array, frazil.Array)
        array.append(np.full(2, 9, np.int32))
    commit = Thread(target=lambda: session.commit("ours", rebase="disjoint"))

    def both() -> None:
        commit.start()
        session.rebase()

    _append_paused(monkeypatch, session, both)
    commit.join(60)
    assert _read(repo.readonly_session("main")) == [0] * 4 + [9, 9, 7, 7, 7]


def test_an_interrupt_while_others_are_within_a_change() -> None:
    """One within the `wait` of a Condition would leave the lock released."""

    def run(interrupts: Interrupts) -> None:
        lock, inside, over = RLock(), Event(), Event()
        changes = WholeChanges(lock)

        def change() -> None:
            with lock:
                entry = changes.begin(at_once=True)
            inside.set()
            while not over.is_set() and not changes._waiting:
                os.sched_yield()
            with lock:
                changes.end(entry)

        def wait() -> None:
            with lock:
                changes.wait()

        thread = Thread(target=change)
        thread.start()
        assert inside.wait(60)
        try:
            interrupts.run(wait)  # another error than the interrupt is raised
        finally:
            over.set()
            thread.join(60)
        assert not thread.is_alive()
        assert ends(wait, 20)

    whole = Interrupts(modules={"threading.py"})
    run(whole)
    assert len(whole.seen) > 10
    for number in range(len(whole.seen)):
        run(Interrupts(number, modules={"threading.py"}))


def test_appends_of_several_threads_are_rebased_together() -> None:
    for _ in range(10):
        repo = _with_rows(0)
        session = repo.writable_session("main")
        rows = session["rows"]
        assert isinstance(rows, frazil.Array)
        append = partial(rows.append, [7, 7, 7])
        threads = [Thread(target=append) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        with repo.transaction("main", message="others") as group:
            array = group["rows"]
            assert isinstance(array, frazil.Array)
            array.append([9])
        session.commit("ours", rebase="disjoint")
        assert _read(repo.readonly_session("main")) == [9] + [7] * 36


def test_rows_of_threads_that_are_rebased_again_and_again_are_all_there_once() -> None:
    repo = _with_rows(0)
    session = repo.writable_session("main")
    rows = session["rows"]
    assert isinstance(rows, frazil.Array)
    threads = [
        Thread(target=lambda first: [rows.append(np.full(3, first + i, np.int32)) for i in range(40)], args=(start,))
        for start in (1, 101)
    ]
    for thread in threads:
        thread.start()
    others = 0
    while others < 5 or any(thread.is_alive() for thread in threads):
        others += 1
        with repo.transaction("main", message="others", rebase="disjoint") as group:
            array = group["rows"]
            assert isinstance(array, frazil.Array)
            array.append(np.full(2, 1000 + others, np.int32))
        session.commit("ours", rebase="disjoint", allow_empty=True)
    for thread in threads:
        thread.join()
    session.commit("ours", rebase="disjoint", allow_empty=True)
    found = Counter(_read(repo.readonly_session("main")))
    ours = {first + i: 3 for first in (1, 101) for i in range(40)}
    assert found == {**ours, **{1000 + number: 2 for number in range(1, others + 1)}}
