"""Every store operation of a change of a repository is interrupted, before and after it is done, by every kind of exception: the branch points to complete
snapshots, an acknowledged commit stays, and files of a lost race are removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

import numpy as np
import pytest
from tests.api.stored_files import check_files
from tests.faults.interrupted_lines import Interrupts, first_times

import frazil
from frazil.errors import ConflictError, FrazilError, StoreError
from frazil.stores import MemoryStore
from frazil.stores.values import Changed, Columns, CreateOnly, Fetched, Page, Pieces, Version
from frazil.stores.wrappers import WrappedStore

T = TypeVar("T")

LARGE = 2**20 + 1  # bytes of a chunk that has its own file


class OwnInterrupt(BaseException):
    """An exception that no code expects."""


KINDS = [KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit, OwnInterrupt, StoreError, RuntimeError]


class Interrupting(WrappedStore):
    """Raises `error` at the operation number `at`, before or after it is done."""

    def __init__(self, inner: MemoryStore, at: int, error: type[BaseException], *, after: bool) -> None:
        super().__init__(inner)
        self.left, self.error, self.after = at, error, after

    def _done(self, call: Callable[[], T]) -> T:
        self.left -= 1
        if self.left == -1 and not self.after:
            raise self.error("interrupted")
        answer = call()
        if self.left == -1:
            raise self.error("interrupted")
        return answer

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        return self._done(
            lambda: self.inner.fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)
        )

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self._done(lambda: self.inner.put_many(names, pieces, expect))

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        return self._done(lambda: self.inner.erase_many(names, expect))

    def list_page(self, *arguments: object, **named: object) -> Page:  # type: ignore[override]
        return self._done(lambda: self.inner.list_page(*arguments, **named))  # type: ignore[arg-type]


def fill(root: frazil.Group, value: int) -> None:
    root["large"][...] = value  # type: ignore[index]
    root["small"][...] = value  # type: ignore[index]
    root["large"][...] = value  # type: ignore[index] # whose first file is superseded
    root.attrs["value"] = value


@cache
def first_commit() -> dict[str, bytes]:
    """The objects of the repository at the start of each case."""
    store = MemoryStore()
    with frazil.Repository.create(store).transaction(message="first") as root:
        root.create_array("large", shape=(LARGE,), dtype="u1", chunks=(LARGE,), codecs=["bytes"])
        root.create_array("small", shape=(3000,), dtype="u1", chunks=(1000,), codecs=["bytes"])
        root.create_array("other", shape=(4,), dtype="u1", chunks=(4,))
        fill(root, 1)
    return {key: store.get(key) or b"" for key in store.list()}


def begin() -> MemoryStore:
    store = MemoryStore()
    for key, value in first_commit().items():
        store.set(key, value)
    return store


def rival(store: MemoryStore) -> None:
    with frazil.Repository.open(store).transaction(message="rival") as root:
        root["other"][...] = 9  # type: ignore[index]


def commit(store: Interrupting, inner: MemoryStore) -> None:
    session = frazil.Repository.open(store).writable_session()
    try:
        fill(session.root, 2)
        session.commit("second")
    finally:
        fill(session.root, 3)
        session.discard()


def commit_again(store: Interrupting, inner: MemoryStore) -> None:
    session = frazil.Repository.open(store).writable_session()
    fill(session.root, 2)
    try:
        session.commit("second")
    except BaseException:
        if session.has_changes:
            session.commit("second", rebase="disjoint")
        assert frazil.Repository.open(inner).readonly_session().root.attrs["value"] == 2
        raise


def run(store: Interrupting, inner: MemoryStore) -> None:
    frazil.Repository.open(store).run(lambda root: fill(root, 2), message="second")


def transaction(store: Interrupting, inner: MemoryStore) -> None:
    with frazil.Repository.open(store).transaction(message="second") as root:
        fill(root, 2)


def rebase(store: Interrupting, inner: MemoryStore) -> None:
    session = frazil.Repository.open(store).writable_session()
    try:
        fill(session.root, 2)
        rival(inner)
        session.commit("second", rebase="disjoint")
    finally:
        session.discard()


def reset(store: Interrupting, inner: MemoryStore) -> None:
    repo = frazil.Repository.open(store)
    with frazil.Repository.open(inner).transaction(message="second") as root:
        fill(root, 2)
    repo.reset_branch("main", next(commit.id for commit in repo.history() if commit.message == "first"))


def name(store: Interrupting, inner: MemoryStore) -> None:
    repo = frazil.Repository.open(store)
    repo.create_tag("tag", "main")
    repo.create_branch("branch", "main")
    repo.delete_branch("branch")


CHANGES = [commit, commit_again, run, transaction, rebase, reset, name]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("after", [False, True])
def test_tips_are_complete_after_an_interrupt(change: Callable[[Interrupting, MemoryStore], None], after: bool) -> None:
    """One kind of error at each operation, in turns; the campaign has all of them."""
    at = 0
    while interrupted(change, at, KINDS[(at + 3 * after) % len(KINDS)], after):
        at += 1
    assert at > 3, "every operation was interrupted"


@pytest.mark.campaign
@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_tips_are_complete_after_each_kind_of_interrupt(
    change: Callable[[Interrupting, MemoryStore], None], after: bool, kind: type[BaseException]
) -> None:
    at = 0
    while interrupted(change, at, kind, after):
        at += 1
    assert at > 3


def interrupted(
    change: Callable[[Interrupting, MemoryStore], None], at: int, kind: type[BaseException], after: bool
) -> bool:
    """Whether the change made more than `at` operations, the last of which was interrupted."""
    inner = begin()
    store = Interrupting(inner, at, kind, after=after)
    raised = True
    try:
        change(store, inner)
        raised = False
    except (kind, FrazilError):
        pass
    check(inner, acknowledged=not raised and change in (run, transaction, rebase))
    assert store.left < 0 or not raised
    return store.left < 0


def check(inner: MemoryStore, *, acknowledged: bool) -> None:
    """A later client of the repository finds one complete state, and can continue."""
    repo = frazil.Repository.open(inner)
    check_files(inner, reached=[commit.id for branch in repo.branches for commit in repo.history(branch)])
    messages = [commit.message for commit in repo.history()]
    assert len(messages) == len(set(messages))
    for branch in repo.branches:
        root = repo.readonly_session(branch).root
        value = root.attrs["value"]
        assert value in (1, 2)
        assert not acknowledged or value == 2
        for array in ("large", "small"):
            np.testing.assert_array_equal(root[array][...], value)  # type: ignore[call-overload]
    with repo.transaction(message="after") as root:
        root.attrs["after"] = True


# --- at every line -----------------------------------------------------------------------------------------------------------------------


def test_a_session_goes_on_after_an_interrupt_at_any_line_of_its_commit() -> None:
    """Also where the commit is done, and the session is about to know it: the next commit removed the files of this one."""

    def new_session() -> tuple[frazil.Repository, frazil.Session]:
        repo = frazil.Repository.create(MemoryStore())
        with repo.transaction(message="first") as root:
            root.create_array("small", shape=(3000,), dtype="u1", chunks=(1000,), codecs=["bytes"])
        session = repo.writable_session()
        session.root["small"][...] = 2  # type: ignore[index]
        return repo, session

    modules = {"commit.py", "session_state.py", "written_files.py", "branches.py"}
    whole = Interrupts(modules=modules)
    _, session = new_session()
    whole.run(lambda: session.commit("second"))
    places = first_times(whole.seen)
    assert len(places) > 50
    for at in places:
        repo, session = new_session()
        Interrupts(at, modules=modules).run(lambda session=session: session.commit("second"))  # type: ignore[misc]
        session.root.attrs["more"] = True
        try:
            session.commit("third", rebase="disjoint")
        except ConflictError:
            session.discard()
        assert repo.verify().ok, whole.seen[at]
        messages = [commit.message for commit in repo.history()]
        assert messages[-2:] == ["first", "Repository initialized"]
        assert messages[:-2] in (["third", "second"], ["third"], ["second"]), whole.seen[at]
        np.testing.assert_array_equal(repo.readonly_session().root["small"][...], 2)  # type: ignore[index]


def test_a_session_goes_on_after_an_interrupt_at_any_line_of_its_rebase() -> None:
    """Its handles show the chunks of the snapshot from which it goes on."""

    def new_session() -> tuple[MemoryStore, frazil.Session, frazil.Array]:
        store = begin()
        repo = frazil.Repository.open(store)
        session = repo.writable_session()
        session.root["small"][...] = 2  # type: ignore[index]
        other = session.root.open_array("other")
        assert other[0] == 0
        with repo.transaction(message="rival") as root:
            root["other"][...] = 9  # type: ignore[index]
        return store, session, other

    modules = {"rebase.py", "session_state.py"}
    whole = Interrupts(modules=modules)
    _, session, _ = new_session()
    whole.run(session.rebase)
    places = first_times(whole.seen)
    assert len(places) > 20
    for at in places:
        store, session, other = new_session()
        Interrupts(at, modules=modules).run(session.rebase)
        moved = session.snapshot_id == frazil.Repository.open(store).lookup("main")
        assert other[0] == (9 if moved else 0), whole.seen[at]


# --- lost races ------------------------------------------------------------------------------------------------------------------------


class Overtaken(MemoryStore):
    """Another writer commits just before a branch file is created."""

    armed = False

    def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
        key = names[0] if names and isinstance(expect[0], CreateOnly) else ""
        if self.armed and "branch" in key:
            self.armed = False
            with frazil.Repository.open(self).transaction(message="rival") as root:
                root.attrs["rival"] = root.attrs.get("rival", 0) + 1  # type: ignore[operator]
            self.armed = True
        return super().put_many(names, pieces, expect)


@pytest.mark.parametrize("packing", ["auto", "off"])
@pytest.mark.parametrize("way", ["run", "commit", "transaction", "stale"])
def test_lost_races_leave_nothing(way: str, packing: str) -> None:
    """Except for one snapshot and one branch file of each rival."""
    store = Overtaken()
    repo = frazil.Repository.create(store, chunk_packing=packing)
    with repo.transaction(message="first") as root:
        root.create_array("large", shape=(LARGE,), dtype="u1", chunks=(LARGE,), codecs=["bytes"])
        root.create_array("small", shape=(3000,), dtype="u1", chunks=(1000,), codecs=["bytes"])
    before = len(store.list())
    store.armed = way != "stale"
    for _ in range(40 if way != "run" else 20):
        with pytest.raises(ConflictError):
            if way == "run":
                repo.run(lambda root: fill(root, 2), message="mine", retries=1)
            elif way == "transaction":
                with repo.transaction(message="mine") as root:
                    fill(root, 2)
            else:
                session = repo.writable_session()
                fill(session.root, 2)
                if way == "stale":
                    with repo.transaction(message="rival") as root:
                        root.attrs["rival"] = root.attrs.get("rival", 0) + 1  # type: ignore[operator]
                try:
                    session.commit("mine")
                finally:
                    session.discard()
    store.armed = False
    messages = [commit.message for commit in repo.history()]
    assert messages.count("rival") == 40
    assert len(store.list()) == before + 80
