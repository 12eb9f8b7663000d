"""create_array(data=): arrays, array-likes and blocks, written box by box."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
import frazil.zarr
from frazil import Runtime
from frazil.array.creation.data_source import boxes, data_source
from frazil.errors import ConflictError, InvalidInputError, SelectionError, StoreError
from frazil.stores import MemoryStore
from frazil.testing import Fault, FaultPlan, FaultyStore

VALUES = np.arange(60 * 50, dtype="int32").reshape(60, 50)
LAYOUT = {"chunks": (4, 5), "shards": (16, 20)}


class Elsewhere:
    """An array that records its requests."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.boxes = values, list[tuple[slice, ...]]()
        self.shape, self.dtype = values.shape, values.dtype

    def __getitem__(self, box: tuple[slice, ...]) -> np.ndarray:
        self.boxes.append(box)
        return self.values[box]


def blocks(sizes: list[int]) -> Iterator[np.ndarray]:
    memory, at = np.empty((60, 50), "int32"), 0
    for size in sizes:
        memory[:size] = VALUES[at : at + size]
        yield memory[:size]
        at += size


def test_an_array_like_is_read_in_boxes_of_whole_shards() -> None:
    data, reports = Elsewhere(VALUES), list[int]()
    array = frazil.create_array(
        MemoryStore(),
        data=data,
        runtime=Runtime(bytes_in_flight=2 * 2 * 16 * 20 * 4),
        progress=reports.append,
        **LAYOUT,
    )  # type: ignore[arg-type]
    assert (array[...] == VALUES).all()
    assert array.dtype == "int32"
    assert [(box[0].start, box[1].start) for box in data.boxes] == [(i, j) for i in range(0, 60, 16) for j in (0, 40)]
    assert sum(reports) == VALUES.nbytes
    assert len(reports) == len(data.boxes)


def test_array_likes_of_others(tmp_path: Path) -> None:
    dask = pytest.importorskip("dask.array")
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = VALUES
        sources = [dask.from_array(VALUES, chunks=(7, 11)), file["a"], frazil.create_array(MemoryStore(), data=VALUES)]
        for source in sources:
            array = frazil.create_array(MemoryStore(), data=source, runtime=Runtime(bytes_in_flight=4096), **LAYOUT)  # type: ignore[arg-type]
            assert (array[...] == VALUES).all()


def test_xarray_and_zarr(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    zarr = pytest.importorskip("zarr")
    there = zarr.create_array(tmp_path / "z", data=VALUES, chunks=(6, 50))
    for source in (xarray.Variable(("y", "x"), VALUES), there):
        assert (frazil.create_array(MemoryStore(), data=source, **LAYOUT)[...] == VALUES).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [1, 4 * 50 * 4 * 2, 16 * 50 * 4 * 2, 2**20])
@pytest.mark.parametrize("sizes", [[60], [1] * 60, [7] * 8 + [4], [0, 33, 0, 27], [16, 16, 16, 12]])
def test_blocks(sizes: list[int], limit: int) -> None:
    reports: list[int] = []
    array = frazil.create_array(
        MemoryStore(),
        data=blocks(sizes),
        shape=(60, 50),
        runtime=Runtime(bytes_in_flight=limit),
        progress=reports.append,
        **LAYOUT,
    )  # type: ignore[arg-type]
    assert (array[...] == VALUES).all()
    assert sum(reports) == VALUES.nbytes


@pytest.mark.parametrize("sizes", [[59], [60, 1], [30]])
def test_blocks_that_do_not_fit(sizes: list[int]) -> None:
    store = MemoryStore()
    extra = (np.zeros((size, 50), "int32") for size in sizes)
    with pytest.raises(InvalidInputError, match="rows"):
        frazil.create_array(store, data=extra, shape=(60, 50), **LAYOUT)  # type: ignore[arg-type]
    assert store.list() == []
    with pytest.raises(InvalidInputError, match="does not fit"):
        frazil.create_array(store, data=iter([np.zeros((60, 49))]), shape=(60, 50), **LAYOUT)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no blocks"):
        frazil.create_array(store, data=iter(()), shape=(60, 50), **LAYOUT)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="shape is missing"):
        frazil.create_array(store, data=iter([VALUES]), **LAYOUT)  # type: ignore[arg-type]
    assert store.list() == []


def test_lists_and_scalars_are_arrays() -> None:
    assert frazil.create_array(MemoryStore(), data=[[1, 2], [3, 4]])[...].tolist() == [[1, 2], [3, 4]]
    assert frazil.create_array(MemoryStore(), data=5.0)[()] == 5
    assert frazil.create_array(MemoryStore(), data=7, shape=(3,))[...].tolist() == [7, 7, 7]
    with pytest.raises((InvalidInputError, SelectionError)):
        frazil.create_array(MemoryStore(), data=Elsewhere(VALUES), shape=(3, 3))


def test_a_failure_leaves_nothing_behind() -> None:
    def fails() -> Iterator[np.ndarray]:
        yield VALUES[:32]
        raise KeyboardInterrupt

    store = MemoryStore()
    with pytest.raises(KeyboardInterrupt):
        frazil.create_array(store, data=fails(), shape=(60, 50), **LAYOUT)  # type: ignore[arg-type]
    assert store.list() == []
    group = frazil.create_group(MemoryStore())
    with pytest.raises(KeyboardInterrupt):
        group.create_array("a", data=fails(), shape=(60, 50), **LAYOUT)  # type: ignore[arg-type]
    assert list(group) == []
    session = frazil.Repository.create(MemoryStore()).writable_session("main")
    with pytest.raises(KeyboardInterrupt):
        session.root.create_array("a", data=fails(), shape=(60, 50), **LAYOUT)  # type: ignore[arg-type]
    assert list(session.root) == []
    faulty = FaultyStore(MemoryStore(), FaultPlan([Fault("put_many", 4)]))
    with pytest.raises(StoreError):
        frazil.create_array(faulty, data=Elsewhere(VALUES), runtime=Runtime(bytes_in_flight=1), **LAYOUT)  # type: ignore[arg-type]
    assert faulty.inner.list() == []


def opened(group: frazil.Group, path: str) -> frazil.Array:
    array = group[path]
    assert isinstance(array, frazil.Array)
    return array


@pytest.mark.parametrize("path", ["x", "x/below"])
def test_a_node_of_a_session_stays_until_its_replacement_is_complete(path: str) -> None:
    def fails() -> Iterator[np.ndarray]:
        yield from (np.ones((10, 50), np.int64) for _ in range(5))
        raise KeyError("the source is gone")

    session = frazil.Repository.create(MemoryStore(), runtime=Runtime(bytes_in_flight=1)).writable_session()
    session.root.create_array("x/below", data=VALUES, **LAYOUT)  # type: ignore[arg-type]
    before = session.diff()
    with pytest.raises(KeyError, match="the source is gone"):
        session.root.create_array(path, data=fails(), shape=(60, 50), overwrite=True, **LAYOUT)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="the source is gone"):
        frazil.create_array(session.store, path=path, data=fails(), shape=(60, 50), overwrite=True, **LAYOUT)  # type: ignore[arg-type]
    assert session.diff() == before
    data = (np.full((10, 50), 7) for _ in range(6))
    new = session.root.create_array(path, data=data, shape=(60, 50), overwrite=True, **LAYOUT)  # type: ignore[arg-type]
    assert new.path == path
    assert (new[...] == 7).all()
    assert (opened(session.root, path)[...] == 7).all()
    assert "new-" not in str(session.diff())
    session.commit("replaced")


@pytest.mark.parametrize("overwrite", [True, False])
def test_an_array_of_a_session_is_neither_listed_nor_committed_before_it_is_complete(overwrite: bool) -> None:
    repo = frazil.Repository.create(MemoryStore(), runtime=Runtime(bytes_in_flight=1))
    session = repo.writable_session()
    session.root.create_array("other", data=VALUES, **LAYOUT)  # type: ignore[arg-type]
    if overwrite:
        session.root.create_array("x", data=VALUES, **LAYOUT)  # type: ignore[arg-type]
    session.commit("first")
    seen = []

    def commits(_: int) -> None:
        opened(session.root, "other")[0, 0] += 1
        session.commit("meanwhile")
        seen.append([path for path, _ in repo.readonly_session().root.members(None)])

    data = (np.full((10, 50), number) for number in range(6))
    new = session.root.create_array(
        "x",
        data=data,
        shape=(60, 50),
        overwrite=overwrite,
        progress=commits,
        **LAYOUT,  # type: ignore[arg-type]
    )
    before = ["other", "x"] if overwrite else ["other"]
    assert len(seen) > 1
    assert seen == [before] * len(seen)
    session.commit("complete")
    expected = np.repeat(np.arange(6), 10)
    for array in (new, opened(repo.readonly_session().root, "x")):
        np.testing.assert_array_equal(array[:, 3], expected)


def test_new_arrays_of_a_session_do_not_stay_in_memory() -> None:
    """Chunks were in memory up to the limit for each array, however many."""
    repo = frazil.Repository.create(MemoryStore(), runtime=Runtime(bytes_in_flight=100_000))
    session = repo.writable_session()
    for number in range(5):
        session.root.create_array(f"{number}", data=VALUES, **LAYOUT)  # type: ignore[arg-type]
        assert session._transaction.changes.pending.nbytes <= 100_000


def test_an_array_that_makes_a_session_too_large_for_memory_keeps_the_old_one_if_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    repo = frazil.Repository.create(MemoryStore(), runtime=Runtime(bytes_in_flight=20_000))
    session = repo.writable_session()
    session.root.create_array("x", data=VALUES, chunks=(60, 50), codecs=[])
    before = session.diff()
    monkeypatch.setattr("frazil.repository.session.session_state.store_pending", fails)
    with pytest.raises(StoreError, match="full"):
        session.root.create_array("x", data=VALUES + 1, chunks=(60, 50), codecs=[], overwrite=True)
    assert session.diff() == before
    np.testing.assert_array_equal(opened(session.root, "x")[...], VALUES)


def test_a_commit_while_an_array_is_filled_makes_the_session_look_for_its_files() -> None:
    """A collection may have held the branch before that commit, which forgets it."""
    repo = frazil.Repository.create(MemoryStore())
    session = repo.writable_session()

    def commits(_: int) -> None:
        session.commit("meanwhile", allow_empty=True)

    session.root.create_array("x", data=VALUES, progress=commits, **LAYOUT)  # type: ignore[arg-type]
    assert session._transaction.needs_check
    session.commit("x")
    assert not session._transaction.needs_check


@pytest.mark.parametrize(
    ("meanwhile", "members"),
    [
        (lambda session: session.discard(), ["g"]),
        (lambda session: session.root.move("g", "h"), ["h"]),
        (lambda session: session.root.remove("g"), []),
        (lambda session: (session.root.remove("g"), session.root.create_group("g")), ["g"]),
        (lambda session: session.root.create_group("g/other"), ["g", "g/other", "g/x"]),
        (lambda session: session.commit("meanwhile", allow_empty=True), ["g", "g/x"]),
    ],
    ids=["discard", "move", "remove", "again", "beside", "commit"],
)
def test_an_array_of_a_session_whose_group_is_gone_when_it_is_complete(
    meanwhile: Callable[[frazil.Session], object], members: list[str]
) -> None:
    """It made the group again, without its attributes; and a discard did not reach it."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, runtime=Runtime(bytes_in_flight=1))
    with repo.transaction(message="first") as root:
        root.create_group("g", attributes={"a": 1})
    session = repo.writable_session()
    acts = iter([meanwhile])

    def create() -> None:
        session.root.create_array(
            "g/x",
            data=(np.full((10, 50), number) for number in range(6)),
            shape=(60, 50),
            progress=lambda _: next(acts, repr)(session),
            **LAYOUT,  # type: ignore[arg-type]
        )

    if "g/x" in members:
        create()
    else:
        with pytest.raises(ConflictError, match="while the new array was filled"):
            create()
        assert not store.list_prefix("chunks/")
    assert [path for path, _ in session.root.members(None)] == members


def test_a_session_that_ends_meanwhile_keeps_the_old_array_and_no_files_of_the_new_one() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    with repo.transaction(message="first") as root:
        root.create_array("x", data=VALUES, **LAYOUT)  # type: ignore[arg-type]
    files = store.list()
    with pytest.raises(KeyError), repo.transaction(message="never") as root:
        ended = root
        raise KeyError
    with pytest.raises(frazil.FrazilError):
        ended.create_array("x", data=VALUES + 1, overwrite=True, **LAYOUT)  # type: ignore[arg-type]
    np.testing.assert_array_equal(opened(repo.readonly_session().root, "x")[...], VALUES)
    assert store.list() == files


@pytest.mark.parametrize("how", ["create_array", "item", "save", "open"])
def test_the_first_block_is_read_before_a_node_is_removed(how: str, tmp_path: Path) -> None:
    class Unreadable(Elsewhere):
        def __getitem__(self, box: tuple[slice, ...]) -> np.ndarray:
            raise KeyError("the source is gone")

    group = frazil.create_group(tmp_path / "h")
    group.create_array("x", data=VALUES, **LAYOUT)  # type: ignore[arg-type]
    data = Unreadable(VALUES)
    with pytest.raises(KeyError, match="the source is gone"):
        if how == "create_array":
            group.create_array("x", data=data, overwrite=True)
        elif how == "item":
            group["x"] = data  # type: ignore[assignment]
        elif how == "save":
            frazil.save(tmp_path / "h" / "x", data)
        else:
            frazil.open_array(tmp_path / "h" / "x", "w", data=data)
    np.testing.assert_array_equal(opened(group, "x")[...], VALUES)


@pytest.mark.parametrize("where", ["folder", "memory"])
@pytest.mark.parametrize("kind", ["array", "view", "dask", "other handle"])
def test_data_that_overwriting_would_remove_is_refused(where: str, kind: str, tmp_path: Path) -> None:
    group = frazil.create_group(MemoryStore() if where == "memory" else tmp_path / "h")
    group.create_array("x", data=VALUES, **LAYOUT)  # type: ignore[arg-type]
    for path in ("x", "above/x"):
        if path != "x":
            group.move("x", path)
        x = opened(group, path)
        if kind == "other handle" and where == "folder":
            x = frazil.open_array(tmp_path / "h" / path)
        data = {"view": x.lazy[::-1], "dask": frazil.dask.from_array(x) + 1}.get(kind, x)
        with pytest.raises(InvalidInputError):
            group[path.partition("/")[0]] = data
        with pytest.raises(InvalidInputError):
            group.create_array(path, data=data, overwrite=True, chunks=(7, 7))
        np.testing.assert_array_equal(opened(group, path)[...], VALUES)
    for _ in range(2):
        group["y"] = opened(group, "above/x")  # which is elsewhere
    np.testing.assert_array_equal(opened(group, "y")[...], VALUES)


def test_an_array_is_not_created_again_from_itself(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "x", data=VALUES, **LAYOUT)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="same location"):
        frazil.create_array(tmp_path / "x", data=array, chunks=(7, 7), overwrite=True)
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "x")[...], VALUES)
    frazil.create_array(tmp_path / "x", data=array[...], chunks=(7, 7), overwrite=True)
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "x")[...], VALUES)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=3), st.integers(1, 4000))
def test_boxes_cover_all_once(axes: list[tuple[int, int]], most: int) -> None:
    shape, parts = (tuple(axis[i] for axis in axes) for i in (0, 1))
    seen = np.zeros(shape, int)
    for box in boxes(shape, parts, most):
        seen[box] += 1
        assert all(part.start % extent == 0 for part, extent in zip(box, parts, strict=True))
        assert seen[box].size <= max(most, int(np.prod(np.minimum(parts, np.maximum(shape, 1)))))
    assert (seen == 1).all()


@pytest.mark.parametrize("kind", ["folder", "as_store", "memory"])
def test_arrays_of_zarr_python_are_not_removed_before_they_are_read(kind: str, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    store: Any = tmp_path / "a.zarr" if kind != "memory" else zarr.storage.MemoryStore()
    frazil.create_array(store, data=np.arange(5))
    theirs = zarr.open_array(frazil.zarr.as_store(store) if kind == "as_store" else store, mode="r")
    for data in (theirs, da.from_array(theirs, chunks=2)):
        with pytest.raises(InvalidInputError, match="same location"):
            frazil.create_array(store, data=data, overwrite=True)
    assert frazil.load(store).tolist() == [0, 1, 2, 3, 4]  # type: ignore[union-attr]


def test_blocks_are_joined_in_memory_that_is_used_again() -> None:
    blocks = [np.full((1, 3), 1, "i2"), np.full((2, 3), 2, "i4"), np.full((5, 3), 3, "i2")]
    found = [
        (box[0].start, values, values.tolist())
        for box, values in data_source(iter(blocks)).parts((8, 3), (2, 3), (2, 3), np.dtype("i4"), 6)
    ]
    assert [(start, rows) for start, _, rows in found] == [
        (0, [[1] * 3, [2] * 3]),
        (2, [[2] * 3, [3] * 3]),
        (4, [[3] * 3] * 2),
        (6, [[3] * 3] * 2),
    ]
    assert np.shares_memory(found[0][1], found[1][1])
    assert np.shares_memory(found[2][1], blocks[2]), "not copied"


@pytest.mark.parametrize(
    ("dtype", "blocks"),
    [
        ("i8", [np.array([1]), np.array([2.0]), np.array([2**53 + 1]), np.array([2**53 + 1])]),
        ("i8", [np.array([2**63 - 1]), np.array([5], "u8")]),
        ("M8[s]", [np.array(["5000-01-01"], "M8[D]"), np.array(["2000-01-01"], "M8[ns]")]),
    ],
)
def test_blocks_of_several_types(dtype: str, blocks: list[np.ndarray]) -> None:
    """Each becomes the type of the array: the type that all have in common (float64, nanoseconds) has not all values."""
    array = frazil.create_array(MemoryStore(), shape=len(blocks), dtype=dtype, chunks=2, data=iter(blocks))
    assert array[...].tolist() == [block.astype(dtype).tolist()[0] for block in blocks]


def test_a_block_of_no_fitting_type() -> None:
    blocks = [np.array([1]), np.array(["x"])]
    with pytest.raises(InvalidInputError, match="cannot be turned into"):
        frazil.create_array(MemoryStore(), shape=2, dtype="i8", chunks=2, data=iter(blocks))


def test_chunks_that_are_longer_than_the_array_need_no_more_memory() -> None:
    blocks = (np.full((1, 360), number, "i1") for number in range(2))
    parts = data_source(blocks).parts((2, 360), (10**15, 1), (10**15, 1), np.dtype("i1"), 1)
    assert [values[:, 0].tolist() for _, values in parts] == [[0, 1]]


def test_values_are_released_before_the_next_ones_are_read() -> None:
    """Otherwise twice the memory that is planned for them is in use."""
    read: list[weakref.ref[np.ndarray]] = []

    class Slices:
        shape, dtype = (8, 4), np.dtype("i4")

        def __getitem__(self, box: tuple[slice, ...]) -> np.ndarray:
            assert all(values() is None for values in read)
            rows = np.empty((box[0].stop - box[0].start, 4), "i4")
            rows[...] = box[0].start
            read.append(weakref.ref(rows))
            return rows

    runtime = frazil.Runtime(bytes_in_flight=64)
    array = frazil.create_array(frazil.stores.MemoryStore(), data=Slices(), chunks=(2, 4), runtime=runtime)
    assert array[:, 0].tolist() == [0, 0, 2, 2, 4, 4, 6, 6]


def test_boxes_of_any_length_are_not_listed() -> None:
    assert next(boxes((2**63 - 1, 2**40), (1, 2), 4)) == (slice(0, 1), slice(0, 4))
