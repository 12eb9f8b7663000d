"""Snapshots that store a fact twice, with a contradiction: verification finds it, a collection keeps the objects that either of the two names, and a repair
rewrites both."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest
from tests.repository.maintenance.garbage import FORMATS, fill, objects, values

import frazil
from frazil.errors import FormatError
from frazil.formats.alpha.snapshots import SnapshotFile, decode_snapshot, encode_and_index
from frazil.stores import MemoryStore
from frazil.stores.store import Store

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
Create = Callable[[Store], frazil.Repository]


def rewrite(store: MemoryStore, snapshot: str, change: Callable[[SnapshotFile], SnapshotFile]) -> None:
    """Another content of the file of a snapshot, which no writer produces."""
    key = f"snapshots/{snapshot}"
    found = decode_snapshot(store.get(key) or b"", key)
    store.set(key, encode_and_index(change(found), key)[0])


def reopened(repo: frazil.Repository) -> frazil.Repository:
    return type(repo)(repo._files.uncached(), repo._options, repo._registry)


def filled(create: Create, commits: int) -> tuple[MemoryStore, frazil.Repository]:
    store = MemoryStore()
    repo = create(store)
    repo = type(repo)(repo._files, repo._options._replace(attribute_limit=10), repo._registry)
    fill(repo, commits)
    with repo.transaction(message="a manifest and an attribute file that no other snapshot has") as root:
        root["a"][:] = values(20)
        root["a"].attrs["long"] = "x" * 100
    return store, repo


def without_lists(snapshot: SnapshotFile) -> SnapshotFile:
    return snapshot._replace(manifest_files=(), attribute_files=())


def with_another_id(snapshot: SnapshotFile) -> SnapshotFile:
    (first, *others) = snapshot.manifest_files
    return snapshot._replace(manifest_files=(first._replace(id=bytes(12)), *others))


@formats
@pytest.mark.parametrize("damage", [without_lists, with_another_id])
def test_lists_that_lack_what_nodes_refer_to(create: Create, damage: Callable[[SnapshotFile], SnapshotFile]) -> None:
    """In a tip and in a tag. A repair of another problem does not keep the list either."""
    store, repo = filled(create, 3)
    repo.create_tag("v1", "main")
    rewrite(store, repo.lookup("main"), damage)
    repo = reopened(repo)
    found = repo.verify()
    assert "list" in {problem.kind for problem in found.problems}
    assert not any(problem.kind == "list" and problem.path for problem in found.problems)
    kept = objects(store)
    if damage is without_lists:
        repo.garbage_collect(now=True)
        assert objects(store) == kept
        assert np.array_equal(reopened(repo).readonly_session().root["a"][:], values(20))
        assert reopened(repo).readonly_session().root["a"].attrs["long"] == "x" * 100
    else:  # a listed but missing snapshot may be the only trace of something
        with pytest.raises(FormatError):
            repo.garbage_collect(now=True)
        assert objects(store) == kept
    assert list(repo.repair(dry_run=True).commits) == ["main"]
    done = repo.repair()
    assert list(done.commits) == ["main"]
    assert {problem.ref for problem in repo.verify(history=False).problems} <= {"tag v1"}
    assert np.array_equal(repo.readonly_session().root["a"][:], values(20))
    assert repo.repair(history=True).commits == {}
    if damage is without_lists:
        repo.garbage_collect(now=True)
    assert np.array_equal(reopened(repo).readonly_session().root["a"][:], values(20))
    assert np.array_equal(reopened(repo).readonly_session(tag="v1").root["a"][:], values(20))


SHORT: dict[str, Callable[[SnapshotFile], SnapshotFile]] = {
    "a list that ends": lambda one: one._replace(total_parents=len(one.history)),
    "a shorter list": lambda one: one._replace(history=one.history[:3], total_parents=3),
    "no list": lambda one: one._replace(history=()),
    "no list, another count": lambda one: one._replace(history=(), total_parents=1),
    "as the first snapshot": lambda one: one._replace(history=(), total_parents=0),
}


UNKNOWN = ("no list", "no list, another count", "as the first snapshot")


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("expired", [False, True])
def test_a_tip_whose_list_of_ancestors_is_wrong(name: str, expired: bool) -> None:
    """A verification names it, a repair lists its ancestors again, and nothing before it is collected, however many commits follow."""
    store, repo = filled(FORMATS[0], 14)
    if expired:
        repo.expire(older_than=timedelta(0), keep_last=12)
        repo.garbage_collect(now=True)
        store.erase_prefix("gc/marks/")
    ids = [commit.id for commit in repo.history()]
    rewrite(store, ids[0], SHORT[name])
    repo = reopened(repo)
    kept = objects(store)
    for found in (repo.verify(), repo.verify(history=False)):
        assert {(problem.kind, problem.ref) for problem in found.problems} == {("history", "branch main")}
        assert f"snapshots/{ids[0]}" in {problem.key for problem in found.problems}
    if name in UNKNOWN:  # objects that it does not name are not garbage
        with pytest.raises(FormatError, match="ends too early"):
            repo.garbage_collect(now=True)
    else:
        repo.garbage_collect(now=True)
    assert objects(store) == kept
    assert list(repo.repair(dry_run=True).commits) == ["main"]
    done = repo.repair()
    assert done.ok, str(done)
    assert [(entry.kind, entry.ref) for entry in done.repaired] == [("history", "branch main")]
    for number in range(20):
        assert [commit.id for commit in repo.history()][number + 1 :] == ids
        if number % 6 == 0:
            assert repo.verify().ok
            repo.garbage_collect(now=True)
            assert objects(store) >= kept
        with repo.transaction(message="more") as root:
            root["a"].attrs["more"] = number
        repo = reopened(repo)


@pytest.mark.parametrize("name", SHORT)
def test_a_tag_whose_list_of_ancestors_is_wrong(name: str) -> None:
    """A new branch has the whole history. If the earlier part is unknown, a user may let the history end."""
    store, repo = filled(FORMATS[0], 14)
    ids = [commit.id for commit in repo.history()]
    repo.create_tag("v1", ids[0])
    repo.reset_branch("main", ids[1])
    rewrite(store, ids[0], SHORT[name])
    kept = objects(store)
    repo = reopened(repo)
    done = repo.repair()
    assert list(done.created) == ["v1-repaired"]
    assert [commit.id for commit in repo.history("v1-repaired")][1:] == ids
    repo.garbage_collect(now=True)
    assert objects(store) >= kept
    assert {(problem.kind, problem.ref) for problem in repo.verify().problems} == {("history", "tag v1")}
    done = repo.repair(history=True)
    assert done.ok, str(done)
    assert repo.verify().ok
    repo.garbage_collect(now=True)
    assert objects(store) >= kept
    repo.create_branch("next", "v1")  # commits there copy the list of the tag, which is accepted
    for number in range(10):
        with repo.transaction("next", message="next") as root:
            root["a"][0] = number
        assert repo.verify().ok
        assert repo.verify(history=False).ok


def test_a_list_of_ancestors_that_nothing_tells() -> None:
    """The snapshot was committed to a branch that no longer exists: only with consent its history ends with it, and collections run again."""
    store, repo = filled(FORMATS[0], 3)
    repo.create_branch("dev", "main")
    with repo.transaction("dev", message="dev") as root:
        root["a"][0] = 5
    lost = repo.lookup("dev")
    repo.create_tag("v1", "dev")
    repo.delete_branch("dev")
    rewrite(store, lost, SHORT["as the first snapshot"])
    repo = reopened(repo)
    with pytest.raises(FormatError):
        repo.garbage_collect(now=True)
    done = repo.repair()
    assert [(entry.kind, entry.ref) for entry in done.lost] == [("history", "tag v1")]
    assert not done.ok
    assert not done.created
    assert repo.repair(history=True).ok
    repo.garbage_collect(now=True)
    assert [commit.id for commit in repo.history("v1")] == [lost]
    assert len(list(repo.history())) == 5
    repo.create_branch("next", "v1")  # a history that continues there ends there, too
    for number in range(10):
        with repo.transaction("next", message="next") as root:
            root["a"][0] = number
        assert repo.verify().ok
    assert len(list(repo.history("next"))) == 11


def test_a_history_with_another_parent() -> None:
    """The tip lists its ancestors in another order than these do: all of them stay, and branches there have their own history."""
    store, repo = filled(FORMATS[0], 4)
    ids = [commit.id for commit in repo.history()]
    rewrite(store, ids[0], lambda snapshot: snapshot._replace(history=(snapshot.history[0], *snapshot.history[:0:-1])))
    repo = reopened(repo)
    found = repo.verify()
    assert {problem.kind for problem in found.problems} == {"history"}
    assert not any(found.orphans.values())
    kept = objects(store)
    assert list(repo.repair(history=True).commits) == ["main"]
    repo.garbage_collect(now=True)
    assert objects(store) > kept
    assert [commit.id for commit in reopened(repo).history()][1:] == ids
    repo.create_branch("sound", ids[1])
    assert [commit.id for commit in repo.history("sound")] == ids[1:]


def branched(name: str) -> tuple[MemoryStore, frazil.Repository, list[str]]:
    """A branch whose tip claims one earlier snapshot, and `main`, whose history is sound. Returns the ids of that history."""
    store, repo = filled(FORMATS[0], 4)
    ids = [commit.id for commit in repo.history()]
    repo.create_branch(name, ids[1])
    with repo.transaction(name, message="short") as root:
        root["a"][0] = 5
    rewrite(store, repo.lookup(name), lambda snapshot: snapshot._replace(history=snapshot.history[:1], total_parents=1))
    return store, reopened(repo), ids


@pytest.mark.parametrize("name", ["dev", "side"])
def test_a_short_history_takes_nothing_from_another_branch(name: str) -> None:
    """In both orders of reading."""
    store, repo, ids = branched(name)
    kept = objects(store)
    for _ in range(2):
        assert not any(repo.verify().orphans.values())
        repo.repair(history=True)
        repo.garbage_collect(now=True)
        assert objects(store) > kept
        repo = reopened(repo)
        assert [commit.id for commit in repo.history()] == ids
    kept = objects(store)
    with repo.transaction(message="more") as root:
        root["a"][0] = 6
    repo.reset_branch("main", ids[0])
    assert repo.garbage_collect(now=True).removed["snapshots"] == 1
    assert objects(store) == kept
    assert [commit.id for commit in reopened(repo).history()] == ids


def test_damage_beyond_a_shortened_history_is_tolerated() -> None:
    """The parent in its file is intact, and an earlier one is missing: the history ends there, and collections run again."""
    store, repo, ids = branched("dev")
    repo.reset_branch("main", repo.lookup("dev"))
    store.erase(f"snapshots/{ids[3]}")
    repo = reopened(repo)
    with pytest.raises(FormatError):
        repo.garbage_collect(now=True)
    done = repo.repair(history=True)
    assert any(ids[3] in entry.text for entry in done.repaired if entry.kind == "history")
    repo.garbage_collect(now=True)
    assert store.get(f"snapshots/{ids[2]}") is not None
    assert [commit.id for commit in reopened(repo).history("dev")][2:] == ids[1:3]


def test_a_short_history_before_what_is_missing() -> None:
    """The parent in its file is missing: the history ends there."""
    store, repo, ids = branched("dev")
    repo.reset_branch("main", repo.lookup("dev"))
    store.erase(f"snapshots/{ids[2]}")
    repo = reopened(repo)
    with pytest.raises(FormatError, match="no record of an expiry"):
        repo.garbage_collect(now=True)
    done = repo.repair(history=True)
    assert any(ids[2] in entry.text for entry in done.repaired if entry.kind == "history")
    assert done.ok, str(done)
    repo.garbage_collect(now=True)


def test_a_count_of_ancestors_that_is_too_small() -> None:
    """The list leads to an intact snapshot: if the list continues, the count is not used."""
    store, repo = filled(FORMATS[0], 14)
    ids = [commit.id for commit in repo.history()]
    repo.create_branch("dev", ids[1])
    with repo.transaction("dev", message="wrong") as root:
        root["a"][0] = 5
    rewrite(store, repo.lookup("dev"), lambda one: one._replace(history=one.history[:1], total_parents=2))
    repo = reopened(repo)
    kept = objects(store)
    assert repo.verify().ok
    repo.garbage_collect(now=True)
    assert objects(store) == kept
    assert [commit.id for commit in repo.history("dev")][1:] == ids[1:]
