"""The sharding storage transformer as a store, operation by operation, as its document defines them (docs/conformance/zarr-draft.md); over shards put together
by hand, and over those that zarr-python 2.18.7 wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import FormatError, InvalidInputError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.stores import CachingStore, LocalStore, MemoryStore, ShardingStore, Store
from frazil.testing import CountingStore
from tests.conformance.draft.documents import EMPTY, hierarchy, index
from tests.conformance.draft.fixtures import CASES, OLD, load, unpack
from tests.strategies import same

D = "data/root/foo/"


def shard(*chunks: bytes | None) -> bytes:
    data, entries = b"", []
    for value in chunks:
        entries.append(EMPTY if value is None else (len(data), len(value)))
        data += value or b""
    return data + index(entries)


def content(inner: Store, key: str) -> list[bytes | None]:
    """The chunks of a shard, by its index as the document defines it."""
    value = inner.get(key) or b""
    entries = [tuple(entry) for entry in np.frombuffer(value[-64:], "<u8").reshape(4, 2).tolist()]
    return [None if entry == EMPTY else value[entry[0] : entry[0] + entry[1]] for entry in entries]


def over(inner: Store, separator: str = "/", **more: object) -> ShardingStore:
    return ShardingStore(inner, D, DraftKeys(separator), [2, 2], **more)  # type: ignore[arg-type]


def example(separator: str = "/") -> CountingStore:
    """Chunks (0, 0) to (1, 1) without the third, (2, 1), (3, 3)."""
    inner = MemoryStore()
    inner.set(f"{D}c0{separator}0", shard(b"chunk 0 0", b"chunk 0 1", None, b"chunk 1 1"))
    inner.set(f"{D}c1{separator}0", shard(None, b"chunk 2 1", None, None))
    inner.set(f"{D}c1{separator}1", shard(None, None, None, b"chunk 3 3"))
    inner.set("meta/root/foo.array.json", b"{}")
    inner.set("data/root/bar/c0/0", b"of another array")
    return CountingStore(inner)


ALL = [f"{D}c{key}" for key in ("0/0", "0/1", "1/1", "2/1", "3/3")]


# --- keys ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D83", "D90", "X1")
@pytest.mark.parametrize("prefix", ["data/root/foo/", "data/foo/", "data/"])
def test_other_keys_are_passed_on(prefix: str) -> None:
    inner = MemoryStore()
    store = ShardingStore(inner, prefix, DraftKeys(), [2, 2])
    keys = [
        "zarr.json",
        "meta/root/foo.array.json",
        "data/root/bar/c0/1",
        f"{prefix}c0",
        f"{prefix}c0/0/0",
        f"{prefix}x/c0/0",
    ]
    for key in keys:
        store.set(key, key.encode())
    assert inner.list() == store.list() == sorted(keys)
    assert all(inner.get(key) == store.get(key) == key.encode() for key in keys)
    store.set(f"{prefix}c1/1", b"chunk")
    assert inner.exists(f"{prefix}c0/0")
    store.erase_values(keys)
    assert inner.list() == [f"{prefix}c0/0"]


@pytest.mark.rule("D82", "D84")
@pytest.mark.parametrize("separator", ["/", "."])
def test_the_example_of_the_document(separator: str) -> None:
    """32 by 2 chunks a shard: (96, 18) to (127, 19) are in shard (3, 9)."""
    inner = MemoryStore()
    store = ShardingStore(inner, "data/root/foo/baz/", DraftKeys(separator), [32, 2])
    for at in ((96, 18), (96, 19), (97, 18), (127, 19)):
        store.set(f"data/root/foo/baz/c{at[0]}{separator}{at[1]}", str(at).encode())
    assert inner.list() == [f"data/root/foo/baz/c3{separator}9"]
    value = inner.get(inner.list()[0]) or b""
    entries = np.frombuffer(value[-1024:], "<u8").reshape(32, 2, 2)
    for at in ((96, 18), (96, 19), (97, 18), (127, 19)):
        start, length = entries[at[0] - 96, at[1] - 18].tolist()
        assert value[start : start + length] == str(at).encode()
    assert (entries[..., 0] == EMPTY[0]).sum() == 60
    assert len(value) == 1024 + sum(len(str(at)) for at in ((96, 18), (96, 19), (97, 18), (127, 19)))


@pytest.mark.rule("X20")
def test_the_index_of_64_chunks_has_1024_bytes() -> None:
    store = ShardingStore(MemoryStore(), "d/", DraftKeys(), [32, 2])
    store.set("d/c0/0", b"")
    assert store.inner.sizes(["d/c0/0"]).tolist() == [1024]


@pytest.mark.rule("X26", "Z11")
@pytest.mark.parametrize(("counts", "key"), [([], "c"), ([1], "c"), ([], "c0"), ([1], "c0")])
def test_shards_without_dimensions_have_one_key(counts: list[int], key: str) -> None:
    inner = MemoryStore()
    store = ShardingStore(inner, "d/", DraftKeys(), counts, grid_shape=())
    store.set(f"d/{key}", b"the only chunk")
    assert inner.get(f"d/{key}") == b"the only chunk" + index([(0, 14)])
    assert (store.get(f"d/{key}"), store.list(), store.list_dir("d/")) == (
        b"the only chunk",
        [f"d/{key}"],
        ([f"d/{key}"], []),
    )
    store.erase(f"d/{key}")
    assert inner.list() == []


@pytest.mark.rule("D82")
@pytest.mark.parametrize("counts", [[0, 2], [2], [2, 2, 2], [2.5, 2], "22", 4, [-1, 2], [2**40, 2**40]])
def test_bad_counts(counts: object) -> None:
    with pytest.raises(InvalidInputError):
        ShardingStore(MemoryStore(), "d/", DraftKeys(), counts, grid_shape=[4, 4])  # type: ignore[arg-type]


# --- the operations --------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D91", "X18", "Z17")
def test_get_partial_values() -> None:
    inner = example()
    store = over(inner)
    requested = [
        (f"{D}c3/3", (0, None)),
        (f"{D}c0/1", (2, 3)),
        (f"{D}c0/0", (2, None)),
        (f"{D}c0/0", (7, 100)),
        (f"{D}c1/0", (0, None)),
        (f"{D}c9/9", (0, 4)),
        (f"{D}c0/1", (0, 5)),
        (f"{D}c0/0", (20, 5)),
    ]
    found = store.get_partial_values(requested)
    assert found == [b"chunk 3 3", b"unk", b"unk 0 0", b" 0", None, None, b"chunk", b""]
    indexes = [done.key for done in inner.requests if (done.start, done.length) == (-64, 64)]
    assert indexes == [f"{D}c1/1", f"{D}c0/0", f"{D}c4/4"], "once each, before any chunk"
    assert [done.key for done in inner.requests[:3]] == indexes
    assert inner.bytes_read <= 2 * 64 + 9 + 18


@pytest.mark.rule("Z18", "X27")
def test_negative_starts_count_from_the_end_of_the_chunk() -> None:
    store = over(example())
    ranges = [(-3, None), (-3, 2), (-100, None), (-9, 5)]
    found = store.get_partial_values([(f"{D}c0/0", span) for span in ranges])
    assert found == [b"0 0", b"0 ", b"chunk 0 0", b"chunk"]


@pytest.mark.rule("D92")
def test_get() -> None:
    store = over(example())
    assert [store.get(key) for key in ALL] == [f"chunk {key[-3]} {key[-1]}".encode() for key in ALL]
    assert store.get(f"{D}c1/0") is store.get(f"{D}c8/0") is None


@pytest.mark.rule("D93")
def test_set_partial_values() -> None:
    inner = example()
    store = over(inner)
    store.set_partial_values([(f"{D}c0/0", 0, b"CHUNK 0 0!"), (f"{D}c0/1", 6, b"9"), (f"{D}c2/0", 0, b"new")])
    assert content(inner, f"{D}c0/0") == [b"CHUNK 0 0!", b"chunk 9 1", None, b"chunk 1 1"]
    assert content(inner, f"{D}c1/0") == [b"new", b"chunk 2 1", None, None]
    store.set_partial_values([(f"{D}c3/3", 6, b"4 4"), (f"{D}c3/3", 0, b"C"), (f"{D}c3/2", 0, b"")])
    assert content(inner, f"{D}c1/1") == [None, None, b"", b"Chunk 4 4"]


@pytest.mark.rule("D93")
def test_set_replaces_the_chunk_whole() -> None:
    inner = example()
    store = over(inner)
    store.set(f"{D}c0/0", b"short")
    assert content(inner, f"{D}c0/0") == [b"short", b"chunk 0 1", None, b"chunk 1 1"]
    store.set(f"{D}c7/7", b"a new shard")
    assert content(inner, f"{D}c3/3") == [None, None, None, b"a new shard"]


@pytest.mark.rule("X29")
@pytest.mark.parametrize(("key", "start"), [("c1/0", 1), ("c9/9", 1), ("c0/0", 10), ("c0/0", -1)])
def test_writing_beyond_the_end_is_refused(key: str, start: int) -> None:
    inner = example()
    before = {key: inner.get(key) for key in inner.list()}
    with pytest.raises(InvalidInputError) as caught:
        over(inner).set_partial_values([("meta/x", 0, b"x"), (f"{D}c3/3", 0, b"x"), (D + key, start, b"x")])
    assert caught.value.key == D + key
    assert {key: inner.get(key) for key in inner.list()} == before


@pytest.mark.rule("D94", "Z12")
def test_erase_values() -> None:
    inner = example()
    store = over(inner)
    store.erase_values([f"{D}c0/0", f"{D}c1/0", f"{D}c3/3", "meta/root/foo.array.json", f"{D}c8/8"])
    assert content(inner, f"{D}c0/0") == [None, b"chunk 0 1", None, b"chunk 1 1"]
    assert not inner.exists(f"{D}c1/1"), "its last chunk is gone"
    assert not inner.exists("meta/root/foo.array.json")
    assert store.list_prefix(D) == [f"{D}c{key}" for key in ("0/1", "1/1", "2/1")]
    inner.clear()
    store.erase_values([f"{D}c{i}/{j}" for i in (0, 1) for j in (0, 1)])
    assert [(done.operation, done.key) for done in inner.requests] == [("erase", f"{D}c0/0")]


@pytest.mark.rule("D95")
@pytest.mark.parametrize(
    ("prefix", "left"),
    [
        (f"{D}c0/", ["1/1", "2/1", "3/3"]),
        (f"{D}c1/", ["0/0", "0/1", "2/1", "3/3"]),
        (f"{D}c3/", ["0/0", "0/1", "1/1", "2/1"]),
        (f"{D}c4/", ["0/0", "0/1", "1/1", "2/1", "3/3"]),
        (D, []),
        ("data/root/", []),
        ("data/root/fo/", ["0/0", "0/1", "1/1", "2/1", "3/3"]),
    ],
)
def test_erase_prefix(prefix: str, left: Sequence[str]) -> None:
    inner = example()
    store = over(inner)
    store.erase_prefix(prefix)
    assert store.list_prefix(D) == [f"{D}c{key}" for key in left]
    assert inner.list_prefix(D) == sorted({f"{D}c{int(key[0]) // 2}/{int(key[2]) // 2}" for key in left})
    assert inner.exists("data/root/bar/c0/0") == (prefix != "data/root/")


@pytest.mark.rule("D95")
def test_a_prefix_of_whole_shards_is_one_of_the_store_below() -> None:
    inner = example()
    store = ShardingStore(inner, D, DraftKeys(), [1, 4])
    inner.clear()
    store.erase_prefix(f"{D}c1/")
    assert inner.count("fetch") == 0
    assert inner.list_prefix(D) == [f"{D}c0/0"]


@pytest.mark.rule("D96", "D97", "X19", "Z17")
@pytest.mark.parametrize("separator", ["/", "."])
def test_list_and_list_prefix(separator: str) -> None:
    store = over(example(separator), separator)
    keys = [f"{D}c{key[-3]}{separator}{key[-1]}" for key in ALL]
    assert store.list_prefix(D) == keys
    assert store.list() == store.list_prefix("") == ["data/root/bar/c0/0", *keys, "meta/root/foo.array.json"]
    for i in range(5):
        expected = [key for key in keys if key.startswith(f"{D}c{i}/")]
        assert store.list_prefix(f"{D}c{i}/") == expected, "also where the shards below are c0/ and c1/"


@pytest.mark.rule("D98")
def test_list_dir() -> None:
    store = over(example(), grid_shape=[4, 4])
    assert store.list_dir(D) == ([], [f"{D}c{i}/" for i in range(4)]), "all that a shard might have"
    assert store.list_dir(f"{D}c0/") == ([f"{D}c0/0", f"{D}c0/1"], [])
    assert store.list_dir(f"{D}c3/") == ([f"{D}c3/3"], []), "keys are real"
    assert store.list_dir("data/root/") == ([], ["data/root/bar/", D])
    assert over(example(), grid_shape=[3, 4]).list_dir(D)[1] == [f"{D}c{i}/" for i in range(3)], "inside the grid"
    dotted = over(example("."), ".")
    assert dotted.list_dir(D) == ([f"{D}c{key[-3]}.{key[-1]}" for key in ALL], [])


@pytest.mark.rule("D98")
def test_list_dir_of_three_dimensions() -> None:
    store = ShardingStore(MemoryStore(), D, DraftKeys(), [2, 3, 2], grid_shape=[3, 5, 9])
    store.set(f"{D}c2/4/8", b"x")
    assert store.list_dir(D) == ([], [f"{D}c2/"])
    assert store.list_dir(f"{D}c2/") == ([], [f"{D}c2/3/", f"{D}c2/4/"])
    assert store.list_dir(f"{D}c2/3/") == ([], [])
    assert store.list_dir(f"{D}c2/4/") == ([f"{D}c2/4/8"], [])


@pytest.mark.rule("X18")
@pytest.mark.parametrize("entry", [(EMPTY[0], 4), (0, EMPTY[0])])
def test_an_index_entry_that_is_half_empty_is_an_error(entry: tuple[int, int]) -> None:
    inner = MemoryStore()
    inner.set(f"{D}c0/0", b"abcd" + index([(0, 4), entry, EMPTY, EMPTY]))
    with pytest.raises(FormatError, match="half empty") as caught:
        over(inner).get(f"{D}c0/0")
    assert caught.value.key == f"{D}c0/0"


@pytest.mark.rule("D85", "D87")
def test_inner_chunks_in_any_order_with_unused_bytes_are_read() -> None:
    """A 2 by 2 shard of zarr-python 2 after writes in C order: the last chunk first."""
    inner = MemoryStore()
    inner.set(f"{D}c0/0", b"DDDCCC..BBBhole AAAA" + index([(16, 4), (8, 3), (3, 3), (0, 3)]))
    store = over(inner)
    assert [store.get(f"{D}c{key}") for key in ("0/0", "0/1", "1/0", "1/1")] == [b"AAAA", b"BBB", b"CCC", b"DDD"]
    store.set(f"{D}c0/1", b"new")
    assert content(inner, f"{D}c0/0") == [b"AAAA", b"new", b"CCC", b"DDD"]
    assert len(inner.get(f"{D}c0/0") or b"") == 13 + 64, "rebuilt without the holes"


@pytest.mark.rule("D88")
def test_shards_that_other_writers_appended_to_are_read() -> None:
    inner = example()
    before = inner.get(f"{D}c0/0") or b""
    inner.set(f"{D}c0/0", before + b"appended" + index([(len(before), 8), (9, 9), EMPTY, (18, 9)]))
    store = over(inner)
    assert [store.get(f"{D}c{key}") for key in ("0/0", "0/1", "1/0", "1/1")] == [
        b"appended",
        b"chunk 0 1",
        None,
        b"chunk 1 1",
    ]


# --- stacks and transformers at run time -----------------------------------------------------------------------------------------------


@pytest.mark.rule("D78", "D79")
def test_stacked_transformers_are_stacked_stores() -> None:
    """array -> 2 by 2 -> 1 by 3 -> store: the last one makes the objects, of 2 by 6 chunks."""
    below = MemoryStore()
    stack = over(ShardingStore(below, D, DraftKeys(), [1, 3]))
    keys = [f"{D}c{i}/{j}" for i in range(2) for j in range(8)]
    for key in keys:
        stack.set(key, key.encode())
    assert below.list() == [f"{D}c0/0", f"{D}c0/1"]
    assert stack.list() == sorted(keys)
    assert all(stack.get(key) == key.encode() for key in keys)
    assert stack.list_dir(D) == ([], [f"{D}c0/", f"{D}c1/"])
    stack.erase_values(keys[:6])
    assert stack.list() == sorted(keys[6:])
    stack.erase_prefix(f"{D}c1/")
    assert stack.list() == keys[6:8]
    assert below.list() == [f"{D}c0/1"]


@pytest.mark.rule("D79")
def test_a_stack_of_stores_is_a_stack_in_the_document() -> None:
    uri = "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"
    entries = [
        {"extension": uri, "type": "indexed", "configuration": {"chunks_per_shard": counts}}
        for counts in ([2, 2], [1, 3])
    ]
    document: dict[str, object] = {
        "shape": [5, 9],
        "data_type": "uint8",
        "chunk_grid": {"type": "regular", "chunk_shape": [1, 1], "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": 0,
        "extensions": [],
        "attributes": {},
    }
    inner = hierarchy({"meta/a.array.json": {**document, "storage_transformers": entries}})
    values = np.arange(45, dtype="u1").reshape(5, 9) + 1
    frazil.open_array(inner, "r+", path="a")[...] = values
    stack = ShardingStore(ShardingStore(inner, "data/a/", DraftKeys(), [1, 3]), "data/a/", DraftKeys(), [2, 2])
    for i, j in np.ndindex(5, 9):
        assert stack.get(f"data/a/c{i}/{j}") == values[i, j].tobytes()
    stack.set("data/a/c4/8", b"\xee")
    values[4, 8] = 0xEE
    assert (frazil.open_array(inner, path="a")[...] == values).all()


@pytest.mark.rule("D77")
def test_a_transformer_at_run_time() -> None:
    """The document's example: a cache, which is in no document."""
    inner = CountingStore(MemoryStore())
    frazil.create_array(inner, path="a", shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="i4", zarr_format="draft")[
        ...
    ] = 5
    array = frazil.open_array(inner, path="a", storage_transformers=[lambda store: CachingStore(store, 2**20)])
    assert (array[...] == 5).all()
    inner.clear()
    assert (array[2:6, 1:7] == 5).all()
    assert inner.bytes_read == 0
    document = json.loads(inner.get("meta/a.array.json") or b"")
    assert [entry["type"] for entry in document["storage_transformers"]] == ["indexed"], "the cache is in no document"


# --- what zarr-python 2.18.7 wrote -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = unpack(tmp_path_factory.mktemp("draft"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.rule("D92", "D97", "Z11", "Z12")
@pytest.mark.parametrize("case", [case for case in CASES if "sharded" in case[1]], ids="-".join)
def test_sharded_arrays_are_read_and_written_through_the_transformer(case: tuple[str, str], unpacked: Path) -> None:
    """The transformer is removed from the document and put over the store instead: values, existing chunks, and writes."""
    fixture = load(unpacked, *case)
    root = "/root" if case[0] == OLD else ""
    for expected in fixture.arrays:
        assert expected.chunks_per_shard is not None
        inner = fixture.in_memory()
        below = f"{root}/{expected.path}" if expected.path else root
        key = f"meta{below}.array.json" if below else "meta/array.json"
        with_shards = frazil.open_array(inner, "r+", path=expected.path)
        document = json.loads(inner.get(key) or b"")
        del document["storage_transformers"]
        inner.set(key, json.dumps(document).encode())
        shape = expected.values.shape
        grid = [-(-length // extent) for length, extent in zip(shape, expected.chunks, strict=True)]
        keys = DraftKeys(document["chunk_grid"]["separator"])
        store = ShardingStore(inner, f"data{below}/", keys, expected.chunks_per_shard, grid_shape=grid)
        array = frazil.open_array(store, "r+", path=expected.path)
        assert array.shards is None
        assert same(array[...], expected.values), expected.path
        assert array.nchunks_initialized == with_shards.nchunks_initialized
        box = tuple(slice(length // 3, None) for length in shape)
        array[box] = expected.values[box][tuple(slice(None, None, -1) for _ in shape)]
        assert same(with_shards[...], array[...]), expected.path


@pytest.mark.rule("D91", "D97", "D98")
def test_the_operations_agree_with_those_of_zarr_python(unpacked: Path) -> None:
    base = unpacked / OLD
    recorded = json.loads((base / "manifest.json").read_text())["sharding_ops_partial"]
    prefix = "data/root/partial/"
    store = ShardingStore(LocalStore(base / "sharded.zr3"), prefix, DraftKeys(), [2, 2], grid_shape=[4, 4])
    for call, answer in recorded.items():
        name, _, argument = call.partition("('")
        below = argument.removesuffix("')")
        if name == "list_prefix":  # the store without the chunks of other arrays
            found = store.list_prefix(below)
            assert [key for key in found if key.startswith(prefix) or not key.startswith("data/")] == answer
        elif name == "list_dir":
            keys, prefixes = store.list_dir(below)
            assert keys == answer["keys"]
            assert set(prefixes) >= set(answer["prefixes"]), "and it looked every prefix up, as need not be"
            assert below == prefix or prefixes == answer["prefixes"]
        elif name.startswith("contains("):
            assert store.exists(prefix + name[9:-1]) == answer
        elif name.startswith("get("):
            value = store.get(prefix + name[4:-1])
            assert value is None if "KeyError" in answer else value == bytes.fromhex(answer[0])
        elif name.startswith("get_partial_values([("):
            key = prefix + name.removeprefix("get_partial_values([(").split(",")[0]
            found = store.get_partial_values([(key, (0, None)), (key, (2, 3))])
            assert found == [None if text is None else bytes.fromhex(text) for text in answer]
