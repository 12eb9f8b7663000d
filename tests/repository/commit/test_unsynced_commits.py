"""Commits with durable=False, on a disk that loses unsynced data at a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from errno import EIO
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import FrazilError, InvalidInputError, StoreError
from frazil.repository.alpha import format as alpha_format
from frazil.repository.session.branches import Branches
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import Changed, Pieces, Version
from frazil.stores.wrappers import WrappedStore
from frazil.testing.memory_format import create_memory_repository, open_memory_repository


class Forgetful(WrappedStore):
    """A disk. loose: keys that a crash may lose; syncs: how often keys were synced"""

    __slots__ = ("loose", "syncs")

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.loose: set[str] = set()
        self.syncs = 0

    def unsynced(self) -> Store:
        return Loose(self)

    def sync_values(self, keys: Sequence[str]) -> list[str]:
        self.syncs += 1
        self.loose -= set(keys)
        return [key for key in keys if not self.inner.exists(key)]

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        done = super().put_many(names, pieces, expect)
        self.loose -= {name for name, answer in zip(names, done, strict=True) if not isinstance(answer, Changed)}
        return done

    def crash(self, random: Random) -> None:
        for key in sorted(self.loose):
            if random.random() < 0.5:
                self.inner.erase(key)
        self.loose.clear()


class Loose(WrappedStore):
    """The same disk, without any syncs."""

    __slots__ = ()
    inner: Forgetful

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        done = self.inner.inner.put_many(names, pieces, expect)
        self.inner.loose |= {name for name, answer in zip(names, done, strict=True) if not isinstance(answer, Changed)}
        return done


STEPS = st.lists(st.sampled_from(["durable", "loose", "loose", "sync", "tag", "other session"]), max_size=8)


@given(steps=STEPS, seed=st.integers(0, 2**16))
def test_durable_commits_survive_a_crash(steps: list[str], seed: int) -> None:
    disk = Forgetful(MemoryStore())
    repo = frazil.Repository.create(disk)
    with repo.transaction(message="array") as root:
        root.create_array("a", shape=(4, 100), chunks=(1, 100), dtype="f8", codecs=[])[:] = 0
    session = repo.writable_session()
    certain = {repo.lookup("main"): np.zeros((4, 100))}
    waiting: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = {}
    values = np.zeros((4, 100))
    random = Random(seed)
    for number, step in enumerate(steps, 1):
        if step in ("sync", "tag"):
            if step == "sync":
                repo.sync()
            else:
                repo.create_tag(f"t{number}", "main")
            certain |= waiting
            waiting.clear()
            continue
        if step == "other session":
            session = repo.writable_session()
        row = random.randrange(4)
        values[row, : random.choice([1, 100])] = number
        session.root["a"][row] = values[row]
        waiting[session.commit("one", durable=step == "durable")] = values.copy()
        if step == "durable":
            certain |= waiting
            waiting.clear()
    disk.crash(random)
    again = frazil.Repository.open(disk.inner)
    for snapshot, expected in certain.items():
        array = again.readonly_session(snapshot=snapshot).root["a"]
        assert isinstance(array, frazil.Array)
        np.testing.assert_array_equal(array[:], expected)
    if not waiting:
        assert again.lookup("main") == list(certain)[-1]
        assert not again.verify().problems


def test_many_commits_are_one_sync() -> None:
    for create, opened in (
        (frazil.Repository.create, frazil.Repository.open),
        (create_memory_repository, open_memory_repository),
    ):
        disk = Forgetful(MemoryStore())
        repo = create(disk)
        for number in range(5):
            session = repo.writable_session()
            session.root.attrs["n"] = number
            session.commit("one", durable=False)
        assert disk.loose
        repo.sync()
        repo.sync()
        assert (disk.loose, disk.syncs) == (set(), 1)
        assert opened(disk.inner).readonly_session().root.attrs["n"] == 4


def failing_once(monkeypatch: pytest.MonkeyPatch, done: bool | None) -> None:
    """The next sync fails, and later ones succeed, whatever the first has lost."""
    sync = Forgetful.sync_values

    def failing(disk: Forgetful, keys: Sequence[str]) -> list[str]:
        monkeypatch.setattr(Forgetful, "sync_values", sync)
        raise StoreError("the disk failed", done=done)

    monkeypatch.setattr(Forgetful, "sync_values", failing)


def test_a_sync_that_did_not_begin_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Forgetful(MemoryStore())
    repo = frazil.Repository.create(disk)
    session = repo.writable_session()
    session.root.attrs["n"] = 1
    session.commit("loose", durable=False)
    failing_once(monkeypatch, done=False)
    session.root.attrs["n"] = 2
    with pytest.raises(StoreError, match="failed"):
        session.commit("durable")
    assert repo.readonly_session().root.attrs["n"] == 1
    session.commit("durable")
    assert not disk.loose


@pytest.mark.parametrize("done", [True, None])
def test_a_sync_that_failed_is_never_forgotten(done: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reports a loss only once. Afterwards nothing durable depends on that data, in any session."""
    disk = Forgetful(MemoryStore())
    repo = frazil.Repository.create(disk)
    repo.create_branch("other", "main")
    session = repo.writable_session()
    session.root.attrs["n"] = 1
    loose = session.commit("loose", durable=False)
    session.root.attrs["n"] = 2
    failing_once(monkeypatch, done)
    with pytest.raises(StoreError, match="the disk failed"):
        repo.sync()
    for act in (
        repo.sync,
        repo.sync,
        lambda: session.commit("durable"),
        lambda: repo.create_tag("v1", "main"),
        *(lambda change=change: change(repo) for change in MAINTENANCE.values()),
    ):
        with pytest.raises(StoreError, match="an earlier sync failed") as caught:
            act()
        assert caught.value.hint
    assert disk.loose
    assert repo.lookup("main") == loose
    assert repo.tags == []
    session.commit("loose, too", durable=False)
    again = frazil.Repository.open(disk)
    assert again.verify().ok
    again.run(lambda root: root.attrs.update(n=3), message="durable")


def test_a_sync_that_failed_while_an_interrupt_came_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    repo = frazil.Repository.create(Forgetful(MemoryStore()))
    session = repo.writable_session()
    session.root.attrs["n"] = 1
    session.commit("loose", durable=False)

    def interrupted(*_: object) -> None:
        try:
            raise OSError(EIO, "the disk failed")
        except OSError:
            raise KeyboardInterrupt  # noqa: B904 (as a handler of signals does)

    with monkeypatch.context() as patched:
        patched.setattr(Forgetful, "sync_values", interrupted)
        with pytest.raises(KeyboardInterrupt):
            repo.sync()
    with pytest.raises(StoreError, match="an earlier sync failed"):
        repo.sync()


def test_a_sync_during_a_commit_loses_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Forgetful(MemoryStore())
    repo = frazil.Repository.create(disk)
    note = Branches.note_unsynced

    def noted(self: Branches, keys: Iterable[str], *, exist: bool = True) -> None:
        written = list(keys)
        note(self, written, exist=exist)
        if not all(map(disk.exists, written)):
            repo.sync()  # of another thread, before there is a snapshot and a branch file

    monkeypatch.setattr(Branches, "note_unsynced", noted)
    session = repo.writable_session()
    session.root.attrs["n"] = 1
    session.commit("loose", durable=False)
    assert disk.loose
    repo.sync()
    assert not disk.loose


def test_unsynced_commits_on_a_disk_sync_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = frazil.Repository.create(tmp_path / "r")
    synced: list[list[str]] = []
    monkeypatch.setattr(
        LocalStore,
        "sync_values",
        lambda self, keys, old=LocalStore.sync_values: synced.append(list(keys)) or old(self, keys),
    )
    session = repo.writable_session()
    session.root.create_array("a", data=np.arange(1000.0), chunks=(100,), codecs=[])
    session.commit("loose", durable=False)
    assert not synced
    repo.sync()
    folders = sorted({key.split("/")[0] for key in synced[0]})
    assert folders == ["chunks", "manifests", "refs", "snapshots"]
    assert all((tmp_path / "r" / key).exists() for key in synced[0])
    with pytest.raises(InvalidInputError):
        session.commit("wrong", durable=1)  # type: ignore[arg-type]


def test_a_durable_commit_after_a_loose_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Forgetful(MemoryStore())
    repo = frazil.Repository.create(disk)
    session = repo.writable_session()
    session.root.create_array("a", data=np.arange(1000.0), codecs=[])

    def full(*arguments: object, **options: object) -> None:
        raise frazil.errors.StoreError("the disk is full", done=False)

    with monkeypatch.context() as patched:
        patched.setattr(alpha_format, "encode_commit", full)
        with pytest.raises(FrazilError, match="full"):
            session.commit("loose", durable=False)
    assert disk.loose
    session.commit("durable")
    assert not disk.loose


MAINTENANCE: dict[str, Callable[[frazil.Repository], object]] = {
    "collection": lambda repo: repo.garbage_collect(now=True),
    "expiry": lambda repo: repo.expire(older_than=timedelta(0)),
    "repair": lambda repo: repo.repair(),
    "delete_branch": lambda repo: repo.delete_branch("other"),
}


@pytest.mark.parametrize("name", MAINTENANCE)
def test_maintenance_syncs_the_objects_that_it_depends_on(name: str) -> None:
    disk = Forgetful(MemoryStore())
    repo = frazil.Repository.create(disk)
    repo.create_branch("other", "main")
    session = repo.writable_session()
    session.root.attrs["n"] = 1
    session.commit("loose", durable=False)
    assert disk.loose
    MAINTENANCE[name](repo)
    assert not disk.loose


def test_maintenance_syncs_the_branches_that_other_processes_did_not() -> None:
    """A crash lost the file of a commit, which a record of the tips named, or the deletion of a branch whose objects were removed."""
    disk = Forgetful(MemoryStore())
    repo = frazil.Repository.create(disk)
    for change in ("collection", "expiry"):
        with frazil.Repository.open(disk.unsynced()).transaction(message=change) as root:
            root.attrs["n"] = change
        MAINTENANCE[change](repo)
        assert not any(key.startswith("refs/") for key in disk.loose)
    repo.create_branch("other", "main")
    with repo.transaction("other", message="removed") as root:
        root.attrs["n"] = 3
    frazil.Repository.open(disk.unsynced()).delete_branch("other")
    assert repo.garbage_collect(now=True).removed["snapshots"]
    assert not any(key.startswith("refs/") for key in disk.loose)


@pytest.mark.parametrize("way", ["commit", "merge", "cherry_pick"])
def test_a_commit_that_another_process_made_is_synced_before_it_is_named(way: str) -> None:
    """Its id is the result where nothing else is left to be committed."""
    disk = Forgetful(MemoryStore())
    repo = frazil.Repository.create(disk)
    session = repo.writable_session()
    session.root.attrs["n"] = 1
    repo.create_branch("other", "main")
    with repo.transaction("other", message="the same") as root:
        root.attrs["n"] = 2
    frazil.Repository.open(disk.unsynced()).merge("other")
    assert any(key.startswith("refs/") for key in disk.loose)
    if way == "commit":
        assert session.commit("mine", rebase="theirs") == repo.lookup("other")
    else:
        assert getattr(repo, way)("other") == repo.lookup("other")
    assert not any(key.startswith("refs/") for key in disk.loose)
