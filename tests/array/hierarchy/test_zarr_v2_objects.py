"""Object arrays of Zarr v2: values of every kind, fill values, and refusals. With other programs: tests/foreign/interop/test_zarr_v2_objects.py."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.codecs import DEFAULT_REGISTRY, Pickle
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError, UnknownExtensionError
from frazil.metadata.types.objects import from_bytes, to_bytes
from frazil.stores import MemoryStore

GOOD = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "compressor": None, "fill_value": None, "order": "C", "filters": None}  # fmt: skip


def plain_objects(integers: st.SearchStrategy[int]) -> st.SearchStrategy[object]:
    leaves = (
        st.none() | st.booleans() | integers | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5)
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "a"]), inner, max_size=2),
        max_leaves=5,
    )


def stored(filters: object, chunk: bytes | None = None, **members: object) -> MemoryStore:
    store = MemoryStore()
    store.set("x/.zarray", json.dumps({**GOOD, "filters": filters, **members}).encode())
    if chunk is not None:
        store.set("x/0", chunk)
    return store


def objects(*values: object) -> np.ndarray:
    made = np.empty(len(values), object)
    for i, value in enumerate(values):
        made[i] = value
    return made


@pytest.mark.parametrize("codec", ["json2", "msgpack2"])
@given(value=plain_objects(st.integers(-(2**63), 2**64 - 1)))
def test_assignment_of_one_object_element(codec: str, value: object) -> None:
    if codec == "json2":
        value = json.loads(json.dumps(value, default=lambda data: data.hex()))
    root = frazil.create_group(MemoryStore(), zarr_format=2)
    array = root.create_array("x", shape=(3,), chunks=(2,), dtype=object, filters=[{"id": codec}])
    array[1] = value
    array.vindex[2] = objects(value)[0]
    assert array[...].tolist() == [None, value, value]
    array[0] = objects(value).reshape(())
    assert array[0] == value
    none = root.create_array("y", shape=(), dtype=object, filters=[{"id": codec}])
    none[()] = value
    assert none[()] == value


def test_arrays_are_assigned_one_by_one() -> None:
    array = frazil.create_array(
        MemoryStore(), shape=(3, 2), dtype=object, filters=[{"id": "vlen-array", "dtype": "<i4"}], zarr_format=2
    )
    array[0, 1] = np.array([1, 2])
    array.oindex[2, 0] = [3]
    array.set_basic_selection((1, 1), (4, 5, 6))
    assert [one.tolist() for one in array[...].reshape(-1)] == [[], [1, 2], [], [4, 5, 6], [3], []]
    with pytest.raises(InvalidInputError, match="one dimension"):
        array[0, 0] = 5


@given(plain_objects(st.integers()))
def test_an_object_is_kept(value: object) -> None:
    assert from_bytes(to_bytes(value)) == value


@given(st.lists(plain_objects(st.integers(-(2**63), 2**64 - 1)), min_size=3, max_size=3))
def test_objects_are_read_as_they_were_written(values: list[object]) -> None:
    array = frazil.create_array(
        MemoryStore(), shape=(3,), chunks=(2,), dtype=object, filters=[{"id": "msgpack2"}], zarr_format=2
    )
    array[...] = objects(*values)
    assert array[...].tolist() == values
    array[1:2] = objects("new")
    assert array[...].tolist() == [values[0], "new", values[2]]


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**64])
def test_msgpack2_refuses_larger_integers(number: int) -> None:
    array = frazil.create_array(
        MemoryStore(), shape=(2,), chunks=(2,), dtype=object, filters=[{"id": "msgpack2"}], zarr_format=2
    )
    array[...] = objects(1, "a")
    with pytest.raises(InvalidInputError, match=r"codec numcodecs.msgpack2: a number in MessagePack") as refused:
        array[...] = objects({"a": [number]}, 2)
    assert refused.value.hint == "write it as a string"
    assert array[...].tolist() == [1, "a"]
    other = frazil.create_array(
        MemoryStore(), shape=(1,), chunks=(1,), dtype=object, filters=[{"id": "json2"}], zarr_format=2
    )
    other[...] = objects({"a": [number]})
    assert other[...].tolist() == [{"a": [number]}]


@pytest.mark.parametrize(
    ("filters", "fill", "found"),
    [
        *[([{"id": "vlen-utf8"}], fill, "") for fill in (None, 0, "")],
        ([{"id": "vlen-utf8"}], "n/a", "n/a"),
        *[([{"id": "vlen-bytes"}], fill, b"") for fill in (None, 0, "")],
        ([{"id": "vlen-bytes"}], "YQ==", b"a"),
        *[([{"id": "json2"}], fill, fill) for fill in (None, 0, "", {"a": [1]})],
    ],
)
def test_fill_values(filters: list[object], fill: object, found: object) -> None:
    array = frazil.open_array(stored(filters, fill_value=fill), "r+", path="x")
    assert array.fill_value == (None if fill is None else found)
    assert array[...].tolist() == [found, found]
    value: object = "new" if isinstance(found, str) or filters[0] == {"id": "json2"} else b"new"
    array[1:] = objects(value)
    assert array[...].tolist() == [found, value]


def test_the_empty_array_is_the_fill_value() -> None:
    for fill in (None, 0, ""):
        array = frazil.open_array(stored([{"id": "vlen-array", "dtype": "<i2"}], fill_value=fill), "r+", path="x")
        assert [one.tolist() for one in array[...]] == [[], []]  # type: ignore[union-attr]
        array[1:] = objects([1, 2])
        assert [one.tolist() for one in array[...]] == [[], [1, 2]]  # type: ignore[union-attr]
        with pytest.raises(InvalidInputError):
            array[:1] = objects("text")


@pytest.mark.parametrize(
    ("name", "chunk"),
    [
        *[("json2", chunk) for chunk in (
            b"", b"[", b"{}", b"[1]", b'[1,2,"|O",[3]]', b'[1,"|O",[2]]', b'[1,2,3,"|O",[2]]', b"\xff", b"[" * 100_000, b"[1,2,3,[2]]",
        )],
        *[("msgpack2", chunk) for chunk in (b"", b"\x90", b"\xc1", b"\x94\x01\x02\xa2|O\x91\x03", b"\x91" * 10_000, b"\xdd\xff\xff\xff\xff")],
        ("vlen-utf8", b"\x02\x00\x00\x00\xff\xff\xff\x7f"),
        ("vlen-array", b"\x02\x00\x00\x00\x01\x00\x00\x00a\x00\x00\x00\x00"),
    ],
)  # fmt: skip
def test_damaged_chunks(name: str, chunk: bytes) -> None:
    more = {"dtype": "<i2"} if name == "vlen-array" else {}
    array = frazil.open_array(stored([{"id": name, **more}], chunk), path="x")
    with pytest.raises(ChunkDecodeError):
        array[...]


def test_pickles_are_refused_unless_they_are_allowed() -> None:
    store = stored([{"id": "pickle", "protocol": 5}], pickle.dumps(objects("a", [1])))
    with pytest.raises(UnknownExtensionError, match="pickled") as refused:
        frazil.open_array(store, path="x")
    assert "with_codec(frazil.codecs.Pickle)" in (refused.value.hint or "")
    assert refused.value.key == "x/.zarray"
    array = frazil.open_array(store, path="x", registry=DEFAULT_REGISTRY.with_codec(Pickle))
    assert array[...].tolist() == ["a", [1]]
    store.set("x/0", pickle.dumps(objects("a", {1, 2})))
    with pytest.raises(ChunkDecodeError, match="set"):
        array[...]


@pytest.mark.parametrize(
    "filters",
    [None, [], [{"id": "zlib"}], [{"id": "nothing"}], [{"id": "vlen-array"}], [{"id": "vlen-array", "dtype": "|O"}], [{"id": "json2", "encoding": "no"}],
     [{"id": "zlib"}, {"id": "vlen-utf8"}]],
)  # fmt: skip
def test_filters_without_a_data_type(filters: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        frazil.open_array(stored(filters), path="x")
    assert caught.value.key == "x/.zarray"


def test_object_arrays_without_a_codec_are_refused() -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=2)
    for arguments in (
        {},
        {"filters": [{"id": "zlib"}]},
        {"filters": [{"id": "pickle"}]},
        {"filters": [{"id": "json2"}], "order": "F"},
        {"filters": [{"id": "json2"}], "fill_value": {1, 2}},
        {"filters": [{"id": "vlen-array", "dtype": "<i2"}], "fill_value": 7},
    ):
        with pytest.raises((MetadataError, UnknownExtensionError)):
            root.create_array("x", shape=(2, 2), dtype=object, **arguments)  # type: ignore[arg-type]
    assert list(root) == []
    array = root.create_array("x", shape=(2,), dtype=object, filters=[{"id": "json2"}])
    before = store.list()
    for value in ({1, 2}, object(), b"bytes", {1: 2}):
        with pytest.raises(InvalidInputError):
            array[:1] = objects(value)
    assert store.list() == before


@pytest.mark.parametrize("dtype", [str, "str", "string", object])
@pytest.mark.parametrize("name", ["filters", "object_codec"])
def test_text_may_name_its_codec(dtype: object, name: str) -> None:
    """As scripts of zarr-python do, which refused text with a data type."""
    codec = numcodecs.VLenUTF8()
    arguments: dict[str, Any] = {name: [codec] if name == "filters" else codec}
    array = frazil.create_array(MemoryStore(), shape=(3,), dtype=dtype, zarr_format=2, **arguments)
    array[:] = np.array(["a", "", "ccc"], object)
    assert list(array[:]) == ["a", "", "ccc"]
    assert array.metadata.data_type.name == "string"


@pytest.mark.parametrize(
    ("codec", "elements"), [(numcodecs.VLenArray("i4"), "arrays of int32"), (numcodecs.JSON(), "objects")]
)
def test_elements_that_only_zarr_v2_has(codec: object, elements: str, tmp_path: Path) -> None:
    """The error was about the letters of the name of an extension."""
    frazil.create_array(tmp_path / "a", shape=2, dtype=object, object_codec=codec, zarr_format=2)
    with pytest.raises(MetadataError, match=f"Zarr v3 has no data type for elements that are {elements}"):
        frazil.rechunk(tmp_path / "a", tmp_path / "b", chunks=(2,))
