"""Arrays with chunks of several shapes behave like any array; NumPy gives the expected values."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slow_properties import search

import frazil
from frazil.codecs import DEFAULT_REGISTRY
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError
from frazil.metadata.grids.rectilinear import RectilinearGrid

Draw = st.DrawFn
FILL = -1


def edges(most: int, multiple: int = 1) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, most).map(lambda n: n * multiple), min_size=1, max_size=5)


@st.composite
def arrays(draw: Draw) -> tuple[frazil.Array, np.ndarray]:
    """An array of one to three dimensions in memory, sharded or not, and its values."""
    ndim, sharded = draw(st.integers(1, 3)), draw(st.booleans())
    inner = [draw(st.integers(1, 3)) if sharded else 1 for _ in range(ndim)]
    grid: list[int | list[int]] = []
    shape = []
    for axis in range(ndim):
        lengths = draw(edges(4, inner[axis]))
        regular = draw(st.integers(0, 3)) == 0
        grid.append(lengths[0] if regular else lengths)
        shape.append(draw(st.integers(0, 9 if regular else sum(lengths))))
    if all(isinstance(lengths, int) for lengths in grid):
        grid[0] = [grid[0]] * (-(-shape[0] // grid[0]) + 1)  # type: ignore[operator, list-item]
    chunks = {"chunks": inner, "shards": grid} if sharded else {"chunks": grid}
    codecs = draw(st.sampled_from([["bytes"], ["bytes", {"name": "zstd", "configuration": {"level": 1}}]]))
    array = frazil.create_array({}, shape=shape, dtype="int16", fill_value=FILL, codecs=codecs, **chunks)  # type: ignore[arg-type]
    assert isinstance(array.metadata.chunk_grid, RectilinearGrid)
    values = np.full(shape, FILL, np.int16)
    if draw(st.booleans()):
        values[...] = np.arange(values.size).reshape(shape)
        array[...] = values
    return array, values


def along(draw: Draw, length: int) -> int | slice | list[int]:
    kinds = ["slice", "list", "int"] if length else ["slice"]
    kind = draw(st.sampled_from(kinds))
    if kind == "slice":
        return draw(st.slices(length))
    if kind == "int":
        return draw(st.integers(-length, length - 1))
    return draw(st.lists(st.integers(0, length - 1), max_size=6, unique=True))


@search(slowness=2)
@given(st.data())
def test_boxes(data: st.DataObject) -> None:
    array, values = data.draw(arrays())
    for _ in range(3):
        selection = tuple(data.draw(st.composite(along)(length)) for length in values.shape)
        mesh = np.ix_(*[np.atleast_1d(np.arange(n)[part]) for n, part in zip(values.shape, selection, strict=True)])
        dropped = tuple(axis for axis, part in enumerate(selection) if isinstance(part, int))
        assert np.array_equal(array.oindex[selection], values[mesh].squeeze(dropped))
        new = data.draw(st.integers(0, 1000)) + np.arange(values[mesh].size, dtype=np.int16).reshape(values[mesh].shape)
        array.oindex[selection] = new.squeeze(dropped)
        values[mesh] = new
        assert np.array_equal(array[...], values)


@given(st.data())
def test_points(data: st.DataObject) -> None:
    array, values = data.draw(arrays())
    if values.size:
        count = data.draw(st.integers(0, 8))
        points = tuple(
            np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=count, max_size=count)), np.int64)
            for n in values.shape
        )
        assert np.array_equal(array.vindex[points], values[points])
        array.vindex[points] = np.arange(count, dtype=np.int16)
        values[points] = np.arange(count)
        mask = values % 2 == 0
        array.vindex[mask] = 7
        values[mask] = 7
    assert np.array_equal(array[...], values)


@search(slowness=2)
@given(st.data())
def test_lengths_change(data: st.DataObject) -> None:
    array, values = data.draw(arrays())
    for _ in range(3):
        if data.draw(st.booleans()):
            shape = tuple(data.draw(st.integers(0, 14)) for _ in values.shape)
            array.resize(shape)
            kept = tuple(slice(0, min(old, new)) for old, new in zip(values.shape, shape, strict=True))
            new = np.full(shape, FILL, np.int16)
            new[kept] = values[kept]
            values = new
        else:
            axis = data.draw(st.integers(0, values.ndim - 1))
            more = tuple(data.draw(st.integers(0, 5)) if d == axis else n for d, n in enumerate(values.shape))
            array.append(np.full(more, 5, np.int16), axis=axis)
            values = np.concatenate([values, np.full(more, 5, np.int16)], axis=axis)
        assert array.shape == values.shape
        assert np.array_equal(array[...], values)
        assert np.array_equal(array.refresh()[...], values)


@given(arrays())
def test_blocks_and_counts(both: tuple[frazil.Array, np.ndarray]) -> None:
    array, values = both
    grid = array.metadata.chunk_grid
    assert isinstance(grid, RectilinearGrid)
    array[...] = values = np.ones_like(values)
    starts = []
    for axis, length in enumerate(values.shape):
        lengths = grid.lengths[axis]
        ends = np.cumsum([0, *(lengths if isinstance(lengths, tuple) else [lengths] * 20)])
        starts.append([int(start) for start in ends if start < length] + [length])
    assert array.metadata.grid_shape == tuple(len(of_axis) - 1 for of_axis in starts)
    for block in product(*[range(len(of_axis) - 1) for of_axis in starts]):
        box = tuple(slice(of_axis[at], of_axis[at + 1]) for of_axis, at in zip(starts, block, strict=True))
        assert array.blocks[block].shape == values[box].shape
        array.blocks[block] = sum(block)
        values[box] = sum(block)
    assert np.array_equal(array[...], values)
    array[...] = np.ones_like(values)
    assert array.nchunks_initialized == array.nchunks
    assert array.info.nchunks == array.nchunks


@pytest.mark.parametrize("shards", [None, [[4, 6, 2], 6]])
def test_rectilinear_arrays_on_disk_are_written_and_read(tmp_path: Path, shards: object) -> None:
    chunks = [2, 3] if shards else [[4, 6, 2], [3, 9]]
    array = frazil.create_array(tmp_path / "a", shape=(11, 12), dtype="f8", chunks=chunks, shards=shards)  # type: ignore[arg-type]
    values = np.random.default_rng(1).random((11, 12))
    array[...] = values
    again = frazil.open_array(tmp_path / "a")
    assert np.array_equal(again[3:11:2, ::-1], values[3:11:2, ::-1])
    assert again.shards == ((6, 6) if shards else None)
    assert again.chunks == ((2, 3) if shards else (6, 9))
    frazil.copy(tmp_path / "a", tmp_path / "b")
    assert np.array_equal(frazil.open_array(tmp_path / "b")[...], values)
    assert frazil.checksum(tmp_path / "a") == frazil.checksum(tmp_path / "b")


def test_a_handle_follows_a_grid_that_grew() -> None:
    store: dict[str, bytes] = {}
    one = frazil.create_array(store, shape=5, dtype="int8", chunks=[[2, 3]])
    other = frazil.open_array(store, mode="r+")
    one.append(np.ones(5, np.int8))
    other[0] = 9
    assert other.refresh()[...].tolist() == [9, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert json.loads(bytes(store["zarr.json"]))["chunk_grid"]["configuration"]["chunk_shapes"] == [[2, [3, 3]]]


def test_each_shape_is_compiled_once() -> None:
    array = frazil.create_array({}, shape=(60,), dtype="u1", chunks=[[10, 20, 30]])
    assert array[:].sum() == 0
    compiled = {**DEFAULT_REGISTRY.compiled._results}
    assert array[:].sum() == 0
    assert compiled.keys() == DEFAULT_REGISTRY.compiled._results.keys()


def test_errors_name_the_damaged_chunk() -> None:
    store: dict[str, bytes] = {}
    array = frazil.create_array(store, shape=5, dtype="int8", chunks=[[2, 3]], codecs=["bytes"])
    array[...] = 1
    store["c/1"] = b"\1\1"
    assert array[:2].tolist() == [1, 1]
    with pytest.raises(ChunkDecodeError) as caught:
        array[...]
    assert caught.value.key == "c/1"


def test_invalid_rectilinear_grids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="multiple"):
        frazil.create_array({}, shape=10, dtype="int8", chunks=2, shards=[[4, 6, 3]])
    with pytest.raises(MetadataError) as caught:
        frazil.create_array({}, shape=10, dtype="int8", chunks=[[4, 5]])
    assert caught.value.path == "chunk_grid.configuration.chunk_shapes[0]"
    with pytest.raises(MetadataError, match="one shape"):
        frazil.create_array({}, shape=10, dtype="int8", chunks=[[4, 6]], zarr_format="draft")
    repository = frazil.Repository.create(tmp_path / "r.repo")
    with pytest.raises(InvalidInputError, match="rectilinear"):
        repository.writable_session("main").root.create_array("a", shape=10, dtype="int8", chunks=[[4, 6]])
    array = frazil.create_array({}, shape=10, dtype="int8", chunks=2, shards=[[4, 6]])
    with pytest.raises(InvalidInputError, match="several shapes"):
        array.shard_writer(0)


@pytest.mark.parametrize(
    "shapes", ["4", [0], [[]], [[1, 0]], [[[2]]], [[[2, 0]]], [[[1, 2**40]]], [[2**62, 2**62]], [1.5], [True]]
)
def test_invalid_grids_are_refused(shapes: object) -> None:
    with pytest.raises(MetadataError) as caught:
        RectilinearGrid(shapes)  # type: ignore[arg-type]
    assert (caught.value.path or "").startswith("chunk_grid.configuration.chunk_shapes")


def _opened(grid: object, shape: list[int], store: dict[str, bytes]) -> frazil.Array:
    """An array with this grid in its document, in one dictionary."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "int8",
        "fill_value": 0,
        "chunk_grid": grid,
        "chunk_key_encoding": "default",
        "codecs": ["bytes"],
    }
    store["zarr.json"] = json.dumps(document).encode()
    return frazil.open_array(store, mode="r+")


def test_the_form_of_the_draft() -> None:
    store: dict[str, bytes] = {}
    array = _opened({"name": "rectangular", "configuration": {"chunk_shape": [[1, 2, 3], 4]}}, [6, 7], store)
    array[...] = values = np.arange(42, dtype=np.int8).reshape(6, 7)
    array.append(values[:2])
    assert np.array_equal(frazil.open_array(store)[...], np.concatenate([values, values[:2]]))
    assert json.loads(bytes(store["zarr.json"]))["chunk_grid"]["configuration"] == {"chunk_shape": [[1, 2, 3, 3], 4]}


@given(data=st.data())
@search(slowness=2)
def test_chunks_that_end_with_the_array(data: st.DataObject) -> None:
    """The grid zarrs.regular_bounded."""
    shape = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    inner = [data.draw(st.integers(1, 5)) for _ in shape]
    grid, store = {"name": "zarrs.regular_bounded", "configuration": {"chunk_shape": inner}}, dict[str, bytes]()
    array = _opened(grid, shape, store)
    values = np.resize(np.arange(1, 100, dtype=np.int8), shape)  # no fill values, whose chunks are not stored
    array[...] = values
    assert sum(len(chunk) for key, chunk in store.items() if key != "zarr.json") == values.nbytes
    new = [data.draw(st.integers(max(length - 1, 0), 10)) for length in shape]
    reader = frazil.open_array(store)
    if any(new < old or (new > old and old % chunk) for old, new, chunk in zip(shape, new, inner, strict=True)):
        with pytest.raises(MetadataError, match="ends with it"):
            array.resize(new)
    else:
        array.resize(new)
        expected = np.zeros(new, np.int8)
        expected[tuple(map(slice, shape))] = values
        values = expected
    for each in (array, reader.refresh(), frazil.open_array(store)):
        assert np.array_equal(each[...], values)
    assert json.loads(bytes(store["zarr.json"]))["chunk_grid"] == grid


def test_documents() -> None:
    """Every form of the registry is read; equal lengths are written as runs."""
    shapes = [4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [4, 4, 4]]
    grid_entry = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}
    array = _opened(grid_entry, [6] * 5, {})
    grid = array.metadata.chunk_grid
    assert array.metadata.grid_shape == (2, 3, 2, 4, 2)
    assert isinstance(grid, RectilinearGrid)
    assert grid.lengths == (4, (1, 2, 3), (4, 4), (1, 1, 1, 3), (4, 4, 4))
    assert grid.extension().configuration["chunk_shapes"] == [4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [[4, 3]]]


def test_strings() -> None:
    """Elements of variable length, in chunks and in shards of several shapes."""
    values = np.array([f"s{i}" for i in range(42)], object).reshape(7, 6)
    for layout in ({"chunks": [[2, 4, 1], [4, 2]]}, {"chunks": (2, 3), "shards": [[4, 2, 2], [3, 3]]}):
        array = frazil.create_array({}, shape=(7, 6), dtype="string", fill_value="x", **layout)  # type: ignore[arg-type]
        array[...] = values
        array[1:4, 2:5] = "q"
        array.append(values[:3])
        expected = np.concatenate([values, values[:3]])
        expected[1:4, 2:5] = "q"
        assert array[...].tolist() == expected.tolist()
        array.resize((3, 4))
        array.resize((9, 6))
        expected[3:], expected[:, 4:] = "x", "x"
        assert array[...].tolist() == expected[:9].tolist()


def test_grids_whose_plans_would_leave_64_bits_are_refused() -> None:
    """In the plan of a shape all chunks have that shape."""
    with pytest.raises(MetadataError, match=r"2\^63 - 1 elements"):
        RectilinearGrid([[[2**20, 2**23], 2**47]])
    assert RectilinearGrid([[[2**20, 2**15], 2**47]]).largest == (2**47,)
