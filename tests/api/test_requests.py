"""The store requests of opening, creating and repositories, counted: no request that another one already answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.api.lookup import with_metadata
from frazil.errors import FormatError, NotFoundError
from frazil.runtime import Runtime
from frazil.stores import MemoryStore
from frazil.stores.port import FetchOptions
from frazil.stores.values import Columns, Fetched
from frazil.testing import CountingStore, SlowStore

VALUES = np.random.default_rng(3).random((512, 512))


def requests_of(store: CountingStore) -> list[str]:
    """The requests since the last call: the operation, and the folder of the key."""
    found = [f"{done.operation} {done.key.partition('/')[0]}" for done in store.requests]
    store.clear()
    return found


def repository(**arguments: object) -> CountingStore:
    """One array of 2 x 2 chunks, in one file."""
    store = CountingStore(MemoryStore())
    with frazil.Repository.create(store).transaction(message="data") as root:
        root.create_array("x", data=VALUES, chunks=(256, 256), **arguments)
    store.clear()
    return store


def array_of(session: frazil.Session) -> frazil.Array:
    array = session.root["x"]
    assert isinstance(array, frazil.Array)
    return array


TIP = ["list refs", "fetch refs"]
LOOK = ["fetch refs", "fetch refs"]  # in one round: the known branch file, and the next one


class _Rounds(CountingStore):
    """Also counts the calls: the requests of one are sent at the same time. walks: those of one snapshot"""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.rounds = self.walks = 0

    def fetch(self, names: Sequence[str], spans: Columns, **options: Unpack[FetchOptions]) -> Fetched:
        self.rounds += 1
        self.walks += len(names) == 1 and names[0].startswith("snapshots")
        return super().fetch(names, spans, **options)


def _long_history(commits: int) -> tuple[_Rounds, list[str]]:
    """The ids of main, the newest first; a branch at the second one, with a commit."""
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    session = repo.writable_session()
    for number in range(commits):
        session.root.attrs["n"] = number
        session.commit(f"{number}")
    ids = [commit.id for commit in repo.history()]
    repo.create_branch("dev", ids[-2])
    with repo.transaction("dev", message="dev") as root:
        root.create_group("dev")
    return _Rounds(store), ids


def test_rounds_of_requests_over_a_long_history() -> None:
    """A snapshot names its 8 nearest ancestors, so the files of a history are read one after the other, every eighth; all others in batches."""
    store, ids = _long_history(400)
    repo = frazil.Repository.open(store)
    repo.merge("dev")
    assert store.rounds < 400 // 8 + 400 // 64 + 40
    opened = frazil.Repository.open(store)
    store.rounds = 0
    assert [commit.metadata for commit in with_metadata(list(opened.history()))][1:] == [{}] * 401
    assert store.rounds < 402 // 8 + 402 // 64 + 20
    frazil.Repository.open(store).reset_branch("dev", "main")
    for change in (
        lambda repo: repo.reset_branch("main", ids[9]),
        lambda repo: repo.create_tag("t", ids[20]),
        lambda repo: repo.create_branch("b", ids[30]),
    ):
        opened = frazil.Repository.open(store)
        store.clear()
        change(opened)
        assert sum(done.key.startswith("snapshots") for done in store.requests) < 20, (
            "as far as the snapshot is from the tip"
        )


def test_snapshots_that_fill_the_cache_are_read_once() -> None:
    store, ids = _long_history(100)
    repo = frazil.Repository.open(store, runtime=Runtime(cache_bytes=8 * 2**10))
    found = list(repo.history())
    store.clear()
    assert [commit.metadata for commit in with_metadata(found)] == [commit.metadata for commit in repo.history()][
        : len(ids)
    ]
    keys = [request.key for request in store.requests if request.key.startswith("snapshots")]
    assert max(map(keys.count, keys)) <= 2, "by each of the two"


def test_the_tips_of_many_branches_are_read_in_one_batch() -> None:
    for branches in (10, 60):
        store, ids = _long_history(30)
        repo = frazil.Repository.open(store)
        for number in range(branches):
            repo.create_branch(f"b{number}", ids[1])
            with repo.transaction(f"b{number}", message="own") as root:
                root.create_group("g")
        opened = frazil.Repository.open(store)
        store.walks = 0
        opened.create_tag("t", ids[20])
        assert store.walks < 15


def test_opening_a_repository_and_reading_one_chunk_is_five_requests() -> None:
    store = repository()
    session = frazil.Repository.open(store).readonly_session()
    array = array_of(session)
    assert array[3, 4] == VALUES[3, 4]
    assert requests_of(store) == [*TIP, "fetch snapshots", "fetch manifests", "fetch chunks"]
    assert array[3, 5] == VALUES[3, 5]
    assert requests_of(store) == [], "the chunk is remembered"
    assert array_of(session)[300, 4] == VALUES[300, 4]
    assert requests_of(store) == ["fetch chunks"]


def test_a_new_group_is_created_without_a_search_for_what_is_there_instead() -> None:
    opened, grouped = CountingStore(MemoryStore()), CountingStore(MemoryStore())
    frazil.open(opened, "a", path="g/h", attributes={"n": 1})
    frazil.open_group(grouped, "a", path="g/h", attributes={"n": 1})
    found = requests_of(opened)
    assert found[-len(grouped.requests) :] == requests_of(grouped)
    assert len(found) <= 6 + 31, "after one look whether an array is there"


def test_an_inner_chunk_of_a_small_shard_is_one_request() -> None:
    """The whole shard is fetched: its index and its inner chunks are one request."""
    store = CountingStore(MemoryStore())
    with frazil.Repository.create(store).transaction(message="data") as root:
        root.create_array("x", data=VALUES, chunks=(16, 16), shards=(64, 64), codecs=[])
    store.clear()
    array = array_of(frazil.Repository.open(store).readonly_session())
    assert array[100, 200] == VALUES[100, 200]
    assert requests_of(store) == [*TIP, "fetch snapshots", "fetch manifests", "fetch chunks"]
    assert np.array_equal(array[64:128, 192:256], VALUES[64:128, 192:256])
    assert requests_of(store) == [], "all of the shard is remembered"
    nothing = frazil.Repository.open(store, runtime=Runtime(cache_bytes=0)).readonly_session()
    assert array_of(nothing)[100, 200] == VALUES[100, 200]
    assert requests_of(store).count("fetch chunks") == 2, "nothing is fetched whole that nobody remembers"


SHARDED = CountingStore(MemoryStore())
with frazil.Repository.create(SHARDED).transaction(message="data") as _root:
    _root.create_array("x", data=VALUES[:96, :96], chunks=(4, 8), shards=(32, 48), fill_value=-1)
    _root["x"][40:60, 5:30] = -1  # type: ignore[index]


@given(slices := st.slices(96), slices)
def test_small_shards_read_as_numpy(rows: slice, columns: slice) -> None:
    expected = VALUES[:96, :96].copy()
    expected[40:60, 5:30] = -1
    array = array_of(frazil.Repository.open(SHARDED).readonly_session())
    assert np.array_equal(array[rows, columns], expected[rows, columns])
    assert np.array_equal(array[columns, rows], expected[columns, rows])


def test_the_next_session_of_a_repository_looks_for_the_next_branch_file_alone() -> None:
    store = repository()
    repo = frazil.Repository.open(store)
    array_of(repo.readonly_session())[0, 0]
    store.clear()
    array_of(repo.readonly_session())[0, 0]
    assert requests_of(store) == ["fetch refs", "fetch refs"], "the branch file that is known, and the next"
    with frazil.Repository.open(store.inner).transaction(message="other") as root:
        root["x"][0, 0] = 5.0  # type: ignore[index]
    assert array_of(repo.readonly_session())[0, 0] == 5.0
    assert requests_of(store) == [*LOOK, "list refs", "fetch snapshots", "fetch manifests", "fetch chunks"]


COMMIT = ["put manifests", "put snapshots", "put refs"]


def test_a_commit_looks_ahead_and_is_three_requests_beside_its_chunks() -> None:
    store = repository()
    repo = frazil.Repository.open(store)
    session = repo.writable_session()
    array_of(session)[:256, :256] = VALUES[256:, 256:]
    assert requests_of(store) == [*TIP, "fetch snapshots"], (
        "a chunk that is written whole is not looked up, and waits for others"
    )
    session.commit("first")
    assert requests_of(store) == [*LOOK, "put chunks", *COMMIT]
    array_of(session)[:256] = VALUES[256:]
    session.commit("second")
    assert requests_of(store) == [*LOOK, "put chunks", "fetch manifests", *COMMIT], (
        "two chunks in one file, and small manifests merged"
    )
    with repo.transaction(message="third") as root:
        root["x"][:256, :256] = VALUES[:256, :256]  # type: ignore[index]
    assert requests_of(store) == [*LOOK, *LOOK, "put chunks", *COMMIT], (
        "what the repository committed it need not look for"
    )
    with repo.transaction(message="fourth") as root:
        root["x"][0, 0] = 1.0  # type: ignore[index]
    assert requests_of(store) == [*LOOK, "fetch chunks", *LOOK, "put chunks", *COMMIT]


def test_creating_a_repository_is_few_requests() -> None:
    """One of the files in refs/ keeps the alpha library out. A compatible repository does not have it."""
    store = CountingStore(MemoryStore())
    repo = frazil.Repository.create(store)
    assert requests_of(store) == [
        "list refs",
        "fetch repo",
        "fetch refs",
        "list ",
        "put snapshots",
        "put refs",
        "put refs",
    ]
    assert repo.branches == ["main"]
    other = CountingStore(MemoryStore())
    frazil.Repository.create(other, compatible="alpha-library")
    assert requests_of(other) == ["list refs", "fetch repo", "fetch refs", "list ", "put snapshots", "put refs"]


def test_a_commit_takes_four_rounds() -> None:
    inner = repository().inner
    store = SlowStore(inner, 0.0)
    session = frazil.Repository.open(store).writable_session()
    array_of(session)[...] = VALUES[::-1]
    store.clear()
    session.commit("one")
    calls = [(call.operation, call.requests) for call in store.calls]
    rounds = [("fetch", 2), ("put", 1), ("put", 2), ("put", 1)]
    assert calls == rounds, "the branch file and the next; chunks; manifest and snapshot together; the new branch file"
    assert store.rounds == 4


# --- a repository that is not there ------------------------------------------------------------------------------------------------------

USES: dict[str, Callable[[frazil.Repository], object]] = {
    "session": lambda repo: repo.readonly_session(),
    "writable session": lambda repo: repo.writable_session(),
    "transaction": lambda repo: repo.transaction(message="x").__enter__(),
    "branches": lambda repo: repo.branches,
    "tags": lambda repo: repo.tags,
    "history": lambda repo: list(repo.history()),
    "lookup": lambda repo: repo.lookup("main"),
    "lookup_branch": lambda repo: repo.lookup_branch("main"),
    "lookup_tag": lambda repo: repo.lookup_tag("x"),
    "diff": lambda repo: repo.diff("main", "main"),
    "create_branch": lambda repo: repo.create_branch("x", "main"),
    "reset_branch": lambda repo: repo.reset_branch("main", "main"),
    "delete_branch": lambda repo: repo.delete_branch("x"),
    "create_tag": lambda repo: repo.create_tag("x", "main"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_the_first_use_of_a_missing_repository_is_an_error(use: Callable[[frazil.Repository], object]) -> None:
    """If looking for it is a request, the first use makes that request anyway."""
    store = CountingStore(MemoryStore())
    repo = frazil.Repository.open(store)
    assert store.count() == 0
    with pytest.raises(NotFoundError):
        use(repo)
    assert store.inner.list() == []
    with pytest.raises(NotFoundError, match="no repository here") as caught:
        frazil.Repository.open(store.inner)
    assert caught.value.hint == "Repository.create makes one"


def test_exists_and_open_or_create_look_at_once() -> None:
    store = CountingStore(MemoryStore())
    assert not frazil.Repository.exists(store)
    assert frazil.Repository.open_or_create(store).branches == ["main"]
    store.clear()
    assert frazil.Repository.open_or_create(store).tags == []
    assert store.count("put") == 0
    later = CountingStore(MemoryStore())
    later.set("repo", b"ICE\xf0\x9f\xa7\x8aCHUNK")
    with pytest.raises(FormatError):
        frazil.Repository.open_or_create(later)


# --- arrays and groups in plain stores ---------------------------------------------------------------------------------------------------


def test_creating_looks_up_existing_nodes_once() -> None:
    store = CountingStore(MemoryStore())
    group = frazil.create_group(store)
    looked_up = ["fetch zarr.json", "fetch .zgroup", "fetch .zarray", "list refs", "fetch repo"]
    assert requests_of(store) == [*looked_up, "put zarr.json"], (
        "the first three in one batch; the next two: whether a repository is there, of our format or of format 2"
    )
    array = group.create_array("x", shape=(64, 64), dtype="u2", chunks=(8, 8), shards=(32, 32), codecs=[])
    assert requests_of(store) == ["fetch zarr.json", "list x", "put x"]
    array[:32, :32] = 1
    assert requests_of(store) == ["fetch x", "put x"], "the document, and a shard that is written whole"
    array[:8, :8] = 2
    assert sorted(requests_of(store)) == ["fetch x", "fetch x", "look up x", "put x"], (
        "its index, what is kept, and the new one"
    )
    array[:8, 32:64] = 2
    assert sorted(requests_of(store)) == ["fetch x", "look up x", "put x"], "there is nothing to keep"
    single = CountingStore(MemoryStore())
    frazil.create_array(single, shape=(4,), dtype="u1")
    assert requests_of(single) == ["fetch zarr.json", "fetch .zgroup", "fetch .zarray", "list ", "put zarr.json"]


def test_opening_by_what_is_there_is_one_request_for_the_final_dialect() -> None:
    store = CountingStore(MemoryStore())
    frazil.create_array(store, data=np.arange(6, dtype="u1"), chunks=2)
    for opening in (frazil.open, frazil.open_array):
        store.clear()
        opening(store)
        assert requests_of(store) == ["fetch zarr.json"]


def test_a_column_over_two_shards_is_four_requests_and_two_rounds_then_two_and_one() -> None:
    inner = MemoryStore()
    data = np.arange(64 * 8, dtype="u2").reshape(64, 8)
    frazil.create_array(inner, data=data, chunks=(4, 8), shards=(32, 8), codecs=[])
    counting = CountingStore(inner)
    store = SlowStore(counting, 0.0)
    array = frazil.open_array(store, runtime=Runtime())
    for requests, rounds in ((4, 2), (2, 1)):
        counting.clear(), store.clear()
        assert (array[:, 3] == data[:, 3]).all()
        assert (counting.count(), store.rounds) == (requests, rounds)


def test_a_tag_is_created_without_reading_the_others() -> None:
    store = repository()
    repo = frazil.Repository.open(store)
    first = next(iter(repo.history("main"))).id
    repo.create_tag("t", "main")
    with repo.transaction(message="more") as root:
        root["x"][0] = 1
    store.clear()
    repo.create_tag("u", "main")
    few = requests_of(store)
    for number in range(20):
        repo.create_tag(f"v{number}", "main")
    store.clear()
    repo.create_tag("w", "main")
    assert requests_of(store) == few
    repo.create_tag("old", first)  # the branch leads to it
    assert not [request.key for request in store.requests if request.key.startswith("refs/tag.v")]
