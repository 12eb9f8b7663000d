"""Every operation of maintenance and of refs, ended at each of its store operations by an interrupt, a lack of memory, or a lost answer: the repository opens
and is sound, the operation can be repeated, and two collections leave no garbage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pytest
from tests.repository.maintenance.garbage import FORMATS, fill, let_pass, orphan, records, values
from tests.repository.maintenance.interrupts import Interrupted

import frazil
from frazil.errors import AlreadyExistsError, CommitUnknownError, NotFoundError, StoreError
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.testing.memory_format import open_memory_repository
from frazil.testing.simulation.collectors import dead_objects

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
EVER = datetime(9999, 1, 1, tzinfo=UTC)


def _first(repo: frazil.Repository) -> str:
    return [commit.id for commit in repo.history()][-1]


OPERATIONS: Mapping[str, Callable[[frazil.Repository], object]] = {
    "collect": lambda repo: repo.garbage_collect(),
    "collect now": lambda repo: repo.garbage_collect(now=True),
    "expire": lambda repo: repo.expire(older_than=EVER, keep_last=2),
    "expire branches": lambda repo: repo.expire(older_than=EVER, expire_branches=True),
    "create tag": lambda repo: repo.create_tag("new", "main"),
    "create branch": lambda repo: repo.create_branch("new", "main"),
    "reset branch": lambda repo: repo.reset_branch("dev", repo.lookup("main")),
    "delete branch": lambda repo: repo.delete_branch("dev"),
    "verify": lambda repo: repo.verify(decode=True),
}


State: TypeAlias = tuple[tuple[str, int, bool], ...]


def state_of(store: Store, before: Mapping[str, bytes]) -> State:
    """The objects in a store, with their sizes and whether they are as before; of new ones without their names, which are random."""
    values = {key: store.get(key) or b"" for key in store.list()}
    one_by_one = (
        (key if key in before else key.rpartition("/")[0], len(value), before.get(key) == value)
        for key, value in values.items()
    )
    return tuple(sorted(one_by_one))


@formats
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_collection_interrupted_anywhere_loses_nothing(
    create: Callable[[Store], frazil.Repository], operation: str, after: bool
) -> None:
    """Many operations only read: what follows an interrupt is tried once for each state in which interrupts leave the store."""
    store = MemoryStore()
    repo = create(store)
    fill(repo, 4)
    repo.create_branch("dev", [commit.id for commit in repo.history()][1])
    repo.create_branch("old", "main")
    repo.reset_branch("old", [commit.id for commit in repo.history()][2])
    repo.create_tag("kept", [commit.id for commit in repo.history()][1])
    orphan(repo)
    repo.garbage_collect()
    let_pass(store)
    opener = open_memory_repository if "state" in store.list() else frazil.Repository.open
    kept, times = {key: store.get(key) or b"" for key in store.list()}, dict(store._table.times)
    act = OPERATIONS[operation]
    kinds = [KeyboardInterrupt(), MemoryError(), StoreError("lost", done=None)]
    ended, states = 0, set[State]()
    for left in range(1000):
        for key in store.list():
            if key not in kept:
                store.erase(key)
        for key, value in kept.items():
            store.set(key, value)
        store._table.times.update(times)
        error = kinds[left % len(kinds)]
        wrapped = Interrupted(store, left, error, after=after)
        try:
            act(opener(wrapped))
        except (KeyboardInterrupt, MemoryError, StoreError, CommitUnknownError):
            pass
        if wrapped.left >= 0:
            break
        ended += 1
        if (state := state_of(store, kept)) in states:
            continue
        states.add(state)
        again = opener(store)
        assert not again.verify().problems
        assert (again.readonly_session().root["a"][:] == values(3)).all()
        try:
            act(again)
        except (AlreadyExistsError, NotFoundError):
            assert operation.partition(" ")[0] in {"create", "delete"}
        for days in (8, 2, 2):
            let_pass(store, timedelta(days=days))
            again.garbage_collect()
        assert not dead_objects(again, store.list())
        assert records(store, "condemned") == records(store, "runs") == records(store, "pins") == []
        assert not again.verify().problems
    assert ended or (operation == "verify" and after), "verification writes nothing"


@formats
def test_dry_runs_write_nothing(create: Callable[[Store], frazil.Repository]) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 4)
    orphan(repo)
    repo.garbage_collect()
    let_pass(store)
    repo.create_branch("dev", "main")
    before = {key: store.get(key) for key in store.list()}
    would = repo.garbage_collect(dry_run=True)
    assert (would.dry_run, would.removed["chunks"]) == (True, 2)
    expired = repo.expire(older_than=EVER, expire_branches=True, dry_run=True)
    assert (len(expired.snapshots), expired.branches) == (4, ("dev",))
    assert {key: store.get(key) for key in store.list()} == before
    assert repo.expire(older_than=EVER, expire_branches=True).to_json() == {**expired.to_json(), "dry_run": False}
    assert repo.garbage_collect().removed == would.removed


def test_a_store_that_lists_nothing_reads_on() -> None:
    """As on a web server: expired snapshots are not known there; histories continue to the last existing file."""

    class Unlisted(Interrupted):
        @property
        def capabilities(self) -> object:
            return self.inner.capabilities._replace(listable=False)

    store = MemoryStore()
    repo = frazil.Repository.create(store, chunk_packing="off")
    fill(repo, 30)
    repo.expire(older_than=EVER, keep_last=2)
    repo.garbage_collect(now=True)
    assert len(list(repo.history())) == 2
    unlisted = frazil.Repository.open(Unlisted(store, 10**9, KeyboardInterrupt(), after=False))
    assert [commit.id for commit in unlisted.history()][:2] == [commit.id for commit in repo.history()]
    assert (unlisted.readonly_session().root["a"][:] == values(29)).all()
