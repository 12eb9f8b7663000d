"""Shards whose index gets another form: from any form, at any depth, all values stay, and only indexes are decoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operations.archives import assert_same

import frazil
from frazil.codecs import Bytes, Crc32c, Gzip, ShardingIndexed, Transpose
from frazil.errors import ChecksumError, ConversionError, FormatError
from frazil.runtime import Runtime
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.testing import CountingStore

INDEXES = [
    [Bytes("little")],
    [Bytes("little"), Crc32c()],
    [Bytes("big")],
    [Bytes("big"), Crc32c()],
    [Bytes("little"), Crc32c(), Crc32c()],
    [Transpose([1, 0, 2]), Bytes("little"), Crc32c()],
]
FORMS = st.tuples(st.sampled_from(INDEXES), st.sampled_from(["start", "end"]))


def sharded(store: Store, forms: list[tuple[list[object], str]], boxes: list[tuple[int, int]], path: str = "") -> None:
    """An array of 64 x 48 in shards of 32 x 16, with one level per form, partly written."""
    codecs: list[object] = [Bytes("little"), Gzip(1)]
    for depth, (index, location) in reversed(list(enumerate(forms))):
        inner = [(16, 8), (8, 4), (4, 2)][depth]
        codecs = [ShardingIndexed(inner, codecs, index, location)]  # type: ignore[arg-type]
    array = frazil.create_array(
        store, path=path, shape=(64, 48), dtype="<i4", chunks=(32, 16), codecs=codecs, fill_value=-1
    )
    values = np.arange(64 * 48, dtype="<i4").reshape(64, 48)
    for row, column in boxes:
        box = slice(row, row + 7), slice(column, column + 5)
        array[box] = values[box]


@given(
    st.lists(FORMS, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 63), st.integers(0, 47)), max_size=8),
    st.sampled_from(["draft", "draft-2021"]),
    st.integers(1, 4000),
)
def test_shards_of_all_forms_convert_and_return(
    forms: list[tuple[list[object], str]], boxes: list[tuple[int, int]], zarr_format: str, limit: int
) -> None:
    store, old, back = MemoryStore(), MemoryStore(), MemoryStore()
    sharded(store, forms, boxes)
    done = frazil.convert(store, old, zarr_format=zarr_format, runtime=Runtime(bytes_in_flight=limit))
    assert done.nbytes_recoded == 0
    assert_same(store, old)
    assert frazil.open_array(old).metadata.zarr_format == zarr_format
    frazil.convert(old, back)
    assert_same(store, back)
    target = MemoryStore()
    for key in store.list():
        target.set(key, store.get(key) or b"")
    frazil.convert(target, zarr_format=zarr_format)
    assert_same(store, target)
    assert {key: target.get(key) for key in target.list()} == {key: old.get(key) for key in old.list()}


def test_a_checksum_is_cut_off_and_nothing_else_changes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "new")
    sharded(store, [(INDEXES[1], "end")], [(0, 0), (20, 30)])
    frazil.convert(store, tmp_path / "old", zarr_format="draft")
    old = LocalStore(tmp_path / "old")
    chunks = [key for key in store.list() if key.startswith("c/")]
    assert chunks
    for key in chunks:
        assert (store.get(key) or b"")[:-4] == old.get("data/c" + key[2:])


def test_chunks_are_fetched_once_and_indexes_before(tmp_path: Path) -> None:
    store = MemoryStore()
    sharded(store, [(INDEXES[1], "start"), (INDEXES[1], "end")], [(0, 0), (0, 8), (20, 30)])
    counting = CountingStore(store)
    done = frazil.convert(counting, MemoryStore(), zarr_format="draft")
    fetched = sum(request.nbytes for request in counting.requests if request.operation == "fetch")
    assert done.nbytes < fetched < done.nbytes + 4096, "documents, and each index twice"


@pytest.mark.parametrize("location", ["start", "end"])
def test_a_damaged_index_is_an_error_and_the_source_stays(location: str) -> None:
    store, to = MemoryStore(), MemoryStore()
    sharded(store, [(INDEXES[1], location)], [(0, 0), (20, 30)])
    key = next(key for key in store.list() if key.startswith("c/"))
    value = bytearray(store.get(key) or b"")
    value[5 if location == "start" else -5] ^= 1
    store.set(key, value)
    before = {name: store.get(name) for name in store.list()}
    for destination in (to, None):
        with pytest.raises(ChecksumError) as caught:
            frazil.convert(store, destination, zarr_format="draft")
        assert caught.value.key == key
    assert before == {name: store.get(name) for name in before}
    with pytest.raises(ChecksumError):
        frazil.open_array(store)[...]
    store.set(key, b"short")
    with pytest.raises(FormatError) as caught_short:
        frazil.convert(store, to, zarr_format="draft")
    assert caught_short.value.key == key


def test_an_inner_chunk_that_overlaps_the_index_is_an_error_and_nothing_is_written() -> None:
    store, to = MemoryStore(), MemoryStore()
    codecs = [ShardingIndexed((2,), [Bytes("little")], [Bytes("little"), Crc32c()])]
    frazil.create_array(store, shape=(4,), dtype="u1", chunks=(4,), codecs=codecs)
    table = np.array([(0, 2), (34, 2)], "<u8").tobytes()
    shard = b"ab" + INDEXES[1][1].encode(table)  # type: ignore[attr-defined]
    store.set("c/0", shard)
    with pytest.raises(FormatError, match="into the index") as caught:
        frazil.convert(store, to, zarr_format="draft")
    assert caught.value.key == "c/0"
    assert store.get("c/0") == shard


def test_shards_that_no_transformer_can_have_are_encoded_again_or_refused() -> None:
    store, to = MemoryStore(), MemoryStore()
    sharding = ShardingIndexed((2, 3), [Bytes("little")])
    frazil.create_array(store, path="around", shape=(4, 6), dtype="i4", chunks=(4, 6), codecs=[sharding, Gzip(1)])
    before = ShardingIndexed((3, 2), [Bytes("little")])
    frazil.create_array(
        store, path="before", shape=(4, 6), dtype="i4", chunks=(4, 6), codecs=[Transpose([1, 0]), before]
    )
    for array in dict(frazil.open_group(store, "r+").arrays()).values():
        array[1:3] = np.arange(12).reshape(2, 6)
    with pytest.raises(ConversionError) as caught:
        frazil.convert(store, to, zarr_format="draft")
    assert [refusal[0] for refusal in caught.value.refusals] == ["around", "before"]
    assert to.list() == []
    done = frazil.convert(store, to, zarr_format="draft", recode=True)
    assert [array.way for array in done.arrays] == ["recoded", "recoded"]
    for path in ("around", "before"):
        array, twin = frazil.open_array(store, path=path), frazil.open_array(to, path=path)
        np.testing.assert_array_equal(array[...], twin[...])
