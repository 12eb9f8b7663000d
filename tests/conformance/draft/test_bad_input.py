"""Documents of the draft with any error: a clear error or a node, never another exception, and the store is untouched. The other files test what each rule
refuses."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import FrazilError
from frazil.stores import MemoryStore
from tests.conformance.draft.documents import (
    ENTRY,
    OLD_ENTRY,
    array,
    codec,
    compressor,
    contents,
    document,
    encoded,
    extension_type,
    hierarchy,
    sharding,
)
from tests.slow_properties import search

BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
EXTENSION = {"extension": "https://example.org/e", "must_understand": False, "configuration": {"a": 1}}
STRICT = {
    "codecs": array([4, 4], [2, 2], "int32", codecs=[codec("endian", endian="big"), codec("gzip", level=1)]),
    "shards": array(
        [4], [2], "float64", storage_transformers=[sharding([2]), sharding([3])], codecs=[codec("blosc", **BLOSC)]
    ),
    "datetimes": array([4], [2], extension_type("datetime", "<M8[ns]", fallback=["int64", "r64"]), fill_value="NaT"),
    "structs": array(
        [4], [2], extension_type("struct", [["a", "<U2"], ["b", [["c", "<f4"], ["d", "S3"]]]]), fill_value=None
    ),
    "raw bytes": array(
        [], [], "r24", fill_value="0x010203", extensions=[EXTENSION], attributes={"a": [1, {"b": None}]}
    ),
}
OLD = {
    "filters": array(
        [4],
        [2],
        "<i4",
        compressor=compressor("gzip", level=1),
        attributes={"filters": [{"id": "delta", "dtype": "<i4"}], "a": 1},
    ),
    "shards": array(
        [4],
        [2],
        ">f8",
        compressor=compressor("blosc", **BLOSC),
        storage_transformers=[sharding([2])],
        dimension_separator="/",
    ),
    "strings": array(
        [4], [2], {"extension": "TODO: unicode array protocol URL", "type": ">U4", "fallback": None}, fill_value="ab"
    ),
    "prototype": array([4, 4], [2, 2], "|u1", shards=[2, 2], shard_format="indexed", fill_value=None, attributes=None),
}
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([-1, 0, 1, 2, 255, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 0.0, 0.5, 1e308])
    | st.sampled_from(
        [
            "",
            "/",
            ".",
            "C",
            "F",
            "int8",
            "<f8",
            ">M8[s]",
            "r24",
            "0x00",
            "NaN",
            "regular",
            "indexed",
            "json",
            ".json",
            "https://example.org/x",
        ]
    )
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["extension", "type", "id", "level", "must_understand", "x"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def places(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """The paths to all values in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in items:
        yield from places(child, (*path, name))


@st.composite
def damaged(draw: st.DrawFn, sound: object) -> object:
    """The document with one to three of its values replaced, removed, duplicated or inserted."""
    value = copy.deepcopy(sound)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(value))))
        if not path:
            if draw(st.integers(0, 9)) == 0:
                return draw(anything)
            if isinstance(value, dict):
                value[
                    draw(
                        st.sampled_from(
                            ["codecs", "compressor", "dimension_names", "extensions", "attributes", "shards", "x"]
                        )
                    )
                ] = draw(anything)
            continue
        parent = value
        for name in path[:-1]:
            parent = parent[name]
        how = draw(st.sampled_from(["replace", "remove", "double"]))
        if how == "replace":
            parent[path[-1]] = draw(anything)
        elif how == "remove":
            del parent[path[-1]]
        elif isinstance(parent, list):
            parent.append(copy.deepcopy(parent[path[-1]]))
    return value


def use(store: MemoryStore, path: str) -> None:
    """Opens a node and reads it. An error names the place."""
    before = contents(store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        error = looked_into(store, path)
    assert error is None or error.key is not None, error
    assert contents(store) == before


def looked_into(store: MemoryStore, path: str) -> FrazilError | None:
    try:
        node = frazil.open(store, path=path)
        if isinstance(node, frazil.Array):
            assert node.info is not None
            node[(slice(0, 1),) * node.ndim]
        else:
            str(node.tree())
            list(node.members(max_depth=None))
    except FrazilError as error:
        return error
    return None


def chunks(root: str) -> dict[str, object]:
    """An object under every possible name of a chunk."""
    shard = b"\1" * 8 + np.array([[0, 4], [4, 4]], "<u8").tobytes()
    return {f"data/{root}a/{name}": shard for name in ("c", "c0", "c0/0", "c0.0", "0", "0.0")}


@pytest.mark.parametrize("name", STRICT)
@search(slowness=1)
@given(st.data())
def test_damaged_documents(name: str, data: st.DataObject) -> None:
    broken = data.draw(damaged(STRICT[name]))
    use(hierarchy({"meta/a.array.json": broken, **chunks("")}), "a")


@pytest.mark.parametrize("name", OLD)
@search(slowness=1)
@given(st.data())
def test_damaged_documents_of_the_older_dialect(name: str, data: st.DataObject) -> None:
    broken = data.draw(damaged(OLD[name]))
    use(hierarchy({"meta/root/a.array.json": broken, **chunks("root/")}, OLD_ENTRY), "a")


@pytest.mark.parametrize("entry", [ENTRY, OLD_ENTRY], ids=["strict", "older"])
@pytest.mark.parametrize("path", ["", "a", "g"])
@given(st.data())
def test_damaged_entry_points_and_groups(entry: object, path: str, data: st.DataObject) -> None:
    group = data.draw(damaged({"attributes": {"a": 1}}))
    keys = {
        "meta/a.array.json": array(),
        "meta/root/a.array.json": array(),
        "meta/g.group.json": group,
        "meta/root/g.group.json": group,
    }
    store = hierarchy(keys, data.draw(damaged(dict(entry)) if path != "g" else st.just(entry)))
    use(store, path)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_document(value: bytes) -> None:
    for entry, key in ((ENTRY, "meta/a.array.json"), (OLD_ENTRY, "meta/root/a.array.json")):
        use(hierarchy({key: value}, entry), "a")
    use(hierarchy({"meta/a.array.json": array()}, value), "a")


@pytest.mark.parametrize("dialect", ["draft", "draft-2021"])
def test_arguments_that_the_dialect_cannot_express(dialect: str) -> None:
    """Refused by their name before anything is written."""
    good = {"shape": (4, 4), "dtype": "int32", "chunks": (2, 2), "zarr_format": dialect}
    for change, member in (
        ({"dimension_names": ("y", "x")}, "dimension_names"),
        ({"shape": (4, 4, 4), "chunks": (2, 2, 2), "codecs": [frazil.codecs.Transpose((1, 0, 2))]}, "codecs"),
        ({"shards": (4, 4), "index_location": "start"}, "codecs"),
        ({"chunk_key_encoding": "v2"}, "chunk_key_encoding"),
        ({"chunks": (0, 2)}, "chunks"),
        ({"shards": (3, 3)}, "shards"),
        ({"fill_value": 2**40}, "fill_value"),
        ({"attributes": {"a": object()}}, "attributes"),
        ({"storage_transformers": [{"extension": "https://example.org/t", "type": "x"}]}, "storage_transformers"),
    ):
        store = MemoryStore()
        with pytest.raises(FrazilError) as caught:
            frazil.create_array(store, path="a/b", **{**good, **change})
        assert str(caught.value.path).startswith(member), (change, caught.value)
        assert store.list() == [], change
    with pytest.raises(FrazilError) as caught:
        frazil.create_array(MemoryStore(), shape=1, dtype="u1", codecs=[frazil.codecs.Crc32c()], zarr_format="draft")
    assert str(caught.value.path).startswith("codecs")
    for wrong in ("draft-2022", "v3", 4, True, "3", ""):
        with pytest.raises(FrazilError):
            frazil.create_array(MemoryStore(), shape=1, dtype="u1", zarr_format=wrong)


def test_a_document_of_many_wrong_members_names_one() -> None:
    store = hierarchy({"meta/a.array.json": {"x": 1, "y": 2}})
    with pytest.raises(FrazilError) as caught:
        frazil.open(store, path="a")
    assert caught.value.path == "x"
    assert encoded(document(store)) == json.dumps({"x": 1, "y": 2}).encode()
