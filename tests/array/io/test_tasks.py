"""Tasks of reads and writes: they overlap if requests are slow, have the same result as sequential ones, and end together."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slow_properties import search
from tests.strategies import Layout, basic_selections, create, layouts, same, values

import frazil
from frazil.array.io.scheduler import WORKERS, Budget
from frazil.array.io.task_costs import INNER_CHUNK_BYTES
from frazil.codecs import Bytes, Codec, Gzip, ShardingIndexed
from frazil.errors import ChecksumError, StoreError
from frazil.runtime import Runtime
from frazil.stores import MemoryStore, Store
from frazil.stores.values import Columns, Fetched, Version
from frazil.stores.wrappers import WrappedStore
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore, SlowStore

SIDE = 8  # inner chunks along a shard
SHARD = 256  # bytes of one below, decoded
DATA = np.arange(64 * SHARD, dtype="u2").astype("u1")
TASKS = 4  # a chunk of the usual size, in the budget
COST, CHUNK_COST = SHARD + SIDE * 2 * INNER_CHUNK_BYTES, SHARD + 2 * INNER_CHUNK_BYTES  # of a shard, of a chunk


def stored(shards: int | None = SHARD, **arguments: object) -> MemoryStore:
    """64 shards of 8 inner chunks, raw."""
    store = MemoryStore()
    frazil.create_array(store, data=DATA, chunks=SHARD // 8 if shards else SHARD, shards=shards, codecs=[], **arguments)
    return store


def opened(store: Store, shards: int, mode: str = "r", cost: int = COST) -> frazil.Array:
    """With so many bytes in flight that each task has this many shards, or chunks, and four tasks run at a time."""
    return frazil.open_array(store, mode=mode, runtime=Runtime(bytes_in_flight=shards * cost * TASKS))  # type: ignore[arg-type]


# --- what overlaps -----------------------------------------------------------------------------------------------------------------------


def test_tasks_fetch_their_indexes_at_once_and_then_their_chunks() -> None:
    store = SlowStore(CountingStore(stored()), 0.0)
    array = opened(store, shards=8)
    store.clear()
    store.meet(8)
    assert (array[...] == DATA).all()
    assert [call.requests for call in store.calls] == [8] * 16, "eight tasks of eight shards, a span a shard"
    store.clear()
    store.meet(TASKS)
    assert (array[...] == DATA).all()
    assert [call.requests for call in store.calls] == [8] * 8, "the indexes are remembered"


def test_a_read_of_one_shard_is_two_rounds() -> None:
    store = SlowStore(stored(), 0.0)
    array = opened(store, shards=8)
    store.clear()
    assert (array[:SHARD] == DATA[:SHARD]).all()
    assert store.rounds == 2
    assert (array[3 : SHARD // 2] == DATA[3 : SHARD // 2]).all()
    assert store.rounds == 3


def test_chunks_without_shards_come_at_once_too() -> None:
    store = SlowStore(stored(shards=None), 0.0)
    array = opened(store, shards=4, cost=CHUNK_COST)
    store.clear()
    store.meet(TASKS)
    assert (array[...] == DATA).all()
    assert [call.requests for call in store.calls] == [4] * 16


def test_points_come_at_once() -> None:
    store = SlowStore(stored(), 0.0)
    array = opened(store, shards=1)
    where = np.random.default_rng(5).permutation(len(DATA))[:3000]
    store.meet(TASKS, skip=1)  # the document
    array = opened(store, shards=1)
    assert (array.vindex[where] == DATA[where]).all()


@pytest.mark.parametrize(
    "codecs",
    [
        [ShardingIndexed([SHARD // 4], [ShardingIndexed([SHARD // 8], [Bytes()])])],
        [ShardingIndexed([SHARD // 8], [Bytes()]), Gzip(1)],
    ],
    ids=["nested", "within another codec"],
)
def test_shards_in_shards_and_within_other_codecs_come_at_once(codecs: list[Codec]) -> None:
    inner = MemoryStore()
    frazil.create_array(inner, data=DATA, chunks=SHARD, codecs=codecs)
    store = SlowStore(inner, 0.0)
    array = opened(store, shards=4)
    store.meet(3)
    assert (array[...] == DATA).all()


def test_tasks_in_a_repository_read_within_the_budget() -> None:
    inner = MemoryStore()
    with frazil.Repository.create(inner).transaction(message="data") as root:
        root.create_array("x", data=DATA, chunks=SHARD // 8, shards=SHARD, codecs=[])
    store = SlowStore(inner, 0.0)
    runtime = Runtime(bytes_in_flight=8 * COST * TASKS)
    array = frazil.Repository.open(store, runtime=runtime).readonly_session().root["x"]
    assert isinstance(array, frazil.Array)
    assert array[0] == DATA[0]  # which requires the manifest
    store.clear()
    store.meet(8)
    assert (array[...] == DATA).all()


@pytest.mark.parametrize("shards", [SHARD, None])
def test_writing_whole_chunks_and_shards_and_parts_of_them(shards: int | None) -> None:
    inner = stored(shards)
    store = SlowStore(inner, 0.0)
    array = opened(store, shards=2, mode="r+", cost=COST if shards else CHUNK_COST)
    store.clear()
    store.meet(3, "put")
    array[...] = DATA[::-1]
    calls = sorted((call.operation, call.requests) for call in store.calls)
    assert calls == [*[("fetch", 1)] * 32, *[("put", 2)] * 32], "nothing is read but the document, once for each task"
    store.meet(3)
    array[5 : len(DATA) - 5 : SHARD // 2] = 1
    expected = DATA[::-1].copy()
    expected[5 : len(DATA) - 5 : SHARD // 2] = 1
    assert (frazil.open_array(inner)[...] == expected).all()


def test_shards_that_are_decoded_whole_to_be_changed_share_what_may_be_in_flight() -> None:
    inner = MemoryStore()
    codecs = [ShardingIndexed([SHARD // 8], [Bytes()]), Gzip(1)]
    frazil.create_array(inner, data=DATA, chunks=SHARD, codecs=codecs)
    store = SlowStore(inner, 0.0)
    array = opened(store, shards=4, mode="r+")
    store.clear()
    array[::SHARD] = 9
    fetches = [call.requests for call in store.calls if call.operation == "fetch"]
    parts = [requests for requests in fetches if requests != 1]
    assert set(parts) == {2}, "each is held encoded and decoded"
    assert len(fetches) == 2 * len(parts), "and the document, once for each task"
    expected = DATA.copy()
    expected[::SHARD] = 9
    assert (frazil.open_array(inner)[...] == expected).all()


def test_functions_that_a_session_asks_may_read_it() -> None:
    """The thread that holds the session requests them: other threads that read for it would wait for that thread."""
    inner = MemoryStore()
    with frazil.Repository.create(inner).transaction(message="data") as root:
        root.create_array("x", data=DATA, chunks=SHARD, codecs=[])
    runtime = Runtime(bytes_in_flight=2 * COST * TASKS)
    repo = frazil.Repository.open(SlowStore(inner, 0.0), runtime=runtime)
    session = repo.writable_session()
    array = session.root["x"]
    assert isinstance(array, frazil.Array)
    read: list[bool] = []

    def look() -> None:
        read.append(bool((array[1:] == DATA[1:]).all()))

    def solver(conflict: object) -> str:
        look()
        return "ours"

    def order(path: str, chunks: Columns) -> Columns:
        look()
        return np.arange(len(chunks))[::-1]

    session.root.create_array("y", data=DATA, chunks=SHARD * 4, codecs=[])
    with repo.transaction(message="theirs") as root:
        root["x"][0] = 7  # type: ignore[index]
    array[0] = 9

    done = threading.Thread(
        target=lambda: session.commit("ours", rebase=solver, packing_order=order),  # type: ignore[arg-type]
        daemon=True,
    )
    done.start()
    done.join(30)
    assert not done.is_alive() and len(read) >= 2 and all(read)
    assert repo.readonly_session().root["x"][0] == 9  # type: ignore[index]


# --- what does not ---------------------------------------------------------------------------------------------------------------------


class Watched(WrappedStore):
    """Records the threads that fetch."""

    __slots__ = ("threads",)

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.threads: set[int] = set()

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        self.threads.add(threading.get_ident())
        return super().fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)


def test_threads_start_only_for_several_remote_parts() -> None:
    direct = Watched(stored())
    assert (opened(direct, shards=1)[...] == DATA).all()
    assert direct.threads == {threading.get_ident()}
    slow = Watched(SlowStore(stored(), 0.0))
    array = opened(slow, shards=8)
    assert (array[: 8 * SHARD] == DATA[: 8 * SHARD]).all()
    assert slow.threads == {threading.get_ident()}
    assert (array[...] == DATA).all()
    assert len(slow.threads) > 1


# --- requests ------------------------------------------------------------------------------------------------------------------------


def test_a_shard_in_many_parts_has_its_index_fetched_once() -> None:
    store = CountingStore(stored(shards=len(DATA), fill_value=9))
    array = frazil.open_array(store, runtime=Runtime(bytes_in_flight=len(DATA) // 4, cache_bytes=0))
    store.clear()
    assert (array[...] == DATA).all()
    index, *spans = [(done.start < 0, done.nbytes) for done in store.requests]
    assert index[0]
    assert not any(of_index for of_index, _ in spans)
    assert sum(nbytes for _, nbytes in spans) == len(DATA)
    store.inner.erase("c/0")
    store.clear()
    assert (array[...] == 9).all()
    assert store.count() == 1


def test_shards_that_are_not_there_are_one_request_each() -> None:
    inner = stored(fill_value=7)
    expected = DATA.copy()
    for i in (0, 5, 6, 7, 8, 9, 10, 11, 63):
        inner.erase(f"c/{i}")
        expected[i * SHARD : (i + 1) * SHARD] = 7
    store = CountingStore(inner)
    array = opened(store, shards=3)
    store.clear()
    assert (array[::-1] == expected[::-1]).all()
    where = np.random.default_rng(5).permutation(len(DATA))
    assert (array.vindex[where] == expected[where]).all()
    gone = [done for done in store.requests if not done.nbytes]
    assert len(gone) == 2 * 9
    assert store.count() == 64 + 55 + 9 + 55


def test_only_so_many_objects_are_of_one_task() -> None:
    inner = MemoryStore()
    frazil.create_array(inner, data=np.arange(1, 401, dtype="u2"), chunks=1, shards=1, codecs=[])
    store = SlowStore(inner, 0.0)
    array = frazil.open_array(store, runtime=Runtime(bytes_in_flight=2**20))
    store.clear()
    assert (array[...] == np.arange(1, 401)).all()
    assert max(call.requests for call in store.calls) <= 128
    assert sum(call.requests for call in store.calls) == 800


# --- errors and changes ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [2, 3, 5])  # the document is 1
def test_the_first_error_ends_a_read(call: int) -> None:
    store = FaultyStore(stored(), FaultPlan([Fault("fetch", call)]))
    array = opened(store, shards=2)
    before = {*threading.enumerate()}
    with pytest.raises(StoreError, match="an injected fault"):
        array[...]
    assert before.issuperset(threading.enumerate())
    assert store.calls["fetch"] <= call + WORKERS, "nothing is begun afterwards"
    assert (array[...] == DATA).all()


def test_a_damaged_index_is_an_error_of_its_shard() -> None:
    inner = stored()
    value = inner.get("c/40")
    assert value is not None
    inner.set("c/40", value[:-1] + bytes([value[-1] ^ 1]))
    array = opened(CountingStore(inner), shards=4)
    with pytest.raises(ChecksumError) as caught:
        array[...]
    assert caught.value.key == "c/40"
    assert (array[: 40 * SHARD] == DATA[: 40 * SHARD]).all()


class Replacing(CountingStore):
    """Replaces shards right after their indexes were fetched."""

    __slots__ = ("others",)

    def __init__(self, inner: Store, others: dict[str, bytes]) -> None:
        super().__init__(inner)
        self.others = others

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        fetched = super().fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)
        for key in names:
            if (value := self.others.pop(key, None)) is not None:
                self.inner.set(key, value)
        return fetched


def test_shards_replaced_after_their_index_was_fetched_are_read_again() -> None:
    new, other = DATA[::-1] // 3, MemoryStore()
    frazil.create_array(other, data=new, chunks=SHARD // 8, shards=SHARD, codecs=[])
    others = {key: value for key in ("c/3", "c/4", "c/62") if (value := other.get(key)) is not None}
    array = opened(Replacing(stored(), others), shards=4)
    expected, found = DATA.copy(), array[...]
    for i in (3, 4, 62):
        of_shard = slice(i * SHARD, (i + 1) * SHARD)
        expected[of_shard] = new[of_shard]
        if (found[of_shard] == DATA[of_shard]).all():  # the old version may still have been readable
            found[of_shard] = new[of_shard]
    assert (found == expected).all()
    assert (array[...] == expected).all(), "what is remembered is compared with what is there"


@search(slowness=2)
@given(layouts(), st.integers(0, 2**32), st.integers(1, 2000), st.data())
def test_values_do_not_depend_on_the_budget(layout: Layout, seed: int, nbytes: int, data: st.DataObject) -> None:
    store = SlowStore(MemoryStore(), 0.0)
    create(store, layout, "uint16")
    array = frazil.open_array(store, mode="r+", runtime=Runtime(bytes_in_flight=nbytes))
    expected = np.zeros(layout.shape, "u2")
    for turn in range(3):
        selection = data.draw(basic_selections(layout.shape))
        new = values(seed + turn, expected[selection].shape, array.dtype)
        array[selection], expected[selection] = new, new
        assert same(array[selection], expected[selection])
    assert same(array[...], expected)


def test_missing_shards_count_the_columns_of_their_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: dict[int, int] = {}

    def resume(budget: Budget, task: int, nbytes: int) -> bool:
        counted[task] = nbytes
        return admitted(budget, task, nbytes)

    admitted = Budget.resume
    monkeypatch.setattr(Budget, "resume", resume)
    store = MemoryStore()
    frazil.create_array(store, shape=2**14, dtype="u1", chunks=1, shards=2**11, codecs=[], fill_value=3)
    array = frazil.open_array(SlowStore(store, 0.0), runtime=Runtime(bytes_in_flight=2**20))
    assert (array[...] == 3).all()
    assert sum(counted.values()) == 2**14 * INNER_CHUNK_BYTES
