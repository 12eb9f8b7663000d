"""Expiry: which snapshots expire, what the others still show, and the reports about removed ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.repository.maintenance.garbage import FORMATS, fill, let_pass, objects, records, values

import frazil
from frazil.errors import ConflictError, FormatError, InvalidInputError, NotFoundError
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.testing import CountingStore
from frazil.testing.memory_format import create_memory_repository

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
Create = Callable[[Store], frazil.Repository]
NOW = timedelta(0)


@formats
def test_histories_end_and_nothing_is_removed(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 20)
    ids = [commit.id for commit in repo.history()]
    there = objects(store)
    report = repo.expire(older_than=NOW, keep_last=3)
    assert (report.snapshots, report.left) == (tuple(ids[3:]), 3)
    assert [commit.id for commit in repo.history()] == ids[:3]
    assert list(repo.history())[-1].parent is None
    assert objects(store) == there
    assert repo.expire(older_than=NOW, keep_last=3).snapshots == ()
    repo.garbage_collect()
    let_pass(store)
    assert repo.garbage_collect().removed["snapshots"] == len(ids) - 3
    assert [commit.id for commit in repo.history()] == ids[:3]
    assert (repo.readonly_session().root["a"][:] == values(19)).all()
    for text in (ids[-1], ids[5][:8].lower()):
        with pytest.raises(NotFoundError, match="has expired"):
            repo.readonly_session(snapshot=text)
        with pytest.raises(NotFoundError, match="has expired"):
            repo.create_tag("late", text)
    with repo.transaction(message="on") as root:
        root["a"][0] = 1
    assert len(list(repo.history())) == 4


@formats
def test_expiry_keeps_tips_and_tags(create: Create) -> None:
    store = MemoryStore()
    repo = create(store)
    fill(repo, 8)
    ids = [commit.id for commit in repo.history()]
    repo.create_tag("v1", ids[5])
    repo.create_branch("dev", ids[3])
    report = repo.expire(older_than=NOW)
    assert set(ids) - set(report.snapshots) == {ids[0], ids[3], ids[5]}
    repo.garbage_collect(now=True)
    assert (repo.readonly_session(tag="v1").root["a"][:] == values(2)).all()
    assert (repo.readonly_session("dev").root["a"][:] == values(4)).all()
    assert [commit.id for commit in repo.history("v1")] == [ids[5]]


@formats
def test_snapshots_expire_by_age(create: Create) -> None:
    repo = create(MemoryStore())
    fill(repo, 3)
    repo_ids = [commit.id for commit in repo.history()]
    limit = list(repo.history())[1].written_at
    assert repo.expire(older_than=limit - timedelta(days=1)).snapshots == ()
    assert repo.expire(older_than=timedelta(days=1)).snapshots == ()
    assert repo.expire(older_than=datetime.now(UTC) + timedelta(days=1), dry_run=True).snapshots == tuple(repo_ids[1:])
    with pytest.raises(InvalidInputError, match="it must be zero or more"):
        repo.expire(older_than=timedelta(microseconds=-1))  # now - then, in the wrong order
    with pytest.raises(InvalidInputError, match="must be a timedelta"):
        repo.expire(older_than=30)  # type: ignore[arg-type]
    assert len(list(repo.history())) == 4


def test_a_branch_that_cannot_be_deleted_keeps_its_history() -> None:
    """The record was written first: the branch stayed, without a history."""
    repo = frazil.Repository.create(MemoryStore(), compatible="alpha-library")
    fill(repo, 2)
    repo.create_branch("dev", "main")
    with repo.transaction(branch="dev", message="more") as root:
        root["a"][0] = 1
    before = {name: [snapshot.id for snapshot in repo.history(name)] for name in repo.branches}
    with pytest.raises(InvalidInputError, match="cannot be deleted"):
        repo.expire(older_than=NOW, expire_branches=True)
    assert {name: [snapshot.id for snapshot in repo.history(name)] for name in repo.branches} == before


def test_each_end_of_a_history_costs_no_request_of_its_own() -> None:
    """Each read the records of expiry again."""
    counts = []
    for commits in (3, 12):
        store = CountingStore(MemoryStore())
        repo = frazil.Repository.create(store)
        for number in range(commits):
            with repo.transaction(message="one") as root:
                root.attrs["n"] = number
            repo.create_tag(f"v{number}", "main")
            with repo.transaction(message="two") as root:
                root.attrs["n"] = -number
        repo.expire(older_than=timedelta(0))
        store.requests.clear()
        repo.garbage_collect()
        counts.append(sum(done.key.startswith("gc/expired") for done in store.requests))
    assert counts[0] == counts[1]


def test_tags_and_branches_on_request() -> None:
    for create in FORMATS:
        repo = create(MemoryStore())
        fill(repo, 2)
        repo.create_branch("dev", "main")
        with repo.transaction(message="more") as root:
            root["a"][0] = 1
        assert repo.expire(older_than=NOW, expire_branches=True).branches == ("dev",)
        assert repo.branches == ["main"]
        repo.create_tag("v1", "main")
        if create is FORMATS[0]:
            with pytest.raises(InvalidInputError, match="tags cannot be deleted"):
                repo.expire(older_than=NOW, keep_tagged=False)
            with pytest.raises(InvalidInputError, match="tags cannot be deleted"):
                repo.delete_tag("v1")
        else:
            assert repo.expire(older_than=NOW, keep_tagged=False).tags == ("v1",)
            repo.create_tag("v2", "main")
            repo.delete_tag("v2")
            assert repo.tags == []


@pytest.mark.parametrize("create", [frazil.Repository.create, create_memory_repository], ids=["alpha", "memory"])
def test_a_rebase_over_expired_snapshots(create: Callable[..., frazil.Repository]) -> None:
    """While it exists, as always; then an error that names the expiry."""
    repo = create(MemoryStore(), runtime=frazil.Runtime(cache_bytes=0))
    fill(repo)
    first, second = repo.writable_session(), repo.writable_session()
    for number in range(12):
        with repo.transaction(message="more") as root:
            root.attrs["n"] = number
    repo.expire(older_than=NOW)
    first.root["a"][0] = 3
    first.commit("in time", rebase="disjoint")
    second.root["a"][1] = 4
    repo.expire(older_than=NOW)
    repo.garbage_collect(now=True)
    with pytest.raises(ConflictError, match="needs a snapshot that was removed"):
        second.commit("too late", rebase="disjoint")
    assert repo.readonly_session().root["a"][0, 0] == 3


@formats
@pytest.mark.parametrize("collected", [False, True])
def test_a_difference_across_what_has_expired(create: Create, collected: bool) -> None:
    """A tag and a branch that parted stay comparable, node by node at the same path."""
    repo = create(store := MemoryStore())
    fill(repo)
    repo.create_branch("dev", "main")
    with repo.transaction("dev", message="dev") as root:
        root["a"].attrs["unit"] = "K"
    repo.create_tag("v1", "dev")
    for number in range(3):
        with repo.transaction(message=str(number)) as root:
            root["a"][number : number + 1] = 0
            root.create_group(f"g{number}")
    before = repo.diff("v1", "main")
    repo.expire(older_than=timedelta(0), keep_last=1)
    if collected:
        repo.garbage_collect(now=True)
    for one in (repo, frazil.Repository.open(store) if create is FORMATS[0] else repo):
        assert str(one.diff("v1", "main")) == str(before)
        assert one.diff("main", "v1").removed == ("/g0", "/g1", "/g2")


def test_a_difference_across_a_lost_snapshot_is_refused() -> None:
    """By path, a renamed node would be another one. Only an expiry makes that necessary."""
    repo = frazil.Repository.create(store := MemoryStore())
    fill(repo)
    repo.create_branch("dev", "main")
    common = repo.lookup("main")
    for branch in ("main", "dev"):
        with repo.transaction(branch, message=branch) as root:
            root.create_group(branch)
    store.erase(f"snapshots/{common}")
    with pytest.raises(NotFoundError, match="no such file"):
        frazil.Repository.open(store).diff("dev", "main")


def test_bad_arguments() -> None:
    repo = frazil.Repository.create(MemoryStore())
    for arguments in ({"keep_last": 0}, {"keep_last": True}, {"keep_tagged": 1}, {"older_than": "yesterday"}):
        with pytest.raises(InvalidInputError):
            repo.expire(**{"older_than": NOW, **arguments})  # type: ignore[arg-type]


def test_the_alpha_library_reads_on(tmp_path: Path) -> None:
    """A compatible repository lists all ancestors in each snapshot, also removed ones."""
    repo = frazil.Repository.create(tmp_path / "r", durable=False, compatible="alpha-library")
    fill(repo, 5)
    repo.expire(older_than=NOW, keep_last=2)
    repo.garbage_collect(now=True)
    assert len(list((tmp_path / "r/snapshots").iterdir())) == 2
    assert (frazil.Repository.open(tmp_path / "r").readonly_session().root["a"][:] == values(4)).all()
    with repo.transaction(message="on") as root:
        root["a"][0] = 1
    repo.garbage_collect(now=True)


def test_missing_ancestors_without_a_record_are_damage() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    fill(repo, 30)
    old = list(repo.history())[9].id
    for key in store.list_prefix("snapshots/"):
        if key[10:] in {commit.id for commit in list(repo.history())[9:]}:
            store.erase(key)
    again = frazil.Repository.open(store)
    with pytest.raises(FormatError, match="no record of an expiry"):
        list(again.history())
    with pytest.raises(FormatError):
        again.garbage_collect(now=True)
    assert old
    assert records(store, "expired") == []


@formats
def test_a_record_that_is_lost(create: Create) -> None:
    """The cache of a collection does not replace the record: an expired snapshot that still exists is part of the history again."""
    store = MemoryStore()
    repo = create(store)
    fill(repo, 20)
    ids = [commit.id for commit in repo.history()]
    repo.expire(older_than=NOW, keep_last=3)
    repo.garbage_collect()
    assert records(store, "marks")
    for key in records(store, "expired"):
        store.erase(key)
    repo = type(repo)(repo._files.uncached(), repo._options, repo._registry)
    assert [commit.id for commit in repo.history()] == ids
    repo.garbage_collect(now=True)
    assert [commit.id for commit in repo.history()] == ids
    assert repo.verify(decode=True).ok
