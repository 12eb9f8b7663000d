"""The final dialect: every rule of its documents, and that written documents are read back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.refusals import refused

from frazil.errors import MetadataError, UnknownExtensionError
from frazil.metadata.extensions import Extension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import DefaultKeys, V2Keys
from frazil.metadata.json_text import Json, parse_json
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.v3.documents import (
    data_prefix,
    document_key,
    emit_node,
    node_document,
    parse_node,
)

ABSENT = object()


def array_document(**changes):
    """A small array's document, with members changed, added, or (ABSENT) left out."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10, 1000],
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 100]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN",
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {"foo": 42, "bar": [1, 2.5, None]},
    } | changes
    return {name: value for name, value in document.items() if value is not ABSENT}


def group_document(**changes):
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"spam": "ham"}} | changes
    return {name: value for name, value in document.items() if value is not ABSENT}


# --- what is read ------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K1")
def test_an_array():
    metadata = parse_node(json.dumps(array_document(dimension_names=["y", None])).encode())
    assert metadata.shape == (10, 1000)
    assert metadata.dtype == np.dtype("float64")
    assert np.isnan(metadata.fill_value.scalar)
    assert metadata.chunk_grid == RegularGrid((4, 100))
    assert metadata.grid_shape == (3, 10)
    assert metadata.chunk_key_encoding == DefaultKeys("/")
    assert metadata.codecs == (Extension("bytes", {"endian": "little"}),)
    assert metadata.attributes == {"foo": 42, "bar": [1, 2.5, None]}
    assert metadata.dimension_names == ("y", None)
    assert metadata.storage_transformers == ()
    assert metadata.zarr_format == 3
    assert metadata.unknown == {}
    assert parse_node(array_document(dimension_names=["y", None])) == metadata


@pytest.mark.rule("K1")
def test_a_group():
    metadata = parse_node(json.dumps(group_document()).encode())
    assert metadata == GroupMetadata(attributes={"spam": "ham"})
    assert parse_node(group_document()) == metadata
    assert parse_node(group_document(attributes=ABSENT)).attributes == {}


@pytest.mark.rule("K7")
def test_names_alone_are_read_and_objects_written():
    shorthand = array_document(
        data_type="uint8", fill_value=0, chunk_key_encoding="default", codecs=["bytes", "crc32c"]
    )
    objects = array_document(
        data_type={"name": "uint8"}, fill_value=0, chunk_key_encoding={"name": "default"},
        codecs=[{"name": "bytes"}, {"name": "crc32c", "must_understand": True}],
    )  # fmt: skip
    metadata = parse_node(shorthand)
    assert parse_node(objects) == metadata
    written = node_document(metadata)
    assert written["data_type"] == "uint8"
    assert written["chunk_key_encoding"] == {"name": "default", "configuration": {"separator": "/"}}
    assert written["codecs"] == [{"name": "bytes"}, {"name": "crc32c"}]


@pytest.mark.rule("K11")
def test_optional_members_may_be_absent():
    metadata = parse_node(array_document(attributes=ABSENT))
    assert metadata.attributes == {}
    assert metadata.dimension_names is None
    written = node_document(metadata)
    assert written["attributes"] == {}
    assert not {"dimension_names", "storage_transformers"} & set(written)


@pytest.mark.rule("K20")
def test_storage_transformers_are_kept():
    assert parse_node(array_document(storage_transformers=[])).storage_transformers == ()
    metadata = parse_node(array_document(storage_transformers=["one", {"name": "two", "configuration": {"a": 1}}]))
    assert metadata.storage_transformers == (Extension("one"), Extension("two", {"a": 1}))
    assert node_document(metadata)["storage_transformers"] == [
        {"name": "one"},
        {"name": "two", "configuration": {"a": 1}},
    ]


def test_an_array_without_dimensions():
    metadata = parse_node(
        array_document(
            shape=[], chunk_grid={"name": "regular", "configuration": {"chunk_shape": []}}, dimension_names=[]
        )
    )
    assert (metadata.shape, metadata.grid_shape, metadata.dimension_names) == ((), (), ())


def test_a_dimension_of_no_length():
    assert parse_node(array_document(shape=[0, 1000])).grid_shape == (0, 10)


@pytest.mark.rule("K13")
def test_unknown_members_that_may_be_ignored_are_kept():
    extra = {"must_understand": False, "name": "future", "configuration": {"x": [1.5]}}
    for document in (
        array_document(future=extra),
        group_document(future=extra),
        array_document(consolidated_metadata=extra),
    ):
        metadata = parse_node(document)
        (kept,) = metadata.unknown.values()
        assert kept == extra
        assert parse_json(emit_node(metadata)) == document
        changed = metadata.with_attributes({})
        assert changed.unknown == metadata.unknown


@pytest.mark.rule("K24")
def test_consolidated_metadata_is_tolerated_and_kept():
    consolidated = {
        "kind": "inline",
        "must_understand": False,
        "metadata": {"a": array_document(), "b": {"anything": [True]}},
    }
    metadata = parse_node(group_document(consolidated_metadata=consolidated))
    assert metadata.consolidated == consolidated
    changed = metadata.with_attributes({"a": 1})
    assert node_document(changed) == group_document(consolidated_metadata=consolidated, attributes={"a": 1})
    assert node_document(changed.without_consolidated()) == group_document(attributes={"a": 1})


@pytest.mark.rule("K24")
def test_consolidated_metadata_may_be_null():
    assert parse_node(group_document(consolidated_metadata=None)) == parse_node(group_document())


@pytest.mark.rule("K24")
@pytest.mark.parametrize("value", [[], "inline", 1, False])
def test_other_consolidated_metadata_is_refused(value):
    with refused("consolidated_metadata", "must be an object"):
        parse_node(group_document(consolidated_metadata=value))


# --- what is refused ---------------------------------------------------------------------------------------------------------------

REQUIRED = (
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
)
GRID = "chunk_grid.configuration.chunk_shape"
KEYS = "chunk_key_encoding"


@pytest.mark.rule("K1")
@pytest.mark.parametrize("name", REQUIRED)
def test_required_members(name):
    with refused(name, f"{name} is required"):
        parse_node(array_document(**{name: ABSENT}))


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"zarr_format": 2}, "zarr_format", ["the integer 3", "found 2"]),
        ({"zarr_format": "3"}, "zarr_format", ['found "3"']),
        ({"zarr_format": True}, "zarr_format", ["found true"]),
        ({"zarr_format": None}, "zarr_format", ["found null"]),
        ({"node_type": "dataset"}, "node_type", ['found "dataset"']),
        ({"node_type": None}, "node_type", ["found null"]),
        ({"shape": 10}, "shape", ["an array of integers"]),
        ({"shape": None}, "shape", ["found null"]),
        ({"shape": [10, -1]}, "shape[1]", ["at least 0", "found -1"]),
        ({"shape": [10, 1.0]}, "shape[1]", ["an integer", "found 1.0"]),
        ({"shape": [True, 5]}, "shape[0]", ["found true"]),
        ({"shape": ["10", 5]}, "shape[0]", ['found "10"']),
        ({"shape": [10, 2**63]}, "shape[1]", ["below 2^63"]),
        ({"shape": [10]}, GRID, ["each of the 1 dimensions", "[4, 100]"]),
        ({"shape": [10, 5, 5]}, GRID, ["each of the 3 dimensions"]),
        ({"data_type": 5}, "data_type", ["found 5"]),
        ({"data_type": {}}, "data_type.name", ["required"]),
        ({"data_type": {"name": "float64", "endian": "big"}}, "data_type.endian", ["not known"]),
        ({"data_type": {"name": "float64", "must_understand": False}}, "data_type.must_understand", ["true or absent"]),
        ({"data_type": {"name": "float64", "configuration": {"a": 1}}}, "data_type.configuration.a", ["no configuration"]),
        ({"data_type": "<f8"}, "data_type", ["the name of an extension", '"<f8"']),
        ({"data_type": "r12"}, "data_type", ["multiple of 8", '"r12"']),
        ({"chunk_grid": "regular"}, GRID, ["chunk_shape is required"]),
        ({"chunk_grid": {"name": "regular"}}, GRID, ["chunk_shape is required"]),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 0]}}}, f"{GRID}[1]", ["at least 1", "found 0"]),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 1.5]}}}, f"{GRID}[1]", ["found 1.5"]),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}}, GRID, ["each of the 2 dimensions"]),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4], "x": 1}}}, "chunk_grid.configuration.x", ["not known"]),
        ({"chunk_grid": {"name": "regular", "must_understand": False}}, "chunk_grid.must_understand", ["true or absent"]),
        ({"chunk_grid": {"type": "regular", "chunk_shape": [4, 4]}}, "chunk_grid.name", ["required"]),
        ({KEYS: {"name": "default", "must_understand": False}}, f"{KEYS}.must_understand", ["true or absent"]),
        ({KEYS: {"name": "default", "configuration": {"separator": "-"}}}, f"{KEYS}.configuration.separator", ['"/"', '"."']),
        ({KEYS: {"name": "default", "separator": "/"}}, f"{KEYS}.separator", ["not known"]),
        ({KEYS: "/"}, KEYS, ["name of an extension"]),
        ({"fill_value": None}, "fill_value", ["found null"]),
        ({"fill_value": "nan"}, "fill_value", ['found "nan"']),
        ({"data_type": "int32", "fill_value": 1.0}, "fill_value", ["without fraction", "found 1.0"]),
        ({"data_type": "uint8", "fill_value": 256}, "fill_value", ["from 0 to 255"]),
        ({"data_type": "complex64", "fill_value": [0, "x"]}, "fill_value[1]", ['found "x"']),
        ({"codecs": []}, "codecs", ["at least one"]),
        ({"codecs": None}, "codecs", ["an array of extensions", "found null"]),
        ({"codecs": "bytes"}, "codecs", ["an array of extensions"]),
        ({"codecs": ["bytes", 1]}, "codecs[1]", ["found 1"]),
        ({"codecs": [{"name": "bytes", "configuration": 1}]}, "codecs[0].configuration", ["an object"]),
        ({"codecs": [{"name": "bytes", "endian": "little"}]}, "codecs[0].endian", ["not known", "configuration"]),
        ({"codecs": [{"id": "zlib"}]}, "codecs[0].name", ["required", "'id'"]),
        ({"attributes": []}, "attributes", ["must be an object"]),
        ({"attributes": None}, "attributes", ["found null"]),
        ({"dimension_names": ["x"]}, "dimension_names", ["2 names", '["x"]']),
        ({"dimension_names": None}, "dimension_names", ["an array", "found null"]),
        ({"dimension_names": "xy"}, "dimension_names", ["an array"]),
        ({"dimension_names": ["x", 1]}, "dimension_names[1]", ["a string or null", "found 1"]),
        ({"storage_transformers": {}}, "storage_transformers", ["an array"]),
        ({"storage_transformers": [{}]}, "storage_transformers[0].name", ["required"]),
        ({"extensions": []}, "extensions", ["must_understand", "found []"]),
        ({"chunk_memory_layout": "C"}, "chunk_memory_layout", ["must_understand", 'found "C"']),
        ({"future": {"must_understand": True}}, "future", ["must_understand"]),
        ({"future": {"name": "x"}}, "future", ["must_understand"]),
        ({"future": {"must_understand": 0}}, "future", ["must_understand"]),
        ({"future": None}, "future", ["must_understand"]),
        ({"order": "C"}, "order", ["must_understand"]),
    ],
)  # fmt: skip
def test_bad_arrays_are_refused(changes, path, words):
    document = array_document(**changes)
    with refused(path, *words):
        parse_node(document)
    with refused(path, *words):
        parse_node(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"zarr_format": 3.0}, "zarr_format"),
        ({"attributes": 1}, "attributes"),
        ({"members": {}}, "members"),
        ({"extensions": []}, "extensions"),
        ({"shape": [1]}, "shape"),
        ({"storage_transformers": []}, "storage_transformers"),
        ({"node_type": "Group"}, "node_type"),
    ],
)
def test_bad_groups_are_refused(changes, path):
    with refused(path):
        parse_node(json.dumps(group_document(**changes)).encode())


@pytest.mark.parametrize("text", [b"[]", b"3", b'"zarr"', b"null"])
def test_documents_must_be_objects(text):
    with refused(None, "the document must be an object"):
        parse_node(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b'{"zarr_format": 3, "zarr_format": 3}', "zarr_format"),
        (json.dumps(array_document()).encode().replace(b'"NaN"', b"NaN"), "fill_value"),
        (json.dumps(array_document()).encode().replace(b'"NaN"', b"1e400"), "fill_value"),
        (json.dumps(array_document()).encode()[:-20], None),
    ],
)
def test_bad_text_is_refused(text, path):
    with refused(path):
        parse_node(text)


def test_a_node_is_an_array_or_a_group():
    with refused("node_type", 'one of "array", "group"', 'found "dataset"'):
        parse_node(group_document(node_type="dataset"))


@pytest.mark.rule("K1")
def test_the_draft_is_distinguished():
    document: dict[str, Json] = {
        "zarr_format": "https://purl.org/zarr/spec/core/3.0",
        "metadata_encoding": {"type": "json"},
        "extensions": [],
    }
    with pytest.raises(MetadataError, match="draft of 2022") as caught:
        parse_node(document)
    assert caught.value.path == "zarr_format"


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"data_type": "decimal128"}, "data_type", ["decimal128", "float16", "r*"]),
        (
            {"data_type": {"name": "example.datetime", "configuration": {"unit": "s"}}},
            "data_type",
            ["example.datetime"],
        ),
        ({"chunk_grid": {"name": "hexagonal"}}, "chunk_grid", ["hexagonal", "regular, rectilinear"]),
        ({"chunk_key_encoding": "suffix"}, "chunk_key_encoding", ["suffix", "default, v2"]),
    ],
)
def test_errors_for_unknown_extensions_list_known_ones(changes, path, words):
    with refused(path, *words, kind=UnknownExtensionError):
        parse_node(array_document(**changes))


def test_errors_know_the_key():
    for document in (array_document(shape=[-1]), array_document(data_type="decimal128"), b"{"):
        with pytest.raises((MetadataError, UnknownExtensionError)) as caught:
            parse_node(document, key="a/zarr.json")
        assert caught.value.key == "a/zarr.json"


# --- what is written ---------------------------------------------------------------------------------------------------------------

names = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=8)
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=8), values, max_size=3)
extension_values = st.builds(Extension, names, objects, st.booleans())
unknown = st.dictionaries(
    names.map("x_".__add__), objects.map(lambda value: value | {"must_understand": False}), max_size=2
)


@st.composite
def arrays(draw):
    ndim = draw(st.integers(0, 4))
    lengths = st.integers(0, 2**63 - 1)
    kind = CORE_EXTENSIONS.data_type_from_user(
        draw(st.sampled_from(["int8", "uint64", "float16", "float32", "complex64", "r24"]))
    )
    return ArrayMetadata(
        shape=draw(st.tuples(*[lengths] * ndim)),
        data_type=kind,
        fill_value=FillValue(draw(st.binary(min_size=kind.itemsize, max_size=kind.itemsize)), kind.dtype),
        chunk_grid=RegularGrid(draw(st.tuples(*[st.integers(1, 2**63 - 1)] * ndim))),
        chunk_key_encoding=draw(st.sampled_from([DefaultKeys(), V2Keys(), DefaultKeys("."), V2Keys("/")])),
        codecs=draw(st.lists(extension_values, min_size=1, max_size=3)),
        attributes=draw(objects),
        dimension_names=draw(st.none() | st.tuples(*[st.none() | st.text(max_size=5)] * ndim)),
        storage_transformers=draw(st.lists(extension_values, max_size=2)),
        unknown=draw(unknown),
    )


@given(arrays())
def test_arrays_are_read_back(metadata):
    text = emit_node(metadata)
    assert parse_node(text) == metadata
    assert emit_node(parse_node(text)) == text
    assert json.loads(text, parse_constant=pytest.fail)["node_type"] == "array"


@given(st.builds(GroupMetadata, attributes=objects, consolidated=st.none() | objects, unknown=unknown))
def test_groups_are_read_back(metadata):
    text = emit_node(metadata)
    assert parse_node(text) == metadata
    assert emit_node(parse_node(text)) == text


def test_members_stand_in_one_order():
    metadata = parse_node(array_document(dimension_names=["y", "x"], storage_transformers=["one"]))
    assert list(node_document(metadata)) == [
        "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "attributes",
        "dimension_names", "storage_transformers",
    ]  # fmt: skip


def test_documents_written_are_copies():
    metadata = parse_node(array_document())
    written: Any = node_document(metadata)
    written["attributes"]["foo"] = 0
    assert metadata.attributes["foo"] == 42


def test_another_dialect_is_not_written_here():
    for metadata in (GroupMetadata(zarr_format="draft"), GroupMetadata(zarr_format=2)):
        with refused("zarr_format", "the integer 3"):
            emit_node(metadata)


@pytest.mark.rule("K2")
def test_keys():
    assert (document_key(""), document_key("foo/bar")) == ("zarr.json", "foo/bar/zarr.json")
    assert (data_prefix(""), data_prefix("foo/baz")) == ("", "foo/baz/")
    assert data_prefix("foo/baz") + DefaultKeys().encode_one((1, 0)) == "foo/baz/c/1/0"
