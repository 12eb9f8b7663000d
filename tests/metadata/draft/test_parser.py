"""Documents of the 2022 draft, in both dialects: what is read, what is refused, and the error messages."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.draft_arrays import array_document, arrays, read, read_array, without, written
from tests.metadata.refusals import refused

from frazil.errors import UnknownExtensionError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.draft.entry_point import JsonEncoding
from frazil.metadata.extensions import Extension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.model import ArrayMetadata, GroupMetadata

SHARDING = "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"
GZIP = {"type": "https://purl.org/zarr/spec/codecs/gzip/1.0", "configuration": {"level": 1}}
LITTLE = Extension("bytes", {"endian": "little"})
STRICT = [name for name in array_document() if name not in ("extensions", "attributes")]


# --- there and back ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D41")
@pytest.mark.parametrize("old", [False, True])
@given(st.data())
def test_documents_round_trip(old: bool, data: st.DataObject) -> None:
    metadata = data.draw(arrays(old))
    document = written(metadata, old=old)
    found = read(document, old=old)
    assert isinstance(found, ArrayMetadata)
    assert found.with_members(document=None) == metadata
    assert found.document == document
    assert found.fill_value.data == metadata.fill_value.data
    assert pickle.loads(pickle.dumps(found)) == found
    assert written(found, old=old) == document


@pytest.mark.parametrize("old", [False, True])
@given(st.data())
def test_a_change_keeps_all_other_members(old: bool, data: st.DataObject) -> None:
    document = written(data.draw(arrays(old)), old=old)
    if old:
        document = {**document, "dimension_separator": None, "more": {"of": ["this"]}}
    found = read_array(document, old=old)
    shape = [data.draw(st.integers(0, 2**40)) for _ in found.shape]
    changed = found.with_shape(shape).with_attributes({"new": [1, None]})
    filters = found.document and found.document["attributes"]
    kept = filters.get("filters") if old and isinstance(filters, dict) else None
    assert written(changed, old=old) == {
        **document,
        "shape": shape,
        "attributes": {"new": [1, None]} if kept is None else {"new": [1, None], "filters": kept},
    }
    again = read_array(written(changed, old=old), old=old)
    assert again.with_members(document=None) == changed.with_members(document=None)


# --- what is read ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D41", "D42", "D44", "D46", "D47")
def test_an_array() -> None:
    metadata = read_array(array_document(codecs=[GZIP], fill_value=-7))
    assert metadata == ArrayMetadata(
        shape=(10, 20),
        data_type=metadata.data_type,
        fill_value=metadata.fill_value,
        chunk_grid=RegularGrid((5, 4)),
        chunk_key_encoding=DraftKeys("/"),
        codecs=[LITTLE, Extension("gzip", {"level": 1})],
        attributes={"foo": 42},
        zarr_format="draft",
        document=array_document(codecs=[GZIP], fill_value=-7),  # type: ignore[arg-type]
    )
    assert (metadata.dtype, metadata.fill_value.scalar) == (np.dtype("i4"), -7)


@pytest.mark.rule("D50")
def test_groups() -> None:
    assert read({"attributes": {"a": 1}}, array=False) == GroupMetadata(attributes={"a": 1}, zarr_format="draft")
    with refused("attributes", "is required"):
        read({}, array=False)
    old = read({"attributes": {"a": 1}, "extensions": []}, array=False, old=True)
    assert old == GroupMetadata(attributes={"a": 1}, zarr_format="draft-2021", unknown={"extensions": []})
    assert written(old, old=True) == {"attributes": {"a": 1}, "extensions": []}
    with refused("extensions", "not known here"):
        read({"attributes": {}, "extensions": []}, array=False)
    with refused("attributes", "must be an object"):
        read({"attributes": []}, array=False)


@pytest.mark.rule("X14")
@pytest.mark.parametrize("name", ["extensions", "attributes", "codecs", "storage_transformers"])
def test_members_that_may_be_absent(name: str) -> None:
    metadata = read_array(without(array_document(), name))
    assert metadata.codecs == (LITTLE,)
    assert (metadata.attributes == {}) == (name == "attributes")


@pytest.mark.rule("D24", "D25")
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_memory_layout_is_a_transposition(layout: str, rank: int) -> None:
    grid = {"type": "regular", "chunk_shape": [4] * rank, "separator": "."}
    metadata = read_array(array_document(shape=[8] * rank, chunk_grid=grid, chunk_memory_layout=layout))
    reverse = [Extension("transpose", {"order": list(range(rank - 1, -1, -1))})]
    assert list(metadata.codecs) == [*(reverse if layout == "F" and rank > 1 else []), LITTLE]
    assert metadata.chunk_key_encoding == DraftKeys(".")


@pytest.mark.rule("D80", "K21")
def test_shards_are_the_sharding_codec() -> None:
    entry = {"extension": SHARDING, "type": "indexed", "configuration": {"chunks_per_shard": [2, 3]}}
    metadata = read_array(array_document(storage_transformers=[entry], codecs=[GZIP]))
    assert metadata.chunk_grid == RegularGrid((10, 12))
    (sharding,) = metadata.codecs
    assert sharding.name == "sharding_indexed"
    assert sharding.configuration == {
        "chunk_shape": [5, 4],
        "codecs": [LITTLE.to_json(), {"name": "gzip", "configuration": {"level": 1}}],
        "index_codecs": [LITTLE.to_json()],
        "index_location": "end",
    }
    assert metadata.storage_transformers == ()


@pytest.mark.rule("D19")
def test_dimensions_without_elements() -> None:
    grid = {"type": "regular", "chunk_shape": [0, 4], "separator": "/"}
    metadata = read_array(array_document(shape=[0, 20], chunk_grid=grid))
    assert metadata.chunk_grid == RegularGrid((1, 4))
    assert written(metadata, old=False)["chunk_grid"] == grid
    with refused("chunk_grid.chunk_shape", "cannot grow"):
        written(metadata.with_shape((1, 20)), old=False)


# --- what is refused ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D41", "D49", "D53")
@pytest.mark.parametrize("name", STRICT)
def test_required_members(name: str) -> None:
    with refused(name, f"{name} is required"):
        read(without(array_document(), name))


@pytest.mark.rule("D49")
@pytest.mark.parametrize(
    "name", ["compressor", "dimension_names", "dimension_separator", "zarr_format", "node_type", "more"]
)
@pytest.mark.parametrize("value", [None, {"must_understand": False}, ["x", "y"]])
def test_unknown_members(name: str, value: object) -> None:
    with refused(name, "not known here", "storage_transformers"):
        read(array_document(**{name: value}))
    if name not in ("compressor", "dimension_separator"):
        found = read_array(array_document(**{name: value}), old=True)
        assert written(found, old=True)[name] == value, "the older dialect keeps what it does not know"


GRID = {"type": "regular", "chunk_shape": [5, 4], "separator": "/"}


@pytest.mark.rule("D42", "D44", "D45", "D46", "D47", "D48", "D21", "D26")
@pytest.mark.parametrize(
    ("member", "value", "path", "words"),
    [
        ("shape", 10, "shape", "array of integers"),
        ("shape", [10, -1], "shape[1]", "at least 0"),
        ("shape", [10, 2**63], "shape[1]", "below 2^63"),
        ("shape", [10.0, 20], "shape[0]", "integer"),
        ("shape", [True, 20], "shape[0]", "integer"),
        ("shape", [10], "chunk_grid.chunk_shape", "one for each dimension"),
        ("data_type", 4, "data_type", "data type identifier"),
        ("data_type", None, "data_type", "data type identifier"),
        ("chunk_grid", "regular", "chunk_grid", "an object"),
        ("chunk_grid", {**GRID, "type": "irregular"}, "chunk_grid.type", '"regular"'),
        ("chunk_grid", without(GRID, "type"), "chunk_grid.type", "required"),
        ("chunk_grid", without(GRID, "chunk_shape"), "chunk_grid.chunk_shape", "required"),
        ("chunk_grid", {**GRID, "chunk_shape": [5, 0]}, "chunk_grid.chunk_shape", "above 0"),
        ("chunk_grid", {**GRID, "chunk_shape": [5, -4]}, "chunk_grid.chunk_shape[1]", "at least 0"),
        ("chunk_grid", {**GRID, "chunk_shape": [5]}, "chunk_grid.chunk_shape", "one for each dimension"),
        ("chunk_grid", {**GRID, "separator": "-"}, "chunk_grid.separator", '"/", "."'),
        ("chunk_grid", {**GRID, "separator": None}, "chunk_grid.separator", '"/", "."'),
        ("chunk_grid", {**GRID, "configuration": {}}, "chunk_grid.configuration", "not known here"),
        ("chunk_memory_layout", "A", "chunk_memory_layout", '"C", "F"'),
        ("chunk_memory_layout", None, "chunk_memory_layout", '"C", "F"'),
        ("fill_value", "one", "fill_value", "int32"),
        ("fill_value", 2**31, "fill_value", "int32"),
        ("attributes", [], "attributes", "an object"),
        ("attributes", None, "attributes", "an object"),
        ("extensions", {}, "extensions", "an array"),
        ("extensions", None, "extensions", "an array"),
        ("codecs", GZIP, "codecs", "an array"),
        ("codecs", None, "codecs", "an array"),
        ("codecs", ["gzip"], "codecs[0]", "an object"),
        ("storage_transformers", None, "storage_transformers", "an array"),
        ("storage_transformers", [SHARDING], "storage_transformers[0]", "an object"),
    ],
)
def test_bad_arrays(member: str, value: object, path: str, words: str) -> None:
    with refused(path, words):
        read(array_document(**{member: value}))


@pytest.mark.rule("D26", "D38", "D44", "D48")
@pytest.mark.parametrize(
    ("member", "value", "path", "method"),
    [
        ("chunk_grid", {"extension": "https://e.org/x", "type": "y"}, "chunk_grid", "with_chunk_grid"),
        ("chunk_memory_layout", {"extension": "https://e.org/x", "type": 1}, "chunk_memory_layout", "with_memory_layout"),
        ("extensions", [{"extension": "https://e.org/x", "must_understand": True}], "extensions[0]", "with_array_extension"),
        ("data_type", {"extension": "https://e.org/x", "type": "y"}, "data_type", "with_data_type"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("old", [False, True])
def test_unknown_extensions(member: str, value: object, path: str, method: str, old: bool) -> None:
    with pytest.raises(UnknownExtensionError) as caught:
        read(array_document(**{member: value}), old=old)
    if old and member == "data_type":  # decided by `type` alone
        assert caught.value.path == "data_type.type"
        return
    assert caught.value.path == path
    assert "https://e.org/x" in caught.value.message
    assert method in (caught.value.hint or "")


@pytest.mark.parametrize("value", [[], 3, "zarr", None])
@pytest.mark.parametrize("array", [True, False])
def test_documents_must_be_objects(value: object, array: bool) -> None:
    with refused(None, "must be an object"):
        read(value, array=array)


@pytest.mark.rule("X24")
@pytest.mark.parametrize("text", [b'{"attributes": {"spam": "ham", "eggs": 42,}}', b'{extension: "x"}'])
def test_examples_of_the_specification_that_are_not_json(text: bytes) -> None:
    with refused(None, "must be JSON"):
        JsonEncoding().decode(text)


# --- the older dialect -------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Z3", "Z5", "Z7", "Z8", "Z10")
def test_an_old_array() -> None:
    compressor = {"codec": "https://purl.org/zarr/spec/codec/gzip/1.0", "configuration": {"level": 1}}
    document = array_document(data_type=">f8", compressor=compressor, dimension_separator="/", fill_value=None)
    metadata = read_array(document, old=True)
    assert metadata.codecs == (Extension("bytes", {"endian": "big"}), Extension("gzip", {"level": 1}))
    assert (metadata.dtype, metadata.fill_value.scalar) == (np.dtype("f8"), 0)
    assert metadata.chunk_key_encoding == DraftKeys("/", old=True)
    assert written(metadata, old=True) == {**document, "fill_value": 0}
    for name in ("fill_value", "extensions", "attributes"):
        assert read_array(without(document, name), old=True).shape == (10, 20)
    with refused("dimension_separator", "separator of chunk_grid"):
        read({**document, "dimension_separator": "."}, old=True)
    with refused("compressor", "codecs and compressor"):
        read({**document, "codecs": [GZIP]}, old=True)
