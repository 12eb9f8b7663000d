"""Every exception at every point of every operation of a repository: the branch is complete, and acknowledged commits are there.

The points are before and after each store operation, and the lines of the code. tests/testing/simulation simulates several clients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import numpy as np
import pytest
from tests.faults.interrupted_lines import leaves_block
from tests.model.interrupting_store import InterruptingStore

import frazil
from frazil.errors import CommitUnknownError, ConflictError, StoreError
from frazil.stores import MemoryStore

RAISED: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit, StoreError)
CHUNK = 600  # bytes: too large for a manifest


@cache
def two_commits() -> tuple[dict[str, bytes], list[str]]:
    """The objects and the history of the repository at the start of each Scene."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    with repo.transaction(message="first") as root:
        root.create_array("a", shape=(2 * CHUNK,), dtype="u1", chunks=(CHUNK,), codecs=["bytes"])[...] = 1
        root.create_array("b", shape=(2,), dtype="i4", chunks=(2,))[...] = 7
    with repo.transaction(message="second") as root:
        root["b"][...] = 8
    return {key: store.get(key) or b"" for key in store.list()}, [commit.id for commit in repo.history()]


class Scene:
    """A repository whose array `a` is 1, and a session in which a client sets it to 2, in a commit "op". rival: another writer commits to another array
    meanwhile"""

    def __init__(self, *, rival: bool = False) -> None:
        self.store = InterruptingStore(MemoryStore())
        self.before, history = two_commits()
        for key, value in self.before.items():
            self.store.set(key, value)
        self.repo = frazil.Repository.open(self.store, chunk_packing="off")
        self.first = history[1]
        self.checked = {*history}
        self.session = self.repo.writable_session()
        self.fork = self.session.fork()
        self.rival = rival

    def prepare(self, name: str) -> None:
        """The steps before the operation, without faults."""
        if name in ("commit", "rebase"):
            self.session.root["a"][...] = 2  # type: ignore[index]
        if name == "merge":
            self.fork.root["a"][...] = 2  # type: ignore[index]
        if self.rival:
            with frazil.Repository.open(self.store.inner).transaction(message="rival") as root:
                root["b"][...] = 9

    def observer(self) -> frazil.Repository:
        return frazil.Repository.open(self.store.inner)

    def check(self, *, committed: bool) -> int:
        """All snapshots can be read and are whole: new ones are read, the objects of the others are unchanged. Returns how often the commit is there."""
        for key, value in self.before.items():
            assert self.store.inner.get(key) == value or key.startswith("refs/"), key
        repo = self.observer()
        history = list(repo.history())
        for commit in history:
            if commit.id in self.checked:
                continue
            self.checked.add(commit.id)
            root = repo.readonly_session(snapshot=commit.id).root
            values = np.asarray(root["a"][...])  # type: ignore[index]
            assert set(values.tolist()) in ({1}, {2}), "each commit is whole"
            assert set(np.asarray(root["b"][...]).tolist()) <= {7, 8, 9}  # type: ignore[index]
        times = [commit.message for commit in history].count("op")
        assert times <= 1
        assert times or not committed, "what was acknowledged is there"
        return times

    def times(self) -> int:
        """How often the commit is there; subclasses check its content."""
        return [commit.message for commit in self.observer().history()].count("op")

    def commit(self) -> None:
        self.session.commit("op", rebase="disjoint")

    def go_on(self, before: int, *, again: bool, write: bool) -> None:
        """The session finds the outcome and commits, or gives up; then another writer commits. before: how often the commit is there; write: the write may be
        incomplete"""
        if again:
            try:
                if write:
                    self.session.root["a"][...] = 2  # type: ignore[index]
                if self.session.has_changes:
                    self.commit()
                assert before or self.times() == 1
            except ConflictError:
                assert before, "it happened, and something was written since"
                self.session.discard()
        else:
            self.session.discard()
            assert self.times() == before
        with self.observer().transaction(message="after") as root:
            root["b"][0] = 9
        self.check(committed=bool(before))


def write(scene: Scene) -> None:
    scene.session.root["a"][...] = 2  # type: ignore[index]


def merge(scene: Scene) -> None:
    scene.session.merge(scene.fork)


def rebase(scene: Scene) -> None:
    scene.session.rebase()


def run(scene: Scene) -> None:
    scene.repo.run(lambda root: root["a"].__setitem__(..., 2), message="op")  # type: ignore[union-attr]


def transaction(scene: Scene) -> None:
    with scene.repo.transaction(message="op", rebase="disjoint") as root:
        root["a"][...] = 2  # type: ignore[index]


def reset(scene: Scene) -> None:
    scene.repo.reset_branch("main", scene.first)


def tag(scene: Scene) -> None:
    scene.repo.create_tag("v1", scene.first)


OPERATIONS: dict[str, Callable[[Scene], None]] = {
    "write": write,
    "commit": Scene.commit,
    "rebase": rebase,
    "merge": merge,
    "run": run,
    "transaction": transaction,
    "reset": reset,
    "tag": tag,
}
COMMITS = ("commit", "run", "transaction")


def prepared_scene(name: str, *, rival: bool) -> Scene:
    scene = Scene(rival=rival)
    scene.prepare(name)
    return scene


def attempted(scene: Scene, name: str, expected: type[BaseException]) -> bool:
    """Runs the operation. Returns whether it was done."""
    scene.store.live = True
    try:
        OPERATIONS[name](scene)
    except CommitUnknownError:
        assert issubclass(expected, StoreError)
        return False
    except expected:
        return False
    finally:
        scene.store.live = False
    return True


def check_after(scene: Scene, name: str, *, done: bool, again: bool) -> None:
    """The invariants, for every outcome of the operation."""
    scene.store.disarm()
    repo = scene.observer()
    if name == "tag":
        assert repo.tags in ([], ["v1"])
        assert not repo.tags or repo.lookup_tag("v1") == scene.first
        assert repo.tags or not done
    if name == "reset":
        assert (repo.lookup("main") == scene.first) or not done
    before = scene.check(committed=done and name in COMMITS)
    if name not in ("tag", "reset", "run", "transaction"):
        scene.go_on(before, again=again, write=name in ("write", "merge"))


@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_exceptions_at_every_store_operation_leave_consistent_data(name: str, rival: bool) -> None:
    scene = prepared_scene(name, rival=rival)
    assert attempted(scene, name, KeyboardInterrupt)
    count = len(scene.store.calls)
    assert count or name in ("merge", "write", "rebase")
    check_after(scene, name, done=True, again=True)
    for number in range(count):
        for turn, kind in enumerate(RAISED):  # before and after each operation, by different kinds
            scene = prepared_scene(name, rival=rival)
            scene.store.arm(number, kind, after=(number + turn) % 2 == 0)
            done = attempted(scene, name, kind)
            check_after(scene, name, done=done, again=(number // 2 + turn) % 2 == 0)


# --- at every line -----------------------------------------------------------------------------------------------------------------------


@contextmanager
def traced(at: Callable[[FrameType], None], file: str | None = None) -> Iterator[None]:
    """Calls `at` for every executed line of the project's sources, or of one file."""

    def local(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "line" and not leaves_block(frame):
            at(frame)
        return local

    def entered(frame: FrameType, _: str, __: Any) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        return local if (name == file if file else "/frazil/" in name and "/testing/" not in name) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield
    finally:
        sys.settrace(before)


def lines_of(name: str) -> list[tuple[str, int]]:
    """The lines that an operation executes, in order."""
    scene, lines = prepared_scene(name, rival=name != "run"), []
    with traced(lambda frame: lines.append((frame.f_code.co_filename, frame.f_lineno))):
        OPERATIONS[name](scene)
    return lines


def interrupt_at(name: str, number: int, line: tuple[str, int] | None = None) -> None:
    """Raises an interrupt before the executed line with this number. line: its file and line, if this is its first execution; then it is found faster"""
    scene, left = prepared_scene(name, rival=name != "run"), [0 if line else number]

    def count_down(frame: FrameType) -> None:
        if line and frame.f_lineno != line[1]:
            return
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    done = False
    try:
        with traced(count_down, line and line[0]):
            OPERATIONS[name](scene)
            done = True
    except KeyboardInterrupt:
        pass
    check_after(scene, name, done=done, again=number % 2 == 0)


def first_times(lines: list[tuple[str, int]]) -> list[tuple[int, tuple[str, int]]]:
    """The number of the first execution of each line, and the line."""
    seen: dict[tuple[str, int], int] = {}
    for number, line in enumerate(lines):
        seen.setdefault(line, number)
    return [(number, line) for line, number in seen.items()]


@pytest.mark.parametrize("name", ["commit", "rebase", "run"])
def test_exceptions_at_every_eighth_line_leave_consistent_data(name: str) -> None:
    """The campaign has all lines."""
    first = first_times(lines_of(name))
    assert len(first) > 100
    for number, line in first[::8]:
        interrupt_at(name, number, line)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("name", ["commit", "rebase", "run"])
def test_exceptions_at_every_run_of_a_line_leave_consistent_data(name: str, part: int) -> None:
    for number in range(len(lines_of(name)))[part::8]:
        interrupt_at(name, number)
