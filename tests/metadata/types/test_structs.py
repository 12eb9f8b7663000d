"""Structs: documents under both names, NumPy dtypes, items with a byte order, fill values, values of users."""

from __future__ import annotations

import base64
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata import data_types_of_all_kinds as kinds
from tests.metadata.refusals import refused
from tests.metadata.types.test_core import Scaled, ScaledFamily

from frazil.errors import MetadataError, UnknownExtensionError
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import DataType
from frazil.metadata.types.fill_values import FillValue, swap_items
from frazil.metadata.types.structs import Field, StructType

POINT = np.dtype([("x", "f4"), ("y", "f4")])
FIELDS: list[Json] = [{"name": "x", "data_type": "float32"}, {"name": "y", "data_type": "float32"}]


def read(fields: Json, name: str = "struct") -> DataType:
    return CORE_EXTENSIONS.data_type(Extension(name, {"fields": fields}))


def struct(dtype: object) -> StructType:
    data_type = CORE_EXTENSIONS.from_numpy(dtype)
    assert isinstance(data_type, StructType)
    return data_type


def test_fields_in_both_forms() -> None:
    pairs: list[Json] = [["x", "float32"], ["y", "float32"]]
    assert read(FIELDS) == read(pairs) == struct(POINT)
    assert read(FIELDS, "structured") == read(pairs, "structured") != struct(POINT)
    assert struct(POINT).to_json() == {"name": "struct", "configuration": {"fields": FIELDS}}
    assert read(FIELDS, "structured").to_json() == {"name": "structured", "configuration": {"fields": pairs}}
    assert struct(POINT).label == "struct[x: float32, y: float32]"
    time: Json = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}
    nested: list[Json] = [
        {"name": "p", "data_type": {"name": "struct", "configuration": {"fields": FIELDS}}},
        {"name": "t", "data_type": time},
    ]
    assert read(nested).dtype == np.dtype([("p", POINT), ("t", "M8[s]")])


@pytest.mark.parametrize(
    ("fields", "path", "word"),
    [
        ([], "", "one field"),
        ("x", "", "an array"),
        (["x"], "[0]", "name and data_type"),
        ([["x", "int8", 3]], "[0]", "name and data_type"),
        ([{"name": "x"}], "[0].data_type", "required"),
        ([{"data_type": "int8"}], "[0].name", "required"),
        ([{"name": "x", "data_type": "int8", "offset": 0}], "[0].offset", "not known"),
        ([{"name": "", "data_type": "int8"}], "[0]", "with a name"),
        ([{"name": 5, "data_type": "int8"}], "[0].name", "a string"),
        ([["x", "int8"], ["x", "int16"]], "", "twice"),
        ([["x", {"name": "null_terminated_bytes", "configuration": {"length_bytes": 2**26}}], ["y", "int8"]], "", "together"),
        ([["x", 5]], "[0][1]", "an object with a name"),
    ],
)  # fmt: skip
def test_bad_fields_are_refused(fields: Json, path: str, word: str) -> None:
    with refused(f"data_type.configuration.fields{path}", word):
        read(fields)


def test_unknown_types_of_fields_are_refused() -> None:
    with refused("data_type.configuration.fields[1][1]", "string", "registered: bool", kind=UnknownExtensionError):
        read([["x", "int8"], ["y", "string"]])
    with refused("data_type", "object", kind=UnknownExtensionError):
        struct([("a", "i4"), ("b", "O")])
    with refused("data_type.configuration.more", "not known"):
        CORE_EXTENSIONS.data_type(Extension("struct", {"fields": FIELDS, "more": 1}))


@pytest.mark.parametrize(
    ("dtype", "swaps"),
    [
        ([("a", "i4"), ("b", "f8")], ((0, 4, 1), (4, 8, 1))),
        ([("a", "i4"), ("b", "f4"), ("c", "u1"), ("d", "c8")], ((0, 4, 2), (9, 4, 2))),
        ([("a", "S3"), ("b", "u1"), ("c", "V2")], ()),
        ([("a", "U2"), ("b", "i4")], ((0, 4, 3),)),
        ([("p", [("a", "i2"), ("b", "u1")]), ("q", "i2")], ((0, 2, 1), (3, 2, 1))),
        ([("a", "i2", (2, 3)), ("b", "i2")], ((0, 2, 7),)),
        ([("a", [("x", "u1"), ("y", "i2")], (2,))], ((1, 2, 1), (4, 2, 1))),
        (np.dtype([("a", "i1"), ("b", "i4"), ("c", "i1")], align=True), ((4, 4, 1),)),
        (np.dtype([("a", "i1"), ("b", "i4")]).newbyteorder(">"), ((1, 4, 1),)),
    ],
)
def test_items_with_a_byte_order(dtype: object, swaps: object) -> None:
    assert struct(dtype).swaps == swaps


@given(kinds.nested(kinds.scalars) | kinds.described(kinds.scalars), st.data())
def test_dtypes_round_trip(dtype: np.dtype[np.generic], data: st.DataObject) -> None:
    data_type = struct(dtype)
    assert data_type.dtype == dtype
    assert data_type.dtype.isnative
    assert not data_type.mixed
    assert pickle.loads(pickle.dumps(data_type)) == data_type
    assert hash(data_type) == hash(struct(dtype))
    element = kinds.bits(data.draw, data_type)
    if "M8'" not in str(dtype) and "m8'" not in str(dtype):  # which NumPy does not swap
        swapped = np.zeros((), dtype.newbyteorder("S"))  # NumPy does not set bytes between fields
        swapped[...] = np.frombuffer(element, dtype)[0]
        assert swap_items(element, data_type.swaps) == swapped.tobytes()


@given(kinds.nested(kinds.scalars), st.sampled_from(["struct", "structured"]), st.data())
def test_documents_round_trip(dtype: np.dtype[np.generic], name: str, data: st.DataObject) -> None:
    data_type = StructType(struct(dtype).fields, name)
    assert CORE_EXTENSIONS.data_type_from_user(data_type.to_json()) == data_type
    fill = FillValue(kinds.bits(data.draw, data_type), data_type.dtype)
    emitted = data_type.emit_fill(fill)
    assert isinstance(emitted, dict if name == "struct" else str)
    assert data_type.parse_fill(emitted) == fill
    assert data_type.fill_from_user(fill) == data_type.fill_from_user(fill.scalar) == fill


@pytest.mark.parametrize(
    ("dtype", "word"),
    [
        (np.dtype([("a", "i1"), ("b", "f8")], align=True), "padding"),
        ([("a", "i4", (2,))], "the sub-array 'a'"),
        ([("n", [("a", "i4", 2)])], "the sub-array 'a'"),
    ],
)
def test_values_that_documents_cannot_express_are_refused_when_written(dtype: object, word: str) -> None:
    with refused("data_type", word):
        struct(dtype).to_json()


@pytest.mark.parametrize(
    ("dtype", "word"),
    [
        ([(("title", "a"), "i4")], "titles"),
        ({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [2, 0]}, "follow one another"),
        ({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]}, "follow one another"),
        ([("a", "i4"), ("b", "S0")], "must have bytes"),
        ([("a", "i4"), ("b", "i4", (0,))], "must have bytes"),
        ([], "one field"),
        ([("a", [("b", "u1"), ("c", "i2")], (2**16 + 1,))], "separate items"),
    ],
)
def test_dtypes_that_are_no_structs_of_ours(dtype: object, word: str) -> None:
    with pytest.raises(MetadataError, match=word):
        CORE_EXTENSIONS.from_numpy(np.dtype(dtype))  # type: ignore[call-overload]


DOG = np.dtype([("name", "U3"), ("age", "i2"), ("at", POINT)])


def filled(value: object) -> FillValue:
    return FillValue(np.array(value, DOG).tobytes(), DOG)


def test_fill_values_of_documents() -> None:
    data_type = struct(DOG)
    rex = filled(("Rex", 9, (1.5, -2)))
    document: Json = {"name": "Rex", "age": 9, "at": {"x": 1.5, "y": -2.0}}
    assert data_type.parse_fill(document) == rex
    assert data_type.emit_fill(rex) == document
    little = np.array(("Rex", 9, (1.5, -2)), DOG.newbyteorder("<")).tobytes()
    text = base64.b64encode(little).decode()
    assert data_type.parse_fill(text) == rex
    assert StructType(data_type.fields, "structured").emit_fill(rex) == text
    for bad, path in (
        ({"name": "Rex", "age": 9}, "fill_value.at"),
        ({"name": "Rex", "age": 9, "at": {"x": 1}}, "fill_value.at.y"),
        ({"name": "Rexy", "age": 9, "at": {"x": 1, "y": 2}}, "fill_value.name"),
        ({"name": "Rex", "age": 9, "at": {"x": 1, "y": 2}, "more": 1}, "fill_value.more"),
        (text[:-4], "fill_value"),
        (["Rex", 9, [1, 2]], "fill_value"),
        (0, "fill_value"),
        (None, "fill_value"),
    ):
        with refused(path):
            data_type.parse_fill(bad)  # type: ignore[arg-type]


def test_fill_values_of_users() -> None:
    data_type = struct(DOG)
    rex = filled(("Rex", 9, (1.5, -2)))
    record = np.array([("Rex", 9, (1.5, -2))], DOG)
    turned = np.dtype([("at", [("y", ">f8"), ("x", ">f4")]), ("age", ">i8"), ("name", ">U9")])
    for value in (
        ("Rex", 9, (1.5, -2)),
        ["Rex", 9, {"y": -2, "x": 1.5}],
        {"age": 9, "name": "Rex", "at": (1.5, -2)},
        record[0],
        record[0].tobytes(),
        record.reshape(()),
        record.astype(DOG.newbyteorder(">"))[0],
        np.array(((-2, 1.5), 9, "Rex"), turned),
        np.rec.array(record)[0],
    ):
        assert data_type.fill_from_user(value) == rex
    assert data_type.fill_from_user(None) == data_type.fill_from_user(0) == data_type.zero
    for bad in (("Rex", 9), {"name": "Rex"}, "Rex", 5, ("Rex", 10**6, (0, 0)), b"x", record.repeat(2), [("a", 1)]):
        with pytest.raises(MetadataError):
            data_type.fill_from_user(bad)
    shaped = struct([("m", "i2", (2, 2)), ("z", "u1")])
    expected = np.array(([[1, 2], [3, 4]], 5), shaped.dtype)
    assert shaped.fill_from_user(([[1, 2], [3, 4]], 5)).data == expected.tobytes()
    assert shaped.fill_from_user((np.array([[1, 2], [3, 4]]), 5)).data == expected.tobytes()
    assert shaped.fill_from_user((7, 5)).data == np.array((7, 5), shaped.dtype).tobytes()
    assert shaped.parse_fill({"m": [1, 2, 3, 4], "z": 5}).data == expected.tobytes()
    assert shaped.emit_fill(shaped.fill_from_user(expected)) == {"m": [1, 2, 3, 4], "z": 5}
    with pytest.raises(MetadataError):
        shaped.fill_from_user(([1, 2, 3], 5))
    with refused("fill_value.m", "4 fill values"):
        shaped.parse_fill({"m": [1, 2, 3], "z": 5})


def test_fields_of_a_type_that_a_user_adds() -> None:
    extensions = CORE_EXTENSIONS.with_data_type(ScaledFamily())
    scaled: Json = {"name": "example.scaled", "configuration": {"step": 0.5}}
    data_type = extensions.data_type(Extension("struct", {"fields": [["a", "int8"], ["b", scaled]]}))
    assert isinstance(data_type, StructType)
    assert data_type.fields == (Field("a", CORE_EXTENSIONS.from_numpy("i1")), Field("b", Scaled(0.5)))
    assert (data_type.dtype, data_type.swaps) == (np.dtype([("a", "i1"), ("b", "i2")]), ((1, 2, 1),))
    fill = data_type.parse_fill({"a": 1, "b": 2.5})
    assert fill.scalar.item() == (1, 5)
    assert data_type.emit_fill(fill) == {"a": 1, "b": 2.5}
    with refused("data_type.configuration.fields[1].data_type", "example.scaled", kind=UnknownExtensionError):
        CORE_EXTENSIONS.data_type(data_type.extension())
