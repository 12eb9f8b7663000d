"""Documents that Frazil writes again contain all that the draft requires, even if the document that was read did not (draft of 2022, Array metadata)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import frazil
from frazil.stores import LocalStore, MemoryStore, Store
from tests.conformance.draft.documents import (
    EMPTY,
    ENTRY,
    MISSING,
    OLD_ENTRY,
    array,
    compressor,
    contents,
    document,
    extension_type,
    hierarchy,
    index,
    old,
    one,
    opened,
    sharding,
)

ENTRIES = {"draft": (one, ENTRY, "meta/a.array.json"), "draft-2021": (old, OLD_ENTRY, "meta/root/a.array.json")}
DIALECTS = tuple(ENTRIES)
BARE_GRID = {"type": "regular", "chunk_shape": [2]}


def stored(dialect: str, made: object) -> tuple[MemoryStore, str]:
    """A hierarchy with one array, with this document, and the key of the document."""
    put, _, key = ENTRIES[dialect]
    return put(made), key


def in_other_place(store: Store) -> MemoryStore:
    target = MemoryStore()
    frazil.copy(store, target)
    return target


def converted(dialect: str) -> Callable[[Store], MemoryStore]:
    def convert(store: Store) -> MemoryStore:
        target = MemoryStore()
        frazil.convert(store, target, zarr_format=dialect)
        return target

    return convert


def changed(store: MemoryStore) -> MemoryStore:
    opened(store, mode="r+").attrs["units"] = "m"
    return store


def resized(store: MemoryStore) -> MemoryStore:
    opened(store, mode="r+").resize((6,))
    return store


REWRITES = {"attributes": changed, "resize": resized, "copy": in_other_place}


@pytest.mark.rule("D53", "X6")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("rewrite", REWRITES.values(), ids=REWRITES)
def test_a_rewrite_replaces_a_null_fill_value_by_a_fixed_one(
    rewrite: Callable[[Store], MemoryStore], dialect: str
) -> None:
    for data_type, zero in (
        ("int16", 0),
        ("bool", False),
        ("float64", 0.0),
        ("complex64", [0.0, 0.0]),
        (extension_type("datetime", "<M8[ns]", fallback="int64"), 0),
    ):
        store, key = stored(dialect, array(data_type=data_type, fill_value=None))
        made = rewrite(store)
        assert document(made, key)["fill_value"] == zero, data_type
        assert document(made, key)["data_type"] == data_type
        again = frazil.open_array(made, path="a")
        assert again[...].tobytes() == bytes(again.nbytes)


@pytest.mark.rule("D53", "X6")
@pytest.mark.parametrize(
    ("dialect", "other"), [DIALECTS, DIALECTS[::-1], ("draft", "draft"), ("draft-2021", "draft-2021")]
)
def test_a_conversion_writes_a_fixed_fill_value(dialect: str, other: str) -> None:
    store, _ = stored(dialect, array(fill_value=None))
    made = converted(other)(store)
    assert document(made, ENTRIES[other][2])["fill_value"] == 0


@pytest.mark.rule("X7", "X14")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("rewrite", REWRITES.values(), ids=REWRITES)
def test_a_rewrite_writes_the_separator_extensions_and_attributes_that_were_absent(
    rewrite: Callable[[Store], MemoryStore], dialect: str
) -> None:
    store, key = stored(dialect, array(chunk_grid=BARE_GRID, extensions=MISSING, attributes=MISSING))
    before = document(store, key)
    assert "extensions" not in before
    made = document(rewrite(store), key)
    assert made["chunk_grid"] == {**BARE_GRID, "separator": "/"}
    assert made["extensions"] == []
    assert isinstance(made["attributes"], dict)


@pytest.mark.rule("X7", "X14")
def test_a_rewrite_keeps_all_other_words_of_a_document() -> None:
    plain = array(
        chunk_grid={**BARE_GRID, "separator": "."},
        data_type="<i4",
        extensions=[{"extension": "https://example.org/x", "must_understand": False}],
        codecs=[{"type": "http://purl.org/zarr/spec/codec/gzip", "configuration": {"level": 1}}],
    )
    for rewrite in REWRITES.values():
        store = one(plain)
        rewritten = document(rewrite(store))
        assert {**rewritten, "shape": [4], "attributes": {}} == plain
    grid = {"extension": "https://example.org/nobody", "type": "x"}
    store = one(array(chunk_grid=grid, fill_value=None))
    assert contents(in_other_place(store)) == contents(store), "what cannot be read is copied as it is"


@pytest.mark.rule("W2", "W3")
def test_a_rewrite_gives_the_grid_of_a_prototype_no_separator() -> None:
    """Their chunks have names of another form, recognized by the missing separator."""
    entry = {**OLD_ENTRY, "metadata_encoding": "application/json", "metadata_key_suffix": ""}
    store = hierarchy({"meta/root/a.array": array(chunk_grid=BARE_GRID, fill_value=None), "data/a/0": b"\1\2"}, entry)
    opened(store, mode="r+").attrs["units"] = "m"
    made = document(store, "meta/root/a.array")
    assert made["chunk_grid"] == BARE_GRID
    assert made["fill_value"] == 0
    assert opened(store)[...].tolist() == [1, 2, 0, 0]


@pytest.mark.rule("D53", "X6")
def test_a_copy_completes_every_hierarchy_that_it_holds(tmp_path: Path) -> None:
    """Hierarchies below the location, nodes named `meta`, folders; shards and codecs stay unchanged."""
    source = LocalStore(tmp_path / "source")
    sharded = array(fill_value=None, storage_transformers=[sharding([2])])
    packed = array(fill_value=None, compressor=compressor("gzip", level=1))
    shard = b"\5\6" + index([(0, 2), EMPTY])
    for prefix, store in (
        ("new/", hierarchy({"meta/meta/a.array.json": sharded, "data/meta/a/c0": shard})),
        ("old/", hierarchy({"meta/root/a.array.json": packed}, OLD_ENTRY)),
    ):
        for key in store.list():
            value = store.get(key)
            assert value is not None
            source.set(prefix + key, value)
    target = LocalStore(tmp_path / "target")
    frazil.copy(source, target, verify=True)
    assert target.list() == source.list()
    for key in source.list():
        if not key.endswith("a.array.json"):
            assert target.get(key) == source.get(key), key
    assert document(target, "new/meta/meta/a.array.json") == {**sharded, "fill_value": 0}  # type: ignore[arg-type]
    assert document(target, "old/meta/root/a.array.json") == {**packed, "fill_value": 0}  # type: ignore[arg-type]
    assert frazil.open_array(target, path="new/meta/a")[...].tolist() == [5, 6, 0, 0]
