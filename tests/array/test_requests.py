"""The store requests of arrays and groups, counted: nothing twice, nothing unneeded, and neighbours together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import Layout, basic_selections, create, layouts, same, values

import frazil
from frazil.codecs import Bytes, Codec, Gzip, ShardingIndexed
from frazil.stores import MemoryStore
from frazil.stores.transfer.merged_spans import GAP
from frazil.testing import CountingStore

INDEX = 16 * 64 + 4  # bytes of the index of the shards below


def requests_of(store: CountingStore) -> list[tuple[str, str, int, int]]:
    """The requests since the last call, as (operation, key, start, length)."""
    found = [(done.operation, done.key, done.start, done.length) for done in store.requests]
    store.clear()
    return found


def asked_of_chunks(store: CountingStore) -> list[tuple[str, str, int, int]]:
    """The requests without those for documents, which run at the same time."""
    return [request for request in requests_of(store) if not request[1].endswith(".json")]


def sharded(chunk: int = 32) -> tuple[CountingStore, frazil.Array]:
    """16 shards of 8 x 8 inner chunks of `chunk` bytes each, raw, all stored, and opened again."""
    store = CountingStore(MemoryStore())
    side = chunk // 4
    shape = (32 * 4, 32 * side)
    array = frazil.create_array(store, shape=shape, dtype="uint8", chunks=(4, side), shards=(32, 8 * side), codecs=[])
    array[...] = 1
    store.clear()
    return store, frazil.open_array(store, mode="r+")


def test_opening_is_one_request() -> None:
    store, array = sharded()
    assert requests_of(store) == [("fetch", "zarr.json", 0, -1)]
    frazil.open(store)
    assert requests_of(store) == [("fetch", "zarr.json", 0, -1)]
    for use in (lambda: array.shape, array.attrs.asdict, lambda: repr(array), lambda: array.fill_value):
        use()
    assert requests_of(store) == []


def test_an_inner_chunk_costs_its_index_and_its_span() -> None:
    store, array = sharded()
    store.clear()
    assert array[5, 9] == 1
    assert requests_of(store) == [("fetch", "c/0/0", -INDEX, INDEX), ("fetch", "c/0/0", 9 * 32, 32)]
    assert array[5, 9] == 1
    assert requests_of(store) == [("fetch", "c/0/0", 9 * 32, 32)], "the index is remembered"
    assert array[5, 15] == 1
    assert requests_of(store) == [("fetch", "c/0/0", 9 * 32, 32)]


def test_a_column_is_an_index_and_a_span_a_shard() -> None:
    store, array = sharded()
    store.clear()
    array[:, 3]
    keys = ["c/0/0", "c/1/0", "c/2/0", "c/3/0"]
    spans = [("fetch", key, 0, (7 * 8 + 1) * 32) for key in keys]
    assert requests_of(store) == [*[("fetch", key, -INDEX, INDEX) for key in keys], *spans]
    array[::-1, 3]
    assert requests_of(store) == spans, "neighbours are one request, and what lies between them costs less than another"


def test_spans_far_apart_are_asked_for_alone() -> None:
    store, array = sharded(chunk=GAP)
    array[0, 0]
    store.clear()
    array[:32, 0]  # eight inner chunks, seven others between each two of them
    assert requests_of(store) == [("fetch", "c/0/0", i * 8 * GAP, GAP) for i in range(8)]
    array[:4, :]
    assert [length for _, key, _, length in requests_of(store) if key == "c/0/0"] == [8 * GAP], (
        "all that touch together"
    )


def test_reading_all_of_a_shard_is_its_index_and_one_span() -> None:
    store, array = sharded()
    store.clear()
    array[:32, :64]
    assert requests_of(store) == [("fetch", "c/0/0", -INDEX, INDEX), ("fetch", "c/0/0", 0, 64 * 32)]


def test_points_are_merged_too() -> None:
    store, array = sharded()
    store.clear()
    array.vindex[[0, 31, 5, 31, 0], [0, 63, 9, 63, 1]]
    assert requests_of(store) == [("fetch", "c/0/0", -INDEX, INDEX), ("fetch", "c/0/0", 0, 64 * 32)]


def test_missing_objects_cost_one_request_each() -> None:
    store = CountingStore(MemoryStore())
    array = frazil.create_array(store, shape=(64,), dtype="u1", chunks=(4,), shards=(32,))
    store.clear()
    array[...]
    assert requests_of(store) == [
        ("fetch", "c/0", -(16 * 8 + 4), 16 * 8 + 4),
        ("fetch", "c/1", -(16 * 8 + 4), 16 * 8 + 4),
    ]
    array[40] = 1
    store.clear()
    array[32:36]
    assert requests_of(store) == [("fetch", "c/1", -(16 * 8 + 4), 16 * 8 + 4)], (
        "an inner chunk that is not there is not fetched"
    )


def test_whole_chunks_and_shards_are_written_without_reading() -> None:
    store, array = sharded()
    store.clear()
    array[...] = 2
    assert [operation for operation, *_ in asked_of_chunks(store)] == ["put"] * 16
    array[32:64, :64] = 3
    assert asked_of_chunks(store) == [("put", "c/1/0", 0, 64 * 32 + INDEX)]
    array[32:64, :64] = 0
    assert asked_of_chunks(store) == [("erase", "c/1/0", 0, -1)]
    plain = frazil.create_array(store, shape=(10,), dtype="u1", chunks=(4,), codecs=[], overwrite=True)
    store.clear()
    plain[...] = 1
    found = [found[:2] for found in asked_of_chunks(store)]
    assert sorted(found) == [("look up", "c/2"), *(("put", f"c/{i}") for i in range(3))]
    plain[8:10] = 2
    found = [found[:2] for found in asked_of_chunks(store)]
    assert found == [("look up", "c/2"), ("put", "c/2")], "whole as far as the array goes"
    plain[7:10] = 3
    found = [found[:2] for found in asked_of_chunks(store)]
    assert sorted(found) == [("fetch", "c/1"), ("look up", "c/2"), ("put", "c/1"), ("put", "c/2")]
    assert found.index(("fetch", "c/1")) < found.index(("put", "c/1"))


def test_each_write_looks_once_at_the_document() -> None:
    """Another array may be in its place. An operation that first changes the document, or has just created it, does not check again."""
    store, array = sharded()
    store.clear()
    for value in (2, 3):
        array[...] = value
        array[0, 0] = value
        array.vindex[[1, 40], [1, 1]] = value
    documents = [request[:2] for request in requests_of(store) if request[1] == "zarr.json"]
    assert documents == [("fetch", "zarr.json")] + [("look up", "zarr.json")] * 5
    array.append(np.ones((32, array.shape[1]), "u1"))
    assert [request[:2] for request in requests_of(store) if request[1] == "zarr.json"] == [
        ("fetch", "zarr.json"),
        ("put", "zarr.json"),
    ]
    other = CountingStore(MemoryStore())
    frazil.create_array(other, data=np.ones(10, "u1"), chunks=(10,))
    assert [request[0] for request in requests_of(other) if request[1] == "zarr.json"] == ["fetch", "put"]


def test_a_write_into_a_shard_reads_kept_chunks_once() -> None:
    store, array = sharded()
    store.clear()
    array[0:4, 8:16] = 2  # one whole inner chunk: those next to it are kept
    fetched = [("fetch", "c/0/0", -INDEX, INDEX), ("fetch", "c/0/0", 0, 64 * 32)]
    written = [("put", "c/0/0", 0, 64 * 32 + INDEX)]
    assert asked_of_chunks(store) == fetched + written
    array[5, 5] = 3  # a part of one: the same, in one round
    assert asked_of_chunks(store) == fetched + written
    array[:32, :64] = 0
    store.clear()
    array[5, 5] = 3
    assert asked_of_chunks(store) == [fetched[0], ("put", "c/0/0", 0, 32 + INDEX)], "a shard that is not there"
    array[4:8, 0:8] = 4
    assert asked_of_chunks(store) == [(*fetched[0][:2], -INDEX, INDEX), ("put", "c/0/0", 0, 32 + INDEX)], (
        "nothing is kept"
    )


def test_a_write_and_a_read_of_the_same_handle() -> None:
    store, array = sharded()
    array[0, 0]
    array[0, 0] = 2
    store.clear()
    array[0, 0]
    assert [length for _, _, _, length in asked_of_chunks(store)] == [INDEX, 32], (
        "no request to find that the index is another"
    )


def test_only_the_neighbours_of_replaced_chunks_are_fetched() -> None:
    store, array = sharded(chunk=GAP)
    store.clear()
    array[:32, GAP // 4 : 8 * GAP // 4] = 2  # seven columns of inner chunks of eight
    index, *spans, put = asked_of_chunks(store)
    assert index == ("fetch", "c/0/0", -INDEX, INDEX)
    assert spans == [("fetch", "c/0/0", i * 8 * GAP, GAP) for i in range(8)]
    assert put == ("put", "c/0/0", 0, 64 * GAP + INDEX)


def test_nested_shards_are_an_index_a_level() -> None:
    store = CountingStore(MemoryStore())
    inner = ShardingIndexed([4], [Bytes()], [Bytes("little")])
    codecs: list[Codec] = [ShardingIndexed([16], [inner], [Bytes("little")])]
    array = frazil.create_array(store, shape=(64,), dtype="u1", chunks=(64,), codecs=codecs, fill_value=9)
    array[...] = 1
    store.clear()
    array[17:19]
    inner_nbytes = 16 + 4 * 16
    assert asked_of_chunks(store) == [
        ("fetch", "c/0", -64, 64),
        ("fetch", "c/0", inner_nbytes + 16, 64),
        ("fetch", "c/0", inner_nbytes, 4),
    ]


def test_shards_within_another_codec_are_fetched_whole_and_once() -> None:
    store = CountingStore(MemoryStore())
    codecs: list[Codec] = [ShardingIndexed([4], [Bytes()]), Gzip(1)]
    array = frazil.create_array(store, shape=(32,), dtype="u1", chunks=(16,), codecs=codecs)
    array[...] = 1
    store.clear()
    array[3:5]
    assert asked_of_chunks(store) == [("fetch", "c/0", 0, -1)]
    array[3:5] = 2
    assert [operation for operation, *_ in asked_of_chunks(store)] == ["fetch", "put"]


def test_empty_inner_chunks_of_cached_indexes_are_revalidated() -> None:
    """Otherwise data of another writer would never be seen."""
    store, array = sharded()
    array[:8, :8] = 0
    array[9, 9]
    store.clear()
    assert array[0, 0] == 0
    assert asked_of_chunks(store) == [("look up", "c/0/0", 0, -1)]
    frazil.open_array(store, mode="r+")[0, 0] = 5
    assert array[0, 0] == 5


@given(layouts(), st.integers(0, 2**32), st.data())
def test_bytes_are_fetched_once(layout: Layout, seed: int, data: st.DataObject) -> None:
    """Reads and writes through a store that merges spans give the same result as through one that does not, and no request is repeated."""
    store = CountingStore(MemoryStore())
    array = create(store, layout, "uint16")
    expected = np.zeros(layout.shape, "u2")
    for turn in range(3):
        selection = data.draw(basic_selections(layout.shape))
        new = values(seed + turn, expected[selection].shape, array.dtype)
        store.clear()
        array[selection], expected[selection] = new, new
        of_chunks = asked_of_chunks(store)
        assert len(set(of_chunks)) == len(of_chunks)
        store.clear()
        selection = data.draw(basic_selections(layout.shape))
        assert same(array[selection], expected[selection])
        assert len(set(store.requests)) == len(store.requests)
        assert {done.operation for done in store.requests} <= {"fetch", "look up"}
    assert same(create(store.inner, layout, "uint16", overwrite=True)[...], np.zeros(layout.shape, "u2"))


# --- groups ------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def hierarchy() -> tuple[CountingStore, frazil.Group]:
    """Two levels below the root: a with b and c, and d."""
    store = CountingStore(MemoryStore())
    group = frazil.create_group(store)
    group.create_arrays({path: {"shape": 4, "dtype": "u1", "chunks": 2} for path in ("a/b", "a/c", "d")})
    group["d"][...] = 1
    store.clear()
    return store, frazil.open_group(store, mode="r+")


LEVELS = [
    ("list", "", 0, -1),
    ("fetch", "a/zarr.json", 0, -1),
    ("fetch", "d/zarr.json", 0, -1),
    ("list", "a/", 0, -1),
    ("fetch", "a/b/zarr.json", 0, -1),
    ("fetch", "a/c/zarr.json", 0, -1),
]
NAMES = [("list", "", 0, -1), ("look up", "a/zarr.json", 0, -1), ("look up", "d/zarr.json", 0, -1)]
Use = Callable[[frazil.Group], object]


@pytest.mark.parametrize(
    "use, expected",
    [
        (lambda group: str(group.tree()), LEVELS),
        (lambda group: list(group.members(max_depth=None)), LEVELS),
        (lambda group: list(group.members()), LEVELS[:3]),
        (lambda group: list(map(str, group)), NAMES),
        (list, NAMES),
        (sorted, NAMES),
        (lambda group: list(group.keys()), NAMES),
        (len, NAMES),
        (lambda group: dict(group.items()), LEVELS[:3]),
        (lambda group: list(group.values()), LEVELS[:3]),
        (lambda group: group["a/b"], LEVELS[4:5]),
        (lambda group: "a/c" in group, [("look up", "a/c/zarr.json", 0, -1)]),
        (lambda group: group.attrs.asdict(), []),
        (lambda group: group.require_group("a"), LEVELS[1:2]),
    ],
    ids=[
        "tree",
        "all members",
        "members",
        "iteration",
        "list",
        "sorted",
        "keys",
        "length",
        "items",
        "values",
        "item",
        "in",
        "attributes",
        "require",
    ],
)
def test_groups_are_a_listing_and_a_batch_a_level(
    hierarchy: tuple[CountingStore, frazil.Group], use: Use, expected: list[tuple[str, str, int, int]]
) -> None:
    store, group = hierarchy
    assert requests_of(store) == [("fetch", "zarr.json", 0, -1)]
    use(group)
    assert requests_of(store) == expected


def test_an_iteration_and_a_length_are_each_of_their_own_time(
    hierarchy: tuple[CountingStore, frazil.Group],
) -> None:
    _, group = hierarchy
    names = iter(group)
    assert len(group) == 2
    group.create_group("b")
    assert len(group) == 3, "a length is always asked for"
    assert next(names) == "a"
    group.create_group("c")
    assert [*names] == ["d"], "an iteration that a length was asked for before it began is of that time"
    assert [name for name in group if name != "c"] == ["a", "b", "d"]


def test_many_arrays_are_created_in_one_batch(hierarchy: tuple[CountingStore, frazil.Group]) -> None:
    store, group = hierarchy
    store.clear()
    group.create_arrays({f"x/y{i}": {"shape": 1, "dtype": "u1"} for i in range(3)})
    found = requests_of(store)
    assert len(set(found)) == len(found)
    assert [key for operation, key, *_ in found if operation == "put"] == ["x/zarr.json"] + [
        f"x/y{i}/zarr.json" for i in range(3)
    ]
    assert sorted(key for operation, key, *_ in found if operation == "fetch") == ["x/zarr.json", "zarr.json"]


def test_attributes_and_shape_change_in_two_requests() -> None:
    store, array = sharded()
    store.clear()
    document = [("fetch", "zarr.json"), ("put", "zarr.json")]
    array.attrs["units"] = "m"
    assert [found[:2] for found in requests_of(store)] == document
    array.resize((1000, 2000))
    assert [found[:2] for found in requests_of(store)] == document, "growing touches no chunk"
    array.resize((1000, 2000))
    assert [found[:2] for found in requests_of(store)] == document[:1], "nor does what changes nothing write"


def test_rows_are_read_shard_by_shard() -> None:
    store, array = sharded()
    store.clear()
    rows = list(array)
    assert [len(row) for row in rows] == [array.shape[1]] * 128  # type: ignore[arg-type]
    assert len({key for _, key, _, _ in asked_of_chunks(store)}) == 16
    again = frazil.open_array(store, runtime=frazil.Runtime(bytes_in_flight=1000))
    store.clear()
    assert same(np.stack(list(again)), np.stack(rows))  # four rows, of 1024 bytes, would be more than that


def test_each_inner_chunk_is_read_once_when_rows_are_iterated() -> None:
    store, array = sharded()
    store.clear()
    assert sum(int(np.sum(row)) for row in array) == array.size
    spans = [(key, start) for _, key, start, _ in asked_of_chunks(store)]
    assert len(spans) == len(set(spans))
