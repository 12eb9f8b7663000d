"""Chunk files that a session wrote: removed when nothing refers to them any more, and never before, whatever fails."""

from __future__ import annotations

import pickle
import uuid

import numpy as np
import pytest

import frazil
from frazil.errors import CommitUnknownError, ConflictError, StoreError
from frazil.stores import MemoryStore
from frazil.testing import Fault, FaultPlan, FaultyStore
from frazil.testing.faulty_store import Kind, Operation

SIDE = 2**21  # bytes of a chunk that has its own file


def faulty() -> tuple[MemoryStore, FaultyStore, frazil.Repository]:
    inner = MemoryStore(f"kept {uuid.uuid4()}")  # by its name: a pickled fork has the same name
    frazil.Repository.create(inner)
    store = FaultyStore(inner)
    return inner, store, frazil.Repository.open(store)


def large(root: frazil.Group, value: int = 1) -> frazil.Array:
    array = root.create_array("a", shape=(SIDE,), dtype="u1", chunks=(SIDE,), codecs=["bytes"])
    array[...] = value
    return array


def value_of(store: MemoryStore, name: str = "main") -> int:
    """The whole array, read with empty caches."""
    repo = frazil.Repository.open(store)
    (value,) = np.unique(repo.readonly_session(snapshot=repo.lookup(name)).root["a"][...]).tolist()
    return int(value)


class _LostBranchFile(FaultPlan):
    """The answer to the write of the branch file is lost, and nothing can be read afterwards. write: the number of that write"""

    __slots__ = ("lost", "write")

    def __init__(self, write: int) -> None:
        super().__init__()
        self.write, self.lost = write, False

    def fault(self, operation: Operation, call: int) -> Kind | None:
        if (operation, call) == ("put_many", self.write):
            self.lost = True
            return "lose"
        return "fail" if self.lost else None


def _writes_of_a_commit() -> int:
    """How many calls write; the last one writes the branch file."""
    _, store, repo = faulty()
    session = repo.writable_session()
    large(session.root)
    before = store.calls["put_many"]
    session.commit("counted")
    return store.calls["put_many"] - before


@pytest.mark.parametrize("act", ["rebase", "discard"])
def test_chunks_of_an_unknown_commit_stay(act: str) -> None:
    inner, store, repo = faulty()
    session = repo.writable_session()
    array = large(session.root)
    store.plan = _LostBranchFile(store.calls["put_many"] + _writes_of_a_commit())
    with pytest.raises(CommitUnknownError):
        session.commit("one")
    store.plan = FaultPlan()
    one = frazil.Repository.open(inner).lookup("main")
    array[...] = 2
    if act == "rebase":
        with pytest.raises(ConflictError, match="did happen"):
            session.rebase("ours")
    session.discard()
    with frazil.Repository.open(inner).transaction(message="two") as root:
        root["a"][...] = 3  # type: ignore[index]
    assert value_of(inner) == 3
    assert value_of(inner, one) == 1


@pytest.mark.parametrize("travels", [False, True])
def test_forks_keep_the_files_of_their_parent(travels: bool) -> None:
    inner, _, repo = faulty()
    session = repo.writable_session()
    large(session.root)
    for act in ("write", "discard", "remove"):
        fork = session.fork()
        if travels:
            fork = pickle.loads(pickle.dumps(fork))
        if act == "write":
            for value in range(20):
                fork.root["a"][...] = value
        if act == "remove":
            del fork.root["a"]
        fork.discard()
    session.commit("one")
    assert value_of(inner) == 1


@pytest.mark.parametrize("travels", [False, True])
def test_forks_keep_the_files_of_merged_changes(travels: bool) -> None:
    inner, _, repo = faulty()
    session = repo.writable_session()
    fork = session.fork()
    array = large(fork.root)
    session.merge(pickle.loads(pickle.dumps(fork)) if travels else fork)
    for value in range(2, 22):
        array[...] = value
    fork.discard()
    session.commit("one")
    assert value_of(inner) == 1


def test_files_that_cannot_be_removed_do_no_harm() -> None:
    inner, store, repo = faulty()
    session = repo.writable_session()
    array = large(session.root)
    store.plan = FaultPlan([Fault("erase_many", call, kind) for call in range(1, 9) for kind in ("fail",)])
    for value in range(20):
        array[...] = value
    session.commit("one")
    assert value_of(inner) == 19
    array[...] = 20
    session.discard()
    assert array[0] == 19
    assert store.calls["erase_many"] > 4


def test_a_write_that_fails_leaves_the_old_value() -> None:
    inner, store, repo = faulty()
    session = repo.writable_session()
    array = large(session.root)
    for value in range(2, 19):
        array[...] = value
    for kind in ("fail", "cut", "lose"):
        store.plan = FaultPlan([Fault("put_many", store.calls["put_many"] + 1, kind)])  # type: ignore[arg-type]
        with pytest.raises(StoreError):
            array[...] = 99
        assert array[5] == 18
    session.commit("one")
    assert value_of(inner) == 18


def test_superseded_and_discarded_files_are_gone_without_packing() -> None:
    inner = MemoryStore()
    repo = frazil.Repository.create(inner, chunk_packing="off")
    session = repo.writable_session()
    session.root.create_array("p", shape=(4000,), dtype="u1", chunks=(1000,), codecs=["bytes"])[...] = 1
    assert len(inner.list_prefix("chunks/")) == 4
    session.discard()
    assert inner.list_prefix("chunks/") == []


def test_chunks_dropped_by_a_rebase_are_removed() -> None:
    inner, _, repo = faulty()
    with repo.transaction(message="first") as root:
        large(root)
    session = repo.writable_session()
    session.root["a"][...] = 3
    with repo.transaction(message="theirs") as root:
        root["a"][...] = 4
    session.rebase("theirs")
    session.commit("mine", allow_empty=True)
    assert len(inner.list_prefix("chunks/")) == 2
    assert value_of(inner) == 4


def test_a_rebase_that_fails_changes_nothing() -> None:
    """Rows are read and written again; a store that fails anywhere in that leaves the session unchanged."""
    _, store, repo = faulty()
    with repo.transaction(message="first") as root:
        large(root)
    session = repo.writable_session()
    session.root["a"].append(np.full(1000, 3, "u1"))
    with frazil.Repository.open(store).transaction(message="theirs") as root:
        root["a"].append(np.full(500, 2, "u1"))
    failures = 0
    for operation, call in [("put_many", 1), *(("fetch", call) for call in range(1, 30))]:
        store.plan = FaultPlan([Fault(operation, store.calls[operation] + call)])  # type: ignore[arg-type]
        try:
            session.rebase()
            break
        except StoreError:
            failures += 1
            assert session.root["a"].shape == (SIDE + 1000,)
    assert failures >= 2, "once where it writes, and wherever it reads what is not remembered"
    store.plan = FaultPlan()
    session.commit("mine", rebase="disjoint")
    found = repo.readonly_session().root["a"]
    assert found.shape == (SIDE + 1500,)
    np.testing.assert_array_equal(found[SIDE:], [2] * 500 + [3] * 1000)
