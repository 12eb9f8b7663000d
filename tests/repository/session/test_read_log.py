"""Which accesses count as reads of a serializable session, in the session itself, and in its forks."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import frazil
from frazil.api.forked import begin_again, fork_for_many, with_written, written_by
from frazil.errors import ConflictError
from frazil.stores import MemoryStore


def repository() -> frazil.Repository:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="base") as root:
        for name in ("a", "b", "g/x"):
            root.create_array(name, shape=(6,), dtype="i4", chunks=(2,), fill_value=0)[:2] = 1
    return repo


def array(session: frazil.Session, path: str) -> frazil.Array:
    found = session.open(path)
    assert isinstance(found, frazil.Array)
    return found


def write(root: frazil.Group) -> None:
    root["a"][4] = 9  # type: ignore[index]


def erase(root: frazil.Group) -> None:
    root["a"][:2] = 0  # type: ignore[index]


def grow(root: frazil.Group) -> None:
    root["a"].append([1, 1])  # type: ignore[union-attr]


def add(root: frazil.Group) -> None:
    root.create_array("g/y", data=np.zeros(2))


READS: list[tuple[str, Callable[[frazil.Session], object], list[Callable[[frazil.Group], None]]]] = [
    ("values", lambda session: array(session, "a")[4], [write]),
    ("nchunks_initialized", lambda session: array(session, "a").nchunks_initialized, [write, erase, grow]),
    ("info", lambda session: array(session, "a").info, [write, erase, grow]),
    ("stored bytes", lambda session: array(session, "a").nbytes_stored(), [write, erase]),
    ("list", lambda session: list(session.store.list_prefix("")), [write, erase, add]),
    ("list of an array", lambda session: list(session.store.list_prefix("a/")), [write, erase]),
    ("list_dir", lambda session: session.store.list_dir("a/c/"), [write, erase]),
    ("list_dir of a group", lambda session: session.store.list_dir("g/"), [add]),
    ("exists", lambda session: session.store.exists("a/c/2"), [write]),
    ("get", lambda session: session.store.get("a/c/2"), [write]),
    ("members", lambda session: list(session.root["g"]), [add]),  # type: ignore[call-overload]
]
CASES = [
    pytest.param(read, change, id=f"{name}, {change.__name__}") for name, read, changes in READS for change in changes
]
Read = Callable[[frazil.Session], object]
Change = Callable[[frazil.Group], None]


def in_itself(session: frazil.Session, read: Read) -> None:
    read(session)
    array(session, "b")[0] = 5


def in_a_fork(session: frazil.Session, read: Read) -> None:
    fork = session.fork()
    read(fork)
    array(fork, "b")[0] = 5
    session.merge(fork)


def in_a_pickled_fork(session: frazil.Session, read: Read) -> None:
    fork = pickle.loads(pickle.dumps(session.fork()))
    read(fork)
    array(fork, "b")[0] = 5
    session.merge(pickle.loads(pickle.dumps(fork)))


def in_a_fork_of_a_fork(session: frazil.Session, read: Read) -> None:
    fork = session.fork()
    in_a_fork(fork, read)
    session.merge(fork)


def in_a_task(session: frazil.Session, read: Read) -> None:
    """As in clusters."""
    fork = fork_for_many(session)
    task = begin_again(pickle.loads(pickle.dumps(fork)))
    read(task)
    array(task, "b")[0] = 5
    session.merge(with_written(fork, pickle.loads(pickle.dumps(written_by(task)))))


@pytest.mark.parametrize("where", [in_itself, in_a_fork, in_a_pickled_fork, in_a_fork_of_a_fork, in_a_task])
@pytest.mark.parametrize(("read", "change"), CASES)
def test_a_read_of_chunks_that_others_changed_is_a_conflict(
    read: Read, change: Change, where: Callable[[frazil.Session, Read], None]
) -> None:
    repo = repository()
    session, other = repo.writable_session(isolation="serializable"), repo.writable_session()
    where(session, read)
    where(other, read)
    with repo.transaction(message="theirs") as root:
        change(root)
    with pytest.raises(ConflictError) as caught:
        session.commit("mine", rebase="theirs")
    assert {conflict.kind for conflict in caught.value.conflicts} == {"read"}
    other.commit("snapshot isolation", rebase="disjoint")


def test_a_discarded_fork_has_read_nothing() -> None:
    repo = repository()
    session = repo.writable_session(isolation="serializable")
    fork = session.fork()
    assert array(fork, "a")[4] == 0
    fork.discard()
    session.merge(fork)
    array(session, "b")[0] = 5
    with repo.transaction(message="theirs") as root:
        write(root)
    session.commit("mine", rebase="disjoint")


def test_reads_are_carried_over_a_rebase() -> None:
    repo = repository()
    session = repo.writable_session(isolation="serializable")
    assert array(session, "a")[4] == 0
    array(session, "b")[0] = 5
    with repo.transaction(message="unrelated") as root:
        root["g/x"][0] = 3  # type: ignore[index]
    session.rebase()
    with repo.transaction(message="theirs") as root:
        write(root)
    with pytest.raises(ConflictError):
        session.rebase()


def describe(root: frazil.Group) -> None:
    root["a"].attrs["units"] = "m"


def describe_group(root: frazil.Group) -> None:
    root["g"].attrs["title"] = "sea"


def describe_below(root: frazil.Group) -> None:
    root["g/x"].attrs["units"] = "m"


HANDLES: list[tuple[str, Callable[[frazil.Array | frazil.Group], object], Change]] = [
    ("a", lambda node: node.shape, grow),  # type: ignore[union-attr]
    ("a", lambda node: node.size, grow),  # type: ignore[union-attr]
    ("a", lambda node: node.attrs.get("units"), describe),
    ("a", lambda node: node.metadata, describe),
    ("g", lambda node: node.attrs.asdict(), describe_group),
]


@pytest.mark.parametrize(("path", "read", "change"), HANDLES)
@pytest.mark.parametrize("end", ["commit", "discard"])
def test_reads_after_a_commit_are_logged_again(
    path: str, read: Callable[[frazil.Array | frazil.Group], object], change: Change, end: str
) -> None:
    repo = repository()
    session = repo.writable_session(isolation="serializable")
    handle, written = session.open(path), array(session, "b")
    read(handle)
    written[0] = 5
    if end == "commit":
        session.commit("first")
    else:
        session.discard()
    read(handle)
    written[1] = 6
    with repo.transaction(message="theirs") as root:
        change(root)
    with pytest.raises(ConflictError) as caught:
        session.commit("ours", rebase="disjoint")
    assert {conflict.kind for conflict in caught.value.conflicts} == {"read"}


MOVED: list[tuple[str, Callable[[frazil.Session], object], Change]] = [
    ("a node", lambda session: session.open("h/x"), describe_below),
    ("exists", lambda session: "x" in session.root["h"], describe_below),  # type: ignore[operator]
    ("nothing", lambda session: "y" in session.root["h"], add),  # type: ignore[operator]
    ("members", lambda session: list(session.root["h"]), add),  # type: ignore[call-overload]
    ("the tree", lambda session: list(session.root["h"].members(max_depth=None)), describe_below),  # type: ignore[union-attr]
    ("the whole tree", lambda session: str(session.root.tree()), add),
]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(("what", "read", "change"), MOVED)
def test_reads_in_a_moved_group_are_logged_by_the_old_path(what: str, read: Read, change: Change, back: bool) -> None:
    repo = repository()
    session = repo.writable_session(isolation="serializable")
    session.root.move("g", "h")
    read(session)
    if back:
        session.root.move("h", "g")
    array(session, "b")[0] = 5
    with repo.transaction(message="theirs") as root:
        change(root)
    with pytest.raises(ConflictError) as caught:
        session.commit("ours", rebase="disjoint")
    assert "read" in {conflict.kind for conflict in caught.value.conflicts}, what
