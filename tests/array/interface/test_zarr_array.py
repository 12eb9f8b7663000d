"""The names of zarr-python's Array: their results, selections by kind, fields of structured data types."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.codecs import Bytes, Crc32c, Transpose, Zstd
from frazil.errors import InvalidInputError, SelectionError
from frazil.stores import MemoryStore

RECORD = np.dtype([("f", "<i4"), ("g", "<f8"), ("h", "<u2")])


def filled(chunks: tuple[int, int] = (2, 3), **arguments: object) -> tuple[frazil.Array, np.ndarray]:
    values = np.arange(35).reshape(5, 7)
    return frazil.array(values, chunks=chunks, **arguments), values


def test_properties_from_shape_and_data_type() -> None:
    array, _ = filled(shards=(4, 6), path="a/b")
    assert (array.name, array.basename, array.path) == ("/a/b", "b", "a/b")
    assert (array.size, array.itemsize, array.nbytes, array.order) == (35, 8, 280, "C")
    assert (array.cdata_shape, array.nchunks, array.nchunks_initialized) == ((3, 3), 9, 9)
    root = frazil.zeros(3)
    assert (root.name, root.basename) == ("/", "")


@pytest.mark.parametrize("shards", [None, (4, 6)])
def test_codecs_by_kind(shards: tuple[int, int] | None) -> None:
    array, _ = filled(shards=shards, codecs=[Transpose((1, 0)), Bytes("big"), Zstd(level=3), Crc32c()])
    assert array.filters == (Transpose((1, 0)),)
    assert array.serializer == Bytes("big")
    assert array.compressors == (Zstd(level=3), Crc32c())


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 3)])
def test_an_array_is_true(shape: tuple[int, ...]) -> None:
    """`if array:` raised SelectionError without dimensions, and was false without elements."""
    array = frazil.zeros(shape)
    assert array
    assert array.lazy[...]


def test_the_truth_of_one_bool_is_not_taken_for_its_value() -> None:
    """NumPy asks for the truth of elements that it assigns to bools: `flags[0] = array` stored True for False."""
    array = frazil.create_array({}, data=np.zeros((), "?"))
    for one in (array, array.lazy[...], frazil.zeros(3, dtype="?").lazy[1]):
        flags = np.zeros(2, "?")
        with pytest.raises(SelectionError, match=r"array\[\(\)\] is its value"):
            bool(one)
        with pytest.raises(ValueError, match="sequence"):
            flags[0] = one
        assert not flags.any()
    assert frazil.zeros((0,), dtype="?")


def test_attributes_are_updated() -> None:
    array, _ = filled(attributes={"a": 1, "b": 2})
    assert array.update_attributes({"b": 3}) is array
    assert dict(array.attrs) == {"a": 1, "b": 3}


def test_info_prints_and_evaluates_as_a_table() -> None:
    array, _ = filled()
    assert str(array.info) == repr(array.info)
    assert "initialized" not in str(array.info)
    assert "9 of 9 chunks" in str(array.info_complete())
    assert array.info_complete().chunks_initialized == 9
    assert "times smaller" in str(frazil.create_array({}, data=np.ones(1000)).info)
    null = frazil.create_array({}, shape=2, dtype="f4", zarr_format=2, fill_value=None)
    assert ("fill value", "null") in null.info.rows() and null.info.fill_value is None
    assert "3.0 times larger" in str(frazil.create_array({}, data=np.ones(4, "i1"), chunks=2, codecs=["crc32c"]).info)


SELECTIONS = {
    "basic": ((slice(1, 4), 2), lambda a, s: a[s]),
    "orthogonal": (([4, 0, 2], [True, False] * 3 + [True]), lambda a, s: a[np.ix_(*map(np.array, s))]),
    "coordinate": (([4, 0, 2], [1, 1, 6]), lambda a, s: a[s]),
    "mask": (np.arange(35).reshape(5, 7) % 3 == 0, lambda a, s: a[s]),
    "block": ((slice(0, 1), 1), lambda a, s: a[:2, 3:6]),
}


@pytest.mark.parametrize("kind", SELECTIONS)
def test_selections_by_the_name_of_their_kind(kind: str) -> None:
    array, values = filled()
    selection, expected = SELECTIONS[kind]
    got = getattr(array, f"get_{kind}_selection")(selection)
    np.testing.assert_array_equal(got, expected(values, selection))
    out = np.empty(got.shape, got.dtype)
    assert getattr(array, f"get_{kind}_selection")(selection, out=out) is out
    np.testing.assert_array_equal(out, got)
    getattr(array, f"set_{kind}_selection")(selection, -got)
    np.testing.assert_array_equal(getattr(array, f"get_{kind}_selection")(selection), -got)
    assert (array[...] < 0).sum() == (got > 0).sum()


@pytest.mark.parametrize("kind", ["basic", "orthogonal", "block"])
def test_a_selection_is_read_into_out_without_memory_for_another_result(kind: str) -> None:
    values = np.arange(2**20).reshape(1024, 1024)
    array = frazil.create_array(MemoryStore(), data=values, chunks=(64, 1024))
    read = getattr(array, f"get_{kind}_selection")
    out = np.empty((1024, 1024), values.dtype)
    read(slice(None), out=out)  # creates what is created only once
    out[...] = 0
    tracemalloc.start()
    try:
        assert read(slice(None), out=out) is out
        assert tracemalloc.get_traced_memory()[1] < out.nbytes // 2
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(out, values)


def test_invalid_selections_are_refused() -> None:
    array, _ = filled()
    with pytest.raises(SelectionError, match="bools"):
        array.get_mask_selection([0, 1])
    with pytest.raises(InvalidInputError, match="out is a list"):
        array.get_basic_selection(0, out=[])  # type: ignore[arg-type] # which is the point
    with pytest.raises(InvalidInputError, match="must be int64"):
        array.get_basic_selection(0, out=np.empty(7, "i4"))
    with pytest.raises(SelectionError, match="no fields"):
        array.get_basic_selection(0, fields="f")
    with pytest.raises(SelectionError, match="not a mask"):
        array.get_mask_selection([[True], [True, False]])
    with pytest.raises(SelectionError, match="must be the name"):
        array.get_basic_selection(0, fields=3)  # type: ignore[arg-type] # which is the point


def test_fields_that_are_named_twice_are_refused() -> None:
    array, _ = records()
    for refused in (lambda: array[["f", "f"]], lambda: array.set_basic_selection(0, 1, fields=["f", "f"])):
        with pytest.raises(SelectionError, match="twice"):
            refused()


@pytest.mark.parametrize("value", ["abc", np.zeros(4), None, 10**12, [[1], [1, 2]], object()])
def test_values_that_a_field_cannot_hold_are_refused(value: object) -> None:
    array, values = records()
    with pytest.raises(InvalidInputError, match="cannot be written to f"):
        array["f"] = value  # type: ignore[assignment] # which is the point
    assert (array[...] == values).all()


def records(count: int = 9) -> tuple[frazil.Array, np.ndarray]:
    values = np.zeros(count, RECORD)
    values["f"], values["g"], values["h"] = np.arange(count), np.arange(count) / 2, 7
    return frazil.array(values, chunks=4), values


@given(
    fields=st.lists(st.sampled_from(RECORD.names or ()), min_size=1, unique=True),
    part=st.slices(9) | st.integers(-9, 8),
    single=st.booleans(),
)
def test_fields_are_read_and_written_as_in_numpy(fields: list[str], part: slice | int, single: bool) -> None:
    array, values = records()
    names = fields[0] if single else fields
    np.testing.assert_array_equal(array.get_basic_selection(part, fields=names), values[part][names])
    np.testing.assert_array_equal(array[names], values[names])
    if single:
        np.testing.assert_array_equal(array[fields[0], part], values[fields[0]][part])
    array.set_basic_selection(part, values[0][names], fields=names)
    if isinstance(part, slice):
        values[names][part] = values[0][names]
    else:
        values[names][part] = values[0][names]
    np.testing.assert_array_equal(array[...], values)


def test_fields_between_brackets() -> None:
    array, values = records()
    array["f"] = 5
    array["g", 2:4] = [8, 9]
    array["h", ::-1] = np.arange(9)
    values["f"] = 5
    values["g"][2:4] = [8, 9]
    values["h"][::-1] = np.arange(9)
    np.testing.assert_array_equal(array[...], values)
    np.testing.assert_array_equal(array["f", "h"], values[["f", "h"]])
    np.testing.assert_array_equal(array.get_orthogonal_selection([8, 1], fields=["g"]), values[["g"]][[8, 1]])
    array.set_coordinate_selection([8, 1], [1, 2], fields="f")
    assert array["f", 8] == 1
    assert array["f", 1] == 2
    for wrong in ("x", ["f", "x"], ("f", "x")):
        with pytest.raises(SelectionError, match="no field"):
            array[wrong]
    with pytest.raises(SelectionError):
        array["x"] = 1


def test_a_field_of_an_array_without_dimensions() -> None:
    array = frazil.array(np.array((1, 2.5, 3), RECORD))
    assert array["g"] == 2.5
    array["g"] = 4
    assert array[()].tolist() == (1, 4.0, 3)


def test_reading_through_the_names_needs_no_write_access() -> None:
    store = MemoryStore()
    frazil.array(np.arange(4), store=store)
    assert frazil.open_array(store).get_coordinate_selection([1, 3]).tolist() == [1, 3]


def test_settings_and_chunk_sizes() -> None:
    array = frazil.zeros((10, 7), chunks=(2, 2), shards=(4, 4), compressors=None)
    assert array.with_config({"order": "F"}) is array
    assert array.config == ("C", False)
    assert array.compressor is None
    assert frazil.zeros(3, compressor=frazil.codecs.Gzip(1)).compressor == frazil.codecs.Gzip(1)
    with pytest.raises(InvalidInputError):
        array.with_config({"colour": "red"})
    assert array.write_chunk_sizes == ((4, 4, 2), (4, 3))
    assert array.read_chunk_sizes == ((2,) * 5, (2, 2, 2, 1))
    assert frazil.zeros((60, 100), chunks=[[10, 20, 30], [50, 50]]).write_chunk_sizes == ((10, 20, 30), (50, 50))
    array.resize(4, 9)
    assert array.shape == (4, 9)


def test_handles_of_one_node_are_equal(tmp_path: Path) -> None:
    """No matter how they were opened; pickled ones, too."""
    group = frazil.group(tmp_path / "g.zarr")
    array = group.zeros("x", shape=(3,))
    assert array == pickle.loads(pickle.dumps(array)) == frazil.open_array(tmp_path / "g.zarr", path="x")
    assert group == pickle.loads(pickle.dumps(group)) == frazil.open_group(tmp_path / "g.zarr")
    assert hash(array) == hash(group["x"])
    others = frazil.group(tmp_path / "other.zarr")
    assert array != group.zeros("y", shape=(3,))
    assert array != others.zeros("x", shape=(3,))
    assert group != others
    assert array != np.zeros(3).tolist()
    held = frazil.zeros(3)
    assert held != frazil.zeros(3)
    assert held == frazil.open_array(held.store)
    old = frazil.open_array(tmp_path / "g.zarr", path="x")
    array.attrs["a"] = 1
    assert old != array
    assert old.refresh() == array


def test_an_empty_tuple_selects_all_of_an_array_with_fields() -> None:
    array, values = records()
    np.testing.assert_array_equal(array[()], values)
    array[()] = values[::-1]
    np.testing.assert_array_equal(array[()], values[::-1])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_of_stored_chunks(zarr_format: Literal[2, 3], order: Literal["C", "F"]) -> None:
    store, values = MemoryStore(), np.arange(12).reshape(3, 4)
    made = frazil.create_array(store, data=values, chunks=(2, 3), order=order, zarr_format=zarr_format)
    expected = order if zarr_format == 2 else "C"
    for array in (made, frazil.open_array(store)):
        assert array.order == expected
        read = array[...]
        assert np.array_equal(read, values) and read.flags.c_contiguous
    if zarr_format == 2:
        text = frazil.create_array(MemoryStore(), data=[["a", "b"]], dtype="string", order=order, zarr_format=2)
        assert text.order == order


def test_a_buffer_of_zarr_python_receives_a_selection() -> None:
    """The only form of `out` that zarr-python takes."""

    class NDBuffer:
        def __init__(self, values: np.ndarray) -> None:
            self.values = values

        def as_numpy_array(self) -> np.ndarray:
            return self.values

    array = frazil.create_array({}, data=np.arange(6))
    buffer: Any = NDBuffer(np.zeros(2, "i8"))
    array.get_basic_selection(slice(1, 3), out=buffer)
    assert buffer.values.tolist() == [1, 2]
