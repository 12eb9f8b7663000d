"""Collections concurrent with stopped collections, and with foreign or damaged files under gc/. The simulation tests random orders of events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

import numpy as np
import pytest
from tests.repository.maintenance.garbage import FORMATS, fill, let_pass, objects, orphan, records, values

import frazil
from frazil.errors import ConflictError, FormatError, NotFoundError, StoreError
from frazil.formats.ids import decode_id, encode_id
from frazil.repository.alpha.format import AlphaFormat
from frazil.repository.format import Answer, EncodedCommit, RepositoryFormat, Tip
from frazil.repository.maintenance import collection
from frazil.repository.maintenance.condemned import no_ids
from frazil.repository.maintenance.id_columns import id_column
from frazil.repository.maintenance.marks import Marks
from frazil.repository.maintenance.reachable import Progress, Reachable
from frazil.repository.maintenance.records import emit_columns, parse_columns
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import Capabilities, Changed, Pieces, Version
from frazil.stores.wrappers import WrappedStore
from frazil.testing.memory_format import open_memory_repository

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
Create = Callable[[Store], frazil.Repository]


class Paused(WrappedStore):
    """A store whose client stops once: before it removes a key with this prefix, or after it put one. meanwhile: actions of others then"""

    def __init__(self, inner: Store, at: str, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self.at, self.meanwhile = at, [meanwhile]

    def _pause(self, names: Sequence[str]) -> None:
        if self.meanwhile and any(name.startswith(self.at) for name in names):
            self.meanwhile.pop()()

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        answers = super().put_many(names, pieces, expect)
        self._pause(names)
        return answers

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        self._pause(names)
        return super().erase_many(names, expect)


def _opener(store: MemoryStore) -> Callable[[Store], frazil.Repository]:
    return open_memory_repository if "state" in store.list() else frazil.Repository.open


@formats
@pytest.mark.parametrize("days", [0, 2])
def test_a_collection_that_stood_still_removes_nothing_that_was_tagged_since(create: Create, days: int) -> None:
    """One collection stops before it removes a snapshot. Meanwhile another one sees the pin of a tag in creation, and ends while the creator of the tag is
    stopped."""
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    opener = _opener(store)
    tip, before = [commit.id for commit in repo.history()][:2]
    repo.reset_branch("main", before)
    repo.garbage_collect()
    let_pass(store)

    def tag() -> None:
        let_pass(store, timedelta(days=days))
        slow = opener(Paused(store, "gc/pins/", lambda: opener(store).garbage_collect()))
        with pytest.raises(ConflictError, match="a garbage collection is running"):
            slow.create_tag("saved", tip)

    opener(Paused(store, "snapshots/", tag)).garbage_collect()
    assert [*opener(store).tags] == []
    assert len(objects(store)) == 3 + 2 + 8
    assert records(store, "runs") == records(store, "pins") == []


def test_the_file_of_a_run_that_was_killed_goes_after_a_week() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    name = "gc/runs/00000000000000000000"
    store.set(name, emit_columns({}))
    let_pass(store, timedelta(days=6))
    assert repo.garbage_collect().leftovers == 0
    let_pass(store, timedelta(days=2))
    assert repo.garbage_collect().leftovers == 1
    assert store.get(name) is None


class LateErase(WrappedStore):
    """A bucket that does not answer a request to remove snapshots, and executes it later."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.sent: list[Callable[[], object]] = []

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(direct=False)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        if names[0].startswith("snapshots/"):
            self.sent.append(partial(super().erase_many, names, expect))
            raise StoreError("no answer", done=None)
        return super().erase_many(names, expect)


@formats
def test_a_removal_that_may_still_happen_keeps_others_from_tagging(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    opener = _opener(store)
    tip, before = [commit.id for commit in repo.history()][:2]
    repo.reset_branch("main", before)
    repo.garbage_collect()
    let_pass(store)
    late = LateErase(store)
    with pytest.raises(StoreError, match="no answer"):
        opener(late).garbage_collect()
    with pytest.raises(ConflictError, match="a garbage collection is running"):
        opener(store).create_tag("saved", tip)
    late.sent.pop()()
    assert not repo.verify().problems
    let_pass(store, timedelta(days=8))
    opener(store).garbage_collect()
    assert records(store, "runs") == records(store, "condemned") == []


@formats
@pytest.mark.parametrize("kind", ["snapshots/", "manifests/", "chunks/"])
def test_incomplete_snapshots_are_neither_tagged_nor_pinned(create: Create, kind: str) -> None:
    """A removal was interrupted, or a commit was aborted: part of the history of a condemned snapshot is gone, and a pin was left on it."""
    store = MemoryStore()
    repo = create(store)
    fill(repo, 4)
    ids = [commit.id for commit in repo.history()]
    live = objects(store)
    with repo.transaction(message="lost") as root:
        root["a"][:] = values(50)
    middle = repo.lookup("main")
    with repo.transaction(message="lost, too") as root:
        root["a"][:] = values(51)
    tip = repo.lookup("main")
    repo.reset_branch("main", ids[0])
    repo.garbage_collect()
    gone = f"snapshots/{middle}" if kind == "snapshots/" else min(set(store.list_prefix(kind)) - live)
    store.erase(gone)
    store.set("gc/pins/00000000000000000000", emit_columns({"snapshots": id_column([decode_id(tip)])}))
    again = _opener(store)(store)
    for point in (
        lambda: again.create_tag("saved", tip),
        lambda: again.create_branch("saved", tip),
        lambda: again.reset_branch("main", tip),
    ):
        with pytest.raises(NotFoundError, match="not complete"):
            point()
    let_pass(store)
    again.garbage_collect()
    assert objects(store) == live
    assert not again.verify().problems


@formats
def test_snapshots_with_condemned_chunks_cannot_be_tagged_during_a_collection(create: Create) -> None:
    """The collection may have read the pins before, and is about to remove the chunk file."""
    store = MemoryStore()
    repo = create(store)
    first = repo.lookup("main")
    live = objects(store)
    with repo.transaction(message="lost") as root:
        root.create_array("a", data=values(50))
    tip = repo.lookup("main")
    repo.reset_branch("main", first)
    (chunk,) = set(store.list_prefix("chunks/")) - live
    ids = no_ids() | {"chunks": id_column([decode_id(chunk.removeprefix("chunks/"))])}
    store.set("gc/condemned/00000000000000000000", emit_columns(ids))
    store.set("gc/runs/00000000000000000000", b"")
    again = _opener(store)(store)
    with pytest.raises(ConflictError, match="a garbage collection is running"):
        again.create_tag("saved", tip)
    store.erase("gc/runs/00000000000000000000")
    again.create_tag("saved", tip)


DAYS = 4 * 86_400_000_000_000


@pytest.mark.parametrize("step", ["_hold_branches", "record_tips", "_copy_journals"])
@pytest.mark.parametrize(("wall", "steady"), [(DAYS, 0), (-DAYS, DAYS)], ids=["asleep", "stopped and set back"])
def test_a_collection_that_stood_still_for_days_removes_nothing(
    step: str, wall: int, steady: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have given up its file, and may have tagged a snapshot that it is about to remove: since the file was written, wherever it stood still."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    fill(repo)
    orphan(repo)
    repo.garbage_collect()
    let_pass(store)
    there, now, ticks, act = objects(store), time.time_ns, time.monotonic_ns, getattr(collection, step)

    def sleep(*arguments: object) -> object:
        done = act(*arguments)
        monkeypatch.setattr(time, "time_ns", lambda: now() + wall)
        monkeypatch.setattr(time, "monotonic_ns", lambda: ticks() + steady)
        return done

    monkeypatch.setattr(collection, step, sleep)
    with pytest.raises(StoreError, match="was suspended"):
        repo.garbage_collect()
    assert objects(store) == there
    assert records(store, "runs") == []


@formats
def test_dead_objects_stay_condemned(create: Create) -> None:
    """Also snapshots that were alive at the start of the collection, and dead once it had held the branches."""
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    orphan(repo)
    opener = _opener(store)
    repo.garbage_collect()
    let_pass(store)
    lists: list[int] = []
    opener(Paused(store, "gc/condemned/", lambda: lists.append(len(records(store, "condemned"))))).garbage_collect()
    assert lists == [1]
    repo.reset_branch("main", [commit.id for commit in repo.history()][1].lower())
    repo.garbage_collect()
    let_pass(store)
    orphan(repo)
    opener(Paused(store, "gc/condemned/", lambda: lists.append(len(records(store, "condemned"))))).garbage_collect()
    assert lists == [1, 2]


# --- files under gc/ ---------------------------------------------------------------------------------------------------------------------


@formats
def test_foreign_files_stay_unchanged(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo)
    orphan(repo)
    foreign = [f"gc/{folder}/.DS_Store" for folder in ("condemned", "expired", "marks", "pins", "runs")]
    foreign += ["gc/README", "gc/pins/a/b", "chunks/notes.txt", "snapshots/ABCDEFGHJKMNPQRSTVWX"]
    for name in foreign:
        store.set(name, b"by another program")
    repo.expire(older_than=timedelta(0))
    assert len(list(repo.history())) == 1
    repo.garbage_collect()
    let_pass(store, timedelta(days=30))
    repo.create_tag("v1", repo.lookup("main"))
    assert repo.garbage_collect().removed["chunks"] == 10
    assert all(store.get(name) == b"by another program" for name in foreign)
    assert (repo.readonly_session().root["a"][:] == values(2)).all()


def test_every_changed_byte_of_a_file_is_seen() -> None:
    """Damage of the header, too: marks with a wrong count would take live chunks for dead."""
    columns = {"snapshots": np.arange(12, 48, dtype=np.uint8).view("S12"), "starts": np.arange(3)}
    data = emit_columns(columns)
    assert {name: column.tolist() for name, column in parse_columns(data, "k").items()} == {
        name: column.tolist() for name, column in columns.items()
    }
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(FormatError):
            parse_columns(bytes(changed), "k")


def test_a_file_without_its_columns_is_damaged() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    for folder in ("expired", "pins", "condemned"):
        name = f"gc/{folder}/00000000000000000000"
        store.set(name, emit_columns({}))
        with pytest.raises(FormatError, match="it has no") as caught:
            repo.garbage_collect()
        assert caught.value.key == name
        store.erase(name)


def test_objects_of_a_refused_old_session_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its snapshot was condemned while it was stopped, and another writer pointed a branch to that snapshot."""
    store = MemoryStore()
    repo = FORMATS[0](store)
    fill(repo)
    session = repo.writable_session()
    session.root["a"][:] = values(7)
    session._transaction.needs_check = True
    advance = AlphaFormat.advance

    def overtaken(files: AlphaFormat, tip: Tip, commit: EncodedCommit) -> Answer:
        monkeypatch.undo()
        files.write_new(commit.new)
        other = frazil.Repository.open(store)
        other.create_branch("side", encode_id(commit.id))
        other.run(lambda root: root.attrs.update(first=1), message="first")
        return advance(files, tip, commit)

    monkeypatch.setattr(AlphaFormat, "advance", overtaken)
    with pytest.raises(ConflictError):
        session.commit("late")
    session.root["a"][:] = values(8)
    session.discard()
    again = frazil.Repository.open(store)
    assert again.verify(decode=True).ok
    assert np.array_equal(again.readonly_session("side").root["a"][:], values(7))


@pytest.mark.parametrize("marks_again", [True, False])
def test_commits_between_the_mark_and_the_hold_are_kept(marks_again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a session that is young by its own clock, although its files were condemned long ago by the store's clock. Only the second mark sees it."""
    store = MemoryStore()
    repo = FORMATS[0](store)
    fill(repo)
    session = repo.writable_session()
    session.root["a"][:] = values(7)
    collector = frazil.Repository.open(store)
    collector.garbage_collect()
    let_pass(store)
    hold, mark = collection._hold_branches, collection.mark
    first: list[tuple[Reachable, Marks]] = []

    def hold_late(files: RepositoryFormat) -> int:
        session.commit("meanwhile")
        return hold(files)

    def mark_once(files: RepositoryFormat, marks: Marks, progress: Progress, *, saves: bool) -> tuple[Reachable, Marks]:
        if not first:
            first.append(mark(files, marks, progress, saves=saves))
        return first[0]

    monkeypatch.setattr(collection, "_hold_branches", hold_late)
    if not marks_again:
        monkeypatch.setattr(collection, "mark", mark_once)
    collector.garbage_collect()
    found = frazil.Repository.open(store).verify(decode=True)
    assert found.ok == marks_again, str(found)
