"""ShardingStore: the requests of each operation to the store below it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import InvalidInputError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.stores import (
    Changed,
    Fetched,
    LocalStore,
    MemoryStore,
    Pieces,
    ShardingStore,
    Store,
    Version,
    WrappedStore,
)
from frazil.stores.values import Columns, pieces_of
from frazil.testing import CountingStore
from frazil.testing.checks import refusal

INDEX = 4 * 16


def below() -> tuple[CountingStore, ShardingStore]:
    """Shards of 2 x 2 chunks of 10 bytes: c0/0 has all of them, c0/1 two, c1/0 one."""
    inner = CountingStore(MemoryStore())
    store = ShardingStore(inner, "d/", DraftKeys(), [2, 2])
    for key in ("0/0", "0/1", "1/0", "1/1", "0/2", "1/3", "3/1"):
        store.set(f"d/c{key}", key.encode() + b"....___")
    inner.clear()
    return inner, store


def requests_of(inner: CountingStore) -> list[tuple[str, str, int]]:
    return [(done.operation, done.key, done.nbytes) for done in inner.requests]


def test_reading_is_the_index_and_the_chunk() -> None:
    inner, store = below()
    assert store.get("d/c0/1") == b"0/1....___"
    assert requests_of(inner) == [("fetch", "d/c0/0", INDEX), ("fetch", "d/c0/0", 10)]


@pytest.mark.parametrize("key", ["d/c0/3", "d/c7/7"])
def test_missing_shards_cost_one_request(key: str) -> None:
    inner, store = below()
    assert store.get(key) is None
    assert inner.count() == 1
    assert store.sizes([key, "d/c1/1", "d/c1/0"]).tolist() == [-1, 10, 10]
    assert {done.nbytes for done in inner.requests} <= {0, INDEX}


class Calls(WrappedStore):
    """Records the names of each call of fetch."""

    __slots__ = ("names",)

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.names: list[list[str]] = []

    def fetch(self, names: Sequence[str], spans: Columns, **options: Any) -> Fetched:
        self.names.append(list(names))
        return self.inner.fetch(names, spans, **options)


def test_partial_values_are_two_calls() -> None:
    """Rule 91, for any number of requested ranges."""
    calls = Calls(below()[0].inner)
    store = ShardingStore(calls, "d/", DraftKeys(), [2, 2])
    ranges = [(f"d/c{i % 4}/{i // 4 % 4}", (i % 3, 2)) for i in range(1000)]
    found = store.get_partial_values(ranges)
    assert found[:4] == [b"0/", b"/0", None, None]
    assert calls.names == [["d/c0/0", "d/c1/0", "d/c0/1", "d/c1/1"]] * 2


def test_a_whole_shard_is_not_read() -> None:
    inner, store = below()
    names = [f"d/c{i}/{j}" for i in (2, 3) for j in (0, 1)]
    store.put_many(names, pieces_of([b"x"] * 4), [None] * 4)
    assert requests_of(inner) == [("put", "d/c1/0", 4 + INDEX)]
    inner.clear()
    store.erase_values(names)
    assert requests_of(inner) == [("erase", "d/c1/0", 0)]


def test_rebuilding_reads_the_kept_chunks() -> None:
    inner, store = below()
    store.set("d/c0/0", b"new")
    assert requests_of(inner) == [("fetch", "d/c0/0", INDEX), ("fetch", "d/c0/0", 30), ("put", "d/c0/0", 33 + INDEX)]


class Published(WrappedStore):
    """Records the pieces that are put."""

    __slots__ = ("pieces",)

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.pieces: list[Pieces] = []

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        self.pieces.append(pieces)
        return self.inner.put_many(names, pieces, expect)


def test_old_bytes_of_files_are_copied_by_the_system(tmp_path: Path) -> None:
    """The unchanged part of a shard is passed as a part of the open old file; only the index was read."""
    inner = Published(LocalStore(tmp_path))
    store = ShardingStore(inner, "d/", DraftKeys(), [2, 2])
    store.put_many([f"d/c{i}/{j}" for i in (0, 1) for j in (0, 1)], pieces_of([b"0123456789"] * 4), [None] * 4)
    store.set("d/c0/1", b"new")
    rows = inner.pieces[-1].rows
    assert rows[rows[:, 0] >= 0, 2].sum() == 30
    assert rows[rows[:, 0] < 0, 2].tolist() == [3, INDEX]
    assert [store.get(f"d/c{key}") for key in ("0/0", "0/1", "1/0")] == [b"0123456789", b"new", b"0123456789"]


def test_bad_partial_values_of_many_shards_change_nothing() -> None:
    inner = CountingStore(MemoryStore())
    store = ShardingStore(inner, "d/", DraftKeys(), [1, 1])
    items = [(f"d/c{i}/0", 0, b"x") for i in range(140)]
    refusal(InvalidInputError, lambda: store.set_partial_values([*items, ("d/c140/0", 1, b"x")]))
    assert inner.list() == []
