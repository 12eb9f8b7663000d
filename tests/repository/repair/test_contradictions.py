"""Snapshots that say one thing twice, and not the same: verification finds it, a collection keeps what either of the two names, and a repair writes both anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.repository.maintenance.garbage import FORMATS, fill, objects, values

import frazil
from frazil.errors import FormatError
from frazil.formats.alpha.snapshots import SnapshotFile, decode_snapshot, encode_and_index
from frazil.formats.ids import decode_id
from frazil.stores import MemoryStore
from frazil.stores.store import Store

formats = pytest.mark.parametrize("create", FORMATS, ids=["alpha", "memory"])
Create = Callable[[Store], frazil.Repository]


def rewrite(store: MemoryStore, snapshot: str, change: Callable[[SnapshotFile], SnapshotFile]) -> None:
    """Another content of the file of a snapshot, as nobody writes it."""
    key = f"snapshots/{snapshot}"
    found = decode_snapshot(store.get(key) or b"", key)
    store.set(key, encode_and_index(change(found), key)[0])


def reopened(repo: frazil.Repository) -> frazil.Repository:
    return type(repo)(repo._files.anew(), repo._options, repo._registry)


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
    """Of a tip and of a tag. A repair that concerns something else, too, does not carry the list on."""
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
    else:  # what is listed and not there may be all that is left of something
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


def test_a_history_that_ends_too_early() -> None:
    """The tip says that it has no more ancestors than it names, and the oldest of these that it has some."""
    store, repo = filled(FORMATS[0], 14)
    ids = [commit.id for commit in repo.history()]
    rewrite(store, ids[0], lambda snapshot: snapshot._replace(total_parents=len(snapshot.history)))
    repo = reopened(repo)
    assert len(list(repo.history())) < len(ids)
    (problem,) = repo.verify().problems
    assert (problem.kind, problem.ref) == ("history", "branch main")
    kept = objects(store)
    with pytest.raises(FormatError, match="names before it"):
        repo.garbage_collect(now=True)
    assert objects(store) == kept
    done = repo.repair(history=True)
    assert done.ok, str(done)
    repo.garbage_collect(now=True)
    assert repo.verify(decode=True).ok
    assert [commit.id for commit in repo.history()] == ids[:9]


def test_a_history_with_another_parent() -> None:
    """The tip names another order of its ancestors than these do."""
    store, repo = filled(FORMATS[0], 4)
    tip = repo.lookup("main")
    rewrite(store, tip, lambda snapshot: snapshot._replace(history=(snapshot.history[0], *snapshot.history[:0:-1])))
    repo = reopened(repo)
    assert {problem.kind for problem in repo.verify().problems} == {"history"}
    with pytest.raises(FormatError, match="names before it"):
        repo.garbage_collect(now=True)
    repo.repair(history=True)
    repo.garbage_collect(now=True)
    assert repo.verify(decode=True).ok
    assert decode_id(tip) == decode_id(repo.lookup("main"))
