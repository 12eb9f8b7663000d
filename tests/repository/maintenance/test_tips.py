"""Branch files that are lost after a collection has seen them: the branch looks as after a reset, and its commits look like garbage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.repository.maintenance.garbage import DAY, fill, let_pass, objects, orphan, records, values

import frazil
from frazil.errors import FormatError
from frazil.repository.maintenance.reachable import heads
from frazil.repository.maintenance.tips import lost_tips, record_tips
from frazil.stores import MemoryStore
from frazil.stores.store import Store


def seen(store: Store) -> frazil.Repository:
    """A repository whose branches main and dev a collection has seen."""
    repo = frazil.Repository.create(store, chunk_packing="off")
    fill(repo, 3)
    repo.create_branch("dev", [one.id for one in repo.history()][1])
    with repo.transaction("dev", message="of dev") as root:
        root["a"][:] = values(7)
    repo.garbage_collect()
    return repo


def files_of(store: Store, branch: str) -> list[str]:
    """The keys of the files of a branch, the newest first."""
    return [key for key in store.list_prefix(f"refs/branch.{branch}/") if key.endswith(".json")]


def replace(store: Store) -> None:
    newest, before, *_ = files_of(store, "main")
    store.set(newest, store.get(before) or b"")


def commit_over(store: Store) -> None:
    """Loses the newest file of main; then a session commits to the branch that is left."""
    store.erase(files_of(store, "main")[0])
    for number in range(2):
        with frazil.Repository.open(store).transaction(message="over it") as root:
            root["a"][:] = values(8 + number)


LOSSES: dict[str, Callable[[Store], object]] = {
    "newest of main": lambda store: store.erase(files_of(store, "main")[0]),
    "another in its place": replace,
    "newest of dev": lambda store: store.erase(files_of(store, "dev")[0]),
    "all of dev": lambda store: store.erase_prefix("refs/branch.dev/"),
    "with later commits": commit_over,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_file_is_found_and_its_commit_is_kept(loss: str) -> None:
    store = MemoryStore()
    branch = "dev" if "dev" in loss else "main"
    tip = seen(store).lookup_branch(branch)
    LOSSES[loss](store)
    let_pass(store)
    repo, before = frazil.Repository.open(store), objects(store)
    (problem,) = repo.verify().problems
    assert (problem.kind, problem.ref, problem.snapshot) == ("ref", f"branch {branch}", tip)
    for now in (False, True):
        with pytest.raises(FormatError, match="is missing or differs"):
            repo.garbage_collect(now=now)
        with pytest.raises(FormatError, match="is missing or differs"):
            repo.expire(older_than=timedelta(0))
    assert objects(store) == before
    assert repo.repair(dry_run=True).created == {f"{branch}-found": tip}
    done = repo.repair()
    assert (dict(done.created), done.ok, len(done.repaired)) == ({f"{branch}-found": tip}, True, 1)
    assert repo.repair().repaired == ()
    repo.garbage_collect(now=True)
    assert len(records(store, "tips")) == 1
    values_found = repo.readonly_session(f"{branch}-found").root["a"][:]
    assert (values_found == values(7 if branch == "dev" else 2)).all()
    assert repo.verify().ok


@pytest.mark.parametrize("now", [False, True])
def test_a_file_that_is_lost_during_a_collection(now: bool) -> None:
    store = MemoryStore()
    repo = seen(store)
    newest, tip = files_of(store, "main")[0], repo.lookup_branch("main")

    def lose(what: str, count: int) -> None:
        store.erase(newest)

    with pytest.raises(FormatError, match="is missing or differs"):
        repo.garbage_collect(now=now, progress=lose)
    assert f"snapshots/{tip}" in store.list()
    assert dict(frazil.Repository.open(store).repair().created) == {"main-found": tip}


def test_repeated_repairs_keep_a_lost_tip_once() -> None:
    store = MemoryStore()
    repo = seen(store)
    store.erase(f"snapshots/{repo.lookup_branch('dev')}")
    for branch in ("main", "dev"):
        store.erase(files_of(store, branch)[0])
    assert frazil.Repository.open(store).repair().created.keys() == {"main-found"}
    with frazil.Repository.open(store).transaction("main-found", message="more") as root:
        root["a"][:] = values(9)
    again = frazil.Repository.open(store).repair()
    assert (dict(again.created), len(again.lost)) == ({}, 1)
    assert frazil.Repository.open(store).repair(accept_loss=True).ok


def test_tips_that_were_read_before_a_change_are_no_losses() -> None:
    store = MemoryStore()
    repo = seen(store)
    files = repo._files
    before = {tip.branch: tip for tip in heads(files)}
    with repo.transaction(message="more") as root:
        root["a"][:] = values(8)
    record_tips(files)
    assert lost_tips(files, before) == []


def test_changes_of_branches_are_no_losses() -> None:
    store = MemoryStore()
    repo = seen(store)
    tip = repo.lookup_branch("main")
    repo.reset_branch("main", [one.id for one in repo.history()][2])
    repo.delete_branch("dev")
    assert repo.verify().ok
    for _ in range(2):
        let_pass(store)
        repo.garbage_collect()
    assert f"snapshots/{tip}" not in store.list()
    (record,) = records(store, "tips")
    repo.garbage_collect()
    assert records(store, "tips") == [record]  # the branches have not changed


@pytest.mark.parametrize("loses", ["before", "after"])
def test_a_file_that_is_lost_of_a_branch_that_is_deleted(loses: str) -> None:
    """The search for its commit in the history of a deletion, which has none, was an InvalidInputError. After the deletion of what was left of the branch the
    lost commit is kept, after that of the whole branch nothing is lost."""
    store = MemoryStore()
    repo = seen(store)
    name, lost = files_of(store, "dev")[0], repo.lookup("dev")
    if loses == "after":
        repo.delete_branch("dev")
    store.erase(name)
    repo = frazil.Repository.open(store)
    if loses == "before":
        repo.delete_branch("dev")
        assert [(problem.kind, problem.ref) for problem in repo.verify().problems] == [("ref", "branch dev")]
        assert repo.repair().created == {"dev-found": lost}
    assert repo.verify().ok
    repo.expire(older_than=timedelta(0))
    repo.garbage_collect(now=True)


def test_a_deletion_after_another_commit_in_the_place_of_the_lost_one() -> None:
    """Who deleted the branch saw the other commit alone."""
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    repo.create_branch("dev", "main")
    other = repo.writable_session("dev")
    other.root.attrs["n"] = 2
    with repo.transaction("dev", message="lost") as root:
        root.attrs["n"] = 1
    lost = repo.lookup("dev")
    repo.garbage_collect()
    store.erase(files_of(store, "dev")[0])
    other.commit("other")
    frazil.Repository.open(store).delete_branch("dev")
    repo = frazil.Repository.open(store)
    assert [(problem.kind, problem.ref) for problem in repo.verify().problems] == [("ref", "branch dev")]
    with pytest.raises(FormatError):
        repo.garbage_collect(now=True)
    assert lost in repo.repair().created.values()


def test_a_file_with_the_snapshot_of_the_one_before_is_no_loss() -> None:
    """As collections write it before they remove objects."""
    store = MemoryStore()
    repo = seen(store)
    orphan(repo)
    repo.garbage_collect(now=True)
    newest, before, *_ = files_of(store, "main")
    assert store.get(newest) == store.get(before)
    store.erase(newest)
    repo = frazil.Repository.open(store)
    assert repo.verify().ok
    repo.garbage_collect(now=True)


def test_a_branch_that_went_back_is_reported_even_if_another_one_keeps_its_commit() -> None:
    store = MemoryStore()
    repo = seen(store)
    repo.create_branch("other", "main")
    tip = repo.lookup_branch("main")
    store.erase(files_of(store, "main")[0])
    repo = frazil.Repository.open(store)
    assert [problem.ref for problem in repo.verify().problems] == ["branch main"]
    done = repo.repair()
    assert (dict(done.created), done.ok) == ({"main-found": tip}, True)


def test_a_lost_file_beside_a_damaged_one() -> None:
    """The branch of the damaged file is not repaired without consent, so the tips are recorded later."""
    store = MemoryStore()
    repo = seen(store)
    tips = {name: repo.lookup_branch(name) for name in ("main", "dev")}
    store.erase(files_of(store, "dev")[0])
    store.set(files_of(store, "main")[0], b"?")
    repo = frazil.Repository.open(store)
    created = repo.repair().created
    assert created["dev-found"] == tips["dev"]
    assert tips["main"] in created.values()
    assert not repo.repair().ok
    assert repo.repair(tips=True).moved.keys() == {"main"}
    assert repo.repair().ok


def test_a_commit_that_cannot_be_read_any_more() -> None:
    store = MemoryStore()
    tip = seen(store).lookup_branch("main")
    store.erase(files_of(store, "main")[0])
    store.erase(f"snapshots/{tip}")
    repo = frazil.Repository.open(store)
    done = repo.repair()
    assert (dict(done.created), len(done.lost), done.ok) == ({}, 1, False)
    assert repo.repair(accept_loss=True).ok
    repo.garbage_collect(now=True)


def test_a_record_that_is_damaged() -> None:
    store = MemoryStore()
    repo = seen(store)
    (record,) = records(store, "tips")
    store.set(record, b"?")
    assert [problem.key for problem in repo.verify().problems] == [record]
    with pytest.raises(FormatError, match="magic"):
        repo.garbage_collect(wait=DAY)
    store.erase(record)
    repo.garbage_collect()
    assert len(records(store, "tips")) == 1
