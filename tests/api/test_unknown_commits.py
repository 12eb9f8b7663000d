"""Commits whose answer is lost: what is reported is true, nothing is removed, and the session finds the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import frazil
from frazil.errors import CommitUnknownError, ConflictError, StoreError
from frazil.stores import MemoryStore
from frazil.stores.values import CreateOnly
from frazil.testing import FaultyStore
from frazil.testing.faulty_store import Fault, FaultPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.stores import Columns, Fetched


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sleep: the retried reads are in this process."""
    monkeypatch.setattr("frazil.base.retry.time.sleep", lambda seconds: None)


def lost(store: FaultyStore, puts: int) -> FaultPlan:
    """The answer to the put after this many is lost, and what it wrote cannot be read for a while. The first fetch of a commit looks for the next branch
    file."""
    first = store.calls["fetch"]
    return FaultPlan(
        [
            Fault("put_many", store.calls["put_many"] + puts, "lose"),
            *(Fault("fetch", first + number) for number in range(2, 5)),
        ]
    )


@pytest.mark.parametrize("act", ["commit", "discard", "change"])
def test_an_unknown_commit_keeps_everything(act: str) -> None:
    inner = MemoryStore()
    repo = frazil.Repository.create(inner)
    store = FaultyStore(inner)
    session = frazil.Repository.open(store).writable_session()
    array = session.root.create_array("a", shape=(2**21,), dtype="u1", chunks=(2**21,), codecs=["bytes"])
    array[...] = 3
    store.plan = lost(store, 2)
    with pytest.raises(CommitUnknownError) as caught:
        session.commit("one")
    store.plan = FaultPlan([])
    assert caught.value.snapshot == repo.lookup("main")
    assert (repo.readonly_session().root["a"][::1000] == 3).all(), "it did happen"
    if act == "discard":
        session.discard()
        session.root.create_group("later")
        session.commit("later", rebase="disjoint")
        assert list(repo.readonly_session().root) == ["a", "later"]
    elif act == "commit":
        assert session.commit("one") == repo.lookup("main")
        assert not session.has_changes
        array[0] = 4
        session.commit("two")
        assert repo.readonly_session().root["a"][0] == 4
        assert len(list(repo.history())) == 3
        array[...] = 3
    else:
        array[5] = 7
        with pytest.raises(ConflictError):
            session.commit("two")
    np.testing.assert_array_equal(repo.readonly_session().root["a"][1:4], [3, 3, 3])


@pytest.mark.parametrize("failures", [1, 99])
def test_a_write_without_an_answer_is_repeated(failures: int) -> None:
    """A file that reads back as absent may still arrive, so the same file is written again, a few times at most."""
    inner = MemoryStore()
    repo = frazil.Repository.create(inner)
    store = FaultyStore(inner)
    session = frazil.Repository.open(store).writable_session()
    session.root.attrs["a"] = 1
    first = store.calls["put_many"] + 2
    store.plan = FaultPlan([Fault("put_many", call) for call in range(first, first + failures)])
    if failures > 1:
        with pytest.raises(CommitUnknownError) as caught:
            session.commit("one")
        assert caught.value.snapshot is not None
        assert f"snapshots/{caught.value.snapshot}" in inner.list(), "nothing is removed"
        store.plan = FaultPlan([])
        assert session.has_changes
    session.commit("one")
    assert repo.readonly_session().root.attrs["a"] == 1
    assert len(inner.list_prefix("snapshots/")) == 2, "the snapshot that was not committed is removed then"


class Final(MemoryStore):
    """A store that reports that a failed creation was not done and will not be done."""

    fails = False

    def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
        key = names[0] if names and isinstance(expect[0], CreateOnly) else ""
        if self.fails and key:
            raise StoreError("the disk is full", done=False)
        return super().put_many(names, pieces, expect)


def test_a_failure_that_is_final_removes_the_files_of_the_commit() -> None:
    store = Final()
    repo = frazil.Repository.create(store)
    session = repo.writable_session()
    session.root.create_array("a", shape=(4,), dtype="i4", chunks=(2,))[...] = 1
    before = store.list()
    store.fails = True
    with pytest.raises(StoreError, match="full"):
        session.commit("one")
    assert store.list() == before
    store.fails = False
    session.commit("one")
    assert repo.readonly_session().root["a"][...].tolist() == [1, 1, 1, 1]


class Held(MemoryStore):
    """A store that delays the next branch file: the writer gets an error, and `arrive` stores the file later."""

    armed = False
    held: Any = None
    failing = False

    def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
        key = names[0] if names and isinstance(expect[0], CreateOnly) else ""
        if "branch" in key and (self.armed or self.failing):
            self.armed, self.failing = False, True
            self.held = names, pieces, expect
            raise StoreError("timed out")
        return super().put_many(names, pieces, expect)

    def arrive(self) -> None:
        assert self.held is not None
        self.failing = False
        super().put_many(*self.held)


@pytest.mark.parametrize("then", ["commit", "discard", "change", "rival", "run", "overtaken"])
def test_a_branch_file_that_arrives_late(then: str) -> None:
    store = Held()
    repo = frazil.Repository.create(store, chunk_packing="off")
    with repo.transaction(message="base") as root:
        root.create_array("a", shape=(2**21,), dtype="u1", chunks=(2**21,), codecs=[])[...] = 1
    session = repo.writable_session()
    session.open("a").append(np.full(2**21, 2, "u1"))
    store.armed = True
    if then == "run":
        with pytest.raises(CommitUnknownError):
            repo.run(lambda root: root["a"].append(np.full(2**21, 2, "u1")), message="late")
    else:
        with pytest.raises(CommitUnknownError):
            session.commit("late")
    if then == "overtaken":  # the next commit has the number, so the late file cannot take it
        store.failing = False
        session.open("a")[0] = 1
        session.commit("second")
        with pytest.raises(AssertionError):
            assert store.arrive() or len(list(repo.history())) > 3
    elif then == "rival":
        store.failing = False
        with repo.transaction(message="rival") as root:
            root.attrs["rival"] = 1
        files = len(store.list())
        session.commit("late", rebase="disjoint")
        assert len(store.list()) == files + 1, (
            "the files of the commit that was lost are removed: snapshot and manifest"
        )
    else:
        store.arrive()
    if then == "commit":
        assert session.commit("late", rebase="disjoint") == repo.lookup("main")
        session.open("a")[0] = 3
        session.commit("next")
    elif then == "discard":
        session.discard()
    elif then == "change":
        session.open("a")[-1] = 9
        with pytest.raises(ConflictError, match="did happen"):
            session.commit("more")
        session.discard()
        session.rebase()
    array = repo.readonly_session().open("a")
    assert isinstance(array, frazil.Array)
    assert array.shape == (2 * 2**21,)
    assert (array[2**21 :] == 2).all()


def test_a_branch_file_that_arrives_while_its_session_is_rebased() -> None:
    """Between two reads of the branch: the session is not rebased over its own commit, which would append twice."""
    inner = MemoryStore()
    repo = frazil.Repository.create(inner)
    with repo.transaction(message="base") as root:
        root.create_array("a", data=np.arange(6), chunks=(3,))
    for reads in range(12):
        late = Late(inner)
        session = frazil.Repository.open(late).writable_session()
        before = session.open("a").shape[0]
        session.open("a").append([9, 9, 9])
        late.loses = True
        with pytest.raises(CommitUnknownError):
            session.commit("late")
        late.loses, late.reads = False, reads
        session.rebase("disjoint")
        late.arrive()
        if session.has_changes:
            session.commit("again", rebase="disjoint")
        assert repo.readonly_session().open("a").shape == (before + 3,)


def test_the_first_of_two_unknown_commits_arrives_while_both_are_looked_up() -> None:
    """Only one read of the branch: with two, the first would be unknown, the second overtaken by the first, and then committed again."""
    inner = MemoryStore()
    repo = frazil.Repository.create(inner)
    with repo.transaction(message="base") as root:
        root.create_array("a", data=np.arange(6), chunks=(3,))
    for reads in range(12):
        late = Late(inner)
        session = frazil.Repository.open(late).writable_session()
        before = session.open("a").shape[0]
        session.open("a").append([9, 9, 9])
        late.loses = True
        for _ in range(2):
            with pytest.raises(CommitUnknownError):
                session.commit("late")
        late.loses, late.reads = False, reads
        session.commit("late", rebase="disjoint", allow_empty=True)
        late.arrive()
        assert repo.readonly_session().open("a").shape == (before + 3,), reads
        assert len(list(repo.history())) == 3 + reads, reads


class Late(FaultyStore):
    """A store in which the first lost branch file arrives after some more reads."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.loses, self.reads = False, -1
        self.held: Any = None

    def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
        key = names[0] if names and isinstance(expect[0], CreateOnly) else ""
        if self.loses and "refs/branch" in key:
            self.held = self.held or (names, pieces, expect)
            raise StoreError("timed out")
        return super().put_many(names, pieces, expect)

    def fetch(self, names: Sequence[str], spans: Columns, **options: object) -> Fetched:
        fetched = super().fetch(names, spans, **options)  # type: ignore[arg-type]
        if self.reads == 0:
            self.arrive()
        self.reads -= 1
        return fetched

    def arrive(self) -> None:
        if self.held is not None:
            self.inner.put_many(*self.held)
            self.held = None
