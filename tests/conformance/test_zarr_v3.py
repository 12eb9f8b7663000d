"""Rules of the final core that involve documents, codecs and stores together (K rules of docs/conformance/zarr-v3.md); the others are in tests/metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import MetadataError, NotFoundError
from frazil.stores import LocalStore, MemoryStore
from tests.conformance.shards import BIG, LITTLE, document, index, sharding, stored


def refused(change: Mapping[str, object], *, without: str | None = None) -> str | None:
    """The member that the error names when a document with this change is refused."""
    metadata = {**document([4, 2], [2, 2], [LITTLE]), **change}
    metadata.pop(without or "", None)
    with pytest.raises(MetadataError) as caught:
        frazil.open_array(stored(metadata))
    return caught.value.path


@pytest.mark.rule("K4")
def test_grid_and_key_encoding() -> None:
    assert refused({}, without="chunk_key_encoding") == "chunk_key_encoding"
    assert refused({}, without="chunk_grid") == "chunk_grid"
    old = {"type": "regular", "chunk_shape": [2, 2], "separator": "/"}
    assert str(refused({"chunk_grid": old})).startswith("chunk_grid")
    mixed = {"name": "regular", "configuration": {"chunk_shape": [2, 2], "separator": "/"}}
    assert refused({"chunk_grid": mixed}) == "chunk_grid.configuration.separator"


@pytest.mark.rule("K1")
def test_documents_have_their_format_and_the_type_of_node() -> None:
    for value in (2, 4, 0, -3, 3.5, "3", "v3", "", True, None, [3], {"major": 3}):
        assert refused({"zarr_format": value}) == "zarr_format", value
    assert refused({}, without="zarr_format") == "zarr_format"
    for value in ("Array", "dataset", "", 1, None, ["array"]):
        assert refused({"node_type": value}) == "node_type", value
    assert refused({}, without="node_type") == "node_type"


@pytest.mark.rule("K13")
def test_unknown_members_are_refused_unless_they_may_be_ignored() -> None:
    for value in (
        None,
        1,
        "x",
        [],
        [{"must_understand": False}],
        {},
        {"a": 1},
        *({"must_understand": v} for v in (True, None, 0, "false")),
    ):
        assert refused({"more": value}) == "more", value
        store = MemoryStore()
        store.set("zarr.json", json.dumps({"zarr_format": 3, "node_type": "group", "more": value}).encode())
        with pytest.raises(MetadataError) as caught:
            frazil.open_group(store)
        assert caught.value.path == "more", value
    ignored = {**document([2], [2], [LITTLE]), "more": {"must_understand": False, "a": 1}}
    assert frazil.open_array(stored(ignored, c_0=b"\1\2"))[...].tolist() == [1, 2]


@pytest.mark.rule("K5")
def test_orders_are_written_out() -> None:
    assert refused({"chunk_memory_layout": "C"}) == "chunk_memory_layout"
    for order in ("C", "F", [0, 0], [0], [1, 2], None):
        codecs = [{"name": "transpose", "configuration": {"order": order}}, LITTLE]
        assert refused({"codecs": codecs}) == "codecs[0].configuration.order"
    store = stored(document([2, 3], [2, 3], [{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE]))
    frazil.open_array(store, mode="r+")[...] = [[1, 2, 3], [4, 5, 6]]
    assert store.get("c/0/0") == bytes([1, 4, 2, 5, 3, 6])


@pytest.mark.rule("K6")
def test_codecs_are_a_chain() -> None:
    assert refused({}, without="codecs") == "codecs"
    assert refused({"codecs": []}) == "codecs"
    assert refused({"codecs": [{"name": "crc32c"}]}) == "codecs"
    assert refused({"codecs": [LITTLE, BIG]}) == "codecs[1]"
    assert refused({"codecs": [{"name": "bytes"}], "data_type": "int16"}) == "codecs[0].configuration.endian"
    for endian in (None, "native", 1, "LITTLE"):
        codecs = [{"name": "bytes", "configuration": {"endian": endian}}]
        assert refused({"codecs": codecs}) == "codecs[0].configuration.endian"


@pytest.mark.rule("K8")
def test_the_older_name_of_bytes() -> None:
    array = frazil.open_array(stored(document([2], [2], [{**BIG, "name": "endian"}], "uint16"), c_0=b"\0\1\0\2"))
    assert array[...].tolist() == [1, 2]
    assert array.codecs[0].extension().to_json() == BIG


@pytest.mark.rule("K9")
def test_blosc() -> None:
    blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 1, "blocksize": 0}
    for change in ({"shuffle": 1}, {"shuffle": -1}, {"shuffle": "byte"}, {"shuffle": None}, {"typesize": 0}):
        codecs = [LITTLE, {"name": "blosc", "configuration": {**blosc, **change}}]
        assert refused({"codecs": codecs}) == f"codecs[1].configuration.{next(iter(change))}"
    del blosc["typesize"]
    assert (
        refused({"codecs": [LITTLE, {"name": "blosc", "configuration": blosc}]}) == "codecs[1].configuration.typesize"
    )
    blosc["shuffle"] = "noshuffle"
    codecs = [LITTLE, {"name": "blosc", "configuration": blosc}]
    assert frazil.open_array(stored(document([2], [2], codecs)))[...].tolist() == [0, 0]


@pytest.mark.rule("K10")
@pytest.mark.parametrize("extensions", [[], [{"extension": "https://example.org/e", "must_understand": False}]])
def test_extensions_are_no_member(extensions: list[object]) -> None:
    assert refused({"extensions": extensions}) == "extensions"


@pytest.mark.rule("K12")
def test_unknown_extensions_have_no_fallback() -> None:
    old = {"extension": "https://example.org/datetime", "type": "<M8[ns]", "fallback": "<i8"}
    assert str(refused({"data_type": old})).startswith("data_type")
    assert refused({"data_type": {"name": "uint8", "fallback": "int8"}}) == "data_type.fallback"


@pytest.mark.rule("K14")
def test_groups_have_documents() -> None:
    store = MemoryStore()
    group = frazil.create_group(store)
    group.create_array("a/b/c", shape=1, dtype="u1")
    assert store.list() == ["a/b/c/zarr.json", "a/b/zarr.json", "a/zarr.json", "zarr.json"]
    store.erase("a/b/zarr.json")
    assert [path for path, _ in group.members(max_depth=None)] == ["a"]
    with pytest.raises(NotFoundError):
        group["a/b"]
    assert "a/b" not in group
    assert group["a/b/c"].path == "a/b/c", "a node is there where its document is"


@pytest.mark.rule("K15")
def test_any_node_is_opened_by_itself(tmp_path: Path) -> None:
    frazil.create_group(tmp_path / "root").create_array("a/b", data=np.arange(3))
    for array in (
        frazil.open(tmp_path / "root" / "a" / "b"),
        frazil.open_array(tmp_path / "root" / "a", path="b"),
        frazil.open_group(tmp_path / "root" / "a")["b"],
    ):
        assert isinstance(array, frazil.Array)
        assert array[...].tolist() == [0, 1, 2]


@pytest.mark.rule("K17")
@pytest.mark.parametrize("name", ["höhe", "日本", "a b", "x%2fy", "🌊", "a\\b", "\u00e9", "e\u0301"])
def test_names_and_keys_of_any_text(name: str, tmp_path: Path) -> None:
    for store in (MemoryStore(), LocalStore(tmp_path / "s")):
        frazil.create_group(store).create_array(f"{name}/{name}", data=np.arange(3))
        assert list(frazil.open_group(store)) == [name]
        assert frazil.open_array(store, path=f"{name}/{name}")[...].tolist() == [0, 1, 2]
        assert store.exists(f"{name}/{name}/c/0")


@pytest.mark.rule("K21")
def test_the_grid_has_shards_and_the_codec_inner_chunks() -> None:
    store = MemoryStore()
    array = frazil.create_array(store, shape=(8, 6), dtype="u1", chunks=(2, 3), shards=(4, 6))
    metadata = json.loads(store.get("zarr.json") or b"")
    assert metadata["chunk_grid"]["configuration"]["chunk_shape"] == [4, 6]
    assert metadata["codecs"][0]["configuration"]["chunk_shape"] == [2, 3]
    assert (array.shards, array.chunks, array.nchunks) == ((4, 6), (2, 3), 8)


@pytest.mark.rule("K22")
def test_the_index_has_codecs_and_a_place() -> None:
    entries = [(0, 2), (2, 2)]
    draft = b"abcd" + index(entries, checksum=False)  # as the draft's transformer writes: bare, at the end
    bare = document([4], [4], [sharding([2], index_codecs=[LITTLE])])
    assert frazil.open_array(stored(bare, c_0=draft))[...].tolist() == [*b"abcd"]
    start = document([4], [4], [sharding([2], index_codecs=[BIG], location="start")])
    table = index([(32 + at, n) for at, n in entries], endian=">", checksum=False)
    assert frazil.open_array(stored(start, c_0=table + b"abcd"))[...].tolist() == [*b"abcd"]


@pytest.mark.rule("K25")
def test_locations(tmp_path: Path) -> None:
    folder = tmp_path / "a b%c"
    frazil.create_array(folder, data=np.arange(3))
    for location in (folder, str(folder), folder.as_uri(), LocalStore(folder)):
        assert frazil.open_array(location)[...].tolist() == [0, 1, 2]
