"""Garbage collection: what is removed, what stays, what is refused, and that it may end anywhere. The simulation tests that no order of events loses
anything."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.repository.archived_repositories import archive
from tests.repository.maintenance.garbage import FORMATS, fill, let_pass, objects, orphan, records, values
from tests.repository.maintenance.interrupts import Interrupted

import frazil
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import ConflictError, FormatError, FrazilError, InvalidInputError, NotFoundError, StoreError
from frazil.repository.session.transaction import Options
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.keys.names import COPY_JOURNAL
from frazil.stores.store import Store
from frazil.stores.values import Page
from frazil.stores.wrappers import WrappedStore
from frazil.testing import CountingStore
from frazil.testing.memory_format import open_memory_repository

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
Create = Callable[[Store], frazil.Repository]


@formats
def test_two_runs_remove_dead_objects(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    live = objects(store)
    orphan(repo)
    dead = objects(store) - live
    assert len(dead) == 2
    first = repo.garbage_collect()
    assert (first.condemned["chunks"], first.condemned_bytes, first.removed_bytes) == (2, 4096, 0)
    assert objects(store) == live | dead
    again = repo.garbage_collect()
    assert (again.waiting["chunks"], sum(again.condemned.values()), again.held) == (2, 0, 0)
    let_pass(store)
    last = repo.garbage_collect()
    assert (last.removed["chunks"], last.removed_bytes, last.held) == (2, 4096, 1)
    assert objects(store) == live
    assert records(store, "condemned") == records(store, "runs") == []
    for number, commit in enumerate(reversed(list(repo.history())[:-1])):
        assert (repo.readonly_session(snapshot=commit.id).root["a"][:] == values(number)).all()
    assert json.loads(json.dumps(last.to_json()))["removed"]["chunks"] == 2
    assert "removed: 2 chunks, 4,096 bytes" in str(last)


@formats
def test_all_kinds_of_garbage(create: Create) -> None:
    """Garbage of a reset branch, of a deleted one, and of a lost race."""
    store = MemoryStore()
    repo = create(store)
    fill(repo, 1)
    live = objects(store)
    start = repo.lookup("main")
    repo.create_branch("dev", start)
    for branch in ("main", "dev"):
        with repo.transaction(branch, message="more") as root:
            root["a"][0] = 1
            root.create_group("g")
    repo.reset_branch("main", start)
    repo.delete_branch("dev")
    assert repo.garbage_collect(now=True).removed == {"snapshots": 2, "attributes": 0, "manifests": 2, "chunks": 2}
    assert objects(store) == live


@pytest.mark.parametrize("name", ["icechunk-alpha-repo", "icechunk-alpha-varied"])
def test_repositories_of_the_alpha_library(name: str) -> None:
    """Histories know their first snapshot by another id than its file has. The result does not depend on cached data: also if all is read again."""
    files = archive(name)
    store = files.store
    assert isinstance(store, MemoryStore)
    repo = frazil.Repository(files, Options(), DEFAULT_REGISTRY)
    kept = objects(store)
    repo.garbage_collect(now=True)
    start = repo.lookup("main")
    repo.create_branch("dev", start)
    with repo.transaction("dev", message="more") as root:
        root.create_group("more")
    repo.garbage_collect(now=True)
    assert len(objects(store)) > len(kept)
    repo.reset_branch("dev", start)
    for _ in range(2):
        repo.garbage_collect(now=True)
        assert objects(store) == kept
    assert repo.verify().ok


@formats
def test_objects_reachable_from_refs_stay(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    tip, before = [commit.id for commit in repo.history()][:2]
    repo.create_tag("v1", tip)
    repo.create_branch("dev", tip)
    repo.reset_branch("main", before)
    there = objects(store)
    repo.garbage_collect(now=True)
    assert objects(store) == there
    assert records(store, "pins") == []
    assert (repo.readonly_session(tag="v1").root["a"][:] == values(2)).all()


@formats
def test_a_dry_run_writes_nothing(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    orphan(repo)
    before = {key: store.get(key) for key in store.list()}
    report = repo.garbage_collect(dry_run=True)
    assert report.dry_run
    assert report.condemned["chunks"] == 2
    assert repo.garbage_collect(dry_run=True, now=True).removed["chunks"] == 2
    assert {key: store.get(key) for key in store.list()} == before
    repo.garbage_collect()
    let_pass(store)
    assert repo.garbage_collect(dry_run=True).removed["chunks"] == 2


@formats
def test_an_open_session_goes_on_when_its_branch_is_held(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    orphan(repo)
    session = repo.writable_session()
    session.root["a"][0] = 5
    repo.garbage_collect()
    let_pass(store, timedelta(hours=25))
    session._transaction.restart_age()
    assert repo.garbage_collect().held == 1
    session.root["a"][0] = 6
    session.commit("without a rebase")
    assert repo.readonly_session().root["a"][0, 0] == 6


def old(session: frazil.Session) -> None:
    """The session began a day ago."""
    wall, steady = session._transaction._since
    session._transaction._since = wall - 10**9 * 86400, steady


@formats
def test_an_old_session_writes_condemned_objects_again(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    session = repo.writable_session()
    session.root["a"][:] = values(7)
    repo.garbage_collect()
    old(session)
    session.commit("late")
    let_pass(store)
    assert repo.garbage_collect().removed["chunks"] == 4
    assert (repo.readonly_session().root["a"][:] == values(7)).all()


@formats
def test_an_old_session_is_refused_if_its_objects_were_removed(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    session = repo.writable_session()
    fork = session.fork()
    fork.root["a"][1] = 8
    repo.garbage_collect()
    let_pass(store)
    assert repo.garbage_collect().removed["chunks"] == 1
    session.merge(fork)
    old(session)
    with pytest.raises(ConflictError, match="wrote 1 chunk file that cannot be found"):
        session.commit("too late")
    session.discard()
    session.root["a"][1] = 9
    session.commit("again")


@formats
def test_a_condemned_snapshot_can_be_tagged_while_no_collection_is_at_work(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    tip, before = [commit.id for commit in repo.history()][:2]
    repo.reset_branch("main", before)
    repo.garbage_collect()
    store.set("gc/runs/00000000000000000000", b"")
    for make in (repo.create_tag, repo.create_branch):
        with pytest.raises(ConflictError, match="a garbage collection is running"):
            make("saved", tip)
    with pytest.raises(ConflictError, match="a garbage collection is running"):
        repo.reset_branch("main", tip)
    store.erase("gc/runs/00000000000000000000")
    repo.create_tag("saved", tip)
    let_pass(store)
    assert sum(repo.garbage_collect().removed.values()) == 0
    assert (repo.readonly_session(tag="saved").root["a"][:] == values(2)).all()


@formats
def test_collected_snapshots_cannot_be_tagged(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    tip, before = [commit.id for commit in repo.history()][:2]
    repo.reset_branch("main", before)
    repo.garbage_collect(now=True)
    with pytest.raises(NotFoundError):
        repo.create_tag("gone", tip)
    assert records(store, "pins") == []


# --- refusals --------------------------------------------------------------------------------------------------------------------------


@formats
@pytest.mark.parametrize("kind", ["snapshots/", "manifests/"])
def test_damage_ends_it_before_anything_is_removed(create: Create, kind: str) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    orphan(repo)
    for lost in [key for key in store.list() if key.startswith(kind)]:
        value = store.get(lost)
        assert value is not None
        opener = open_memory_repository if "state" in store.list() else frazil.Repository.open
        for damage in (lambda key=lost: store.erase(key), lambda key=lost: store.set(key, b"?")):
            damage()
            before = objects(store)
            with pytest.raises(FormatError):
                opener(store).garbage_collect(now=True)
            assert objects(store) == before
            store.set(lost, value)
    assert records(store, "runs") == []


def test_bad_arguments() -> None:
    repo = frazil.Repository.create(MemoryStore())
    for arguments in ({"wait": timedelta(minutes=59)}, {"wait": 24}, {"now": 1}, {"dry_run": "no"}, {"progress": 3}):
        with pytest.raises(InvalidInputError):
            repo.garbage_collect(**arguments)  # type: ignore[arg-type]


def test_a_damaged_list_is_refused_and_damaged_marks_are_not() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    fill(repo)
    orphan(repo)
    repo.garbage_collect()
    (name,) = records(store, "marks")
    store.set(name, (store.get(name) or b"")[:-1])
    assert repo.garbage_collect().live["chunks"] == 12
    (name,) = records(store, "condemned")
    store.set(name, (store.get(name) or b"")[:-1] + b"?")
    with pytest.raises(FormatError, match="checksum"):
        repo.garbage_collect()


def test_collections_are_refused_during_a_copy() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    store.set(COPY_JOURNAL, b"{}")
    with pytest.raises(ConflictError, match="a copy to this location"):
        repo.garbage_collect()
    let_pass(store)
    assert repo.garbage_collect().leftovers == 1
    assert store.get(COPY_JOURNAL) is None


class Timeless(WrappedStore):
    """A store without time stamps."""

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        page = self.inner.list_page(prefix, after, delimited=delimited, details=details, limit=limit)
        return page._replace(modified=np.full(len(page.keys), -1)) if details else page


def test_a_store_without_times() -> None:
    repo = frazil.Repository.create(Timeless(MemoryStore()), chunk_packing="off")
    fill(repo)
    orphan(repo)
    with pytest.raises(StoreError, match="does not give the time"):
        repo.garbage_collect()
    assert repo.garbage_collect(now=True).removed["chunks"] == 2


# --- its costs, and interruptions --------------------------------------------------------------------------------------------------------


def test_marked_manifests_are_not_read_again() -> None:
    counting = CountingStore(MemoryStore())
    repo = frazil.Repository.create(counting, chunk_packing="off")
    fill(repo, 20)
    frazil.Repository.open(counting).garbage_collect()
    with repo.transaction(message="one more") as root:
        root["a"][0] = 1
    counting.clear()
    progress: list[tuple[str, int]] = []
    frazil.Repository.open(counting).garbage_collect(progress=lambda *update: progress.append(update))
    assert ("snapshots read", 1) in progress
    assert ("manifests read", 1) in progress
    assert len([step for step in progress if "read" in step[0]]) == 2


@formats
@pytest.mark.parametrize("after", [False, True])
def test_the_next_run_goes_on_wherever_one_ended(create: Create, after: bool) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 4)
    opener = open_memory_repository if "state" in store.list() else frazil.Repository.open
    repo.reset_branch("main", [commit.id for commit in repo.history()][2])
    repo.garbage_collect()
    let_pass(store)
    kept = {key: store.get(key) for key in store.list()}
    times = dict(store._table.times)
    ended = 0
    for left in range(1000):
        for key in store.list():
            if key not in kept:
                store.erase(key)
        for key, value in kept.items():
            store.set(key, value or b"")
        store._table.times.update(times)
        try:
            opener(Interrupted(store, left, KeyboardInterrupt(), after=after)).garbage_collect()
        except KeyboardInterrupt:
            ended += 1
        else:
            break
        assert (opener(store).readonly_session().root["a"][:] == values(1)).all()
        let_pass(store)
        opener(store).garbage_collect()
        assert len(objects(store)) == 3 + 2 + 8
        let_pass(store, timedelta(days=8))
        opener(store).garbage_collect()
        assert records(store, "condemned") == records(store, "runs") == []
    assert ended > 5


# --- on a disk ---------------------------------------------------------------------------------------------------------------------------


def test_a_folder(tmp_path: Path) -> None:
    """With files that killed writers left: lock files, and files without their name."""
    repo = frazil.Repository.create(tmp_path / "r", durable=False, chunk_packing="off", compatible="alpha-library")
    fill(repo)
    folder = tmp_path / "r"
    chunk = next((folder / "chunks").iterdir())
    orphan(repo)
    left = [
        chunk.with_name(chunk.name + ".__lock"),
        folder / "snapshots/X.__lock",
        folder / "manifests/.copy-1-2-3.__lock",
    ]
    left += [folder / "chunks/~a-1.__lock", folder / "chunks/young.__lock"]
    for path in left:
        path.write_bytes(b"torn")
    (folder / "chunks/foreign").write_bytes(b"kept")
    first = repo.garbage_collect()
    assert (first.condemned["chunks"], first.leftovers) == (2, 0)
    for path in [*left[:-1], *(folder / "gc/condemned").iterdir()]:
        os.utime(path, (0, 0))
    size = chunk.stat().st_size
    last = repo.garbage_collect()
    assert (last.removed["chunks"], last.leftovers) == (2, 4)
    assert [path.exists() for path in left] == [False] * 4 + [True]
    assert (folder / "chunks/foreign").read_bytes() == b"kept"
    assert chunk.stat().st_size == size
    assert (repo.readonly_session().root["a"][:] == values(2)).all()


def test_a_folder_that_can_only_be_read(tmp_path: Path) -> None:
    fill(frazil.Repository.create(tmp_path / "r", durable=False))
    repo = frazil.Repository.open(LocalStore(tmp_path / "r", read_only=True))
    assert repo.garbage_collect(dry_run=True).live["snapshots"] == 4
    with pytest.raises(FrazilError):
        repo.garbage_collect(now=True)


def test_a_first_run_that_is_interrupted_keeps_what_it_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.repository.maintenance.reachable._SAVED", 1)
    monkeypatch.setattr("frazil.repository.maintenance.reachable._MANIFESTS", 1)
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    fill(repo, 10)
    seen = 0

    def interrupt(step: str, _count: int) -> None:
        nonlocal seen
        seen += step == "manifests read"
        if seen == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repo.garbage_collect(progress=interrupt)
    progress: list[tuple[str, int]] = []
    assert sum(repo.garbage_collect(progress=lambda *update: progress.append(update)).condemned.values()) == 0
    assert sum(step == "manifests read" for step, _ in progress) == 10 - 5


def test_an_adopted_file_that_was_condemned_is_written_again(tmp_path: Path) -> None:
    """Another session adopted it, so its age is not that of this session."""
    (tmp_path / "file").write_bytes(bytes(range(100)))
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    with repo.transaction(message="an array") as root:
        root.create_array("a", shape=(2,), chunks=(1,), dtype="u1", codecs=[])
    adopted = repo.writable_session().adopt_file(tmp_path / "file")
    repo.garbage_collect()
    session = repo.writable_session()
    fork = session.fork()
    fork.set_adopted_chunks("a", [[0]], adopted, 7, 1)
    session.merge(fork)
    session.commit("adopted")
    let_pass(store)
    assert repo.garbage_collect().removed["chunks"] == 1
    assert repo.readonly_session().root["a"][0] == 7


# --- clocks that are wrong ---------------------------------------------------------------------------------------------------------------


@formats
@pytest.mark.parametrize("others", [0, 2])
def test_a_clock_of_the_store_that_jumps_removes_nothing_that_is_committed(create: Create, others: int) -> None:
    """The list is immediately two days old, and the session only seconds: it sees that its branch was held, whether or not others committed too, and is
    refused."""
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    session = repo.writable_session()
    session.root["a"][:2] = values(7)[:2]
    assert repo.garbage_collect().condemned["chunks"] == 2
    let_pass(store)
    for number in range(others):
        with repo.transaction(message="before") as root:
            root.attrs["n"] = number
    assert repo.garbage_collect().removed["chunks"] == 2
    for number in range(others):
        with repo.transaction(message="after") as root:
            root.attrs["n"] = number
    with pytest.raises(ConflictError, match="wrote 2 chunk files that cannot be found"):
        session.commit("late", rebase="disjoint")
    assert not repo.verify().problems


@formats
def test_commits_of_others_alone_are_no_reason_to_look(create: Create) -> None:
    """A session that others overtook makes no extra requests because of collections."""
    store = CountingStore(MemoryStore())
    repo = create(store)
    fill(repo)
    session = repo.writable_session()
    session.root["a"][:2] = values(7)[:2]
    for number in range(3):
        with repo.transaction(message="others") as root:
            root.attrs["n"] = number
    session.rebase("disjoint")
    assert not session._transaction.needs_check
    session.commit("rebased")
    assert (repo.readonly_session().root["a"][:2] == values(7)[:2]).all()


@formats
def test_a_list_goes_after_what_it_names_and_after_the_next_list(create: Create) -> None:
    """A reader of the lists finds each removed object condemned, or gone; docs/design/072 depends on this order."""
    disk = MemoryStore()
    repo = create(disk)
    fill(repo)
    orphan(repo)
    assert repo.garbage_collect().condemned["chunks"]
    let_pass(disk)
    orphan(repo)
    store = CountingStore(disk)
    opener = open_memory_repository if "state" in disk.list() else frazil.Repository.open
    assert opener(store).garbage_collect().removed["chunks"]
    lists = [at for at, done in enumerate(store.requests) if done.key.startswith("gc/condemned/")]
    erased = [at for at in lists if store.requests[at].operation == "erase"]
    put = [at for at in lists if store.requests[at].operation == "put"]
    gone = [
        at for at, done in enumerate(store.requests) if done.operation == "erase" and done.key.startswith("chunks/")
    ]
    assert gone and put and max(gone) < min(put) < min(erased)
