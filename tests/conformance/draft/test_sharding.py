"""Shards of the sharding storage transformer, byte by byte, through the array (docs/conformance/zarr-draft.md). The transformer as a store is tested in
tests/stores."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import DataError, FormatError, InvalidInputError
from frazil.stores import MemoryStore
from frazil.testing import CountingStore
from tests.conformance.draft.documents import (
    EMPTY,
    OLD_SHARDING,
    SHARDING,
    array,
    codec,
    contents,
    document,
    hierarchy,
    index,
    old,
    one,
    opened,
    refused,
    sharding,
)

URIS = [
    "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0",
    "https://purl.org/zarr/spec/extensions/storage-transformers/sharding/1.0",
    "https://purl.org/zarr/spec/storage_transformers/sharding/1.0",
    "http://purl.org/zarr/spec/storage-transformers/sharding/1.0",
]
MISSING_ENTRY = 2**64 - 1


def sharded(
    per_shard: Sequence[int], shape: Sequence[int] = (4, 4), chunk: Sequence[int] = (2, 2), **change: object
) -> dict[str, object]:
    return array(shape, chunk, storage_transformers=[sharding(per_shard)], **change)


def chunk(value: int, size: int = 4) -> bytes:
    return bytes([value]) * size


def packed(chunks: list[bytes | None], order: list[int] | None = None, gap: bytes = b"") -> bytes:
    """A shard: the chunks in this order, with a gap before each, and the index."""
    data, entries = b"", [EMPTY] * len(chunks)
    for at in order if order is not None else range(len(chunks)):
        value = chunks[at]
        if value is not None:
            data += gap
            entries[at] = (len(data), len(value))
            data += value
    return data + index(entries)


@pytest.mark.rule("D80", "X4b", "Z11")
@pytest.mark.parametrize("uri", URIS)
def test_the_uris_of_sharding(uri: str) -> None:
    shard = packed([chunk(1), chunk(2), None, chunk(4)])
    for store in (
        one(array([4, 4], [2, 2], storage_transformers=[sharding([2, 2], uri)]), {"c0/0": shard}),
        old(array([4, 4], [2, 2], storage_transformers=[sharding([2, 2], uri)]), {"c0/0": shard}),
    ):
        read = opened(store)
        assert (read.chunks, read.shards) == ((2, 2), (4, 4))
        assert read[...].tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [0, 0, 4, 4], [0, 0, 4, 4]]


@pytest.mark.rule("D80", "X4b")
@pytest.mark.parametrize(
    ("dialect", "uri", "key"),
    [("draft", SHARDING, "meta/a.array.json"), ("draft-2021", OLD_SHARDING, "meta/root/a.array.json")],
)
def test_bytes_of_written_shards(dialect: str, uri: str, key: str) -> None:
    store = MemoryStore()
    frazil.create_array(store, path="a", shape=(4, 6), dtype="u1", chunks=(2, 1), shards=(2, 3), zarr_format=dialect)
    entry = {"extension": uri, "type": "indexed", "configuration": {"chunks_per_shard": [1, 3]}}
    assert document(store, key)["storage_transformers"] == [entry]
    assert document(store, key)["chunk_grid"] == {"type": "regular", "chunk_shape": [2, 1], "separator": "/"}


@pytest.mark.rule("D80")
def test_other_uris_are_not_taken_for_it() -> None:
    for uri in (
        "https://purl.org/zarr/spec/storage_transformers/sharding/2.0",
        "https://example.org/sharding/1.0",
        "sharding",
    ):
        assert str(refused(array(storage_transformers=[sharding([2], uri)]))).startswith("storage_transformers[0]")


@pytest.mark.rule("D82", "D84", "X21")
@pytest.mark.parametrize(("separator", "key"), [("/", "data/a/c3/9"), (".", "data/a/c3.9")])
def test_keys_of_shards(separator: str, key: str) -> None:
    """The document's example: 32 by 2 chunks a shard, chunks (96, 18) to (127, 19) in shard (3, 9)."""
    grid = {"type": "regular", "chunk_shape": [1, 1], "separator": separator}
    store = one(sharded([32, 2], [130, 22], [1, 1], chunk_grid=grid))
    written = opened(store, mode="r+")
    written[96:128, 18:20] = 7
    assert [key for key in store.list() if key.startswith("data/")] == [key]
    written[95, 18], written[128, 19], written[96, 20] = 1, 2, 3
    names = [f"{i}{separator}{j}" for i, j in ((2, 9), (3, 10), (3, 9), (4, 9))]
    assert [key for key in store.list() if key.startswith("data/")] == sorted(f"data/a/c{name}" for name in names)
    assert opened(store)[96:128, 18:20].tolist() == [[7, 7]] * 32


@pytest.mark.rule("D85", "X20")
def test_the_index_is_the_end_of_the_shard() -> None:
    """64 chunks: 1024 bytes, (offset, length) in C order, little-endian, no checksum."""
    store = one(sharded([32, 2], [32, 2], [1, 1]))
    values = np.arange(64, dtype="u1").reshape(32, 2) + 1
    opened(store, mode="r+")[...] = values
    shard = store.get("data/a/c0/0") or b""
    assert len(shard) == 64 + 1024
    entries = np.frombuffer(shard[-1024:], "<u8").reshape(32, 2, 2)
    for at in np.ndindex(32, 2):
        offset, length = entries[at].tolist()
        assert (length, shard[offset]) == (1, values[at])


@pytest.mark.rule("D85", "D32")
def test_codecs_are_for_each_chunk() -> None:
    values = np.arange(16, dtype="<i4").reshape(4, 4)
    chunks: list[bytes | None] = [
        gzip.compress(values[i : i + 2, j : j + 2].tobytes(order="F")) for i in (0, 2) for j in (0, 2)
    ]
    described = sharded([2, 2], data_type="int32", codecs=[codec("gzip", level=1)], chunk_memory_layout="F")
    assert opened(one(described, {"c0/0": packed(chunks)}))[...].tolist() == values.tolist()
    store = one(described)
    opened(store, mode="r+")[...] = values
    shard = store.get("data/a/c0/0") or b""
    for position, (offset, length) in enumerate(np.frombuffer(shard[-64:], "<u8").reshape(4, 2).tolist()):
        i, j = position // 2 * 2, position % 2 * 2
        assert gzip.decompress(shard[offset : offset + length]) == values[i : i + 2, j : j + 2].tobytes(order="F")


@pytest.mark.rule("D86", "D24", "D23")
def test_empty_positions() -> None:
    """Chunks beyond the array have an entry, too."""
    store = one(sharded([2, 2], [3, 5], fill_value=9))
    written = opened(store, mode="r+")
    written[0, 4] = 1
    shard = store.get("data/a/c0/1") or b""
    assert struct.unpack("<8Q", shard[-64:])[2:] == (MISSING_ENTRY,) * 6
    assert len(shard) == 4 + 64
    assert opened(store)[...].tolist() == [[9, 9, 9, 9, 1], [9] * 5, [9] * 5]
    written[0, 4] = 9
    assert not [key for key in store.list() if key.startswith("data/")], "a shard without chunks is not there"


@pytest.mark.rule("D86")
def test_shards_whose_index_is_empty() -> None:
    store = one(sharded([2, 2], fill_value=3), {"c0/0": index([EMPTY] * 4)})
    assert opened(store)[...].tolist() == [[3] * 4] * 4


@pytest.mark.rule("D87", "Z12")
@given(st.permutations(range(4)), st.sets(st.integers(0, 3)), st.binary(max_size=5))
def test_any_order_with_any_gaps(order: list[int], left_out: set[int], gap: bytes) -> None:
    chunks = [None if at in left_out else chunk(at + 1) for at in range(4)]
    store = one(sharded([2, 2]), {"c0/0": packed(chunks, order, gap)})
    expected = [
        [0 if 2 * (i // 2) + j // 2 in left_out else 2 * (i // 2) + j // 2 + 1 for j in range(4)] for i in range(4)
    ]
    assert opened(store)[...].tolist() == expected
    written = opened(store, mode="r+")
    written[0, 0] = 77
    expected[0][0] = 77
    assert opened(store)[...].tolist() == expected


@pytest.mark.rule("D88")
def test_shards_with_unused_bytes_appended_chunks_or_a_surrounding_format_are_read() -> None:
    """Fixed slots with unused bytes, chunks appended after an old index, and a surrounding format."""
    slots = b"".join(value + bytes(4) for value in (chunk(1), chunk(2), chunk(3), chunk(4)))
    fixed = slots + index([(0, 4), (8, 4), (16, 4), (24, 4)])
    first = packed([chunk(9), chunk(2), None, chunk(4)])
    appended = first + chunk(1) + chunk(3)
    appended += index([(len(first), 4), (4, 4), (len(first) + 4, 4), (8, 4)])
    foreign = b"\x89HDF\r\n\x1a\n" + bytes(100)
    other = foreign + chunk(4) + chunk(3) + chunk(2) + chunk(1) + b"tail"
    other += index([(len(foreign) + at, 4) for at in (12, 8, 4, 0)])
    for shard in (fixed, appended, other):
        store = one(sharded([2, 2]), {"c0/0": shard})
        assert opened(store)[...].tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
        assert opened(store)[3, 1:3].tolist() == [3, 4]
        opened(store, mode="r+")[:2, :2] = 8
        assert opened(store)[...].tolist() == [[8, 8, 2, 2], [8, 8, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]


@pytest.mark.rule("X18")
@pytest.mark.parametrize("entry", [(MISSING_ENTRY, 4), (0, MISSING_ENTRY)])
def test_half_an_empty_entry_is_an_error(entry: tuple[int, int]) -> None:
    store = one(sharded([2, 2]), {"c0/0": chunk(1) + index([(0, 4), entry, EMPTY, EMPTY])})
    with pytest.raises(FormatError) as caught:
        opened(store)[...]
    assert caught.value.key == "data/a/c0/0"


@pytest.mark.rule("X18", "D85")
@pytest.mark.parametrize(
    "entry", [(0, 5), (0, 3), (0, 0), (1, 4 + 64), (69, 4), (2**63, 4), (0, 2**63), (2**64 - 2, 4), (4, 2**64 - 4)]
)
def test_indexes_that_lie(entry: tuple[int, int]) -> None:
    shard = chunk(1) + index([entry, EMPTY, EMPTY, EMPTY])
    store = one(sharded([2, 2]), {"c0/0": shard})
    with pytest.raises(DataError) as caught:
        opened(store)[...]
    assert caught.value.key == "data/a/c0/0"
    with pytest.raises(DataError):
        opened(store, mode="r+")[0, 0] = 5
    assert store.get("data/a/c0/0") == shard


@pytest.mark.rule("D85")
@pytest.mark.parametrize("size", [0, 1, 63])
def test_shards_that_are_too_short(size: int) -> None:
    store = one(sharded([2, 2]), {"c0/0": bytes(size)})
    with pytest.raises(DataError):
        opened(store)[...]
    with pytest.raises(DataError):
        opened(store, mode="r+")[0, 0] = 5
    assert store.get("data/a/c0/0") == bytes(size)


@pytest.mark.rule("D83", "X1")
def test_the_transformer_acts_on_the_arrays_own_chunks() -> None:
    """Documents stay unchanged, in both dialects, at the root too."""
    for store, path, key in (
        (one(sharded([2, 2])), "a", "data/a/c0/0"),
        (old(sharded([2, 2])), "a", "data/root/a/c0/0"),
        (hierarchy({"meta/array.json": sharded([2, 2])}), "", "data/c0/0"),
        (hierarchy({"meta/root.array.json": sharded([2, 2])}), "root", "data/root/c0/0"),
    ):
        before = store.list()
        written = frazil.open_array(store, "r+", path=path)
        written[...] = 5
        assert sorted(set(store.list()) - set(before)) == [key]
        assert len(store.get(key) or b"") == 16 + 64


@pytest.mark.rule("D79")
def test_two_transformers_stack() -> None:
    """The first is next to the array: its shards are the chunks of the second."""
    inner = [packed([chunk(10 * at + 1, 1), chunk(10 * at + 2, 1)]) for at in range(3)]
    outer = packed([inner[0], inner[1], inner[2]], [2, 0, 1])
    described = array([6], [1], storage_transformers=[sharding([2]), sharding([3])])
    store = one(described, {"c0": outer})
    read = opened(store, mode="r+")
    assert (read.chunks, read.shards) == ((1,), (6,))
    assert read[...].tolist() == [1, 2, 11, 12, 21, 22]
    read[3] = 99
    assert opened(store)[...].tolist() == [1, 2, 11, 99, 21, 22]
    shard = store.get("data/a/c0") or b""
    entries = np.frombuffer(shard[-48:], "<u8").reshape(3, 2).tolist()
    offset, length = entries[1]
    second = shard[offset : offset + length]
    assert np.frombuffer(second[-32:], "<u8").reshape(2, 2)[:, 1].tolist() == [1, 1]
    made = MemoryStore()
    frazil.create_array(
        made,
        path="a",
        shape=6,
        dtype="u1",
        chunks=1,
        codecs=[],
        storage_transformers=[sharding([2]), sharding([3])],
        zarr_format="draft",
    )
    assert document(made)["storage_transformers"] == [sharding([2]), sharding([3])]


@pytest.mark.rule("X26", "D22")
def test_shards_without_dimensions() -> None:
    shard = b"\7" + index([(0, 1)])
    for counts in ([], [1]):
        for key in ("c", "c0"):
            described = array([], [], storage_transformers=[sharding(counts)])
            assert opened(one(described, {key: shard}))[()] == 7
            assert opened(old(described, {key: shard}))[()] == 7
    assert (
        refused(array([], [], storage_transformers=[sharding([2])]))
        == "storage_transformers[0].configuration.chunks_per_shard"
    )
    for dialect, key, counts, name in (
        ("draft", "meta/a.array.json", [], "data/a/c"),
        ("draft-2021", "meta/root/a.array.json", [], "data/root/a/c0"),
    ):
        store = MemoryStore()
        made = frazil.create_array(
            store, path="a", shape=(), dtype="u1", chunks=(), shards=(), codecs=[], zarr_format=dialect
        )
        made[()] = 7
        assert document(store, key)["storage_transformers"][0]["configuration"] == {"chunks_per_shard": counts}
        assert store.get(name) == shard


@pytest.mark.rule("D82")
def test_lengths_of_zero() -> None:
    store = one(sharded([2, 2], [0, 4]))
    assert opened(store)[...].shape == (0, 4)
    opened(store, mode="r+").resize((3, 4))
    assert opened(store)[...].shape == (3, 4)


@pytest.mark.rule("D77")
def test_chunks_at_the_edge_of_the_last_shard() -> None:
    values = np.arange(35, dtype="u1").reshape(5, 7)
    for dialect in ("draft", "draft-2021"):
        store = MemoryStore()
        frazil.create_array(store, path="a", data=values, chunks=(2, 2), shards=(4, 6), zarr_format=dialect)
        assert opened(store)[...].tolist() == values.tolist()
        assert opened(store)[4, 6] == 34


@pytest.mark.rule("D77", "D79")
def test_a_transformer_at_runtime_leaves_no_trace() -> None:
    store = one(array(), {"c0": b"\1\2"})
    before = contents(store)
    counted: list[CountingStore] = []

    def counting(inner: object) -> object:
        counted.append(CountingStore(inner))  # type: ignore[arg-type]
        return counted[-1]

    for open_it in (opened, lambda store, **more: frazil.open(store, path="a", **more)):
        assert open_it(store, storage_transformers=[counting])[...].tolist() == [1, 2, 0, 0]
        assert counted[-1].count(key="data/a/c0") >= 1
    group = frazil.open_group(store, storage_transformers=[counting])
    assert group["a"][...].tolist() == [1, 2, 0, 0]
    assert contents(store) == before
    with pytest.raises(InvalidInputError):
        opened(store, storage_transformers=["cache"])
