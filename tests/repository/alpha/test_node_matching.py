"""Which nodes of two snapshots are the same: with the flag for id counting, without it, and if a snapshot in between is missing."""

from __future__ import annotations

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError
from frazil.formats.ids import decode_id
from frazil.repository.alpha.node_matching import match_snapshots
from frazil.stores import MemoryStore

COMPATIBLE = [None, "alpha-library"]


def repository(compatible: str | None) -> frazil.Repository:
    repo = frazil.Repository.create(MemoryStore(), compatible=compatible)
    with repo.transaction(message="base") as root:
        for name in "ab":
            root.create_array(name, data=np.arange(4))
    return repo


@pytest.mark.parametrize("compatible", COMPATIBLE)
def test_a_rename_is_seen(compatible: str | None) -> None:
    repo = repository(compatible)
    with repo.transaction(message="rename") as root:
        root.move("b", "c")
    old, new = [commit.id for commit in repo.history()][1::-1]
    assert repo.diff(old, new).renamed == (("/b", "/c"),)


@pytest.mark.parametrize("compatible", COMPATIBLE)
def test_a_node_that_was_created_again_is_another_one(compatible: str | None) -> None:
    """Without the flag the id of `b` is assigned again."""
    repo = repository(compatible)
    old = repo.lookup("main")
    with repo.transaction(message="gone") as root:
        del root["b"]
    with repo.transaction(message="anew") as root:
        root.create_array("b", data=np.arange(4))
    found = repo.diff(old, "main")
    assert (found.added, found.removed) == (("/b",), ("/b",))


@pytest.mark.parametrize("compatible", COMPATIBLE)
def test_both_ends_of_a_branch_that_was_reset(compatible: str | None) -> None:
    repo = repository(compatible)
    common = repo.lookup("main")
    for name in ("mine", "theirs"):
        repo.reset_branch("main", common)
        with repo.transaction(message=name) as root:
            root.create_array(name, data=np.arange(2))
            root.move("a", f"{name}_a")
        repo.create_tag(name, "main")
    found = repo.diff("mine", "theirs")
    assert found.renamed == (("/mine_a", "/theirs_a"),)
    assert (found.added, found.removed) == (("/theirs",), ("/mine",))


def test_a_snapshot_on_the_way_is_gone() -> None:
    """Then nodes are identified by path alone."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible="alpha-library")
    with repo.transaction(message="base") as root:
        root.create_group("b")
    old = repo.lookup("main")
    for source, target in (("b", "c"), ("c", "d")):
        with repo.transaction(message="rename") as root:
            root.move(source, target)
    middle = list(repo.history())[1].id
    store.erase_values([f"snapshots/{middle}"])
    files = frazil.Repository.open(store)._files
    found = match_snapshots(files, decode_id(old), decode_id(repo.lookup("main")))
    assert (found.removed, found.added, found.there("/b"), found.there("/")) == ({"/b"}, ["/d"], None, "/")


@pytest.mark.parametrize("compatible", COMPATIBLE)
@pytest.mark.parametrize("first", ["delete", "rename"])
def test_a_removal_against_a_rename_is_a_conflict(compatible: str | None, first: str) -> None:
    repo = repository(compatible)
    one, other = repo.writable_session(), repo.writable_session()
    deletes, renames = (one, other) if first == "delete" else (other, one)
    del deletes.root["b"]
    renames.root.move("b", "c")
    one.commit("one")
    with pytest.raises(ConflictError) as caught:
        other.commit("other", rebase="disjoint")
    assert [conflict.kind for conflict in caught.value.conflicts] == ["deleted" if first == "delete" else "changed"]
