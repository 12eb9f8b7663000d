"""ShardingStore: the suite of all stores, on its chunk keys and on the others; the operations of the transformer's document, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from tests.reference_cycles import is_freed

from frazil.errors import FormatError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.stores import (
    ABSENT,
    CachingStore,
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
from frazil.stores.keys.listing import first_level, page_of, with_details
from frazil.stores.values import Capabilities, Columns, Page, pieces_of
from frazil.testing import CountingStore, StoreTests


class Numbered(WrappedStore):
    """Any key as that of a chunk: (n // 4, n % 4) for the nth key that was used. So the suite of all stores runs only on chunks."""

    __slots__ = ("numbers",)

    def __init__(self, inner: Store, numbers: dict[str, int] | None = None) -> None:
        super().__init__(inner)
        self.numbers = {} if numbers is None else numbers

    def __reduce__(self) -> tuple[object, ...]:
        return Numbered, (self.inner, self.numbers)

    def chunk(self, name: str) -> str:
        number = self.numbers.setdefault(name, len(self.numbers))
        return f"data/c{number // 4}/{number % 4}"

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        return self.inner.fetch(
            [self.chunk(name) for name in names],
            spans,
            expect=expect,
            continue_from=continue_from,
            single_read=single_read,
        )

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self.inner.put_many([self.chunk(name) for name in names], pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        return self.inner.erase_many([self.chunk(name) for name in names], expect)

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        there = set(self.inner.list_prefix("data/"))
        keys = sorted(name for name in list(self.numbers) if self.chunk(name) in there and name.startswith(prefix))
        page = page_of(first_level(keys, prefix) if delimited else keys, after, limit)
        return with_details(page, self.fetch) if details else page

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(erases_prefixes=False)


class TestPassingOn(StoreTests):
    """Keys that are not chunks."""

    def make_store(self) -> Store:
        return ShardingStore(MemoryStore(), "data/", DraftKeys(), [2, 2])


class TestPassingOnInTheRoot(StoreTests):
    def make_store(self) -> Store:
        return ShardingStore(MemoryStore(), "", DraftKeys(), [2, 2])


class TestPassingOnFiles(StoreTests):
    @pytest.fixture(autouse=True)
    def _folders(self, tmp_path: Path) -> None:
        self.folders = (tmp_path / str(i) for i in count())

    def make_store(self) -> Store:
        return ShardingStore(LocalStore(next(self.folders)), "a/", DefaultKeys(), [2, 2])


class OnChunks(StoreTests):
    __test__ = False
    """The suite on chunk keys, of which several are of one shard: then versions change together."""

    def make_inner(self) -> Store:
        return MemoryStore()

    def make_store(self) -> Store:
        return Numbered(ShardingStore(self.make_inner(), "data/", DraftKeys(), [2, 2]))

    def test_conditions_hold_key_by_key(self) -> None:
        store = self.filled(a=b"1", b=b"2")  # of one shard
        a, b = self.version(store, "a"), self.version(store, "b")
        assert a == b
        store.set("a", b"another")
        now = self.version(store, "a")
        assert now not in {a, ABSENT}
        answers = store.put_many(["a", "b", "c", "d"], pieces_of([b"A", b"B", b"C", b"D"]), [a, now, ABSENT, b])
        after = self.version(store, "a")
        assert answers == [Changed(after), after, self.version(store, "c"), Changed(ABSENT)]
        assert [store.get(key) for key in "abcd"] == [b"another", b"B", b"C", None]
        assert store.put("b", b"lost?", now) == Changed(self.version(store, "b")), "though nobody else wrote b"

    def test_conditional_erase(self) -> None:
        store = self.filled(a=b"1", b=b"2")
        old = self.version(store, "a")
        store.set("a", b"3")
        new = self.version(store, "a")
        assert store.erase_many(["a", "b", "c"], [old, ABSENT, ABSENT]) == [Changed(new), Changed(new), None]
        assert (store.get("a"), store.get("b")) == (b"3", b"2")
        assert store.erase_many(["c", "a", "d"], [new, new, None]) == [Changed(ABSENT), None, None]
        assert store.get("a") is None
        assert store.put("a", b"4", ABSENT) == self.version(store, "b")


class TestChunksAlone(StoreTests):
    """One chunk per shard: then every rule of stores holds literally."""

    def make_store(self) -> Store:
        return Numbered(ShardingStore(MemoryStore(), "data/", DraftKeys(), [1, 1]))


class TestOnChunks(OnChunks):
    __test__ = True


class TestOnChunksOfFiles(OnChunks):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _folders(self, tmp_path: Path) -> None:
        self.folders = (tmp_path / str(i) for i in count())

    def make_inner(self) -> Store:
        return LocalStore(next(self.folders))


class TestOnStackedShards(OnChunks):
    __test__ = True

    def make_store(self) -> Store:
        outer = ShardingStore(CountingStore(MemoryStore()), "data/", DraftKeys(), [2, 1])
        return Numbered(ShardingStore(outer, "data/", DraftKeys(), [2, 2]))


class TestBetweenCaches(OnChunks):
    """A cache of shards below, one of chunks above."""

    __test__ = True

    def make_store(self) -> Store:
        below = CachingStore(CountingStore(MemoryStore()), 2**20)
        chunks = ShardingStore(below, "data/", DraftKeys(), [2, 2])
        return Numbered(CachingStore(chunks, 2**20, validate=True))


def test_a_damaged_index_is_freed_with_its_error() -> None:
    """With it the open files of its shards."""
    inner = MemoryStore()
    store = ShardingStore(inner, "", DraftKeys(), [2])
    store.set("c0", b"value")
    (key,) = inner.list()
    inner.set(key, b"short")
    assert is_freed(FormatError, lambda: store.get("c0"))
