"""The older dialect as zarr-python 2.12 to 2.18 wrote it, each deviation; documents and bytes by hand (docs/conformance/zarr-draft.md)."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import struct
import zlib

import numpy as np
import pytest

import frazil
from frazil.codecs import Gzip
from frazil.errors import AlreadyExistsError, MetadataError, NotFoundError, UnknownExtensionError
from frazil.stores import MemoryStore
from tests.conformance.draft.documents import (
    MISSING,
    OLD_ENTRY,
    array,
    compressor,
    contents,
    document,
    hierarchy,
    index,
    old,
    opened,
    refusal,
    refused_old,
)

COMPLEX = "https://zarr-specs.readthedocs.io/en/core-protocol-v3.0-dev/protocol/extensions/complex-dtypes/v1.0.html"
DATETIMES = (
    "https://zarr-specs.readthedocs.io/en/core-protocol-v3.0-dev/protocol/extensions/datetime-dtypes/v1.0.html",
    "https://zarr-specs.readthedocs.io/en/latest/extensions/data-types/datetime/v1.0.html",
)
KEY = "meta/root/a.array.json"


def extension(of: object, uri: str = "TODO: unicode array protocol URL") -> dict[str, object]:
    return {"extension": uri, "type": of, "fallback": None}


def described(data_type: object, **change: object) -> dict[str, object]:
    """The document of an array of two elements in one chunk."""
    return array([2], [2], data_type, **change)


def read(document_: dict[str, object], chunk: bytes) -> list[object]:
    return opened(old(document_, {"c0": chunk}))[...].tolist()


def old_array(data: object, dtype: object, **arguments: object) -> MemoryStore:
    store = MemoryStore()
    values = np.asarray(data, dtype)
    frazil.create_array(store, path="a", data=values, chunks=values.shape, zarr_format="draft-2021", **arguments)
    return store


@pytest.mark.rule("Z1")
def test_the_entry_point_as_it_was_written() -> None:
    text = json.dumps(OLD_ENTRY, indent=4, sort_keys=True, ensure_ascii=True, separators=(",", ": "))
    store = old(array(), {"c0": b"\1\2"}, entry=text)
    assert opened(store)[...].tolist() == [1, 2, 0, 0]
    assert json.loads(old_array([1], "u1").get("zarr.json") or b"") == OLD_ENTRY


@pytest.mark.rule("Z2")
def test_keys() -> None:
    group = {"attributes": {"a": 1}}
    keys = {
        "meta/root.group.json": group,
        "meta/root/g.group.json": group,
        "meta/root/g/a.array.json": array([2, 1], [1, 1]),
        "data/root/g/a/c1/0": b"\5",
    }
    store = hierarchy(keys, OLD_ENTRY)
    root = frazil.open_group(store)
    assert dict(root.attrs) == dict(root["g"].attrs) == {"a": 1}
    assert root["g/a"][...].tolist() == [[0], [5]]
    store = hierarchy({"meta/root.array.json": array([2, 1], [1, 1]), "data/root/c1/0": b"\5"}, OLD_ENTRY)
    assert frazil.open(store)[...].tolist() == [[0], [5]]


@pytest.mark.rule("Z3")
@pytest.mark.parametrize(
    "name",
    [
        "i1",
        "u1",
        "<i2",
        "<i4",
        "<i8",
        "<u2",
        "<u4",
        "<u8",
        "<f2",
        "<f4",
        "<f8",
        ">i2",
        ">i4",
        ">i8",
        ">u2",
        ">u4",
        ">u8",
        ">f2",
        ">f4",
        ">f8",
    ],
)
def test_types_by_numpys_names(name: str) -> None:
    values = np.array([1, 0], name)
    assert read(described(name), values.tobytes()) == values.tolist()
    store = old(described(name), {"c0": values.tobytes()})
    opened(store, mode="r+")[1] = 1
    assert store.get("data/root/a/c0") == np.array([1, 1], name).tobytes()
    endian = {"configuration": {"endian": "big" if name[0] == ">" else "little"}} if len(name) > 2 else {}
    store = old_array([1, 0], np.dtype(name).newbyteorder("="), codecs=[{"name": "bytes", **endian}])
    assert document(store, KEY)["data_type"] == name
    assert store.get("data/root/a/c0") == values.tobytes()


@pytest.mark.rule("Z3")
def test_booleans() -> None:
    assert read(described("bool", fill_value=False), b"\0\1") == [False, True]
    assert document(old_array([True], "bool"), KEY)["data_type"] == "bool"


@pytest.mark.rule("Z4", "Z4b")
@pytest.mark.parametrize("uri", [*DATETIMES, "TODO: anything", "https://example.org/unheard-of"])
def test_the_type_of_an_extension_decides(uri: str) -> None:
    for of, fill in (
        ("<M8[ns]", 0), (">M8[D]", 0), ("<m8[s]", 0), (">m8[25us]", 0), ("<c8", [0.0, 0.0]), (">c16", [0.0, 0.0]),
        ("|S4", ""), ("<U3", ""), (">U3", ""), ([["name", "<U2"], ["age", "<i4"], ["weight", "<f4"]], None), ([["", "|V3"]], None),
    ):  # fmt: skip
        dtype = (
            np.dtype(of)
            if isinstance(of, str)
            else np.dtype("V3")
            if len(of) == 1
            else np.dtype([tuple(field) for field in of])
        )
        values = np.frombuffer(bytes(range(1, 2 * dtype.itemsize + 1)), np.uint8).copy()
        if "U" in str(of):
            values = np.zeros(2, dtype).view(np.uint8)
            values[0 if dtype.str[0] == "<" or dtype.names else 3] = ord("x")
        stored = values.view(dtype)
        result = opened(old(described(extension(of, uri), fill_value=fill), {"c0": stored.tobytes()}))
        assert result.dtype == dtype.newbyteorder("=")
        assert result[...].tobytes() == stored.astype(dtype.newbyteorder("=")).tobytes(), of


@pytest.mark.rule("Z4")
def test_objects_cannot_be_read() -> None:
    filters = [{"id": "vlen-utf8"}]
    document_ = described(
        extension("|O", "TODO: object array protocol URL"), attributes={"filters": filters}, fill_value=None
    )
    error = refusal(old(document_))
    assert isinstance(error, MetadataError | UnknownExtensionError)
    assert str(error.path).startswith(("data_type", "attributes.filters"))


@pytest.mark.rule("Z4")
def test_a_malformed_type_is_refused() -> None:
    for of in ("<Q9", "|S", "<U", "", None, 3, [], [["a"]], [["a", "<i4", [2]], 3], {"a": 1}):
        assert str(refused_old(described(extension(of)))).startswith("data_type"), of


@pytest.mark.rule("Z5")
@pytest.mark.parametrize(
    ("entry", "encode"),
    [
        (compressor("gzip", level=1), gzip.compress),
        (compressor("zlib", level=1), zlib.compress),
        (compressor("bz2", level=1), bz2.compress),
        (compressor("lzma", check=-1, filters=None, format=1, preset=1), lzma.compress),
        (compressor("lz4", acceleration=1), lambda data: struct.pack("<I", len(data)) + bytes([len(data) << 4]) + data),
    ],
    ids=["gzip", "zlib", "bz2", "lzma", "lz4"],
)
def test_compressors(entry: dict[str, object], encode) -> None:
    values = np.array([1, 258], "<i4")
    assert read(described("<i4", compressor=entry), encode(values.tobytes())) == [1, 258]
    store = old(described("<i4", compressor=entry))
    opened(store, mode="r+")[...] = values
    assert opened(store)[...].tolist() == [1, 258]
    assert document(store, KEY)["compressor"] == entry


@pytest.mark.rule("Z5")
@pytest.mark.parametrize("name", ["gzip", "zlib", "blosc", "bz2", "lz4", "lzma", "zstd"])
def test_every_compressor_round_trips(name: str) -> None:
    configuration = {
        "blosc": {"cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0},
        "lz4": {"acceleration": 1},
        "lzma": {"format": 1, "check": -1, "preset": None, "filters": None},
        "zstd": {"level": 1, "checksum": False},
    }.get(name, {"level": 1})
    values = np.arange(100, dtype="<u2")
    store = old(array([100], [60], "<u2", compressor=compressor(name, **configuration)))
    opened(store, mode="r+")[...] = values
    assert opened(store)[...].tolist() == values.tolist()
    assert len(store.get("data/root/a/c0") or b"") != 120
    assert document(store, KEY)["compressor"]["configuration"] == configuration


@pytest.mark.rule("Z5")
def test_invalid_compressors_are_refused() -> None:
    assert read(described("u1", compressor=None), b"\1\2") == [1, 2]
    for value, member in (
        ([], "compressor"),
        ("gzip", "compressor"),
        ({"configuration": {}}, "compressor.codec"),
        ({"codec": 1, "configuration": {}}, "compressor.codec"),
        (compressor("gzip", level=11), "compressor.configuration.level"),
        (compressor("fancy"), "compressor"),
    ):
        assert str(refused_old(described("u1", compressor=value))).startswith(member), value
    both = described(
        "u1", compressor=compressor("gzip", level=1), codecs=[{"type": "https://purl.org/zarr/spec/codecs/gzip/1.0"}]
    )
    assert str(refused_old(both)).startswith(("compressor", "codecs"))


@pytest.mark.rule("Z5")
def test_codecs_are_read_in_the_older_dialect_too() -> None:
    entry = {"type": "https://purl.org/zarr/spec/codecs/gzip/1.0", "configuration": {"level": 1}}
    assert read(described("<u2", codecs=[entry]), gzip.compress(b"\1\0\2\0")) == [1, 2]


@pytest.mark.rule("Z5b")
def test_zstd_without_a_name_is_guessed() -> None:
    nameless = {"codec": "https://purl.org/zarr/spec/codec/", "configuration": {"checksum": False, "level": 1}}
    named = old(described("<u2", compressor=compressor("zstd", level=1, checksum=False)))
    opened(named, mode="r+")[...] = [1, 2]
    chunk = named.get("data/root/a/c0") or b""
    with pytest.warns(UserWarning, match="zstd"):
        assert read(described("<u2", compressor=nameless), chunk) == [1, 2]
    error = refusal(old(described("<u2", compressor={**nameless, "configuration": {"shuffle": 1}})))
    assert str(error.path).startswith("compressor")


@pytest.mark.rule("Z6")
def test_filters_are_codecs() -> None:
    """The filters before the compressor, undone after it."""
    delta = {"astype": "<i4", "dtype": "<i4", "id": "delta"}
    attributes = {"filters": [delta], "mine": 1}
    chunk = gzip.compress(np.array([5, 2], "<i4").tobytes())
    document_ = described("<i4", attributes=attributes, compressor=compressor("gzip", level=1))
    store = old(document_, {"c0": chunk})
    written = opened(store, mode="r+")
    assert written[...].tolist() == [5, 7]
    assert dict(written.attrs) == {"mine": 1}
    written.attrs["more"] = [2]
    assert document(store, KEY)["attributes"] == {**attributes, "more": [2]}
    written[...] = [1, 4]
    assert np.frombuffer(gzip.decompress(store.get("data/root/a/c0") or b""), "<i4").tolist() == [1, 3]


@pytest.mark.rule("Z6")
def test_an_attribute_named_filters_that_lists_none_is_the_users() -> None:
    for value in ("none", 3, {"id": "delta"}, ["delta"], None):
        assert dict(opened(old(described("u1", attributes={"filters": value}))).attrs) == {"filters": value}


@pytest.mark.rule("Z6")
def test_unknown_filters() -> None:
    error = refusal(old(described("u1", attributes={"filters": [{"id": "fancy"}]})))
    assert isinstance(error, UnknownExtensionError)
    assert str(error.path).startswith("attributes.filters[0]")


@pytest.mark.rule("Z7", "X8")
def test_members_of_that_time_are_tolerated() -> None:
    for member, value in (("dimension_separator", "/"), ("zarr_format", 3), ("anything", [1, 2])):
        store = old(described("u1", **{member: value}), {"c0": b"\1\2"})
        written = opened(store, mode="r+")
        assert written[...].tolist() == [1, 2]
        written.attrs["a"] = 1
        assert document(store, KEY)[member] == value
    store = hierarchy({"meta/root/g.group.json": {"attributes": {"a": 1}, "extensions": []}}, OLD_ENTRY)
    group = frazil.open_group(store, "r+", path="g")
    group.attrs["b"] = 2
    assert document(store, "meta/root/g.group.json") == {"attributes": {"a": 1, "b": 2}, "extensions": []}


@pytest.mark.rule("Z8", "X12")
def test_fill_values() -> None:
    def fill(data_type: object, value: object) -> np.ndarray:
        return opened(old(array([1], [1], data_type, fill_value=value)))[0]

    assert np.isnan(fill("<f4", "NaN"))
    assert fill("<f4", "Infinity") == np.inf
    assert fill("<f4", "-Infinity") == -np.inf
    assert fill(extension("<c8", COMPLEX), ["NaN", 2.0]).imag == 2
    assert fill(extension("|S4"), base64.b64encode(b"ab").decode()) == b"ab"
    assert fill(extension("<U4"), "ab") == "ab"
    assert fill(extension("<M8[D]"), 3) == np.datetime64(3, "D")
    assert fill(extension([["", "|V3"]]), base64.b64encode(b"abc").decode()).tobytes() == b"abc"
    pair = np.array([(1, b"x")], [("n", "<i4"), ("s", "S2")])
    assert fill(extension([["n", "<i4"], ["s", "|S2"]]), base64.b64encode(pair.tobytes()).decode()) == pair[0]
    for data_type in ("<i4", "bool", extension("|S4"), extension("<U4"), extension([["n", "<i4"]])):
        assert not any(opened(old(array([1], [1], data_type, fill_value=None)))[...].tobytes())


@pytest.mark.rule("Z9", "X25")
def test_both_keys_of_older_arrays_without_dimensions_are_read() -> None:
    assert opened(old(array([], []), {"c0": b"\7"}))[()] == 7
    assert opened(old(array([], []), {"c": b"\7"}))[()] == 7
    store = old_array(7, "u1", codecs=[])
    assert store.list() == ["data/root/a/c0", "meta/root/a.array.json", "zarr.json"]


@pytest.mark.rule("Z10")
def test_members_of_documents() -> None:
    seven = {"attributes", "chunk_grid", "chunk_memory_layout", "data_type", "extensions", "fill_value", "shape"}
    assert set(document(old_array([1, 2], "<u2", codecs=[]), KEY)) == seven
    assert set(document(old_array([1, 2], "<u2", codecs=[Gzip(level=1)]), KEY)) == {*seven, "compressor"}
    store = MemoryStore()
    frazil.create_group(store, path="g", attributes={"a": 1}, zarr_format="draft-2021")
    assert document(store, "meta/root/g.group.json") == {"attributes": {"a": 1}}


@pytest.mark.rule("Z12")
def test_shards_with_holes() -> None:
    """The offsets that zarr-python leaves after writing row by row, and the entry of an erased chunk."""
    transformer = {
        "extension": "https://purl.org/zarr/spec/storage_transformers/sharding/1.0",
        "type": "indexed",
        "configuration": {"chunks_per_shard": [2, 2]},
    }
    chunks = [bytes([value]) * 4 for value in (4, 2, 3, 1)]
    shard = b"".join(chunks) + index([(12, 4), (4, 4), (2**64 - 1, 2**64 - 1), (0, 4)])
    store = old(array([4, 4], [2, 2], storage_transformers=[transformer]), {"c0/0": shard})
    assert opened(store)[...].tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [0, 0, 4, 4], [0, 0, 4, 4]]


@pytest.mark.rule("Z13")
def test_consolidated_metadata_is_skipped() -> None:
    keys = {
        "meta/root/g/a.array.json": array(),
        "meta/root/consolidated.group.json": {"attributes": {}},
        "meta/root/consolidated/.zmetadata": {"metadata": {"meta/root/g/a.array.json": array(fill_value=9)}},
    }
    store = hierarchy(keys, OLD_ENTRY)
    root = frazil.open_group(store)
    assert sorted(path for path, _ in root.members(max_depth=None)) == ["consolidated", "g", "g/a"]
    assert list(root["consolidated"]) == []
    assert root["g/a"][0] == 0


@pytest.mark.rule("Z14")
def test_chunks_that_a_deletion_left_behind() -> None:
    """The state after `del group["x"]`: no document, but chunks."""
    keys = {f"data/root/g/x/c{i}/{j}": b"\7" for i in (0, 1) for j in (0, 1)}
    store = hierarchy(
        {**keys, "meta/root/g/y.array.json": array(), "meta/root/g.group.json": {"attributes": {}}}, OLD_ENTRY
    )
    group = frazil.open_group(store, "r+", path="g")
    assert list(group) == ["y"]
    with pytest.raises(NotFoundError):
        group["x"]
    before = contents(store)
    with pytest.raises(AlreadyExistsError):
        group.create_array("y", shape=1, dtype="u1")
    assert contents(store) == before
    new = group.create_array("x", shape=(2, 2), dtype="u1", chunks=(1, 1), codecs=[])
    assert new[...].tolist() == [[0, 0], [0, 0]]


@pytest.mark.rule("Z15")
def test_groups_without_a_document_can_be_opened() -> None:
    store = hierarchy({"meta/root/imp/licit/a.array.json": array()}, OLD_ENTRY)
    for path in ("", "imp", "imp/licit"):
        assert isinstance(frazil.open_group(store, path=path), frazil.Group)
        assert isinstance(frazil.open(store, path=path), frazil.Group)


@pytest.mark.rule("Z19", "D23")
def test_chunks_at_the_edge() -> None:
    store = old(array([3], [2]), {"c0": b"\0\0", "c1": b"\5\6"})
    assert opened(store)[...].tolist() == [0, 0, 5]
    opened(store, mode="r+").resize(4)
    assert opened(store)[:3].tolist() == [0, 0, 5]


@pytest.mark.rule("X14")
def test_absent_members() -> None:
    assert read(described("u1", extensions=MISSING, attributes=MISSING, fill_value=MISSING), b"\1\2") == [1, 2]
