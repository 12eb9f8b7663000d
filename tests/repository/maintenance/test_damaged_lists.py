"""Damaged lists of ancestors, of which a collection keeps everything that a ref needs or removes nothing, and expiries after their repair. Other ids are in
tests/repository/verification/test_parents.py."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.repository.maintenance.garbage import FORMATS
from tests.repository.repair.test_contradictions import reopened, rewrite

import frazil
from frazil.errors import FormatError
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.ids import ObjectId, decode_id
from frazil.formats.snapshots import SnapshotInfo
from frazil.repository.maintenance.reachable import is_referenced
from frazil.stores import MemoryStore

COMMITS = 12
Infos = list[SnapshotInfo]


def linear(commits: int = COMMITS) -> tuple[MemoryStore, frazil.Repository, list[str]]:
    """A repository, and the ids of the history of `main`."""
    store = MemoryStore()
    repo = FORMATS[0](store)
    commit(repo, range(commits))
    return store, repo, [one.id for one in repo.history()]


def commit(repo: frazil.Repository, numbers: range) -> None:
    for number in numbers:
        with repo.transaction(message=str(number)) as root:
            root.attrs["number"] = number


def relisted(change: Callable[[Infos], Infos]) -> Callable[[SnapshotFile], SnapshotFile]:
    return lambda snapshot: snapshot._replace(history=tuple(change(list(snapshot.history))))


def renamed(at: int, other: str) -> Callable[[SnapshotFile], SnapshotFile]:
    return relisted(lambda infos: [*infos[:at], infos[at]._replace(id=decode_id(other)), *infos[at + 1 :]])


def kept(store: MemoryStore) -> set[str]:
    return {key.rpartition("/")[2] for key in store.list_prefix("snapshots/")}


@pytest.mark.parametrize("at", range(COMMITS))
@pytest.mark.parametrize("position", [0, 1, 2, 7])
@pytest.mark.parametrize("skipped", [0, 1], ids=["repeated", "left-out"])
def test_lists_that_leave_out_or_repeat_one(at: int, position: int, skipped: int) -> None:
    """What a verification calls sound hinders no collection. The parent that a list names is right if it has one ancestor less."""
    store, repo, ids = linear()
    rewrite(store, ids[at], relisted(lambda infos: infos[: position + 1] + infos[position + 2 * skipped :]))
    repo = reopened(repo)
    if repo.verify().ok:
        repo.garbage_collect(now=True)
    assert kept(store) == set(ids)


@pytest.mark.parametrize("other", [1, 5, 6, 9, 12])
def test_another_parent_does_not_hinder_where_a_later_list_names_the_right_one(other: int) -> None:
    """Also if it is the next but one: then the list of the child before seemed to be wrong."""
    store, repo, ids = linear()
    rewrite(store, ids[3], renamed(0, ids[other]))
    repo = reopened(repo)
    assert not repo.verify().ok
    repo.garbage_collect(now=True)
    assert kept(store) == set(ids)


@pytest.mark.parametrize("commits", [1, 2])
def test_a_list_that_begins_with_its_own_snapshot(commits: int) -> None:
    """Also if nothing follows it: the first snapshot was removed."""
    store, repo, ids = linear(commits)
    rewrite(store, ids[0], renamed(0, ids[0]))
    repo = reopened(repo)
    with pytest.raises(FormatError, match="does not follow"):
        repo.garbage_collect(now=True)
    assert kept(store) == set(ids)


def test_the_right_parent_after_an_expired_snapshot_does_not_count() -> None:
    """A list that lost its parents, which only lists behind an expired snapshot name: the parent was removed."""
    store, repo, ids = linear(4)
    repo.create_branch("old", ids[3])
    repo.create_branch("older", ids[4])
    repo.expire(older_than=timedelta(0), keep_last=2)
    repo.delete_branch("older")
    rewrite(store, ids[3], relisted(lambda infos: []))
    repo = reopened(repo)
    with pytest.raises(FormatError, match="ends too early"):
        repo.garbage_collect(now=True)
    assert kept(store) == set(ids)


def test_an_expired_snapshot_in_the_place_of_the_parent_before_it() -> None:
    """The history seemed to end there, and the parent, which nothing else named, was removed."""
    store, repo, ids = linear(3)
    repo.expire(older_than=timedelta(0), keep_last=2)
    rewrite(store, ids[0], renamed(0, ids[2]))
    repo = reopened(repo)
    with pytest.raises(FormatError, match="does not follow"):
        repo.garbage_collect(now=True)
    assert kept(store) == set(ids)


def test_whether_a_ref_leads_to_a_snapshot_beside_a_cycle() -> None:
    """A collection follows the files of snapshots there, and so do those that ask whether it may remove something."""
    store, repo, ids = linear()
    repo.create_branch("other", ids[-1])
    with repo.transaction("other", message="garbage") as root:
        root.attrs["number"] = -1
    garbage = repo.lookup("other")
    repo.reset_branch("other", ids[-1])
    rewrite(store, ids[0], renamed(3, ids[1]))
    repo = reopened(repo)
    files = repo._files

    def leads(to: str) -> bool:
        identity: ObjectId = decode_id(to)
        return is_referenced(files, identity)

    assert [leads(to) for to in (ids[0], ids[2], ids[4], ids[8], ids[-1], garbage)] == [True] * 5 + [False]
    repo.garbage_collect(now=True)
    assert kept(store) == set(ids)


def test_an_expiry_after_a_repair_that_accepts_an_older_parent() -> None:
    """Another branch has that snapshot, too, at the end of its history: the expired snapshot before it is removed, and was looked up."""
    store, repo, ids = linear(4)
    repo.create_branch("other", ids[1])
    with repo.transaction("other", message="other") as root:
        root.attrs["number"] = -1
    repo.reset_branch("main", ids[2])
    commit(repo, range(10, 14))
    repo.expire(older_than=timedelta(0), keep_last=3)
    repo.garbage_collect(now=True)
    tip, *_ = [one.id for one in repo.history()]
    *_, oldest = [one.id for one in repo.history("other")]
    rewrite(store, tip, renamed(0, oldest))
    repo = reopened(repo)
    assert repo.repair(history=True).ok
    repo = reopened(repo)
    assert repo.expire(older_than=timedelta(0), keep_last=1).snapshots
    repo.garbage_collect(now=True)
    assert reopened(repo).verify().ok


def test_an_expiry_where_histories_know_the_first_snapshot_by_two_ids() -> None:
    """As in repositories of the alpha library. A repair named the id of its file, other lists the id in histories, and the snapshot in between none."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible="alpha-library")
    first = repo.lookup("main")
    rewrite(store, first, lambda snapshot: snapshot._replace(metadata=snapshot.metadata._replace(id=bytes(range(12)))))
    repo = reopened(repo)
    commit(repo, range(3))
    second = [one.id for one in repo.history()][-2]
    repo.create_tag("v1", second)
    rewrite(store, second, relisted(lambda infos: []))
    repo = reopened(repo)
    assert repo.repair(history=True).ok
    repo = reopened(repo)
    assert repo.expire(older_than=timedelta(0), keep_last=2).snapshots
    repo.garbage_collect(now=True)
    assert reopened(repo).verify().ok


def test_tags_and_branches_beside_a_branch_whose_snapshot_is_missing() -> None:
    """The other branch shows that the snapshot is in use."""
    store, repo, ids = linear(2)
    repo.create_branch("dev", "main")
    with repo.transaction("dev", message="lost") as root:
        root.attrs["number"] = 3
    store.erase(f"snapshots/{repo.lookup('dev')}")
    repo = reopened(repo)
    repo.create_tag("v1", ids[1])
    repo.create_branch("next", ids[1])
    assert repo.lookup("next") == repo.lookup("v1") == ids[1]
