"""Changes that are carried over, by a rebase or from a fork: nodes that swapped places, and ids that mean another node on the other side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError, NotFoundError
from frazil.stores import MemoryStore

pytestmark = pytest.mark.usefixtures("each_format")


def small(root: frazil.Group, name: str, value: int) -> frazil.Array:
    array = root.create_array(name, shape=(4,), dtype="i4", chunks=(2,), fill_value=0)
    array[...] = value
    return array


def values(root: frazil.Group) -> dict[str, int]:
    return {name: int(root[name][0]) for name in root}  # type: ignore[call-overload]


def chain(root: frazil.Group) -> dict[str, int]:
    root["a"].attrs["touched"] = root["b"].attrs["touched"] = True
    root.move("b", "c")
    root.move("a", "b")
    return {"b": 1, "c": 2}


def replaced(root: frazil.Group) -> dict[str, int]:
    small(root, "x", 5)
    root.move("a", "d")
    root.move("x", "a")
    return {"a": 5, "b": 2, "d": 1}


def out_of_a_group(root: frazil.Group) -> dict[str, int]:
    root.move("a", "g/a")
    root.move("g/a", "a")
    root.move("b", "h/deep/b")
    root.move("h/deep/b", "z")
    del root["h"]
    return {"a": 1, "z": 2}


def recreated(root: frazil.Group) -> dict[str, int]:
    del root["a"]
    small(root, "a", 7)
    root.move("b", "x")
    small(root, "b", 8)
    del root["x"]
    return {"a": 7, "b": 8}


@pytest.fixture
def repo() -> frazil.Repository:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="first") as root:
        small(root, "a", 1)
        small(root, "b", 2)
    return repo


@pytest.mark.parametrize("change", [chain, replaced, out_of_a_group, recreated])
def test_nodes_that_take_places_are_rebased(
    repo: frazil.Repository, change: Callable[[frazil.Group], dict[str, int]]
) -> None:
    session = repo.writable_session()
    expected = change(session.root)
    with repo.transaction(message="theirs") as root:
        root.attrs["there"] = True
    session.rebase()
    found = values_of_arrays(session.root)
    assert found == expected
    session.commit("mine")
    assert values_of_arrays(repo.readonly_session().root) == expected


def values_of_arrays(root: frazil.Group) -> dict[str, int]:
    return {name: int(array[0]) for name, array in root.arrays()}  # type: ignore[call-overload]


@pytest.mark.parametrize("change", [chain, replaced, out_of_a_group, recreated])
def test_nodes_that_take_places_are_merged(
    repo: frazil.Repository, change: Callable[[frazil.Group], dict[str, int]]
) -> None:
    session = repo.writable_session()
    fork = session.fork()
    expected = change(fork.root)
    session.merge(fork)
    assert values_of_arrays(session.root) == expected
    session.commit("mine")
    assert values_of_arrays(repo.readonly_session().root) == expected


def test_a_node_is_not_put_upon_that_of_another_fork(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    one, other = session.fork(), session.fork()
    one.root.move("a", "c")
    small(other.root, "c", 5)
    for forks in ((one, other), (other, one)):
        with pytest.raises(ConflictError, match="/c"):
            session.merge(*forks)
    assert not session.has_changes


def test_a_group_is_not_removed_with_what_another_fork_put_there(repo: frazil.Repository) -> None:
    with repo.transaction(message="group") as root:
        root.create_group("g")
    session = repo.writable_session()
    one, other = session.fork(), session.fork()
    del one.root["g"]
    small(other.root, "g/new", 5)
    for forks in ((one, other), (other, one)):
        with pytest.raises(ConflictError, match="/g"):
            session.merge(*forks)
    session.merge(other)
    assert session.root["g/new"][0] == 5


def test_ids_that_were_given_again_are_other_nodes(repo: frazil.Repository) -> None:
    """After a reset the branch assigns an id again that a session knows as another node's."""
    base = repo.lookup("main")
    with repo.transaction(message="gone soon") as root:
        small(root, "p", 3)
    one, other = repo.writable_session(), repo.writable_session()
    del one.root["p"]
    other.root["p"][2:] = 9
    repo.reset_branch("main", base)
    with repo.transaction(message="another") as root:
        small(root, "q", 4)
    held = other.root["p"]
    one.rebase()
    assert not one.has_changes
    with pytest.raises(ConflictError, match="/p"):
        other.rebase()
    other.rebase("theirs")
    assert values(repo.readonly_session().root) == {"a": 1, "b": 2, "q": 4}
    np.testing.assert_array_equal(other.root["q"][...], [4] * 4)
    for act in (lambda: held[...], lambda: held.__setitem__(0, 7)):
        with pytest.raises(NotFoundError, match="gone"):
            act()  # type: ignore[no-untyped-call]
    assert not other.has_changes


def test_ids_mean_nothing_where_nobody_counts_them() -> None:
    """Without the flag, the next array gets the id of the removed one."""
    repo = frazil.Repository.create(MemoryStore(), compatible="alpha-library")
    with repo.transaction(message="first") as root:
        small(root, "p", 1)
    session = repo.writable_session()
    session.root["p"][2:] = 7
    with repo.transaction(message="without") as root:
        del root["p"]
    with repo.transaction(message="another") as root:
        root.create_array("q", shape=(4,), dtype="i4", chunks=(2,), fill_value=0)
    assert repo.diff(list(repo.history())[2].id, "main").renamed == ()
    with pytest.raises(ConflictError, match="/p"):
        session.commit("mine", rebase="disjoint")
    assert (repo.readonly_session().root["q"][...] == 0).all()


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
def test_arrays_that_are_held_follow_commits_and_rebases(compatible: str | None) -> None:
    repo = frazil.Repository.create(MemoryStore(), compatible=compatible)
    session = repo.writable_session()
    one, other = small(session.root, "one", 1), small(session.root, "other", 2)
    for turn in range(3):
        session.commit("mine")
        with repo.transaction(message="theirs") as root:
            root["one"][2:] = 10 + turn
            if turn == 1:
                del root["other"]
            if turn == 2:
                small(root, "new", 9)
        one[:2] = turn
        session.rebase()
        assert one[...].tolist() == [turn] * 2 + [10 + turn] * 2
        if turn == 0:
            assert other[...].tolist() == [2] * 4
        else:
            with pytest.raises(NotFoundError):
                other[...]


def test_an_append_of_a_fork_is_an_append(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    fork = session.fork()
    fork.root["a"].append([8, 8, 8])
    session.merge(fork)
    with repo.transaction(message="theirs") as root:
        root["a"].append([9])
    session.commit("mine", rebase="disjoint")
    np.testing.assert_array_equal(repo.readonly_session().root["a"][...], [1] * 4 + [9] + [8] * 3)


@pytest.mark.parametrize("solver", ["disjoint", "ours", "theirs"])
def test_a_rebase_restores_the_root_that_a_reset_removed(solver: str) -> None:
    repo = frazil.Repository.create(MemoryStore())
    first = repo.lookup("main")
    with repo.transaction(message="a group") as root:
        root.create_group("a")
    session = repo.writable_session()
    small(session.root, "more", 3)
    repo.reset_branch("main", first)
    session.commit("late", rebase=solver)
    now = repo.readonly_session()
    assert values(now.root) == {"more": 3}
    assert now.store.get("zarr.json") is not None
