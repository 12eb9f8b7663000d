"""Single chunks of a session, looked up by numbers, against the same in columns; and the store requests of a small commit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slow_properties import search

import frazil
from frazil.repository.session.array_chunks import ArrayChunks
from frazil.repository.session.transaction import Transaction
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

CHUNKS = 12
COUNT = 600  # bytes of a chunk of "a": too large for a manifest


def array_of(session: frazil.Session) -> frazil.Array:
    array = session.open("a")
    assert isinstance(array, frazil.Array)
    return array


def changed_session(repo: frazil.Repository, tmp_path: Path) -> frazil.Session:
    """Chunks 0 to 2 are in a manifest, 3 to 5 in a pack, 6 is in another file; 1, 4, 7 were written since, 8 as a chunk of a pack; 2, 5 were removed."""
    session = repo.writable_session()
    array = session.root.create_array(
        "a", shape=(CHUNKS * COUNT,), dtype="u1", chunks=(COUNT,), codecs=[], fill_value=0
    )
    small = session.root.create_array("b", shape=(CHUNKS * 4,), dtype="u2", chunks=(4,), codecs=[], fill_value=0)
    array[3 * COUNT : 6 * COUNT] = 7
    small[:12] = 3
    (tmp_path / "elsewhere").write_bytes(bytes(range(256)) * 8)
    session.set_virtual_chunks("b", [[6]], f"file://{tmp_path}/elsewhere", 8, 8)
    session.commit("first")
    small[4:8], small[16:20], array[8 * COUNT : 9 * COUNT] = 4, 5, 6
    small[8:12], array[5 * COUNT : 6 * COUNT] = 0, 0
    return session


@pytest.mark.parametrize("packed", [True, False])
def test_single_chunks_are_located_as_in_columns(tmp_path: Path, packed: bool) -> None:
    where = frazil.Repository.create(
        MemoryStore(), chunk_packing="auto" if packed else "off", virtual_prefixes=[f"file://{tmp_path}/"]
    )
    session = changed_session(where, tmp_path)
    kinds = set()
    for path in "ab":
        transaction = session._transaction
        storage = storage_of(transaction, path)
        for number in range(CHUNKS):
            one = storage.locate_one((number,))
            coordinates = np.array([[number]])
            other = storage._lookup().locate(coordinates)
            assert list(one.names) == list(other.names)
            for ours, theirs in zip(one[1:5], other[1:5], strict=True):
                assert ours.tolist() == theirs.tolist() and ours.dtype == theirs.dtype
            assert [bytes(memoryview(buffer)) for buffer in one.inline] == [
                bytes(memoryview(buffer)) for buffer in other.inline
            ]
            assert one.versions is not None and other.versions is not None
            assert one.versions[0] == other.versions[0]
            assert (one.must_exist, one.plain) == (other.must_exist, other.plain)
            kinds.add(one.kind.item(0))
    assert len(kinds) == 4, "nowhere, in a file, in memory, elsewhere"


def storage_of(transaction: Transaction, path: str) -> ArrayChunks:
    metadata = transaction.find(path)
    assert metadata is not None and not isinstance(metadata, Exception)
    return transaction.chunks(path, metadata)  # type: ignore[arg-type] # it is an array


def test_publishing_reports_changed_versions() -> None:
    session = frazil.Repository.create(MemoryStore()).writable_session()
    array = session.root.create_array("a", shape=(4,), dtype="u1", chunks=(2,), codecs=[], fill_value=0)
    array[:2] = 1
    storage = storage_of(session._transaction, "a")
    (before,) = storage.locate_one((0,)).versions or ()
    array[0] = 2
    (now,) = storage.locate_one((0,)).versions or ()
    assert before != now
    assert array[:].tolist() == [2, 1, 0, 0]


def test_a_small_commit_looks_for_the_next_tip_and_writes_three_files() -> None:
    store = CountingStore(MemoryStore())
    repo = frazil.Repository.create(store)
    session = repo.writable_session()
    session.root.create_array("a", shape=(20,), dtype="f8", chunks=(10,), fill_value=0)[:] = 1
    session.commit("first")
    requests = []
    for turn in range(12):
        store.clear()
        session = repo.writable_session()
        array_of(session)[turn] = turn + 2
        session.commit("next")
        requests.append([done.operation for done in store.requests])
    assert requests == [["fetch"] * 4 + ["put"] * 3] * 12, (
        "this branch file and the next, twice; manifest, snapshot, branch file"
    )
    assert array_of(repo.readonly_session())[:].tolist() == [*range(2, 14), *[1] * 8]


def test_a_chunk_that_was_removed_is_not_found_where_it_was() -> None:
    session = frazil.Repository.create(MemoryStore()).writable_session()
    session.root.create_array("a", shape=(6,), dtype="u1", chunks=(2,), codecs=[], fill_value=0)[:] = 1
    session.commit("first")
    one, other = array_of(session), array_of(session)
    assert (one[:2] == 1).all() and other[0] == 1
    one[:2] = 0  # only fill values: it is removed
    assert one[:2].tolist() == other[:2].tolist() == [0, 0]
    assert one[0] == other[0] == 0
    one[2], one[3] = 0, 0  # part by part, so that its old state is expected
    assert one[2] == other[3] == 0
    assert other[...].tolist() == [0, 0, 0, 0, 1, 1]


@search(slowness=2)
@given(
    width=st.sampled_from([1, 3, 700]),
    serializable=st.booleans(),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["write", "commit", "discard", "fork"]),
            st.integers(0, 1),
            st.integers(0, 9),
            st.integers(1, 4),
            st.integers(0, 2),
        ),
        max_size=12,
    ),
)
def test_reads_after_each_change_equal_the_writes(
    width: int, serializable: bool, steps: list[tuple[str, int, int, int, int]]
) -> None:
    """Two handles of an array of ten chunks, read one by one after each change, against an array in memory; 0 is the fill value."""
    repo = frazil.Repository.create(MemoryStore())
    session = repo.writable_session(isolation="serializable" if serializable else "snapshot")
    session.root.create_array("a", shape=(10 * width,), dtype="u1", chunks=(width,), codecs=[], fill_value=0)[:] = 1
    session.commit("first")
    handles = [array_of(session), array_of(session)]
    expected = np.ones(10, np.uint8)
    committed = expected.copy()
    for what, handle, first, count, value in steps:
        chosen = slice(first * width, (first + count) * width)
        if what == "write":
            handles[handle][chosen] = value
            expected[first : first + count] = value
        elif what == "fork":
            fork = session.fork()
            array_of(fork)[chosen] = value
            session.merge(fork)
            expected[first : first + count] = value
        elif what == "discard":
            session.discard()
            expected[:] = committed
        elif session.has_changes:
            session.commit("next")
            committed = expected.copy()
        for array in handles:
            assert [array[number * width] for number in range(10)] == expected.tolist()
            assert (array[...] == np.repeat(expected, width)).all()


def test_versions_without_a_file_are_never_given_twice() -> None:
    """Rows of the session and of manifests are renumbered after a commit, a discard, a merge, a rebase and a compaction."""
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="first") as root:
        root.create_array("a", shape=(8,), dtype="u1", chunks=(2,), codecs=[], fill_value=0)[:] = 1
    session = repo.writable_session()
    array = array_of(session)
    storage = storage_of(session._transaction, "a")
    seen: dict[object, int] = {}

    def look(value: int) -> None:
        for version in ((storage.locate_one((0,)).versions or ())[0], storage.locate(np.array([[0], [1]])).versions[0]):  # type: ignore[index]
            assert version is not None and seen.setdefault(version, value) == value

    look(1)
    for turn in range(2, 60):
        array[:2] = turn
        look(turn)
        if turn % 10 == 3:
            session.commit("next")
        elif turn % 10 == 5:
            session.discard()
            look(turn // 10 * 10 + 3)
            array[:2] = turn
        elif turn % 10 == 7:
            fork = session.fork()
            array_of(fork)[4:] = turn
            session.merge(fork)
        elif turn % 10 == 9:
            with repo.transaction(message="theirs") as root:
                root.attrs["turn"] = turn
            session.rebase()
        look(turn)
