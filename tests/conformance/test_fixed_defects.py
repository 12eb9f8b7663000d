"""Errors that other implementations made once and fixed, as tests, so that they do not happen here (docs/conformance/traps.md)."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil import _kernel
from frazil.codecs import Bytes, Codec, Crc32c, Gzip, ShardingIndexed, Transpose, Zstd
from frazil.errors import AlreadyExistsError, MetadataError, NotFoundError, StoreError
from frazil.stores import LocalStore, MemoryStore
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore
from frazil.testing.checks import run_threads
from tests.conformance.shards import EMPTY, LITTLE, document, index, sharding, stored
from tests.strategies import DTYPES, Layout, create, layouts, same, values

LAYOUTS = pytest.mark.parametrize("shards", [None, 4], ids=["plain", "sharded"])


@pytest.mark.rule("trap 21")
@LAYOUTS
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_negative_zero_is_not_zero(dtype: str, shards: int | None) -> None:
    store = MemoryStore()
    array = frazil.create_array(store, shape=4, dtype=dtype, chunks=2, shards=shards)
    array[1] = -0.0
    assert np.signbit(frazil.open_array(store)[...]).tolist() == [False, True, False, False]
    negative = frazil.create_array(MemoryStore(), shape=4, dtype=dtype, chunks=2, shards=shards, fill_value=-0.0)
    negative[:2] = 0.0
    assert np.signbit(negative[...]).tolist() == [False, False, True, True]


@pytest.mark.rule("trap 22")
def test_data_given_at_creation_is_written_by_shards() -> None:
    store = CountingStore(MemoryStore())
    data = np.arange(1, 401).reshape(20, 20)
    array = frazil.create_array(store, data=data, chunks=(2, 3), shards=(6, 9))
    done = [request for request in store.requests if request.key.startswith("c/")]
    puts = sorted(request.key for request in done if request.operation == "put")
    assert puts == [f"c/{i}/{j}" for i in range(4) for j in range(3)]
    ends = {request.key for request in done if request.operation != "put"}
    assert ends == {"c/0/2", "c/1/2", "c/2/2", "c/3/0", "c/3/1", "c/3/2"}, (
        "only shards that reach beyond the end are looked up"
    )
    assert same(array[...], data)
    assert array.nchunks_initialized == array.nchunks == 70


@pytest.mark.rule("trap 23")
def test_empty_inner_chunks_behind_an_index_at_the_start() -> None:
    store = stored(document([8], [8], [sharding([2], location="start")], fill=9))
    array = frazil.open_array(store, mode="r+")
    array[4:6] = [1, 2]
    assert store.get("c/0") == index([EMPTY, EMPTY, (68, 2), EMPTY]) + b"\1\2"
    assert array[...].tolist() == [9, 9, 9, 9, 1, 2, 9, 9]
    array[4:6] = 9
    array[0] = 3
    assert store.get("c/0") == index([(68, 2), EMPTY, EMPTY, EMPTY]) + b"\3\x09"


@pytest.mark.rule("trap 25")
def test_integers_and_lists_together_on_shards() -> None:
    data = np.arange(8 * 9 * 10, dtype="i4").reshape(8, 9, 10)
    array = frazil.create_array(MemoryStore(), data=data, chunks=(2, 2, 3), shards=(4, 4, 6))
    assert same(array[5, [0, 1]], data[5, [0, 1]])
    assert same(array[[7, 0], 3, 2:8], data[[7, 0], 3, 2:8])
    assert same(array.oindex[5, [0, 8], 3], data[5, [0, 8], 3])
    assert same(array.oindex[[1, 6], :, [9, 2]], data[np.ix_([1, 6], range(9), [9, 2])])
    array.oindex[5, [0, 8]] = -1
    data[5, [0, 8]] = -1
    assert same(array[...], data)


@pytest.mark.rule("trap 26")
@LAYOUTS
def test_padding_at_the_edge_is_the_fill_value(shards: int | None) -> None:
    store = MemoryStore()
    array = frazil.create_array(store, shape=5, dtype="uint8", chunks=2, shards=shards, codecs=[], fill_value=7)
    array[...] = 1
    last = store.get("c/2" if shards is None else "c/1") or b""
    assert last[:2] == b"\1\7"
    array.resize(6)
    assert array[...].tolist() == [1] * 5 + [7]


@pytest.mark.rule("trap 27")
@given(st.integers(0, 2**32), st.permutations(["start", "end", "end"]))
def test_three_levels_of_shards(seed: int, locations: list[str]) -> None:
    """Each with an index of another location, byte order and checksum."""
    codecs: tuple[Codec, ...] = (Transpose([1, 0]), Bytes("big"), Zstd(1))
    indexes = ([Bytes("little")], [Bytes("big"), Crc32c()], [Bytes("little"), Crc32c()])
    for extent, index_codecs, location in zip(([1, 2], [2, 4], [4, 8]), indexes, locations, strict=True):
        codecs = (ShardingIndexed(extent, codecs, index_codecs, location),)
    array = create(MemoryStore(), Layout((11, 13), (8, 16), None, codecs, "end"), "uint16")
    expected = values(seed, (11, 13), array.dtype)
    array[...] = expected
    array[3:9, 5] = 7
    expected[3:9, 5] = 7
    assert same(array[...], expected)
    assert same(array[10:2:-3, ::4], expected[10:2:-3, ::4])


@pytest.mark.rule("trap 29")
@pytest.mark.parametrize("location", ["start", "end"])
def test_shards_without_dimensions(location: str) -> None:
    store = stored(document([], [], [sharding([], location=location)]))
    array = frazil.open_array(store, mode="r+")
    assert array[()] == 0
    array[...] = 5
    assert (array[()], frazil.open_array(store)[...]) == (5, 5)
    assert store.list() == ["c", "zarr.json"]
    assert len(store.get("c") or b"") == 1 + 20


@pytest.mark.rule("trap 30")
@LAYOUTS
def test_lengths_of_zero(shards: int | None) -> None:
    two = None if shards is None else (2, 4)
    array = frazil.create_array(MemoryStore(), shape=(0, 4), dtype="u1", chunks=(1, 2), shards=two)
    assert array[...].shape == (0, 4)
    array[...] = np.zeros((0, 4))
    assert array.append(np.ones((3, 4), "u1")) == (3, 4)
    assert array[...].sum() == 12
    array.resize((0, 4))
    array.resize((3, 4))
    assert array[...].sum() == 0
    # zarr-python's scripts give the shape of an empty array as its chunk shape
    assert frazil.create_array(MemoryStore(), shape=(0, 4), dtype="u1", chunks=(0, 4)).chunks == (1, 4)
    with pytest.raises(MetadataError) as caught:
        frazil.create_array(MemoryStore(), shape=(3, 4), dtype="u1", chunks=(0, 4))
    assert caught.value.path == "chunks[0]"
    with pytest.raises(MetadataError):
        frazil.open_array(stored(document([0, 4], [0, 4], [LITTLE])))


@pytest.mark.rule("trap 31")
def test_a_suffix_longer_than_the_value(tmp_path: Path) -> None:
    for store in (MemoryStore(), LocalStore(tmp_path)):
        store.set("a", b"0123456789")
        assert store.get_partial_values([("a", (-100, None)), ("a", (-100, 95))]) == [b"0123456789", b"01234"]


@pytest.mark.rule("trap 32")
@given(layouts(), st.sampled_from(DTYPES), st.integers(0, 2**32))
def test_values_in_any_layout_of_memory(layout: Layout, dtype: str, seed: int) -> None:
    array = create(MemoryStore(), layout, dtype)
    expected = values(seed, layout.shape, array.dtype)
    array[...] = np.asfortranarray(expected)
    assert same(array[...], expected)
    array[...] = expected.astype(array.dtype.newbyteorder(">"))
    assert same(array[...], expected)
    backwards = (..., *(slice(None, None, -1),) * len(layout.shape))
    array[backwards] = expected
    assert same(array[...], expected[backwards].copy())
    if layout.shape:
        array[...] = np.broadcast_to(expected[:1], layout.shape)
        assert same(array[...], np.broadcast_to(expected[:1], layout.shape).copy())


@pytest.mark.rule("trap 34")
def test_stored_values_do_not_change_with_the_buffer_of_the_caller() -> None:
    store = MemoryStore()
    value = bytearray(b"1234")
    store.set("a", value)
    value[0] = 0
    assert store.get("a") == b"1234"
    array = frazil.create_array(store, path="b", shape=4, dtype="u1", codecs=[])
    data = np.arange(4, dtype="u1")
    array[...] = data
    data[...] = 9
    out = array[...]
    assert out.tolist() == [0, 1, 2, 3]
    out[...] = 9
    assert array[...].tolist() == [0, 1, 2, 3]


@pytest.mark.rule("trap 38")
@given(layouts(), st.integers(0, 2**32))
def test_the_short_way_and_the_general_way_agree(layout: Layout, seed: int) -> None:
    array = create(MemoryStore(), layout, "int16", fill=3)
    array[...] = values(seed, layout.shape, array.dtype)
    whole = array[...]
    for place in list(np.ndindex(*layout.shape))[:: max(whole.size // 20, 1)]:
        first = array[place]
        assert same(first, whole[place])
        assert same(array[place], whole[place]), "warm too"
        assert same(array.vindex[tuple([at] for at in place)], whole[place].reshape(1)) if place else True


@pytest.mark.rule("trap 39")
@pytest.mark.parametrize("key", ["c1/2", "c/01/2", "c/-1/0", "c/1/2/3", "c/1", "c/1.2", "d/1/2", "c/1/ 2", "c/1/٢"])
def test_keys_that_name_no_chunk_are_skipped(key: str) -> None:
    array = frazil.create_array(MemoryStore(), shape=(4, 4), dtype="u1", chunks=(1, 1))
    array.store.set(key, b"x")
    assert array.nchunks_initialized == 0
    array.resize((0, 0))
    assert array.store.exists(key), "nor are they removed"


@pytest.mark.rule("trap 41")
def test_numpy_integers_in_documents() -> None:
    store = MemoryStore()
    frazil.create_array(
        store, shape=(np.int64(4), np.uint8(4)), dtype="u1", chunks=(np.int32(2), 2), shards=np.array([4, 4]),
        codecs=[Gzip(np.int64(1))],
    )  # fmt: skip
    document = json.loads(store.get("zarr.json") or b"")
    assert document["shape"] == [4, 4]
    assert document["codecs"][0]["configuration"]["chunk_shape"] == [2, 2]


@pytest.mark.rule("trap 42")
@LAYOUTS
def test_resizing_costs_the_stored_chunks(shards: int | None) -> None:
    store = CountingStore(MemoryStore())
    array = frazil.create_array(store, shape=10, dtype="u1", chunks=1, shards=shards)
    array[3] = 1
    store.clear()
    array.resize(10**12)
    assert [done.operation for done in store.requests] == ["fetch", "put"]
    store.clear()
    array.resize(5)
    assert len(store.requests) <= 5
    assert array[...].tolist() == [0, 0, 0, 1, 0]


@pytest.mark.rule("trap 43")
@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, -0.0])
def test_documents_are_strict_json(fill: float) -> None:
    store = MemoryStore()
    frazil.create_array(store, shape=1, dtype="float32", fill_value=fill)

    def refuse(text: str) -> object:
        raise AssertionError(f"{text} is not JSON")

    json.loads(store.get("zarr.json") or b"", parse_constant=refuse)
    assert same(np.asarray(frazil.open_array(store)[0]), np.asarray(np.float32(fill)))
    with pytest.raises(frazil.errors.InvalidInputError):
        frazil.create_array(store, path="b", shape=1, dtype="u1", attributes={"x": fill} if fill else {"x": np.nan})


@pytest.mark.rule("trap 44")
def test_only_mode_w_removes_existing_nodes(tmp_path: Path) -> None:
    for location in (tmp_path / "a", MemoryStore()):
        frazil.create_array(location, data=np.arange(4), chunks=2)
        for mode in ("r", "r+"):
            assert frazil.open_array(location, mode=mode)[...].tolist() == [0, 1, 2, 3]
        assert frazil.open_array(location, mode="a", shape=9, dtype="u1")[...].tolist() == [0, 1, 2, 3]
        with pytest.raises(AlreadyExistsError):
            frazil.open_array(location, mode="w-", shape=9, dtype="u1")
        assert frazil.open_array(location)[...].tolist() == [0, 1, 2, 3]
        assert frazil.open_array(location, mode="w", shape=2, dtype="u1")[...].tolist() == [0, 0]
    with pytest.raises(NotFoundError):
        frazil.open_array(MemoryStore(), mode="r+")


@pytest.mark.rule("trap 46")
@LAYOUTS
def test_a_store_that_fails_is_not_a_missing_chunk(shards: int | None) -> None:
    """If any of its answers fails: for the document, the index or the chunks."""
    inner = MemoryStore()
    frazil.create_array(inner, data=np.arange(1, 9), chunks=2, shards=shards)
    fetches = 2 if shards is None else 3
    for call in range(1, fetches + 1):
        store = FaultyStore(inner, FaultPlan([Fault("fetch", call)]))
        with pytest.raises(StoreError) as caught:
            frazil.open_array(store)[...]
        assert caught.value.key == ("zarr.json" if call == 1 else "c/0")
        assert frazil.open_array(store)[...].tolist() == list(range(1, 9)), "and nothing is remembered as missing"


@pytest.mark.rule("trap 46")
@LAYOUTS
def test_a_write_whose_store_fails_is_an_error(shards: int | None) -> None:
    inner = MemoryStore()
    frazil.create_array(inner, data=np.arange(1, 9), chunks=2, shards=shards)
    before = {key: inner.get(key) for key in inner.list()}
    for operation in ("fetch", "put_many"):
        store = FaultyStore(inner, FaultPlan([Fault(operation, 2 if operation == "fetch" else 1)]))
        array = frazil.open_array(store, mode="r+")
        with pytest.raises(StoreError):
            array[3] = 99
        assert {key: inner.get(key) for key in inner.list()} == before


@pytest.mark.rule("trap 47")
def test_the_checksum_is_castagnolis() -> None:
    assert _kernel.crc32c(b"123456789") == 0xE3069283
    assert Crc32c().encode(b"123456789")[-4:] == struct.pack("<I", 0xE3069283)


@pytest.mark.rule("trap 48")
def test_codecs_are_written_as_objects() -> None:
    store = MemoryStore()
    frazil.create_array(store, shape=4, dtype="u2", chunks=2, shards=4, codecs=["crc32c"])
    (outer,) = json.loads(store.get("zarr.json") or b"")["codecs"]
    for entry in (outer, *outer["configuration"]["codecs"], *outer["configuration"]["index_codecs"]):
        assert isinstance(entry, dict)
        assert set(entry) <= {"name", "configuration"}


@pytest.mark.rule("trap 49")
@LAYOUTS
@pytest.mark.parametrize("level", range(10))
def test_incompressible_chunks_are_stored(level: int, shards: int | None) -> None:
    data = np.frombuffer(np.random.default_rng(level).bytes(8 * 10_000), "u1").reshape(4, 20_000)
    array = frazil.create_array(
        MemoryStore(), data=data, chunks=(2, 20_000), shards=None if shards is None else (4, 20_000),
        codecs=[Gzip(level)],
    )  # fmt: skip
    assert same(array[...], data)
    array[1, 5:9] = 1
    assert array[1, 4:10].tolist() == [data[1, 4], 1, 1, 1, 1, data[1, 9]]
    assert array.nbytes_stored() > data.nbytes


@pytest.mark.rule("trap 50")
@LAYOUTS
@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_fill_values_of_odd_sizes(size: int, shards: int | None) -> None:
    fill = bytes(range(1, size + 1))
    array = frazil.create_array(
        MemoryStore(), shape=4, dtype=f"V{size}", chunks=2, shards=shards, fill_value=np.void(fill)
    )
    array[...] = np.void(fill)
    assert array.nchunks_initialized == 0
    for at in range(size):
        other = bytearray(fill)
        other[at] ^= 0x80
        array[1] = np.void(bytes(other))
        assert array.nchunks_initialized == 1
        assert array[...].tobytes() == fill + bytes(other) + fill * 2
        array[1] = np.void(fill)
    assert array.nchunks_initialized == 0


@pytest.mark.rule("trap 51")
@pytest.mark.parametrize("encoding, key", [("default", "c"), ("v2", "0")])
def test_the_key_of_a_chunk_without_dimensions(encoding: str, key: str) -> None:
    store = MemoryStore()
    frazil.create_array(store, shape=(), dtype="u1", chunk_key_encoding=encoding)[...] = 1
    assert store.list() == [key, "zarr.json"]


@pytest.mark.rule("trap 52")
def test_a_part_through_a_transposition_in_shards() -> None:
    data = np.arange(12 * 10 * 8, dtype="u2").reshape(12, 10, 8)
    array = frazil.create_array(
        MemoryStore(), data=data, chunks=(3, 5, 2), shards=(6, 10, 4), codecs=[Transpose([2, 0, 1]), Zstd(1)]
    )
    assert same(array[1:11:3, 4, 1:], data[1:11:3, 4, 1:])
    array[2:5, 3:7, 1] = 0
    data[2:5, 3:7, 1] = 0
    assert same(array[...], data)


@pytest.mark.rule("trap 53")
def test_threads_that_write_one_chunk_lose_no_element() -> None:
    array = frazil.create_array(MemoryStore(), shape=256, dtype="u2", chunks=256)

    def write(n: int) -> None:
        for at in range(n, 256, 16):
            array[at] = at + 1

    run_threads([lambda n=n: write(n) for n in range(16)])
    assert array[...].tolist() == list(range(1, 257))
