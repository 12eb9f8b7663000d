"""Forks: whose chunk files are whose, which forks a session takes back, and that a merge takes everything or says what is in the way."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import frazil
from frazil.errors import InvalidInputError
from frazil.stores import MemoryStore

SIDE = 2**20 + 2**16  # bytes of a chunk that is a file of its own


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


def anew(store: MemoryStore) -> frazil.Group:
    """The root as somebody sees it who remembers nothing."""
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
    assert value_of(anew(store)) == 3


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
    assert value_of(anew(store)) == 3


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
    assert value_of(anew(store)) == 3


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
    np.testing.assert_array_equal(anew(store)["t"][...], [2, 2, 3, 3, 0, 0, 0, 0])
    assert (anew(store)["n"][...] == 4).all()


def test_only_forks_of_these_changes_are_merged(repo: frazil.Repository) -> None:
    session, other = repo.writable_session(), repo.writable_session()
    small(session.root, "t")
    fork, nobody = session.fork(), other.fork()
    inner = fork.fork()
    for stranger in (nobody, inner, other, session):
        with pytest.raises(InvalidInputError, match="no fork of this session"):
            session.merge(fork, stranger)
    with pytest.raises(InvalidInputError, match="no fork"):
        pickle.loads(pickle.dumps(fork)).merge(inner)
    session.discard()
    with pytest.raises(InvalidInputError, match="no fork"):
        session.merge(fork)
    small(session.root, "t")
    fork = session.fork()
    session.merge(fork)
    session.commit("x")
    with pytest.raises(InvalidInputError, match="no fork"):
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
    with pytest.raises(InvalidInputError, match="no fork"):
        session.merge(fork)


def test_a_discarded_fork_gives_nothing(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    small(session.root, "t", 5)
    fork = session.fork()
    fork.root["t"][...] = 6
    fork.discard()
    session.merge(fork)
    assert (session.root["t"][...] == 5).all()
