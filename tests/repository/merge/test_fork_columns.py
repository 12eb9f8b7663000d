"""Merging the writes of many forks: the parent has all of them, in any order of merging; chunks that two forks wrote are reported; no large data is sent
back."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slow_properties import search

import frazil
from frazil.api.forked import begin_again, fork_for_many, session_of, with_written, written_by
from frazil.errors import ConflictError, InvalidInputError
from frazil.repository.merge.fork_columns import NOTHING, Written, join
from frazil.stores import MemoryStore

LARGE = 2**20 + 1  # bytes of a chunk that gets its own file


def begun(**arrays: Any) -> frazil.Session:
    session = frazil.Repository.create(MemoryStore()).writable_session()
    for name, layout in arrays.items():
        session.root.create_array(name, **{"dtype": "u1", "codecs": [], **layout})
    session.commit("begun")
    return session


def wrote(fork: frazil.Session, path: str, place: Any, value: int) -> Written:
    one = begin_again(fork)
    one.root[path][place] = value
    return pickle.loads(pickle.dumps(written_by(one)))


def finished(session: frazil.Session, fork: frazil.Session, parts: list[Written]) -> None:
    session.merge(pickle.loads(pickle.dumps(with_written(fork, join(parts)))))


@search(slowness=2)
@given(st.permutations(range(9)), st.integers(1, 4), st.sampled_from([3, 700, LARGE]))
def test_forks_join_in_any_order(order: list[int], width: int, nbytes: int) -> None:
    session = begun(a={"shape": (9 * nbytes,), "chunks": (nbytes,)}, b={"shape": (9,), "chunks": (1,)})
    session.root["b"][...] = 100  # which the forks have, too
    fork = fork_for_many(session)
    parts = []
    for number in order:
        one = begin_again(fork)
        one.root["a"].blocks[number] = number + 1
        one.root["b"][number] = number
        parts.append(pickle.loads(pickle.dumps(written_by(one))))
    while len(parts) > width:
        parts = [join(parts[at : at + 3]) for at in range(0, len(parts), 3)]
    finished(session, fork, parts)
    session.commit("x")
    np.testing.assert_array_equal(session.root["a"][...], np.repeat(np.arange(1, 10), nbytes))
    np.testing.assert_array_equal(session.root["b"][...], np.arange(9))


def test_fork_columns_of_one_writer_are_small() -> None:
    session = begun(a={"shape": (4 * LARGE,), "chunks": (LARGE,)}, b={"shape": (40_000,), "chunks": (1000,)})
    fork = fork_for_many(session)
    assert len(pickle.dumps(wrote(fork, "a", slice(0, LARGE), 1))) < 1500
    assert len(pickle.dumps(wrote(fork, "b", slice(0, 20_000), 1))) < 3000


def test_two_forks_that_wrote_one_chunk_conflict() -> None:
    session = begun(a={"shape": (9, 9), "chunks": (3, 3)}, b={"shape": (), "chunks": ()})
    fork = fork_for_many(session)
    parts = [wrote(fork, "a", (slice(0, 6), slice(0, 3)), 1), wrote(fork, "a", (3, 0), 2), wrote(fork, "b", (), 3)]
    with pytest.raises(ConflictError) as caught:
        join(parts)
    assert (caught.value.path, caught.value.chunk) == ("/a", (1, 0))
    with pytest.raises(ConflictError):
        join([parts[2], wrote(fork, "b", (), 4)])
    assert not session.has_changes


def test_of_a_task_that_was_repeated_one_answer_counts() -> None:
    session = begun(a={"shape": (2 * LARGE,), "chunks": (LARGE,)})
    fork = fork_for_many(session)
    kept, lost = (wrote(fork, "a", slice(0, LARGE), 1) for _ in range(2))
    assert kept.arrays["/a"].ids.tolist() != lost.arrays["/a"].ids.tolist()
    finished(session, fork, [wrote(fork, "a", slice(LARGE, None), 2), kept])
    session.commit("x")
    assert session.root["a"][::LARGE].tolist() == [1, 2]
    assert session.diff().is_empty


def test_a_chunk_that_became_empty() -> None:
    session = begun(a={"shape": (4,), "chunks": (2,)})
    session.root["a"][...] = 1
    session.commit("x")
    fork = fork_for_many(session)
    finished(session, fork, [wrote(fork, "a", slice(0, 2), 0), wrote(fork, "a", slice(2, 4), 5)])
    session.commit("y")
    assert session.root["a"][...].tolist() == [0, 0, 5, 5]
    assert session.root["a"].nchunks_initialized == 1


def test_forks_that_wrote_nothing_join_to_nothing() -> None:
    session = begun(a={"shape": (4,), "chunks": (2,)})
    fork = fork_for_many(session)
    assert join([]) == join([NOTHING, written_by(begin_again(fork))]) == NOTHING
    finished(session, fork, [])
    assert not session.has_changes


def test_forks_do_not_carry_pending_chunks() -> None:
    session = begun(a={"shape": (2**18,), "chunks": (2**12,)})
    session.root["a"][...] = np.arange(2**18) % 251
    assert len(pickle.dumps(session.fork())) > 2**18
    fork = fork_for_many(session)
    assert len(pickle.dumps(fork._transaction.changes)) < 2**13
    finished(session, fork, [wrote(fork, "a", slice(10, 20), 7)])
    expected = np.arange(2**18) % 251
    expected[10:20] = 7
    session.commit("x")
    np.testing.assert_array_equal(session.root["a"][...], expected)


def test_a_fork_that_was_begun_again_leaves_the_first_alone() -> None:
    session = begun(a={"shape": (4 * LARGE,), "chunks": (LARGE,)})
    session.root["a"].blocks[0] = 1
    fork = fork_for_many(session)
    one = begin_again(fork)
    one.root["a"].blocks[0] = 2
    one.root["a"].blocks[1] = 2
    one.discard()
    assert fork.root["a"][::LARGE].tolist() == [1, 0, 0, 0]
    with pytest.raises(InvalidInputError, match="is not a fork"):
        begin_again(session)


def test_the_session_of_an_array() -> None:
    session = begun(a={"shape": (4,), "chunks": (2,)})
    found = session_of(session.root["a"])
    assert found is not None
    found.root["a"][0] = 1
    assert session.has_changes
    assert session_of(frazil.create_array(MemoryStore(), shape=1, dtype="i4")) is None
