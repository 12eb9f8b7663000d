"""ShardingStore with other writers, over failing stores, and over shards with wrong indexes: no chunk is lost, and nothing is touched without need."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.concurrent_calls import in_processes, in_threads
from tests.no_backoff import no_pauses

import frazil
from frazil.codecs import Bytes, ShardingIndexed
from frazil.errors import FormatError, StoreError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.stores import (
    CachingStore,
    Changed,
    Fetched,
    LocalStore,
    MemoryStore,
    ShardingStore,
    Store,
    Version,
    WrappedStore,
)
from frazil.stores.transfer.content import as_buffers, read_values
from frazil.stores.values import STALE, Columns, Pieces, pieces_of
from frazil.testing import Fault, FaultPlan, FaultyStore
from frazil.testing.store_base import columns

EMPTY = 2**64 - 1


@pytest.fixture(params=["memory", "local"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "local":
        yield LocalStore(tmp_path / "a")
    else:
        store = MemoryStore(str(uuid.uuid4()))
        yield store
        store.erase_prefix("")


def sharded(inner: Store, counts: Sequence[int] = (4, 4)) -> ShardingStore:
    return ShardingStore(inner, "d/", DraftKeys(), counts)


# --- many writers of one shard ---------------------------------------------------------------------------------------------------------


def write_chunks(store: Store, writer: int, writers: int) -> None:
    """Each writer has its own chunks, and all increment counters in two shared ones."""
    for turn in range(3):
        for number in range(writer, 14, writers):
            key = f"d/c{number // 4}/{number % 4}"
            if turn == 1 and number % 2:
                store.erase(key)
            else:
                store.set(key, b"%d %d" % (writer, turn) * (number + 1))
        store.update("d/c3/2", lambda old: b"%d" % (int(old or b"0") + 1))
        store.set_partial_values([("d/c3/3", writer, bytes([turn + 65]))])


def check_chunks(store: Store, writers: int) -> None:
    for number in range(14):
        assert store.get(f"d/c{number // 4}/{number % 4}") == b"%d 2" % (number % writers) * (number + 1)
    assert store.get("d/c3/2") == b"%d" % (3 * writers)
    assert store.get("d/c3/3") == b"C" * writers
    assert len(store.list_prefix("d/")) == 16


def test_threads(inner: Store) -> None:
    store = sharded(inner)
    store.set("d/c3/3", b"-" * 8)
    in_threads(8, lambda writer: write_chunks(store if writer % 2 else sharded(inner), writer, 8))
    check_chunks(store, 8)
    assert inner.list() == ["d/c0/0"]


def test_processes(tmp_path: Path) -> None:
    store = sharded(LocalStore(tmp_path))
    store.set("d/c3/3", b"-" * 4)
    in_processes(4, lambda writer: write_chunks(sharded(LocalStore(tmp_path)), writer, 4))
    check_chunks(store, 4)


def test_stacked_shards_among_threads(inner: Store) -> None:
    stacked = ShardingStore(sharded(inner, (2, 2)), "d/", DraftKeys(), (2, 2))
    stacked.set("d/c3/3", b"-" * 6)
    in_threads(6, lambda writer: write_chunks(stacked, writer, 6))
    check_chunks(stacked, 6)


def test_the_engine_and_the_transformer_write_one_shard_together(inner: Store) -> None:
    """Arrays by the sharding codec and chunks by the transformer, in one shard."""
    codecs = [ShardingIndexed((1, 1), [Bytes()], [Bytes("little")])]
    array = frazil.create_array(inner, path="d", shape=(8, 8), chunks=(8, 8), dtype="u1", codecs=codecs)
    store = ShardingStore(inner, "d/", DefaultKeys(), [8, 8])

    def write(writer: int) -> None:
        for turn in range(1, 5):
            for column in range(8):
                if writer % 2:
                    store.set(f"d/c/{writer}/{column}", bytes([10 * writer + turn]))
                else:
                    array[writer, column] = 10 * writer + turn

    in_threads(8, write)
    assert (array[...] == (10 * np.arange(8, dtype="u1") + 4)[:, None]).all()


# --- shards with wrong indexes ----------------------------------------------------------------------------------------------------------


def index(*entries: tuple[int, int]) -> bytes:
    return np.array(entries, "<u8").tobytes()


BAD = {
    "half empty": b"abcd" + index((0, 4), (EMPTY, 4), (EMPTY, EMPTY), (EMPTY, EMPTY)),
    "other half": b"abcd" + index((0, 4), (0, EMPTY), (EMPTY, EMPTY), (EMPTY, EMPTY)),
    "out of range": b"abcd" + index((0, 4), (60, 9), (EMPTY, EMPTY), (EMPTY, EMPTY)),
    "beyond 64 bits": b"abcd" + index((0, 4), (2**64 - 2, 4), (EMPTY, EMPTY), (EMPTY, EMPTY)),
    "too short": b"abcd",
    "nothing": b"",
}
CALLS: list[Callable[[Store], object]] = [
    lambda store: store.get("d/c0/0"),
    lambda store: store.get_partial_values([("d/c0/0", (1, 2))]),
    lambda store: store.sizes(["d/c1/1"]),
    lambda store: store.set("d/c0/1", b"new"),
    lambda store: store.put("d/c1/1", b"new", b""),
    lambda store: store.update("d/c0/0", lambda _: b"new"),
    lambda store: store.set_partial_values([("other", 0, b"x"), ("d/c0/0", 0, b"x")]),
    lambda store: store.erase_values(["d/c0/0", "d/c0/1"]),
    lambda store: store.erase_prefix("d/c0/"),
    lambda store: store.list_prefix("d/"),
    lambda store: store.list_dir("d/c0/"),
]


@pytest.mark.parametrize("shard", BAD)
def test_an_index_with_wrong_entries(inner: Store, shard: str) -> None:
    store = sharded(inner, (2, 2))
    inner.set("d/c0/0", BAD[shard])
    inner.set("d/c0/1", b"ABCD" + index((0, 4), *[(EMPTY, EMPTY)] * 3))
    before = [inner.get_versioned(key) for key in inner.list()]
    for call in CALLS:
        with pytest.raises(FormatError) as caught:
            call(store)
        assert caught.value.key == "d/c0/0"
        assert [inner.get_versioned(key) for key in inner.list()] == before
    assert store.get("d/c0/2") == b"ABCD", "the shard beside it is good"
    store.put_many(*whole_shard())
    assert store.get("d/c1/1") == b"x", "a shard that is given whole is mended"
    inner.set("d/c0/0", BAD[shard])
    store.erase_prefix("d/")
    assert inner.list() == []


def whole_shard() -> tuple[list[str], Pieces, list[None]]:
    return [f"d/c{i}/{j}" for i in (0, 1) for j in (0, 1)], pieces_of([b"x"] * 4), [None] * 4


# --- stores that fail ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_store_that_fails(inner: Store, seed: int) -> None:
    """A reported write is there; a failed one is old or new; a failed read is never an absence."""
    rng = np.random.default_rng(seed)
    clean = sharded(inner, (2, 2))
    store = sharded(FaultyStore(inner, FaultPlan(seed=seed, rate=0.15)), (2, 2))
    expected: dict[str, set[bytes | None]] = {}
    for turn in range(60):
        key = f"d/c{rng.integers(3)}/{rng.integers(3)}"
        known = expected.get(key, {None})
        value = None if rng.random() < 0.3 else b"%d" % turn * int(rng.integers(1, 9))
        try:
            if rng.random() < 0.4:
                assert store.get(key) in known
                continue
            if value is None:
                store.erase(key)
            elif rng.random() < 0.5:
                store.set(key, value)
            else:
                store.update(key, lambda _, value=value: value)  # type: ignore[misc]
            expected[key] = {value}
        except StoreError:
            expected[key] = known | {value}
        assert clean.get(key) in expected[key]
    assert all(clean.get(key) in known for key, known in expected.items())


def test_a_failed_fetch_of_chunks_is_an_error(inner: Store) -> None:
    sharded(inner, (2, 2)).set("d/c0/0", b"value")
    for kind in ("fail", "cut"):
        store = sharded(FaultyStore(inner, FaultPlan([Fault("fetch", 2, kind)])), (2, 2))  # type: ignore[arg-type]
        with pytest.raises(StoreError):
            store.get("d/c0/0")
        assert store.get("d/c0/0") == b"value"


# --- a shard that is replaced between the requests of a read ---------------------------------------------------------------------------


class Handless(WrappedStore):
    """Like a store over a network: held objects are read again under the condition that the version is the same. Something may happen before a fetch."""

    __slots__ = ("before",)

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.before: list[Callable[[], object]] = []

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        if self.before:
            self.before.pop(0)()
        if continue_from is not None:
            expect = list(continue_from.versions)
        return as_buffers(self.inner.fetch(names, spans, expect=expect), names, spans)


def nothing() -> None:
    pass


def test_a_shard_that_is_replaced_meanwhile(inner: Store) -> None:
    between = Handless(inner)
    store, other = sharded(between, (2, 2)), sharded(inner, (2, 2))
    other.set("d/c0/0", b"first")
    between.before = [nothing, lambda: other.set("d/c0/0", b"of another length")]
    assert store.get("d/c0/0") == b"of another length"
    between.before = [nothing, lambda: other.erase("d/c0/0")]
    assert store.get("d/c0/0") is None
    other.set("d/c0/1", b"beside")
    between.before = [nothing, lambda: other.set("d/c1/1", b"came between")]
    store.set("d/c0/0", b"mine")
    assert [other.get(f"d/c{key}") for key in ("0/0", "0/1", "1/1")] == [b"mine", b"beside", b"came between"]
    between.before = [nothing, lambda: other.set("d/c0/1", b"again")]
    store.update("d/c0/1", lambda old: (old or b"") + b"!")
    assert other.get("d/c0/1") == b"again!"


def test_replaced_shards_are_stale() -> None:
    between = Handless(MemoryStore())
    store = sharded(between, (2, 2))
    store.set("d/c0/0", b"first")
    store.set("plain", b"plain")
    names, spans = ["d/c0/0", "plain", "d/c0/1"], columns((0, 0, 2), (1, 0, -1), (2, 0, -1))
    continue_from = store.fetch(names, spans)
    assert read_values(continue_from, names, spans) == [b"fi", b"plain", None]
    store.set("d/c1/1", b"beside")
    again = store.fetch(names, spans, continue_from=continue_from)
    assert again.status[0] == STALE
    assert read_values(again, names, spans) == [None, b"plain", None]


@no_pauses()
def test_a_shard_that_is_replaced_at_each_read() -> None:
    inner = MemoryStore()
    between, other = Handless(inner), sharded(inner, (2, 2))
    other.set("d/c0/0", b"x")
    between.before = [lambda: other.set("d/c0/0", b"x")] * 1000
    with pytest.raises(StoreError, match="replaced") as caught:
        sharded(between, (2, 2)).get("d/c0/0")
    assert caught.value.key == "d/c0/0"


def test_a_store_without_conditions() -> None:
    class Plain(MemoryStore):
        __slots__ = ()

        @property
        def capabilities(self) -> Any:
            return super().capabilities._replace(conditional=False)

        def put_many(
            self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
        ) -> list[Version | Changed]:
            assert set(expect) == {None}
            return super().put_many(names, pieces, expect)

        def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
            assert set(expect) == {None}
            return super().erase_many(names, expect)

        def fetch(self, *arguments: Any, **options: Any) -> Fetched:
            options.pop("continue_from", None)
            fetched = super().fetch(*arguments, **options)
            return fetched._replace(versions=[None] * len(fetched.versions))

    store = sharded(Plain(), (2, 2))
    store.set("d/c0/0", b"a")
    store.set("d/c0/1", b"b")
    store.update("d/c0/1", lambda old: (old or b"") + b"c")
    store.set_partial_values([("d/c1/1", 0, b"d")])
    assert [store.get(key) for key in store.list()] == [b"a", b"bc", b"d"]
    store.erase_values(store.list())
    assert store.inner.list() == []


def test_a_shard_that_vanishes_where_there_are_no_versions() -> None:
    class Bare(Handless):
        __slots__ = ()

        def fetch(self, *arguments: Any, **options: Any) -> Fetched:
            options.pop("continue_from", None)
            fetched = super().fetch(*arguments, **options)
            return fetched._replace(versions=[None] * len(fetched.versions))

        @property
        def capabilities(self) -> Any:
            return super().capabilities._replace(conditional=False)

    between = Bare(MemoryStore())
    store = sharded(between, (2, 2))
    store.set("d/c0/0", b"value")
    between.before = [nothing, lambda: between.inner.erase("d/c0/0")]
    assert store.get("d/c0/0") is None
    store.set("d/c0/0", b"value")
    between.before = [nothing, lambda: between.inner.erase("d/c0/0")]
    store.set("d/c0/1", b"beside")
    assert store.list_prefix("d/") == ["d/c0/1"]


def test_appends_of_threads_through_a_cache_that_trusts() -> None:
    """Its stale indexes make reads start again, but lose no write."""
    below = CachingStore(MemoryStore(), 2**20, validate=False)
    store = sharded(below, (2, 2))

    def write(writer: int) -> None:
        for turn in range(5):
            assert isinstance(store.append("d/c0/0", bytes([writer, turn])), bytes)

    in_threads(8, write)
    value = sharded(below.inner, (2, 2)).get("d/c0/0") or b""
    written = sorted(zip(value[::2], value[1::2], strict=True))
    assert written == [(writer, turn) for writer in range(8) for turn in range(5)]
