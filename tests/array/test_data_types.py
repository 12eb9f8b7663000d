"""Arrays of datetimes, strings and structs, and of a type that a user adds, in every dialect: written, read, filled, written in part."""

from __future__ import annotations

import json
import warnings
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata import data_types_of_all_kinds as kinds
from tests.metadata.draft.test_draft_fallbacks import MINE, Brain, BrainFamily

import frazil
from frazil.codecs import Bytes, Crc32c, Transpose, Zstd
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import FallbackWarning, InvalidInputError, MetadataError, UnknownExtensionError
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.fill_values import FillValue
from frazil.stores import MemoryStore

DIALECTS = (3, "draft", "draft-2021")
IN_ANY = pytest.mark.parametrize("dialect", DIALECTS)

dtypes = kinds.plain_times | kinds.strings | kinds.raw | kinds.nested(kinds.numbers | kinds.plain_times | kinds.strings)


def elements(data: st.DataObject, dtype: np.dtype[np.generic], count: int) -> np.ndarray:
    kind = CORE_EXTENSIONS.from_numpy(dtype)
    return np.frombuffer(b"".join(kinds.bits(data.draw, kind) for _ in range(count)), kind.dtype)


@given(dtypes, st.sampled_from(DIALECTS), st.data())
def test_every_type_in_every_dialect(dtype: np.dtype[np.generic], dialect: object, data: st.DataObject) -> None:
    kind = CORE_EXTENSIONS.from_numpy(dtype)
    fill, *values = elements(data, dtype, 13)
    values = np.array(values, dtype).reshape(3, 4)
    endian = data.draw(st.sampled_from(["little", "big"])) if kind.swaps else None
    fortran = [Transpose([1, 0])] * data.draw(st.integers(0, 1))
    store = MemoryStore()
    try:
        array = frazil.create_array(
            store, shape=(5, 6), dtype=dtype, chunks=(2, 3), shards=data.draw(st.sampled_from([None, (4, 6)])),
            codecs=[*fortran, Bytes(endian), Zstd()] if dialect == 3 else [*fortran, Bytes(endian)],
            fill_value=FillValue(np.array(fill, dtype).tobytes(), kind.dtype), zarr_format=dialect,
        )  # fmt: skip
    except MetadataError as error:
        message = error.message
        array = None
    if array is None:
        assert "NaN" in message
        return
    array[1:4, 1:5] = values
    array[2, 2:4] = values[0, :2]
    expected = np.full((5, 6), fill, dtype)
    expected[1:4, 1:5] = values
    expected[2, 2:4] = values[0, :2]
    opened = frazil.open_array(store)
    assert opened.dtype == dtype
    assert opened[...].tobytes() == expected.tobytes()
    assert opened[1::2, ::-2].tobytes() == expected[1::2, ::-2].tobytes()
    assert opened.vindex[[0, 2], [5, 2]].tobytes() == expected[[0, 2], [5, 2]].tobytes()
    assert np.asarray(opened[2, 2]).astype(dtype).tobytes() == np.asarray(expected[2, 2]).astype(dtype).tobytes()
    assert opened.metadata.data_type.parse_fill(opened.metadata.data_type.emit_fill(array.metadata.fill_value))


@IN_ANY
@pytest.mark.parametrize("endian", ["little", "big"])
def test_structs_of_all_kinds_are_swapped_by_the_kernel(dialect: object, endian: str) -> None:
    dtype = np.dtype([("a", "u1"), ("b", "i4"), ("c", [("d", "c8"), ("e", "U2")]), ("f", "M8[s]"), ("g", "S3")])
    values = np.array([(i, -i, (i + 1j, chr(65 + i)), i, b"xyz"[:i]) for i in range(6)], dtype)
    store = MemoryStore()
    array = frazil.create_array(store, data=values, chunks=4, codecs=[Bytes(endian)], zarr_format=dialect)
    assert frazil.open_array(store)[...].tobytes() == values.tobytes()
    key = next(key for key in store.list() if key.endswith(("c0", "c/0")))
    stored = store.get(key)
    assert stored is not None
    order = "<" if endian == "little" else ">"
    assert bytes(stored) == values[:4].astype(dtype.newbyteorder(order)).tobytes()
    assert array.info.data_type.startswith("struct[a: uint8, b: int32, c: struct[")


def test_values_in_any_layout_of_memory() -> None:
    dtype = np.dtype([("a", "i4"), ("b", "f8"), ("c", "U2")])
    array = frazil.create_array(MemoryStore(), shape=(6,), dtype=dtype, chunks=4)
    values = np.array([(i, i / 2, str(i)) for i in range(12)], dtype)
    wide = np.zeros(12, [("x", "u1"), ("part", dtype), ("y", "u1")])
    wide["part"] = values
    padded = values.astype(np.dtype([("a", "i4"), ("b", "f8"), ("c", "U2")], align=True))
    for source in (
        values[::2],
        values[:6][::-1],
        wide["part"][::2],
        padded[:6],
        values.astype(dtype.newbyteorder(">"))[:6],
    ):
        array[...] = source
        assert array[...].tobytes() == np.ascontiguousarray(source.astype(dtype)).tobytes()
    strings = frazil.create_array(MemoryStore(), shape=(6,), dtype="U3", chunks=4)
    strings[...] = np.array(["abc", "d", "", "\u00e9", "x", "yz"] * 2, ">U3")[::2]
    assert strings[...].tolist() == ["abc", "", "x", "abc", "", "x"]
    strings[1] = "new"
    strings[2:4] = ["a", "b"]
    assert strings[...].tolist() == ["abc", "new", "a", "b", "", "x"]
    times = frazil.create_array(MemoryStore(), shape=(3,), dtype="M8[ms]", fill_value="NaT")
    times[0] = "2020-01-01"
    times[1] = np.datetime64("1999", "Y")
    assert times[...].tolist()[2] is None
    assert times[:2].tolist() == np.array(["2020-01-01", "1999-01-01"], "M8[ms]").tolist()
    with pytest.raises(InvalidInputError, match="cannot be turned into"):
        times[0] = "soon"
    with pytest.raises(InvalidInputError, match="out of the range"):
        times[1:] = np.array([0, 2**62], "M8[s]")
    assert times[1] == np.datetime64("1999-01-01"), "nothing was written"
    fine = frazil.create_array(MemoryStore(), shape=(2,), dtype="M8[ns]")
    for year in ("3000-01-01", ["3000-01-01", "NaT"], date(3000, 1, 1), np.array([date(3000, 1, 1), None])):
        with pytest.raises(InvalidInputError, match="out of the range"):
            fine[...] = year
    fine[...] = [date(2000, 1, 1), None]
    assert np.array_equal(fine[...], np.array(["2000-01-01", "NaT"], "M8[ns]"), equal_nan=True)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", np.int64(300)),
        ("int8", np.float32(3e38)),
        ("int64", np.datetime64("2020-01-01")),
        ("S3", np.array(["2020-01-01"], "M8[D]")),
        ("U3", np.array(["2020-01-01"], "M8[D]")),
    ],
)
def test_what_numpy_refuses_is_refused(dtype: str, value: object) -> None:
    """NumPy checks scalars, but not the elements of arrays."""
    array = frazil.create_array(MemoryStore(), shape=(3,), dtype=dtype, chunks=2)
    for selection in (..., slice(1, 2), slice(1, None)):
        with pytest.raises(InvalidInputError, match="cannot be turned into"):
            array[selection] = value
    assert array.nchunks_initialized == 0


def test_chunks_of_fill_values_are_not_stored() -> None:
    for dtype, fill in (("M8[s]", "NaT"), ("U3", "ab"), ("S2", b"z"), ([("a", "i2"), ("b", "U1")], (3, "q"))):
        store = MemoryStore()
        array = frazil.create_array(store, shape=(8,), dtype=dtype, chunks=2, shards=4, fill_value=fill)
        array[...] = array.fill_value
        assert [key for key in store.list() if key != "zarr.json"] == []
        array[5] = np.zeros((), array.dtype)
        assert len(store.list()) == 2
        array[5] = array.fill_value
        assert store.list() == ["zarr.json"]


@pytest.mark.parametrize("dialect", ["draft", "draft-2021"])
@pytest.mark.parametrize(
    "dtype",
    [np.dtype([("a", "i1"), ("b", "f8"), ("c", "U1")], align=True), np.dtype([("m", "i2", (2, 3)), ("z", "u1")])],
)
def test_padding_and_sub_arrays_in_the_draft(dialect: str, dtype: np.dtype[np.generic]) -> None:
    values = np.zeros(5, dtype)
    for name in dtype.names or ():
        values[name] = np.ones(dtype[name].shape) if dtype[name].kind != "U" else "x"
    store = MemoryStore()
    frazil.create_array(store, data=values, chunks=2, codecs=[Bytes("big")], zarr_format=dialect)
    read = frazil.open_array(store)[...]
    assert read.dtype == dtype
    for name in dtype.names or ():
        np.testing.assert_array_equal(read[name], values[name])
    store = MemoryStore()
    with pytest.raises(MetadataError, match="struct of the final"):
        frazil.create_array(store, data=values)
    assert store.list() == []


def test_structs_of_both_byte_orders() -> None:
    store = MemoryStore()
    dtype = np.dtype([("a", ">i4"), ("b", "<f8"), ("c", "u1")])
    array = frazil.create_array(store, shape=(4,), dtype=dtype, chunks=2, zarr_format="draft", codecs=[Bytes()])
    assert array.dtype == dtype.newbyteorder("=")  # new arrays have one byte order
    document = json.loads(store.get("meta/array.json") or b"")
    document["data_type"]["type"] = [["a", ">i4"], ["b", "<f8"], ["c", "|u1"]]
    store.set("meta/array.json", json.dumps(document).encode())
    values = np.array([(1, 2.5, 3), (-4, 5.5, 6), (7, 8, 9)], dtype)
    array = frazil.open_array(store, "r+")
    array[1:] = values.astype(dtype.newbyteorder("="))
    read = frazil.open_array(store)[...]
    assert read.dtype == dtype
    assert read[1:].tobytes() == values.tobytes()
    assert b"".join(bytes(store.get(f"data/c{i}") or b"") for i in (0, 1))[13:] == values.tobytes()
    assert array.info.fill_value == {"a": 0, "b": 0.0, "c": 0}


def test_structs_without_a_byte_order_are_little_endian() -> None:
    store = MemoryStore()
    values = np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")])
    frazil.create_array(store, data=values, chunks=2, codecs=[Bytes("little"), Crc32c()])
    document = json.loads(store.get("zarr.json") or b"")
    document["codecs"][0] = {"name": "bytes"}
    store.set("zarr.json", json.dumps(document).encode())
    assert frazil.open_array(store)[...].tobytes() == values.tobytes()


# --- a type of the user's ----------------------------------------------------------------------------------------------------------


@IN_ANY
@pytest.mark.rule("D15")
def test_a_type_of_the_users_with_and_without_its_registry(dialect: object) -> None:
    registry = DEFAULT_REGISTRY.with_data_type(BrainFamily())
    store = MemoryStore()
    array = frazil.create_array(
        store, shape=(4,), dtype=Brain(), chunks=2, fill_value=1.5, registry=registry, zarr_format=dialect
    )
    array[1:3] = [7, 9]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = frazil.open_array(store, registry=registry)
    assert (opened.metadata.data_type, opened[...].tolist()) == (Brain(), [0x3FC0, 7, 9, 0x3FC0])
    if dialect == 3:
        with pytest.raises(UnknownExtensionError, match="bfloat16"):
            frazil.open_array(store)
        return
    key = "meta/array.json" if dialect == "draft" else "meta/root.array.json"
    document = json.loads(store.get(key) or b"")
    assert document["data_type"] == {"extension": MINE, "type": "bfloat16", "fallback": "r16"}
    document["fill_value"] = 0  # raw bytes can also be it
    store.set(key, json.dumps(document).encode())
    with pytest.warns(FallbackWarning, match="r16"):
        raw = frazil.open_array(store)
    assert raw.dtype == np.dtype("V2")
    with pytest.raises(UnknownExtensionError, match="without_fallbacks"):
        frazil.open_array(store, registry=DEFAULT_REGISTRY.without_fallbacks())
    assert raw[1:3].tobytes() == np.array([7, 9], "<u2").tobytes()
