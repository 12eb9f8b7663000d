"""Arrays in stores that can create and replace keys, but not remove them: chunks that become all fill value are written (draft of 2022, Abstract store
interface)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conformance.draft.documents import array as document
from tests.conformance.draft.documents import one, sharding
from tests.pairs import pairs

import frazil
from frazil.errors import StoreError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.stores import LocalStore, MemoryStore, ShardingStore, Store, WrappedStore, adapt
from frazil.stores.values import Capabilities, Changed, Version

FILL = 9
VALUES = np.arange(1, 65, dtype="i4").reshape(8, 8)


class Unerasable(WrappedStore):
    """A store that refuses every removal."""

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(erasable=False)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        raise StoreError("nothing can be erased here", key=names[0])

    def erase_prefix(self, prefix: str) -> None:
        raise StoreError("nothing can be erased here", key=prefix)


class Table:
    """An object with three of the draft's operations: without versions and conditions."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def list(self) -> Iterable[str]:
        return list(self.values)


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: Unerasable(MemoryStore()),
    "disk": lambda path: Unerasable(LocalStore(path / "a")),
    "object": lambda _: adapt(Table()),
    "sole writer": lambda _: adapt(Table(), sole_writer=True),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made = STORES[request.param](tmp_path)
    assert not made.capabilities.erasable
    return made


RAGGED = (slice(0, 7), slice(2, 7))
LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": (2, 2)},
    "one chunk": {"chunks": (8, 8)},
    "shards": {"chunks": (2, 2), "shards": (4, 4)},
    "transposed": {
        "chunks": (4, 4),
        "codecs": [
            {"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "bytes", "configuration": {"endian": "little"}},
        ],
    },
}


FORMATS = [3, "draft", "draft-2021"]
WHERE: dict[str, Any] = {
    "all": ...,
    "one chunk": (slice(0, 2), slice(0, 2)),
    "parts": (slice(1, 7), slice(3, 8)),
    "element": (0, 0),
    "steps": (slice(None, None, 3), slice(1, None, 2)),
}
in_stores = pytest.mark.parametrize(
    ("store", "zarr_format", "layout"), pairs(STORES, FORMATS, LAYOUTS), indirect=["store"]
)


@pytest.fixture
def array(store: Store, zarr_format: int | str, layout: str) -> frazil.Array:
    made = frazil.create_array(
        store, path="a", shape=(8, 8), dtype="i4", fill_value=FILL, zarr_format=zarr_format, **LAYOUTS[layout]
    )
    made[...] = VALUES
    return made


@pytest.mark.rule("D66")
@pytest.mark.parametrize(
    ("store", "zarr_format", "layout", "name"), pairs(STORES, FORMATS, LAYOUTS, WHERE), indirect=["store"]
)
def test_chunks_of_fill_values_are_written(array: frazil.Array, name: str) -> None:
    where, expected = WHERE[name], VALUES.copy()
    for value in (FILL, 5, FILL):
        array[where] = value
        expected[where] = value
        assert array[...].tolist() == expected.tolist()
        again = frazil.open_array(array.store, path="a")
        assert again[...].tolist() == expected.tolist()
        assert again[0, 0] == expected[0, 0]
    array[...] = np.full((8, 8), FILL)
    assert (frazil.open_array(array.store, path="a")[...] == FILL).all()


@pytest.mark.rule("D66")
@in_stores
def test_elements_do_not_come_back_when_an_array_shrinks_and_grows(array: frazil.Array) -> None:
    array.resize((3, 5))
    array.resize((8, 8))
    expected = np.full((8, 8), FILL)
    expected[:3, :5] = VALUES[:3, :5]
    assert frazil.open_array(array.store, path="a")[...].tolist() == expected.tolist()


@pytest.mark.rule("D66")
@in_stores
def test_chunks_that_reach_beyond_the_array_are_written(array: frazil.Array) -> None:
    array.resize((7, 7))
    array[RAGGED] = FILL
    expected = VALUES[:7, :7].copy()
    expected[RAGGED] = FILL
    array[6, 6] = FILL
    assert frazil.open_array(array.store, path="a")[...].tolist() == expected.tolist()
    array.resize((8, 8))
    assert (frazil.open_array(array.store, path="a")[7:] == FILL).all()


@pytest.mark.rule("D66")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_fill_values_are_not_written_where_nothing_is(store: Store, layout: dict[str, Any]) -> None:
    made = frazil.create_array(store, path="b", shape=(8, 8), dtype="i4", fill_value=FILL, **layout)
    made[...] = FILL
    assert [key for key in store.list() if "/c/" in key] == []


# --- the sharding transformer ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def shards(store: Store) -> ShardingStore:
    made = ShardingStore(store, "data/a/", DraftKeys("/"), (2, 2))
    for row in range(4):
        for column in range(4):
            made.set(f"data/a/c{row}/{column}", bytes([row, column]))
    made.set("zarr.json", b"{}")
    return made


@pytest.mark.rule("D66", "D94")
def test_erasing_chunks_of_shards_marks_them_missing(store: Store, shards: ShardingStore) -> None:
    erased = ["data/a/c0/0", *(f"data/a/c{row}/{column}" for row in (2, 3) for column in (0, 1)), "data/a/c9/9"]
    shards.erase_values(erased)
    assert shards.list_prefix("data/a/") == sorted(
        key for row in range(4) for column in range(4) if (key := f"data/a/c{row}/{column}") not in erased
    )
    assert [shards.get(key) for key in erased] == [None] * 6
    assert shards.get("data/a/c0/1") == b"\0\1"
    index = store.get("data/a/c1/0")
    assert index == b"\xff" * 64, "a shard without chunks: no bytes but an index that is all 2^64 - 1"
    shards.erase_values([f"data/a/c{row}/{column}" for row in (8, 9) for column in (8, 9)])
    assert not store.exists("data/a/c4/4"), "a shard that was never there is not written"
    shards.erase("data/a/c0/1")
    assert shards.get("data/a/c0/1") is None
    shards.erase_prefix("data/a/c3/")
    assert all(not key.startswith("data/a/c3") for key in shards.list())
    shards.erase_prefix("data/a/")
    assert shards.list() == ["zarr.json"]
    shards.set("data/a/c2/1", b"again")
    assert shards.list() == ["data/a/c2/1", "zarr.json"]


@pytest.mark.rule("D66", "D94")
def test_erasing_other_keys_is_refused_before_anything_is_erased(shards: ShardingStore) -> None:
    before = {key: shards.get(key) for key in shards.list()}
    for act in (
        lambda: shards.erase_values(["data/a/c0/0", "zarr.json"]),
        lambda: shards.erase("zarr.json"),
        lambda: shards.erase_prefix(""),
    ):
        with pytest.raises(StoreError, match="not erasable"):
            act()
        assert {key: shards.get(key) for key in shards.list()} == before


@pytest.mark.rule("D66")
def test_an_array_over_shards_of_a_store_that_cannot_erase() -> None:
    """The transformer as a store, behind a transformer of the user."""
    plain = one(document([8], [1], "uint8", fill_value=FILL))
    inner = Unerasable(plain)
    opened = frazil.open_array(
        inner,
        "r+",
        path="a",
        storage_transformers=[lambda store: ShardingStore(store, "data/a/", DraftKeys("/"), (4,))],
    )
    opened[...] = np.arange(8)
    opened[2:7] = FILL
    assert opened[...].tolist() == [0, 1, *[FILL] * 5, 7]
    assert len([key for key in plain.list() if key.startswith("data/")]) == 2
    declared = one(document([8], [1], "uint8", fill_value=FILL, storage_transformers=[sharding([4])]))
    same = frazil.open_array(Unerasable(declared), "r+", path="a")
    same[...] = np.arange(8)
    same[:4] = FILL
    assert declared.get("data/a/c0") == b"\xff" * 64
    assert same[...].tolist() == [*[FILL] * 4, *range(4, 8)]
