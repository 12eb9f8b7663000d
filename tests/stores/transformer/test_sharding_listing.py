"""ShardingStore: listing and erasing by prefix, against a store with the same keys and no shards."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.grids.chunk_keys import DefaultKeys, V2Keys
from frazil.stores import MemoryStore, ShardingStore
from frazil.stores.array_storage.chunk_storage import ChunkKeys
from frazil.stores.transformer.shard_keys import ShardKeys
from frazil.testing import CountingStore


class Backwards:
    """An encoding unlike those of the core: the last coordinate comes first, in a folder named by whether it is odd."""

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str:
        return f"{prefix}{'odd' if sum(coordinates) % 2 else 'even'}/" + "-".join(map(str, (*reversed(coordinates), 0)))

    def encode_all(self, coordinates: np.ndarray, prefix: str = "") -> list[str]:
        return [self.encode_one(tuple(at), prefix) for at in coordinates.tolist()]

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        parts = key.partition("/")[2].split("-")
        if not all(part.isdigit() for part in parts) or len(parts) != ndim + 1:
            return None
        at = tuple(int(part) for part in reversed(parts[:-1]))
        return at if self.encode_one(at) == key else None


class Case(NamedTuple):
    keys: ChunkKeys
    prefix: str
    counts: tuple[int, ...]
    grid: tuple[int, ...]
    chunks: list[tuple[int, ...]]
    others: list[str]

    def stores(self, *, known: bool) -> tuple[ShardingStore, MemoryStore]:
        store = ShardingStore(
            MemoryStore(), self.prefix, self.keys, self.counts, grid_shape=self.grid if known else None
        )
        model = MemoryStore()
        for key in [*(self.keys.encode_one(at, self.prefix) for at in self.chunks), *self.others]:
            store.set(key, key.encode())
            model.set(key, key.encode())
        return store, model

    def prefixes(self) -> list[str]:
        """All possible prefixes: those of keys, and some without keys below them."""
        keys = [self.keys.encode_one(at, self.prefix) for at in product(*(range(n + 2) for n in self.grid))]
        keys += [*self.others, "data/x/y", "c9/9/9"]
        found = {""}
        for key in keys:
            parts = key.split("/")
            found |= {"/".join(parts[:depth]) + "/" for depth in range(1, len(parts))}
        return sorted(found)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    grid = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 12]), max_size=3)))
    while np.prod(grid) > 150:
        grid = grid[1:]
    prefix = draw(st.sampled_from(["", "data/", "data/root/x/"]))
    keys = draw(st.sampled_from([*(kind(s) for kind in (DraftKeys, DefaultKeys, V2Keys) for s in "/."), Backwards()]))
    every = list(product(*map(range, grid)))
    chunks = draw(st.lists(st.sampled_from(every), unique=True, max_size=25))
    others = ["zarr.json", "data/rot", "a", "z/c0/0", f"{prefix}zarr.json", f"{prefix}c01/2", f"{prefix}cc/1/2/3/4/5"]
    others += [f"{prefix}c1/c2", f"{prefix}odd/1/2"]
    encoded = {keys.encode_one(at, prefix) for at in every}
    counts = tuple(draw(st.integers(1, 5)) for _ in grid)
    chosen = draw(st.lists(st.sampled_from(others), unique=True))
    folders = {"/".join(key.split("/")[:n]) for key in encoded for n in range(1, 6)}
    return Case(keys, prefix, counts, grid, chunks, [key for key in chosen if key not in encoded | folders])


@settings(deadline=None)
@given(cases(), st.data(), st.booleans())
def test_listing(case: Case, data: st.DataObject, known: bool) -> None:
    store, model = case.stores(known=known)
    assert store.list() == model.list()
    prefixes = case.prefixes()
    for prefix in data.draw(st.lists(st.sampled_from(prefixes), min_size=1, max_size=10)):
        expected = model.list_prefix(prefix)
        assert store.list_prefix(prefix) == expected
        assert store.is_empty(prefix) == model.is_empty(prefix)
        after = data.draw(st.sampled_from(["", *model.list(), *prefixes, "data/root/x/c1", "c10"]))
        limit = data.draw(st.integers(1, 12))
        assert (
            list(store.list_page(prefix, after, limit=limit).keys) == model.list_page(prefix, after, limit=limit).keys
        )
        assert list(store.list_page(prefix, after).keys) == model.list_page(prefix, after).keys
        keys, below = store.list_dir(prefix)
        right, there = model.list_dir(prefix)
        assert keys == right, "keys are real"
        chunks = [case.keys.encode_one(at, case.prefix) for at in case.chunks]
        for left_out in set(there) - set(below):  # prefixes may be empty, but none with a chunk is left out
            assert store._keys.leading(left_out), "a prefix of the grid"
            assert not any(key.startswith(left_out) for key in chunks), "below which are other keys alone"
        assert below == sorted(set(below))
        if known:
            grid = {case.keys.encode_one(at, case.prefix) for at in product(*map(range, case.grid))}
            assert all(any(key.startswith(at) for key in grid) for at in set(below) - set(there)), "inside the grid"


@settings(deadline=None)
@given(cases(), st.data())
def test_erasing_a_prefix(case: Case, data: st.DataObject) -> None:
    store, model = case.stores(known=True)
    for prefix in data.draw(st.lists(st.sampled_from(case.prefixes()), min_size=1, max_size=3)):
        store.erase_prefix(prefix)
        model.erase_prefix(prefix)
        assert store.list() == model.list()
        assert [store.get(key) for key in model.list()] == [model.get(key) for key in model.list()]
        shards = [key for key in store.inner.list() if store._keys.coordinates(key) is not None]
        assert len(shards) == len(
            store._chunk_rows([key for key in store.list() if store._keys.coordinates(key) is not None])[1].shards
        )


def test_a_shard_key_beyond_the_chunks_that_can_be_is_none() -> None:
    inner = MemoryStore()
    inner.set(f"c{2**63 - 1}/0", b"")
    store = ShardingStore(inner, "", DraftKeys(), [2, 2])
    assert store.list() == []


@pytest.mark.parametrize("separator", ["/", "."])
def test_a_page_reads_few_indexes(separator: str) -> None:
    inner = CountingStore(MemoryStore())
    store = ShardingStore(inner, "d/", DraftKeys(separator), [2, 2])
    keys = [f"d/c{i}{separator}{j}" for i in range(40) for j in range(4)]
    for key in keys:
        store.set(key, b"x")
    ordered = sorted(keys)
    inner.clear()
    assert list(store.list_page("d/", limit=1).keys) == ordered[:1]
    assert inner.count("fetch") == 2, "one row of shards"
    pages, last = list[str](), ""
    inner.clear()
    while page := store.list_page("d/", last, limit=50).keys:
        pages += page
        last = page[-1]
    assert pages == ordered
    assert inner.count("fetch") <= 3 * 40
    inner.clear()
    assert not store.is_empty("d/")
    assert inner.count("fetch") == 2


@pytest.mark.rule("D97", "D98")
@pytest.mark.parametrize("count", [1, 2, 3, 1000, 2**62, 2**63 - 1])
def test_the_last_shard_that_has_keys_is_listed(count: int) -> None:
    """Chunks are numbered up to 2^63 - 1; the last shard may reach beyond."""
    if count > 1000:
        keys = ShardKeys("data/a/", DraftKeys("/"), (count,), None)
        names, shards, others = keys.shards([f"data/a/c{(2**63 - 1) // count}", f"data/a/c{2**63 // count + 1}"])
        assert (names, others) == ([f"data/a/c{(2**63 - 1) // count}"], [])
        assert keys.chunks(names, shards, np.array([(0, 0)]))[0] == [f"data/a/c{(2**63 - 1) // count * count}"]
        return
    last = 2**63 - 1
    store = ShardingStore(inner := MemoryStore(), "data/a/", DraftKeys("/"), (count,))
    store.set(f"data/a/c{last}", b"last")
    store.set(f"data/a/c{last - 1}", b"before")
    assert f"data/a/c{last // count}" in inner.list()
    expected = sorted([f"data/a/c{last - 1}", f"data/a/c{last}"])
    assert store.list() == store.list_prefix("data/a/") == expected
    assert store.list_dir("data/a/") == (expected, [])
    assert store.get(f"data/a/c{last}") == b"last"
    key = f"data/a/c{last // count}"
    shard = inner.get(key)
    assert shard is not None
    full = np.frombuffer(shard[-16 * count :], "<u8").reshape(-1, 2).copy()
    full[:] = (0, 4)
    inner.set(key, shard[: -16 * count] + full.tobytes())
    there = [f"data/a/c{at}" for at in range(last // count * count, last + 1)]
    assert [one for one in store.list() if one in set(there)] == sorted(there), "beyond them no chunk has a key"
    assert all(len(one) <= len(there[-1]) and "-" not in one for one in store.list())


@pytest.mark.rule("D98")
def test_prefixes_of_the_last_shard_end_with_the_last_key() -> None:
    last = 2**63 - 1
    store = ShardingStore(MemoryStore(), "data/a/", DraftKeys("/"), (3, 1))
    store.set(f"data/a/c{last}/0", b"last")
    first = last // 3 * 3
    assert store.list_dir("data/a/") == ([], [f"data/a/c{at}/" for at in range(first, last + 1)])
    assert store.list() == [f"data/a/c{last}/0"]
