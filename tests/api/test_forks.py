"""Forks: which fork owns which chunk files, which forks a session accepts, and that a merge takes everything or names the conflict."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError, InvalidInputError
from frazil.stores import MemoryStore
from tests.pairs import pairs

pytestmark = pytest.mark.usefixtures("each_format")


SIDE = 2**20 + 2**16  # bytes of a chunk that has its own file


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def repo(store: MemoryStore) -> frazil.Repository:
    return frazil.Repository.create(store)


def small(root: frazil.Group, name: str, value: int = 0) -> frazil.Array:
    array = root.create_array(name, shape=(8,), dtype="i4", chunks=(2,), fill_value=0)
    if value:
        array[...] = value
    return array


def large(root: frazil.Group, value: int = 0) -> frazil.Array:
    array = root.create_array("t", shape=(2 * SIDE,), dtype="u1", chunks=(SIDE,), codecs=[])
    if value:
        array[...] = value
    return array


def value_of(root: frazil.Group) -> int:
    (value,) = np.unique(root["t"][...]).tolist()
    return int(value)


def reopened_root(store: MemoryStore) -> frazil.Group:
    """The root as seen by a handle with empty caches."""
    return frazil.Repository.open(store).readonly_session().root


# --- chunk files -----------------------------------------------------------------------------------------------------------------------


def test_a_fork_that_was_merged_is_discarded(repo: frazil.Repository, store: MemoryStore) -> None:
    session = repo.writable_session()
    large(session.root)
    fork = session.fork()
    fork.root["t"][...] = 3
    session.merge(fork)
    session.commit("x")
    fork.discard()
    assert value_of(reopened_root(store)) == 3


def test_a_merged_fork_goes_on_writing(repo: frazil.Repository, store: MemoryStore) -> None:
    session = repo.writable_session()
    large(session.root)
    fork = session.fork()
    fork.root["t"][...] = 3
    session.merge(fork)
    session.commit("x")
    for value in range(20):
        fork.root["t"][...] = value
    del fork.root["t"]
    assert value_of(reopened_root(store)) == 3


def test_a_parent_overwrites_what_a_fork_inherited(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    large(session.root, 1)
    fork = session.fork()
    for value in range(2, 22):
        session.root["t"][...] = value
    assert value_of(fork.root) == 1
    session.discard()
    assert value_of(fork.root) == 1


def test_a_parent_overwrites_what_a_fork_gave(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    large(session.root)
    fork = session.fork()
    fork.root["t"][...] = 3
    session.merge(fork)
    for value in range(4, 24):
        session.root["t"][...] = value
    session.discard()
    assert value_of(fork.root) == 3


def test_copies_of_a_fork_leave_each_other_their_files(repo: frazil.Repository, store: MemoryStore) -> None:
    session = repo.writable_session()
    large(session.root)
    fork = session.fork()
    fork.root["t"][...] = 3
    first, second = pickle.loads(pickle.dumps(fork)), copy.deepcopy(fork)
    for one in (fork, first):
        one.root["t"][...] = 4
        one.discard()
    assert value_of(second.root) == 3
    session.merge(second)
    second.discard()
    session.commit("x")
    assert value_of(reopened_root(store)) == 3


def test_shared_files_are_shared_after_a_rebase(repo: frazil.Repository) -> None:
    with repo.transaction(message="first") as root:
        large(root)
    session = repo.writable_session()
    session.root["t"].append(np.full(SIDE, 7, "u1"))
    fork = session.fork()
    with repo.transaction(message="theirs") as root:
        root["t"].append(np.full(SIDE, 8, "u1"))
    session.rebase()
    for value in range(20):
        session.root["t"][2 * SIDE :] = value
    session.discard()
    assert (fork.root["t"][2 * SIDE :] == 7).all()


def test_a_fork_that_wrote_to_a_copy_of_the_store(repo: frazil.Repository, store: MemoryStore) -> None:
    """The pickle of a store in memory without a name is a copy: the repository does not get the chunk file, so no commit may refer to it."""
    with repo.transaction(message="0") as root:
        large(root)
        small(root, "s")
    session = repo.writable_session()
    fork = pickle.loads(pickle.dumps(session.fork()))
    fork.root["t"][:SIDE] = 1
    session.merge(pickle.loads(pickle.dumps(fork)))
    with pytest.raises(ConflictError, match="a fork wrote to a copy of a store in memory"):
        session.commit("1")
    session.discard()
    fork = pickle.loads(pickle.dumps(session.fork()))
    fork.root["s"][...] = 2  # in the fork itself
    session.merge(fork)
    session.commit("2")
    assert (reopened_root(store)["s"][...] == 2).all()


# --- whose fork ------------------------------------------------------------------------------------------------------------------------


def test_forks_of_forks_come_back_one_by_one(repo: frazil.Repository, store: MemoryStore) -> None:
    session = repo.writable_session()
    small(session.root, "t")
    fork = session.fork()
    fork.root["t"][0:2] = 2
    inner = pickle.loads(pickle.dumps(fork.fork()))
    inner.root["t"][2:4] = 3
    small(inner.root, "n", 4)
    fork.merge(inner)
    np.testing.assert_array_equal(fork.root["t"][...], [2, 2, 3, 3, 0, 0, 0, 0])
    session.merge(pickle.loads(pickle.dumps(fork)))
    session.commit("x")
    np.testing.assert_array_equal(reopened_root(store)["t"][...], [2, 2, 3, 3, 0, 0, 0, 0])
    assert (reopened_root(store)["n"][...] == 4).all()


def test_only_forks_of_these_changes_are_merged(repo: frazil.Repository) -> None:
    session, other = repo.writable_session(), repo.writable_session()
    small(session.root, "t")
    fork, nobody = session.fork(), other.fork()
    inner = fork.fork()
    for stranger in (nobody, inner, other, session):
        with pytest.raises(InvalidInputError, match="not a fork of this session"):
            session.merge(fork, stranger)
    with pytest.raises(InvalidInputError, match="not a fork"):
        pickle.loads(pickle.dumps(fork)).merge(inner)
    session.discard()
    with pytest.raises(InvalidInputError, match="not a fork"):
        session.merge(fork)
    small(session.root, "t")
    fork = session.fork()
    session.merge(fork)
    session.commit("x")
    with pytest.raises(InvalidInputError, match="not a fork"):
        session.merge(fork)


def test_a_rebase_leaves_forks_behind(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    small(session.root, "t")
    fork = session.fork()
    session.rebase()
    session.merge(fork)
    with repo.transaction(message="theirs") as root:
        small(root, "n")
    session.rebase()
    with pytest.raises(InvalidInputError, match="not a fork"):
        session.merge(fork)


def test_a_discarded_fork_gives_nothing(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    small(session.root, "t", 5)
    fork = session.fork()
    fork.root["t"][...] = 6
    fork.discard()
    session.merge(fork)
    assert (session.root["t"][...] == 5).all()


# --- what meets what -------------------------------------------------------------------------------------------------------------------


def act(what: str) -> Callable[[frazil.Group], None]:
    """One change of a side: a word, and paths."""
    word, *paths = what.split()

    def made(root: frazil.Group) -> None:
        if word == "move":
            root.move(*paths)
        elif word == "array":
            small(root, paths[0], 9)
        elif word == "again":
            del root[paths[0]]
            small(root, paths[0], 8)
        elif word == "group":
            root.create_group(paths[0])
        elif word == "del":
            del root[paths[0]]
        elif word == "write":
            root[paths[0]][0:2] = 77
        elif word == "end":
            root[paths[0]][6:8] = 78
        elif word == "name":
            root[paths[0]].attrs["name"] = paths[1]
        else:
            root[paths[0]].resize((int(paths[1]),))

    return made


def listing(root: frazil.Group) -> dict[str, object]:
    """Every node: its attributes, and the values of arrays."""
    found = root.members(max_depth=None)
    return {
        path: (dict(node.attrs), node[...].tolist() if isinstance(node, frazil.Array) else None)  # type: ignore[union-attr]
        for path, node in found
    }


def start(repo: frazil.Repository, committed: bool) -> frazil.Session:
    """Arrays t and g/y, and groups g and h."""
    session = repo.writable_session()
    small(session.root, "t", 1)
    small(session.root, "g/y", 2)
    session.root.create_group("h")
    if committed:
        session.commit("first")
    return session


CONFLICTS = [
    ("move t u", "array u", {"created"}),
    ("move t u", "move g u", {"created", "parent"}),
    ("move t u", "move t v", {"renamed"}),
    ("del g", "array g/x", {"changed", "parent"}),
    ("del g", "write g/y", {"changed", "deleted"}),
    ("del t", "write t", {"changed", "deleted"}),
    ("del t", "name t n", {"changed", "deleted"}),
    ("del t", "move t u", {"changed", "deleted"}),
    ("again t", "write t", {"changed", "deleted"}),
    ("again t", "again t", {"created"}),
    ("group g/x", "move g k", {"renamed", "parent"}),
    ("array g/x", "again g", {"changed", "parent"}),
    ("array h/x", "again h", {"changed", "parent"}),
    ("move t h/t", "del h", {"changed", "parent"}),
    ("name t n", "name t m", {"attributes"}),
    ("write t", "write t", {"chunks"}),
    ("resize t 4", "end t", {"changed", "deleted"}),
    ("resize t 4", "resize t 6", {"metadata"}),
]


@pytest.mark.parametrize(
    ("conflict", "way", "committed"), pairs(CONFLICTS, ["parent", "fork", "merged"], [True, False])
)
def test_conflicting_forks_are_refused(conflict: tuple[str, str, set[str]], way: str, committed: bool) -> None:
    one, other, kinds = conflict
    for first, second in ((one, other), (other, one)):
        session = start(frazil.Repository.create(MemoryStore()), committed)
        forks = [session.fork(), session.fork()]
        act(first)(session.root if way == "parent" else forks[0].root)
        act(second)(forks[1].root)
        if way == "merged":
            session.merge(forks[0])
        before = listing(session.root)
        with pytest.raises(ConflictError) as caught:
            session.merge(*(forks if way == "fork" else forks[1:]))
        assert kinds & {conflict.kind for conflict in caught.value.conflicts}  # related conflicts may be reported, too
        assert listing(session.root) == before


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("move t u", "write t"),
        ("move g k", "write g/y"),
        ("move g k", "name g/y n"),
        ("write t", "end t"),
        ("name t n", "resize t 12"),
        ("name t n", "write t"),
        ("resize t 4", "write t"),
        ("group k", "group k"),
        ("array k/a", "array k/b"),
        ("del t", "del t"),
        ("move t h/t", "name h n"),
        ("move t u", "move t u"),
    ],
)
def test_compatible_forks_merge(one: str, other: str, committed: bool) -> None:
    """In both directions, with the same result, which is also committed."""
    found = []
    for first, second in ((one, other), (other, one)):
        store = MemoryStore()
        session = start(frazil.Repository.create(store), committed)
        forks = [session.fork(), session.fork()]
        act(first)(forks[0].root)
        act(second)(forks[1].root)
        session.merge(*forks)
        found.append(listing(session.root))
        session.commit("together")
        assert listing(reopened_root(store)) == found[-1]
    assert found[0] == found[1]


def test_places_are_swapped_and_filled_again(repo: frazil.Repository, store: MemoryStore) -> None:
    session = start(repo, True)
    fork = session.fork()
    fork.root.move("t", "aside")
    fork.root.move("g", "t")
    fork.root.move("aside", "g")
    del fork.root["h"]
    small(fork.root, "h", 5)
    session.root["t"][0:2] = 3
    session.root["g/y"].attrs["name"] = "y"
    session.merge(fork)
    session.commit("x")
    assert listing(reopened_root(store)) == {
        "g": ({}, [3, 3, 1, 1, 1, 1, 1, 1]),
        "h": ({}, [5] * 8),
        "t": ({}, None),
        "t/y": ({"name": "y"}, [2] * 8),
    }


def test_an_append_of_a_fork_is_one_after_the_merge(repo: frazil.Repository, store: MemoryStore) -> None:
    session = start(repo, True)
    fork = session.fork()
    fork.root["t"].append(np.full(2, 5, "i4"))
    session.merge(fork)
    with repo.transaction(message="theirs") as root:
        root["t"].append(np.full(2, 6, "i4"))
    session.commit("mine", rebase="disjoint")
    assert reopened_root(store)["t"][8:].tolist() == [6, 6, 5, 5]


def test_handles_of_the_parent_read_merged_changes(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    array = small(session.root, "t", 5)
    (before,) = array.shape
    fork = session.fork()
    fork.root["t"].append([6, 6])
    fork.root["t"].attrs["by"] = "fork"
    session.merge(fork)
    assert array.shape == (before + 2,)
    assert array.attrs["by"] == "fork"
    array[-1] = 7
    assert session.root["t"][...].tolist() == [5] * before + [6, 7]
