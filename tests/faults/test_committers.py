"""Processes that commit: killed at any point, and eight at once. Every reported commit is there, in order, and readers see whole snapshots."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.api.stored_files import check_files
from tests.faults.concurrent_calls import fork, in_processes, read_pipe

import frazil
from frazil.stores import LocalStore

SIDE = 300
LARGE = 2**20 + 5


def begin(path: Path, writers: int) -> frazil.Repository:
    repo = frazil.Repository.create(path, durable=False)
    with repo.transaction(message="first") as root:
        root.create_array("large", shape=(LARGE,), dtype="u1", chunks=(LARGE,), codecs=["bytes"])
        root.create_array("log", shape=(0, 2), dtype="i8", chunks=(4, 2), fill_value=0)
        root.create_array("count", shape=(), dtype="i8")[...] = 0
        for writer in range(writers):
            root.create_array(f"own{writer}", shape=(SIDE,), dtype="i8", chunks=(100,))[...] = 0
    return repo


def messages_of(repo: frazil.Repository) -> list[str]:
    """The messages of all commits but the first two, the oldest first."""
    return [commit.message for commit in repo.history()][-3::-1]


# --- killed ----------------------------------------------------------------------------------------------------------------------------


def commit_for_ever(path: Path, writer: int, first: int, report_to: int) -> None:
    """Chunk files, manifests and new nodes in each commit; writes a line to `report_to` after each commit."""
    session = frazil.Repository.open(path, durable=False).writable_session()
    for turn in range(first, 10**9):
        root = session.root
        root[f"own{writer}"][...] = turn  # type: ignore[index]
        if writer == 0:
            root["large"][...] = turn % 256  # type: ignore[index]
            root.attrs["turn"] = turn
        root.create_array(f"new{writer}", shape=(4,), dtype="i8", chunks=(1,), overwrite=True)[...] = turn
        session.commit(f"{writer} {turn}", rebase="disjoint")
        os.write(report_to, f"{writer} {turn}\n".encode())


def check_snapshot(root: frazil.Group, writers: int) -> None:
    for writer in range(writers):
        (turn,) = np.unique(root[f"own{writer}"][...]).tolist()  # type: ignore[call-overload]
        if turn:
            assert (root[f"new{writer}"][...] == turn).all()  # type: ignore[call-overload]
        if writer == 0:
            assert root.attrs.get("turn", 0) == turn
            assert (root["large"][::999] == turn % 256).all()  # type: ignore[call-overload]


def kill_committers(path: Path, rounds: int, writers: int) -> None:
    repo = begin(path, writers)
    rng = np.random.default_rng(rounds)
    sure: list[str] = []
    for number in range(rounds):
        listen, report_to = os.pipe()
        pids = [
            fork(partial(commit_for_ever, path, writer, 1 + number * 10**6, report_to)) for writer in range(writers)
        ]
        os.close(report_to)
        heard = b""
        while heard.count(b"\n") < int(rng.integers(1, 8)):
            heard += read_pipe(listen)
        select.select([], [], [], float(rng.random()) * 0.03)  # anywhere in a commit
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        while more := os.read(listen, 4096):
            heard += more
        os.close(listen)
        sure += heard.decode().splitlines()
        found = messages_of(frazil.Repository.open(path))
        assert set(sure) <= set(found)
        for writer in range(writers):
            of_writer = [one for one in found if one.startswith(f"{writer} ")]
            assert of_writer == sorted(of_writer, key=lambda one: int(one.split()[1])), "in order"
        ids = [commit.id for commit in repo.history()]
        for identity in ids[:-2] if len(ids) < 30 else ids[:10]:
            check_snapshot(repo.readonly_session(snapshot=identity).root, writers)
    check_files(LocalStore(path), reached=[commit.id for commit in repo.history()])
    with repo.transaction(message="after") as root:
        root["large"][...] = 77  # type: ignore[index]
    assert (repo.readonly_session().root["large"][...] == 77).all()  # type: ignore[call-overload]


def test_committers_that_are_killed(tmp_path: Path) -> None:
    kill_committers(tmp_path, rounds=8, writers=2)


@pytest.mark.campaign
def test_many_committers_that_are_killed(tmp_path: Path) -> None:
    kill_committers(tmp_path, rounds=300, writers=4)


# --- at once ---------------------------------------------------------------------------------------------------------------------------


def commit_disjoint(path: Path, turns: int, writer: int) -> None:
    """Its own chunks and nodes, and rows that all append to one array; one session, or a new one each time."""
    repo = frazil.Repository.open(path, durable=False)
    session = repo.writable_session()
    for turn in range(1, turns + 1):
        if writer % 2:
            session = repo.writable_session()
        session.root[f"own{writer}"][...] = turn  # type: ignore[index]
        session.root["log"].append([[writer, turn]] * (1 + turn % 3))  # type: ignore[union-attr]
        if turn % 4 == 0:
            session.root.create_group(f"g{writer}/{turn}")
        session.commit(f"{writer} {turn}", rebase="disjoint")


def count_up(path: Path, turns: int, writer: int) -> None:
    """All change the same chunk, on the newest state."""
    repo = frazil.Repository.open(path, durable=False)

    def change(root: frazil.Group) -> None:
        root["count"][...] = root["count"][...] + 1  # type: ignore[call-overload, operator, index]
        root[f"own{writer}"][...] += 1  # type: ignore[index, operator, call-overload]

    for turn in range(1, turns + 1):
        repo.run(change, message=f"{writer} {turn}", retries=100_000)


def check_disjoint(root: frazil.Group, writers: int, turns: int) -> None:
    rows = [tuple(row) for row in root["log"][...].tolist()]  # type: ignore[call-overload]
    expected = [(w, turn) for w in range(writers) for turn in range(1, turns + 1) for _ in range(1 + turn % 3)]
    assert sorted(rows) == expected
    for writer in range(writers):
        of_writer = [row for row in rows if row[0] == writer]
        assert of_writer == sorted(of_writer), "in the order of the commits"
        assert (root[f"own{writer}"][...] == turns).all()  # type: ignore[call-overload]
        assert sum(1 for _ in root.get(f"g{writer}", ())) == turns // 4  # type: ignore[arg-type, misc]


def check_counted(root: frazil.Group, writers: int, turns: int) -> None:
    assert root["count"][...] == writers * turns  # type: ignore[call-overload]
    assert all((root[f"own{writer}"][...] == turns).all() for writer in range(writers))  # type: ignore[call-overload]


def commit_at_once(
    path: Path,
    writers: int,
    turns: int,
    work: Callable[[Path, int, int], None],
    check: Callable[[frazil.Group, int, int], None],
) -> None:
    repo = begin(path, writers)
    in_processes(writers, partial(work, path, turns))
    messages = messages_of(repo)
    assert sorted(messages) == sorted(f"{writer} {turn}" for writer in range(writers) for turn in range(1, turns + 1))
    for writer in range(writers):
        of_writer = [one for one in messages if one.startswith(f"{writer} ")]
        assert of_writer == [f"{writer} {turn}" for turn in range(1, turns + 1)]
    check(repo.readonly_session().root, writers, turns)


@pytest.mark.parametrize(("work", "check"), [(commit_disjoint, check_disjoint), (count_up, check_counted)])
def test_eight_commit_at_once(
    tmp_path: Path, work: Callable[[Path, int, int], None], check: Callable[[frazil.Group, int, int], None]
) -> None:
    commit_at_once(tmp_path, 8, 8, work, check)
    check_files(LocalStore(tmp_path))


@pytest.mark.campaign
@pytest.mark.parametrize(("work", "check"), [(commit_disjoint, check_disjoint), (count_up, check_counted)])
def test_ten_thousand_commits(
    tmp_path: Path, work: Callable[[Path, int, int], None], check: Callable[[frazil.Group, int, int], None]
) -> None:
    commit_at_once(tmp_path, 8, 1250, work, check)


def test_two_creators_never_share_an_id(tmp_path: Path) -> None:
    repo = begin(tmp_path, 0)

    def create(writer: int) -> None:
        mine = frazil.Repository.open(tmp_path, durable=False)
        for turn in range(5):
            session = mine.writable_session()
            session.root.create_array(f"{writer} {turn}", shape=(2,), dtype="i4", chunks=(2,))[...] = 10 * writer + turn
            session.commit("created", rebase="disjoint")

    in_processes(4, create)
    root = repo.readonly_session().root
    for writer in range(4):
        for turn in range(5):
            assert root[f"{writer} {turn}"][0] == 10 * writer + turn  # type: ignore[call-overload]
    check_files(LocalStore(tmp_path))
