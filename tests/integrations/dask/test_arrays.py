"""dask's arrays written to arrays here and read back, on the schedulers of one process: the right elements, one commit or none, and never two tasks in one
shard."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import fsspec
import numpy as np
import pytest
import zarr.storage
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
import frazil.dask
from frazil.errors import ConflictError, InvalidInputError, NotFoundError, ReadOnlyError, SelectionError
from frazil.integrations.dask.tasks import Shared
from frazil.stores import LocalStore, MemoryStore
from frazil.testing.counting_store import CountingStore

SHAPE, CHUNKS, SHARDS = (30, 26), (5, 4), (10, 12)
VALUES = np.arange(780, dtype="i4").reshape(SHAPE) + 1


BOTH = pytest.mark.parametrize("scheduler", ["threads", "synchronous"], indirect=True)


@pytest.fixture(autouse=True)
def scheduler(request: pytest.FixtureRequest) -> Iterator[None]:
    with dask.config.set(scheduler=getattr(request, "param", "threads")):
        yield


def target(place: Any = None, name: str = "t", **arguments: Any) -> frazil.Array:
    layout: dict[str, Any] = {"shape": SHAPE, "dtype": "i4", "chunks": CHUNKS, "shards": SHARDS, **arguments}
    if isinstance(place, frazil.Group):
        return place.create_array(name, **layout)
    return frazil.create_array(MemoryStore() if place is None else place, **layout)


@pytest.fixture
def repo() -> frazil.Repository:
    made = frazil.Repository.create(MemoryStore())
    with made.transaction(message="arrays") as root:
        for name in "tu":
            target(root, name)
    return made


def lazy(values: Any = VALUES, chunks: Any = (7, 9)) -> da.Array:
    return da.from_array(values, chunks=chunks)


def failing(values: da.Array) -> da.Array:
    """Like the array, but its last block cannot be computed."""

    def fail(block: Any) -> Any:
        if (block == VALUES[-1, -1]).any():
            raise RuntimeError("on purpose")
        return block

    return values.map_blocks(fail, dtype=values.dtype)


# --- into plain stores -----------------------------------------------------------------------------------------------------------------


@BOTH
def test_a_whole_array() -> None:
    array = target()
    assert frazil.dask.store(lazy(), array) is None
    np.testing.assert_array_equal(array[...], VALUES)


def test_chunks_of_their_own() -> None:
    array = target(shards=None)
    frazil.dask.store(lazy(), array)
    np.testing.assert_array_equal(array[...], VALUES)


def test_a_region_keeps_the_elements_beside_it() -> None:
    array = target()
    array[...] = -1
    frazil.dask.store(lazy(VALUES[:17, :20], (4, 3)), array, regions=(slice(3, 20), slice(5, 25)))
    expected = np.full(SHAPE, -1, "i4")
    expected[3:20, 5:25] = VALUES[:17, :20]
    np.testing.assert_array_equal(array[...], expected)


@settings(max_examples=25)
@given(st.data())
def test_each_shard_is_written_by_one_task(data: st.DataObject) -> None:
    """Each shard is put once: a shard written by two tasks would be put twice."""
    store = CountingStore(MemoryStore())
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, length)] * 2))) for length in SHAPE]
    region = tuple(slice(*pair) for pair in bounds)
    chunks = tuple(_cut(data, stop - start) for start, stop in bounds)
    array = target(store)
    array[...] = -1
    expected = array[...]
    expected[region] = VALUES[region]
    touched = 1
    for (start, stop), unit in zip(bounds, SHARDS, strict=True):
        touched *= len({at // unit for at in range(start, stop)})
    before = store.count("put")
    frazil.dask.store(lazy(VALUES[region], chunks), array, regions=region)
    assert store.count("put") - before == touched
    np.testing.assert_array_equal(array[...], expected)


def _cut(data: st.DataObject, length: int) -> tuple[int, ...]:
    cuts = sorted(data.draw(st.sets(st.integers(1, max(length - 1, 1)), max_size=6)))
    bounds = [0, *(cut for cut in cuts if cut < length), length]
    return tuple(np.diff(bounds).tolist())


def test_without_dimensions_and_without_elements() -> None:
    single, none = target(shape=(), chunks=(), shards=None), target(shape=(0, 4), chunks=(1, 1), shards=None)
    frazil.dask.store([da.from_array(np.array(5, "i4")), da.zeros((0, 4), chunks=2)], [single, none])
    assert single[()] == 5
    frazil.dask.store(da.from_array(np.array(6, "i4")), single, regions=())
    assert single[()] == 6


def test_a_delayed_store_writes_when_computed() -> None:
    array = target()
    delayed = frazil.dask.store(lazy(), array, compute=False)
    assert array[0, 0] == 0
    assert delayed.compute() is None  # type: ignore[union-attr]
    np.testing.assert_array_equal(array[...], VALUES)


def test_chunks_that_do_not_fit_are_refused_on_request() -> None:
    array = target()
    with pytest.raises(InvalidInputError, match=r"not aligned with the shards .*\(10, 12\)"):
        frazil.dask.store(lazy(), array, rechunk=False)
    frazil.dask.store(lazy(chunks=(20, 12)), array, rechunk=False)
    frazil.dask.store(lazy(VALUES[5:], ((5, 20), (24, 2))), array, regions=(slice(5, None),), rechunk=False)


def test_regions_of_one_target() -> None:
    array = target()
    halves = [lazy(VALUES[:20]), lazy(VALUES[20:])]
    frazil.dask.store(halves, [array, array], regions=[(slice(0, 20),), (slice(20, 30),)])
    np.testing.assert_array_equal(array[...], VALUES)
    with pytest.raises(InvalidInputError, match="share a shard"):
        frazil.dask.store(
            [lazy(VALUES[:15]), lazy(VALUES[15:])], [array, array], regions=[(slice(0, 15),), (slice(15, 30),)]
        )
    with pytest.raises(InvalidInputError, match="same elements"):
        frazil.dask.store([lazy(), lazy()], [array, array])


def test_two_handles_of_one_target_are_an_error(repo: frazil.Repository, tmp_path: Path) -> None:
    target(tmp_path / "g", path="t")
    (tmp_path / "other").symlink_to(tmp_path / "g")
    folders = [frazil.open_array(tmp_path / "g", "r+", path="t"), frazil.open_array(tmp_path / "other/t", "r+")]
    session = repo.writable_session()
    target("memory://two handles")
    named = [frazil.open_array("memory://two handles", "r+") for _ in range(2)]
    for pair in (folders, [session.root["t"], session.root["t"]], named):
        with pytest.raises(InvalidInputError, match="same elements"):
            frazil.dask.store([lazy(), lazy()], pair)
    frazil.dask.store([lazy(), lazy()], [target(), target()])


def test_invalid_arguments_are_refused(repo: frazil.Repository) -> None:
    array = target()
    session = repo.writable_session()
    with pytest.raises(SelectionError, match="does not fit"):
        frazil.dask.store(lazy(VALUES[:10]), array)
    with pytest.raises(InvalidInputError, match="not a dask array"):
        frazil.dask.store(VALUES, array)
    with pytest.raises(InvalidInputError, match="2 arrays, but 1 target"):
        frazil.dask.store([lazy(), lazy()], [array])
    with pytest.raises(InvalidInputError, match="the target is 't'"):
        frazil.dask.store(lazy(), "t")
    with pytest.raises(InvalidInputError, match="not all in one session"):
        frazil.dask.store([lazy(), lazy()], [session.root["t"], array])
    with pytest.raises(InvalidInputError, match="not all in one session"):
        frazil.dask.store(lazy(), array, into=session)
    with pytest.raises(InvalidInputError, match="no masks"):
        frazil.dask.store(da.ma.masked_equal(lazy(), 3), array)
    with pytest.raises(InvalidInputError, match="unknown extents"):
        frazil.dask.store(lazy()[lazy() > 3], target(shape=(777,), chunks=(5,), shards=None))
    with pytest.raises(InvalidInputError, match="regions is"):
        frazil.dask.store([lazy(), lazy()], [array, array], regions=[None])
    with pytest.raises(InvalidInputError, match="message"):
        frazil.dask.store(lazy(), "t", into=repo)
    with pytest.raises(InvalidInputError, match="message has no meaning: into is not a repository"):
        frazil.dask.store(lazy(), "t", into=session, message="x")
    with pytest.raises(InvalidInputError, match="cannot be combined with a commit"):
        frazil.dask.store(lazy(), "t", into=repo, message="x", compute=False)
    with pytest.raises(ReadOnlyError):
        frazil.dask.store(lazy(), repo.readonly_session().root["t"])
    with pytest.raises(NotFoundError):
        frazil.dask.store(lazy(), "nothing", into=repo, message="x")
    with pytest.raises(InvalidInputError, match="into is"):
        frazil.dask.store(lazy(), "t", into="sea.repo", message="x")
    assert not session.has_changes and not array[...].any()


def test_a_failed_store_writes_nothing_later() -> None:
    """A scheduler does not wait for tasks that still run when another one fails."""
    array = frazil.create_array(MemoryStore(), shape=2, dtype="i4", chunks=1)
    began, goes_on = threading.Event(), threading.Event()

    def compute(block: Any) -> Any:
        if block == 1:
            began.wait(60)
            raise RuntimeError("on purpose")
        began.set()
        goes_on.wait(60)
        return block

    late = lazy(np.array([1, 2]), 1).map_blocks(compute, dtype="i4", meta=np.empty(0, "i4"))
    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(RuntimeError, match="on purpose"):
            frazil.dask.store(late, array, scheduler=pool)
        frazil.dask.store(lazy(np.array([3, 4]), 1), array)
        goes_on.set()
    assert array[...].tolist() == [3, 4]


class SlowStore(MemoryStore):
    """Waits within a write."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.goes_on = threading.Event(), threading.Event()

    def put_many(self, *arguments: Any, **options: Any) -> Any:
        if any("c/" in key for key in arguments[0]):
            self.began.set()
            self.goes_on.wait(60)
        return super().put_many(*arguments, **options)


def test_a_failed_store_waits_for_its_writes() -> None:
    store = SlowStore()
    array = frazil.create_array(store, shape=2, dtype="i4", chunks=1)

    def compute(block: Any) -> Any:
        if block == 1:
            store.began.wait(60)
            threading.Timer(0.1, store.goes_on.set).start()
            raise RuntimeError("on purpose")
        return block

    late = lazy(np.array([1, 2]), 1).map_blocks(compute, dtype="i4", meta=np.empty(0, "i4"))
    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(RuntimeError, match="on purpose"):
            frazil.dask.store(late, array, scheduler=pool)
        assert array[...].tolist() == [0, 2]


@pytest.mark.parametrize(
    "location",
    [
        MemoryStore(),
        {},
        OrderedDict(),
        frazil.stores.adapt({}, sole_writer=True),
        CountingStore(MemoryStore()),
        zarr.storage.MemoryStore(),
        zarr.storage.LoggingStore(zarr.storage.MemoryStore()),
        zarr.storage.FsspecStore.from_url("memory://dask"),
        (fsspec.filesystem("memory"), "/dask 2"),
        fsspec.get_mapper("memory://dask 3"),
    ],
)
def test_other_processes_refuse_stores_in_memory(location: Any) -> None:
    """Each would write into its own copy."""
    store = target(location).store
    Shared("call", None).check(store)
    with pytest.raises(InvalidInputError, match="store in memory"):
        Shared("call", None, process_id=0).check(store)


def test_other_processes_take_files_through_other_libraries(tmp_path: Path) -> None:
    local = zarr.storage.LoggingStore(zarr.storage.LocalStore(tmp_path / "1"))
    for location in (local, (fsspec.filesystem("file"), str(tmp_path / "2")), tmp_path / "3", tmp_path / "4.zip"):
        Shared("call", None, process_id=0).check(target(location).store)


def test_a_store_that_names_itself_is_taken(tmp_path: Path) -> None:
    class OwnStore(LocalStore):
        @property
        def store(self) -> OwnStore:
            return self

    Shared("call", None, process_id=0).check(OwnStore(tmp_path))


def test_stores_that_name_each_other_are_taken(tmp_path: Path) -> None:
    class PairStore(LocalStore):
        store: PairStore

    one, other = PairStore(tmp_path), PairStore(tmp_path)
    one.store, other.store = other, one
    Shared("call", None, process_id=0).check(one)


# --- into repositories -----------------------------------------------------------------------------------------------------------------


@BOTH
def test_several_arrays_are_one_commit(repo: frazil.Repository) -> None:
    before = len(list(repo.history()))
    snapshot = frazil.dask.store(
        [lazy(), lazy() * 2], ["t", "u"], into=repo, message="both", metadata={"by": "a cluster"}
    )
    assert isinstance(snapshot, str)
    (commit, *others) = repo.history()
    assert (commit.id, commit.message, commit.metadata, len(others)) == (snapshot, "both", {"by": "a cluster"}, before)
    root = repo.readonly_session().root
    np.testing.assert_array_equal(root["t"][...], VALUES)
    np.testing.assert_array_equal(root["u"][...], VALUES * 2)


def test_shared_inputs_are_computed_once(repo: frazil.Repository) -> None:
    computed: list[object] = []

    def load(block_info: Any = None) -> Any:
        computed.append(block_info[None]["chunk-location"])
        return np.ones(block_info[None]["chunk-shape"], "i4")

    common = da.map_blocks(load, chunks=lazy().chunks, dtype="i4", meta=np.empty((0, 0), "i4"))
    frazil.dask.store([common + 1, common * 3], ["t", "u"], into=repo, message="both")
    assert len(computed) == len(set(computed)) == common.npartitions
    root = repo.readonly_session().root
    assert (root["t"][...] == 2).all()
    assert (root["u"][...] == 3).all()


def test_store_commits_to_another_branch(repo: frazil.Repository) -> None:
    repo.create_branch("dev", "main")
    frazil.dask.store(lazy(), "t", into=repo, branch="dev", message="x")
    assert not repo.readonly_session("main").root["t"][...].any()
    np.testing.assert_array_equal(repo.readonly_session("dev").root["t"][...], VALUES)


def test_a_session_has_the_changes(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    made = target(session.root, "new")
    made[:5] = -1  # which waits in memory
    assert frazil.dask.store(lazy(), made) is None
    assert frazil.dask.store(lazy(VALUES[:9]), "t", into=session, regions=(slice(2, 11),)) is None
    assert "new" not in repo.readonly_session().root
    session.commit("all of it")
    root = repo.readonly_session().root
    np.testing.assert_array_equal(root["new"][...], VALUES)
    np.testing.assert_array_equal(root["t"][2:11], VALUES[:9])
    assert not root["t"][:2].any() and not root["t"][11:].any()


def test_within_a_transaction(repo: frazil.Repository) -> None:
    with repo.transaction(message="x") as root:
        frazil.dask.store(lazy(), target(root, "new"))
    np.testing.assert_array_equal(repo.readonly_session().root["new"][...], VALUES)


@BOTH
def test_a_partial_shard_keeps_what_the_session_has(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    session.root["t"][...] = -1
    frazil.dask.store(lazy(VALUES[:8, :8]), "t", into=session, regions=(slice(6, 14), slice(9, 17)))
    expected = np.full(SHAPE, -1, "i4")
    expected[6:14, 9:17] = VALUES[:8, :8]
    session.commit("x")
    np.testing.assert_array_equal(repo.readonly_session().root["t"][...], expected)


def test_a_delayed_store_into_a_session_returns_a_fork(repo: frazil.Repository) -> None:
    session = repo.writable_session()
    delayed = frazil.dask.store(lazy(), "t", into=session, compute=False)
    (fork,) = dask.compute(delayed)
    assert not session.has_changes
    session.merge(pickle.loads(pickle.dumps(fork)))
    session.commit("x")
    np.testing.assert_array_equal(repo.readonly_session().root["t"][...], VALUES)


@BOTH
def test_a_computation_that_fails_leaves_nothing(repo: frazil.Repository) -> None:
    session, before = repo.writable_session(), repo.lookup("main")
    with pytest.raises(RuntimeError, match="on purpose"):
        frazil.dask.store([lazy(), failing(lazy())], ["t", "u"], into=repo, message="x")
    with pytest.raises(RuntimeError, match="on purpose"):
        frazil.dask.store([lazy(), failing(lazy())], ["t", "u"], into=session)
    assert repo.lookup("main") == before and not session.has_changes
    frazil.dask.store(lazy(), "t", into=session)
    session.commit("x")
    np.testing.assert_array_equal(repo.readonly_session().root["t"][...], VALUES)


def test_a_write_of_the_same_elements_meanwhile_conflicts(repo: frazil.Repository) -> None:
    session = repo.writable_session()

    def meddle(block: Any, block_id: Any = None) -> Any:
        if block_id == (0, 0):
            session.root["t"][0, 0] = 9
        return block

    with pytest.raises(ConflictError):
        frazil.dask.store(lazy().map_blocks(meddle, dtype="i4"), "t", into=session)
    assert session.root["t"][0, 0] == 9 and session.root["t"][29, 25] == 0


def test_concurrent_commits_are_kept(repo: frazil.Repository) -> None:
    once = threading.Lock()

    def meddle(block: Any) -> Any:
        if once.acquire(blocking=False):
            with repo.transaction(message="theirs") as root:
                root["u"][...] = 7
        return block

    frazil.dask.store(lazy().map_blocks(meddle, dtype="i4", meta=np.empty((0, 0), "i4")), "t", into=repo, message="x")
    root = repo.readonly_session().root
    np.testing.assert_array_equal(root["t"][...], VALUES)
    assert (root["u"][...] == 7).all()


def test_writes_without_changes_do_not_commit(repo: frazil.Repository) -> None:
    before = repo.lookup("main")
    assert frazil.dask.store(da.zeros(SHAPE, chunks=9), "t", into=repo, message="x") == before


def test_forks_of_tasks_are_small_and_ask_for_nothing(repo: frazil.Repository) -> None:
    """A graph of many tasks contains the snapshot once."""
    with repo.transaction(message="many") as root:
        for number in range(200):
            target(root, f"a{number}")
    session = repo.writable_session()
    sizes = []
    for count in (50, 100):
        array = session.root.create_array(f"long{count}", shape=(count,), dtype="i4", chunks=(1,))
        sizes.append(
            len(pickle.dumps(dict(frazil.dask.store(da.ones(count, chunks=1), array, compute=False).dask)))  # type: ignore[union-attr]
        )
    assert sizes[1] - sizes[0] < 50 * 1000


# --- as dask's arrays ------------------------------------------------------------------------------------------------------------------


def test_read_whole_shards() -> None:
    array = target()
    array[...] = VALUES
    with dask.config.set({"array.chunk-size": "1 kiB"}):
        x = frazil.dask.from_array(array)
        assert x.chunks == ((20, 10), (12, 12, 2))
    with dask.config.set({"array.chunk-size": "200 B"}):
        assert frazil.dask.from_array(array).chunksize == (5, 4)
    assert (x.dtype, x.shape) == (array.dtype, SHAPE)
    np.testing.assert_array_equal((x + 1)[3:20, ::3].compute(), (VALUES + 1)[3:20, ::3])
    assert frazil.dask.from_array(array, (7, 26)).chunks[0] == (7, 7, 7, 7, 2)
    np.testing.assert_array_equal(frazil.dask.from_array(array, (7, 9))[[1, 5, 2]].compute(), VALUES[[1, 5, 2]])


def test_dask_takes_an_array_as_it_is(repo: frazil.Repository) -> None:
    array = target()
    array[...] = VALUES
    x = da.from_array(array)
    np.testing.assert_array_equal(x.compute(), VALUES)
    assert x.name == da.from_array(array).name
    assert isinstance(da.from_array(repo.readonly_session().root["t"])._meta, np.ndarray)
    with pytest.raises(InvalidInputError, match=r"not a frazil\.Array"):
        frazil.dask.from_array(VALUES)  # type: ignore[arg-type]


def test_an_import_loads_no_dask() -> None:
    code = "import frazil, sys; frazil.dask.store; print('dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"


def test_without_dask_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(InvalidInputError, match="cannot be imported") as caught:
        frazil.dask.from_array(target())
    assert caught.value.hint == "pip install 'frazil[dask]'"


def test_processes_of_dask_write_into_one_array(tmp_path: Path) -> None:
    array = target(tmp_path / "a")
    frazil.dask.store(lazy(chunks=(30, 26)), array, scheduler="processes", num_workers=1)
    np.testing.assert_array_equal(array[...], VALUES)
