"""Hierarchies of the older dialect as written by programs other than zarr-python (W rules of docs/conformance/zarr-draft.md), created by hand."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib

import numpy as np
import pytest

import frazil
from frazil.stores import MemoryStore
from tests.conformance.draft.documents import (
    CORE,
    OLD_CORE,
    OLD_ENTRY,
    OLD_SHARDING,
    changed,
    compressor,
    encoded,
    hierarchy,
    index,
    refusal,
)

VALUES = np.arange(12, dtype="u2").reshape(3, 4)
GZIP = {"codec": "https://purl.org/zarr/spec/codec/gzip/1.0", "configuration": {"level": 6}}


def chunks(values: np.ndarray, chunk: tuple[int, int], encode=lambda data: data) -> dict[tuple[int, int], bytes]:
    """The chunks of a two-dimensional array, those at the edge padded with zeros."""
    found = {}
    for i in range(-(-values.shape[0] // chunk[0])):
        for j in range(-(-values.shape[1] // chunk[1])):
            whole = np.zeros(chunk, values.dtype)
            part = values[i * chunk[0] : (i + 1) * chunk[0], j * chunk[1] : (j + 1) * chunk[1]]
            whole[: part.shape[0], : part.shape[1]] = part
            found[i, j] = encode(whole.tobytes())
    return found


def described(data_type: object, **more: object) -> dict[str, object]:
    return {
        "shape": [3, 4],
        "data_type": data_type,
        "chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "separator": "/"},
        "chunk_memory_layout": "C",
        "extensions": [],
        "fill_value": None,
        "attributes": {},
        **more,
    }


def stored(
    document: object, found: dict[tuple[int, int], bytes], entry: object = OLD_ENTRY, **more: object
) -> MemoryStore:
    data = {f"data/root/ds/a/c{i}/{j}": value for (i, j), value in found.items()}
    return hierarchy({"meta/root/ds/a.array.json": document, **data, **more}, entry)


def agrees(store: MemoryStore, values: np.ndarray = VALUES, path: str = "ds/a") -> bool:
    """Checks that it is opened, listed and read, and then written and read again."""
    root = frazil.open_group(store)
    assert path in dict(root.members(max_depth=None))
    assert frazil.open_array(store, path=path)[...].tolist() == values.tolist()
    written = frazil.open_array(store, "r+", path=path)
    written[1, 1:3] = 9
    expected = values.copy()
    expected[1, 1:3] = 9
    written.attrs["new"] = 1
    again = frazil.open_array(store, path=path)
    return again[...].tolist() == expected.tolist() and again.attrs["new"] == 1


@pytest.mark.rule("W1")
@pytest.mark.parametrize("fill", [None, 7, "NaN"])
def test_gdal(fill: object) -> None:
    """Groups with extensions, escaped slashes, null for no fill value."""
    data_type = "<f8" if fill == "NaN" else "<u2"
    document = json.dumps(
        described(data_type, compressor=GZIP, fill_value=fill, attributes={"_CRS": {"wkt": "x/y"}}), indent=2
    ).replace("/", "\\/")
    entry = json.dumps(OLD_ENTRY, indent=2).replace("/", "\\/")
    group = json.dumps({"extensions": [], "attributes": {}}).replace("/", "\\/")
    found = chunks(VALUES.astype(data_type), (2, 3), gzip.compress)
    more = {"meta/root.group.json": group, "meta/root/ds.group.json": group}
    store = stored(document, found, entry, **more)
    assert frazil.open_array(store, path="ds/a").attrs["_CRS"] == {"wkt": "x/y"}
    assert agrees(store, VALUES.astype(data_type))
    del found[1, 1]
    expected = VALUES.astype(data_type)
    expected[2:, 3:] = np.nan if fill == "NaN" else fill or 0
    assert np.array_equal(
        frazil.open_array(stored(document, found, entry, **more), path="ds/a")[...], expected, equal_nan=True
    )


@pytest.mark.rule("W1")
def test_gdal_with_an_array_at_the_top_and_dimensions_as_attributes() -> None:
    document = described("<u2", attributes={"_ARRAY_DIMENSIONS": ["y", "x"]})
    data = {f"data/root/band/c{i}/{j}": value for (i, j), value in chunks(VALUES, (2, 3)).items()}
    store = hierarchy(
        {"meta/root.group.json": {"extensions": [], "attributes": {}}, "meta/root/band.array.json": document, **data},
        OLD_ENTRY,
    )
    assert agrees(store, path="band")


@pytest.mark.rule("W2")
def test_zarrita() -> None:
    group = {"extensions": [], "attributes": {"spam": "ham"}}
    document = described("<u2", compressor={**GZIP, "configuration": {"level": 1}})
    store = stored(document, chunks(VALUES, (2, 3), gzip.compress), **{"meta/root/ds.group.json": group})
    assert dict(frazil.open_group(store, path="ds").attrs) == {"spam": "ham"}
    assert agrees(store)
    scalar = {**described("<i4"), "shape": [], "chunk_grid": {"type": "regular", "chunk_shape": [], "separator": "/"}}
    store = hierarchy({"meta/root/s.array.json": scalar, "data/root/s/c": b"\5\0\0\0"}, OLD_ENTRY)
    assert frazil.open_array(store, path="s")[()] == 5


@pytest.mark.rule("W3")
def test_xtensor_zarr() -> None:
    grid = {"type": "regular", "chunk_shape": [2, 3], "separator": "."}
    document = described("<f8", chunk_grid=grid, fill_value=0.0, compressor=compressor("zlib", level=1))
    document.pop("extensions")
    found = chunks(VALUES.astype("<f8"), (2, 3), zlib.compress)
    data = {f"data/root/ds/a/c{i}.{j}": value for (i, j), value in found.items()}
    store = hierarchy(
        {
            "meta/root/ds/a.array.json": document,
            "meta/root/ds.group.json": {"attributes": {}, "extensions": []},
            **data,
        },
        OLD_ENTRY,
    )
    assert agrees(store, VALUES.astype("<f8"))


def sharded(values: np.ndarray, document: dict[str, object], entry: object = OLD_ENTRY) -> MemoryStore:
    """One shard of two by two chunks, the array at the path 0, named as acquire names it."""
    data, entries = b"", []
    for value in chunks(values, (2, 3)).values():
        entries.append((len(data), len(value)))
        data += value
    transformer = {"extension": OLD_SHARDING, "type": "indexed", "configuration": {"chunks_per_shard": [2, 2]}}
    document = {**document, "storage_transformers": [transformer]}
    return hierarchy(
        {
            "meta/acquire.json": {"a": "metadata of the instrument"},
            "meta/root.group.json": {"attributes": {"multiscales": [{"datasets": [{"path": "0"}], "version": "0.4"}]}},
            "meta/root/0.array.json": document,
            "data/root/0/c0/0": data + index(entries),
        },
        entry,
    )


@pytest.mark.rule("W4")
@pytest.mark.parametrize("name", ["u1", "u2", "i1", "i2", "f4"])
def test_acquire_with_types_without_a_byte_order(name: str) -> None:
    values = VALUES.astype(name)
    assert agrees(sharded(values, described(name, fill_value=0)), values, path="0")


@pytest.mark.rule("W5")
@pytest.mark.parametrize(
    "name", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"]
)
def test_acquire_with_types_by_their_core_names(name: str) -> None:
    values = VALUES.astype(name)
    assert agrees(sharded(values, described(name, fill_value=0, compressor=None)), values, path="0")
    blosc = compressor("blosc", cname="zstd", clevel=1, shuffle=1, blocksize=0)
    store = sharded(values, described(name, fill_value=0, compressor=blosc))
    store.erase("data/root/0/c0/0")
    frazil.open_array(store, "r+", path="0")[...] = values
    assert agrees(store, values, path="0")


@pytest.mark.rule("W6", "X4c")
def test_the_new_uri_with_the_older_layout() -> None:
    entry = changed(OLD_ENTRY, {"zarr_format": CORE, "metadata_encoding": CORE})
    assert agrees(stored(described("<u2"), chunks(VALUES, (2, 3)), entry))


PROTOTYPE = {"zarr_format": OLD_CORE, "metadata_encoding": "application/json", "extensions": []}


def prototype(root: str, **change: object) -> dict[str, dict[str, object] | bytes]:
    """Data written in 2020, before the draft had its suffix and its names of chunks. root: the prefix of the path of chunks."""
    grid = {"type": "regular", "chunk_shape": [2, 3]}
    gzipped = compressor("gzip", level=1)
    document = described("<u2", **{"chunk_grid": grid, "compressor": gzipped, **change})
    found = chunks(VALUES, (2, 3), gzip.compress)
    return {
        "meta/root/arthur/dent.array": document,
        "meta/root/tricia/mcmillan.group": {"extensions": [], "attributes": {"heart": "gold"}},
        **{f"{root}arthur/dent/{i}.{j}": value for (i, j), value in found.items()},
    }


@pytest.mark.rule("X5", "W2")
@pytest.mark.parametrize("attributes", [None, {"answer": 42}])
def test_zarrita_of_2020(attributes: object) -> None:
    """Documents without a suffix, chunks without /root and without the letter; null for no attributes."""
    store = hierarchy(prototype("data/", attributes=attributes), PROTOTYPE)
    root = frazil.open_group(store, "r+")
    assert list(root) == ["arthur", "tricia"]
    assert dict(root["tricia/mcmillan"].attrs) == {"heart": "gold"}
    assert dict(root["arthur/dent"].attrs) == (attributes or {})
    assert agrees(store, path="arthur/dent")
    root.create_array("marvin", data=VALUES, chunks=(2, 3))
    assert root["marvin"][...].tolist() == frazil.open_array(store, path="marvin")[...].tolist() == VALUES.tolist()


@pytest.mark.rule("X5", "W3")
def test_xtensor_zarr_of_2020() -> None:
    """Like zarrita, but with /root, types by their core names, and a list for no attributes."""
    keys = prototype("data/root/", attributes=[])
    keys["meta/root/arthur/dent.array"] = changed(keys["meta/root/arthur/dent.array"], {"data_type": "uint16"})
    assert agrees(hierarchy(keys, PROTOTYPE), path="arthur/dent")


@pytest.mark.rule("X5")
def test_a_node_named_root_in_a_prototype() -> None:
    """Its chunks are not at the same keys as the others'."""
    grid = {"type": "regular", "chunk_shape": [2, 3]}
    data = {f"data/root/{i}.{j}": value for (i, j), value in chunks(VALUES, (2, 3)).items()}
    store = hierarchy({"meta/root/root.array": described("<u2", chunk_grid=grid), **data}, PROTOTYPE)
    assert agrees(store, path="root")


def shards_of_zarrita() -> MemoryStore:
    document = described("<u2", fill_value=0, shards=[2, 2], shard_format="indexed")
    store = sharded(VALUES, document)
    store.set("meta/root/0.array.json", encoded(document))
    return store


@pytest.mark.rule("W2")
def test_zarrita_with_shards_before_there_were_transformers() -> None:
    """The members `shards` and `shard_format`, the same bytes."""
    store = shards_of_zarrita()
    kept = json.loads(store.get("meta/root/0.array.json") or b"")
    assert frazil.open_array(store, path="0").shards == (4, 6)
    assert agrees(store, path="0")
    assert json.loads(store.get("meta/root/0.array.json") or b"")["shards"] == [2, 2]
    for change, member in (
        ({"shard_format": "morton_order"}, "shard_format"),
        ({"shards": [2]}, "storage_transformers[0]"),
    ):
        error = refusal(hierarchy({"meta/root/a.array.json": {**kept, **change}}, OLD_ENTRY))
        assert str(error.path).startswith(member)
    for none in ({"shards": None}, {"shards": None, "shard_format": "indexed"}):
        assert agrees(stored({**described("<u2"), **none}, chunks(VALUES, (2, 3))))


@pytest.mark.rule("W1")
@pytest.mark.parametrize(("word", "number"), [("NONE", 0), ("BYTE", 1), ("BIT", 2)])
def test_the_words_of_gdal_for_shuffles(word: str, number: int) -> None:
    by_number = compressor("blosc", cname="lz4", clevel=5, shuffle=number, blocksize=0)
    store = stored(described("<u2", compressor=by_number), {})
    frazil.open_array(store, "r+", path="ds/a")[...] = VALUES
    by_word = described("<u2", compressor=compressor("blosc", cname="lz4", clevel=5, shuffle=word, blocksize=0))
    store.set("meta/root/ds/a.array.json", json.dumps(by_word).encode())
    assert agrees(store)


@pytest.mark.rule("W1")
def test_the_delta_of_gdal_in_xz() -> None:
    """The configuration has the same values as the frames."""
    filters = [{"id": lzma.FILTER_DELTA, "dist": 1}, {"id": lzma.FILTER_LZMA2, "preset": 6}]
    found = chunks(VALUES, (2, 3), lambda data: lzma.compress(data, filters=filters))
    assert agrees(stored(described("<u2", compressor=compressor("lzma", preset=6, delta=1)), found))


@pytest.mark.parametrize("target", [3, "draft"])
@pytest.mark.parametrize("root", ["data/", "data/root/", None])
def test_prototypes_are_converted(root: str | None, target: int | str) -> None:
    """In place, and to another store; chunks and shards stay unchanged."""
    for elsewhere in (True, False):
        store = hierarchy(prototype(root), PROTOTYPE) if root else shards_of_zarrita()
        to = MemoryStore() if elsewhere else None
        frazil.convert(store, to, zarr_format=target)
        array = frazil.open_array(to or store, path="arthur/dent" if root else "0")
        assert array[...].tolist() == VALUES.tolist()
        assert array.metadata.zarr_format == target
