"""Every difference between the draft of December 2022 and final Zarr v3: documents written by hand, their converted form, and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import ConversionError
from frazil.stores import MemoryStore

CORE = "https://purl.org/zarr/spec/core/3.0"
ENTRY = {"zarr_format": CORE, "metadata_encoding": {"type": "json", "metadata_key_suffix": ".json"}, "extensions": []}
CODECS = "https://purl.org/zarr/spec/codecs"


def array(**members: Any) -> dict[str, Any]:
    return {
        "shape": [4, 6],
        "data_type": "int32",
        "chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": 0,
        "extensions": [],
        "attributes": {},
        **members,
    }


def hierarchy(**arrays: dict[str, Any]) -> MemoryStore:
    """Arrays by name, each with one chunk of ones or more."""
    store = MemoryStore()
    store.set("zarr.json", json.dumps(ENTRY).encode())
    for name, document in arrays.items():
        store.set(f"meta/{name}.array.json", json.dumps(document).encode())
    return store


def document(store: MemoryStore, key: str) -> dict[str, Any]:
    value = store.get(key)
    assert value is not None, store.list()
    found = json.loads(value)
    assert isinstance(found, dict)
    return found


def converted(members: dict[str, Any]) -> dict[str, Any]:
    """The final document of an array."""
    to = MemoryStore()
    frazil.convert(hierarchy(a=array(**members)), to)
    return document(to, "a/zarr.json")


def returned(members: dict[str, Any]) -> dict[str, Any]:
    """The document of the draft, converted and back."""
    to, back = MemoryStore(), MemoryStore()
    frazil.convert(hierarchy(a=array(**members)), to)
    frazil.convert(to, back, zarr_format="draft")
    return document(back, "meta/a.array.json")


def test_entry_points_and_keys() -> None:
    """K1, K2, K3, K14, K15."""
    store, to, back = hierarchy(**{"deep/er": array()}), MemoryStore(), MemoryStore()
    frazil.open_array(store, "r+", path="deep/er")[3, 5] = 1
    frazil.convert(store, to)
    assert to.list() == ["deep/er/c/1/1", "deep/er/zarr.json", "deep/zarr.json", "zarr.json"]
    for key, kind in (("zarr.json", "group"), ("deep/zarr.json", "group"), ("deep/er/zarr.json", "array")):
        found = document(to, key)
        assert (found["zarr_format"], found["node_type"]) == (3, kind)
    frazil.convert(to, back, zarr_format="draft")
    assert back.list() == [
        "data/deep/er/c1/1",
        "meta/deep.group.json",
        "meta/deep/er.array.json",
        "meta/group.json",
        "zarr.json",
    ]
    assert document(back, "zarr.json") == ENTRY
    assert document(back, "meta/deep.group.json") == {"attributes": {}}
    assert document(back, "meta/deep/er.array.json") == array()


@pytest.mark.parametrize("separator", ["/", "."])
def test_grids_and_key_encodings(separator: str) -> None:
    """K3, K4."""
    grid = {"type": "regular", "chunk_shape": [2, 3], "separator": separator}
    found = converted({"chunk_grid": grid})
    assert found["chunk_grid"] == {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}
    assert found["chunk_key_encoding"] == {"name": "default", "configuration": {"separator": separator}}
    assert returned({"chunk_grid": grid}) == array(chunk_grid=grid)


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


@pytest.mark.parametrize(
    ("members", "codecs"),
    [
        ({}, [LITTLE]),  # K6
        ({"data_type": "int8"}, [{"name": "bytes"}]),
        (
            {"chunk_memory_layout": "F"},  # K5
            [{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE],
        ),
        (
            {"codecs": [{"type": f"{CODECS}/gzip/1.0", "configuration": {"level": 3}}]},  # K7
            [LITTLE, {"name": "gzip", "configuration": {"level": 3}}],
        ),
        (
            {"codecs": [{"type": f"{CODECS}/endian/1.0", "configuration": {"endian": "big"}}]},  # K8
            [{"name": "bytes", "configuration": {"endian": "big"}}],
        ),
    ],
)
def test_codecs(members: dict[str, Any], codecs: list[Any]) -> None:
    assert converted(members)["codecs"] == codecs
    assert returned(members) == array(**members)


@pytest.mark.parametrize(("shuffle", "name"), [(0, "noshuffle"), (1, "shuffle"), (2, "bitshuffle"), (-1, "shuffle")])
def test_shuffles_of_blosc(shuffle: int, name: str) -> None:
    """K9."""
    configuration = {"cname": "lz4", "clevel": 5, "shuffle": shuffle, "blocksize": 0}
    codecs = [{"type": f"{CODECS}/blosc/1.0", "configuration": configuration}]
    blosc = converted({"codecs": codecs})["codecs"][1]["configuration"]
    assert (blosc["shuffle"], blosc.get("typesize", 4)) == (name, 4)
    resolved = [{**codecs[0], "configuration": {**configuration, "shuffle": 1 if shuffle == -1 else shuffle}}]
    assert returned({"codecs": codecs}) == array(codecs=resolved)


def test_members_that_came_and_went() -> None:
    """K10, K11, K13: `extensions` is removed; `attributes` stays; dimension names and user members cannot be converted back."""
    found = converted({"attributes": {"units": "m"}})
    assert "extensions" not in found
    assert found["attributes"] == {"units": "m"}
    for member, value in (("dimension_names", ["y", None]), ("mine", {"must_understand": False})):
        store = MemoryStore()
        store.set("zarr.json", json.dumps({**found, member: value}).encode())
        with pytest.raises(ConversionError) as caught:
            frazil.convert(store, MemoryStore(), zarr_format="draft")
        assert [refusal[:2] for refusal in caught.value.refusals] == [("", member)]


@pytest.mark.parametrize(
    ("data_type", "fill", "name"),
    [("int64", -(2**63), "int64"), ("uint64", 2**64 - 1, "uint64"), ("complex64", [1.5, "NaN"], "complex64")],
)
def test_types(data_type: object, fill: object, name: str) -> None:
    """K12, K18, K19."""
    found = converted({"data_type": data_type, "fill_value": fill})
    assert (found["data_type"], found["fill_value"]) == (name, fill)
    assert returned({"data_type": data_type, "fill_value": fill}) == array(data_type=data_type, fill_value=fill)


@pytest.mark.parametrize(
    ("fill", "final"),
    [("+Infinity", "Infinity"), ("-Infinity", "-Infinity"), ("NaN", "NaN"), ("0x7fc00001", "0x7fc00001"), (0.5, 0.5)],
)
def test_fill_values(fill: object, final: object) -> None:
    """K19."""
    assert converted({"data_type": "float32", "fill_value": fill})["fill_value"] == final
    assert returned({"data_type": "float32", "fill_value": fill})["fill_value"] == fill


def test_names() -> None:
    """K16, K17."""
    for name in ("grüße", "a b", "x~"):
        store = MemoryStore()
        frazil.create_group(store, path=name)
        with pytest.raises(ConversionError) as caught:
            frazil.convert(store, MemoryStore(), zarr_format="draft")
        assert [refusal[0] for refusal in caught.value.refusals] == [name]
    for name in ("zarr.json", "__x"):  # legal in the draft
        with pytest.raises(ConversionError) as caught:
            frazil.convert(hierarchy(**{name: array()}), MemoryStore())
        assert caught.value.refusals[0][0] == name


def sharding(*counts: list[int]) -> list[dict[str, Any]]:
    uri = "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"
    return [{"extension": uri, "type": "indexed", "configuration": {"chunks_per_shard": count}} for count in counts]


def test_shards() -> None:
    """K20, K21, K22: of one transformer, and of two, the last of which makes the outermost shards."""
    members = {"shape": [40, 60], "storage_transformers": sharding([2, 1], [2, 4])}
    found = converted(members)
    assert found["chunk_grid"]["configuration"]["chunk_shape"] == [8, 12]
    outer = found["codecs"][0]
    assert outer["configuration"]["chunk_shape"] == [4, 3]
    inner = outer["configuration"]["codecs"][0]
    assert inner["configuration"]["chunk_shape"] == [2, 3]
    for shard in (outer, inner):
        assert shard["name"] == "sharding_indexed"
        assert shard["configuration"]["index_codecs"] == [LITTLE]
        assert shard["configuration"]["index_location"] == "end"
    assert "storage_transformers" not in found
    assert returned(members) == array(**members)
    store, to = hierarchy(a=array(**members)), MemoryStore()
    frazil.open_array(store, "r+", path="a")[5:30, 7:50] = 9
    frazil.convert(store, to)
    assert {key: store.get(key) for key in store.list() if key.startswith("data/")} == {
        "data/a/c" + key[len("a/c/") :]: to.get(key) for key in to.list() if key.startswith("a/c/")
    }
    np.testing.assert_array_equal(frazil.open_array(to, path="a")[...], frazil.open_array(store, path="a")[...])


def test_chunks_of_no_length() -> None:
    """K23."""
    grid = {"type": "regular", "chunk_shape": [0, 3], "separator": "/"}
    found = converted({"shape": [0, 6], "chunk_grid": grid})
    assert min(found["chunk_grid"]["configuration"]["chunk_shape"]) > 0


def test_consolidated_metadata_is_a_copy_and_dropped() -> None:
    """K24."""
    store, to = MemoryStore(), MemoryStore()
    consolidated = {"kind": "inline", "must_understand": False, "metadata": {}}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}, "consolidated_metadata": consolidated}
    store.set("zarr.json", json.dumps(group).encode())
    frazil.convert(store, to, zarr_format="draft")
    assert document(to, "meta/group.json") == {"attributes": {"a": 1}}
