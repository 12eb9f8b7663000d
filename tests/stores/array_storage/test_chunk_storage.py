"""Chunk storage: the plain one over a store, and the translation of spans if many chunks share an object."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from errno import ENOENT
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import InvalidInputError, StoreError
from frazil.metadata.grids.chunk_keys import DefaultKeys, V2Keys
from frazil.stores.array_storage.chunk_storage import (
    INLINE,
    NOWHERE,
    STORED,
    ChunkKeys,
    ChunkStorage,
    Located,
    ObjectList,
    PlainChunks,
)
from frazil.stores.array_storage.shared_objects import fetch_located, object_spans
from frazil.stores.local.local_store import LocalStore
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store
from frazil.stores.transfer.content import read_values
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    ANY,
    FOLDER,
    FOUND,
    MISSING,
    NO_SPANS,
    STALE,
    UNKNOWN,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Version,
    pieces_of,
)
from frazil.stores.wrappers import WrappedStore
from frazil.testing.counting_store import CountingStore
from frazil.testing.store_base import columns


def grid(*coords: tuple[int, ...]) -> Columns:
    return np.array(coords, np.int64).reshape(len(coords), -1)


def whole(count: int) -> Columns:
    return columns(*((i, 0, -1) for i in range(count)))


def published(answers: list[Version | Changed]) -> Version:
    (version,) = answers
    assert isinstance(version, bytes)
    return version


def contents(storage: ChunkStorage, coords: Columns) -> list[bytes | None]:
    located, spans = storage.locate(coords), whole(len(coords))
    return read_values(storage.fetch(located, spans), [located.key(i) or "" for i in range(len(coords))], spans)


class Unconditional(WrappedStore):
    """A store that does not support conditions."""

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(conditional=False)

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        assert set(expect) == {ANY}
        return super().put_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        assert set(expect) == {ANY}
        return super().erase_many(names, expect)


# --- plain -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [None, 8])
def test_a_store_without_conditions_is_given_none(shards: int | None) -> None:
    array = frazil.create_array(Unconditional(MemoryStore()), shape=32, dtype="u1", chunks=4, shards=shards)
    array[3:20] = 1
    array[5] = 2
    array[8:16] = 0
    array.attrs["a"] = 1
    array.resize(10)
    again = frazil.open_array(array.store)
    assert again[...].tolist() == [0, 0, 0, 1, 1, 2, 1, 1, 0, 0]
    assert again.nchunks_initialized == 2


def test_plain_chunks_are_objects_under_the_prefix() -> None:
    store = MemoryStore()
    chunks = PlainChunks(store, "group/array/", DefaultKeys())
    answers = chunks.publish(grid((0, 1), (12, 3)), pieces_of([b"one", b"two"]), [ANY, ABSENT])
    assert all(isinstance(answer, bytes) for answer in answers)
    assert store.list() == ["group/array/c/0/1", "group/array/c/12/3"]
    assert contents(chunks, grid((12, 3), (5, 5), (0, 1))) == [b"two", None, b"one"]
    assert contents(chunks, grid((0, 1))) == [b"one"]
    assert chunks.sizes(grid((0, 1), (7, 7))).tolist() == [3, -1]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_located_is_one_object_a_chunk(count: int) -> None:
    located = PlainChunks(MemoryStore(), "a/", DefaultKeys()).locate(
        np.array([(i, 0) for i in range(count)], np.int64).reshape(-1, 2)
    )
    assert list(located.names) == [f"a/c/{i}/0" for i in range(count)]
    assert [located.key(i) for i in range(count)] == list(located.names)
    assert located.labels() is located.names
    assert located.plain
    assert (located.kind == STORED).all()
    assert (located.base == 0).all()
    assert (located.length == -1).all()
    assert located.object.tolist() == list(range(count))
    assert [column.dtype for column in located[1:5]] == [np.uint8, np.int64, np.int64, np.int64]
    assert {len(column) for column in located[1:5]} == {count}


def test_plain_chunks_keep_conditions() -> None:
    chunks = PlainChunks(MemoryStore(), "", DefaultKeys())
    at = grid((4,))
    first = published(chunks.publish(at, pieces_of([b"1"]), [ABSENT]))
    assert chunks.publish(at, pieces_of([b"2"]), [ABSENT]) == [Changed(first)]
    second = published(chunks.publish(at, pieces_of([b"2"]), [first]))
    assert chunks.erase(at, [first]) == [Changed(second)]
    assert chunks.erase(at, [second]) == [None]
    assert chunks.erase(at, [ANY]) == [None]
    assert contents(chunks, at) == [None]


def test_plain_fetch_is_one_request_a_span_and_holds() -> None:
    store = CountingStore(MemoryStore())
    chunks = PlainChunks(store, "", DefaultKeys())
    at = grid((0,), (1,))
    chunks.publish(at, pieces_of([b"0123456789", b"abcdef"]), [ANY, ANY])
    store.clear()
    located = chunks.locate(at)
    spans = columns((0, -3, 3), (1, -3, 3))
    held = chunks.fetch(located, spans)
    assert read_values(held, located.names, spans) == [b"789", b"def"]
    assert store.count("fetch") == store.count() == 2
    chunks.publish(at, pieces_of([b"other", b"other"]), [ANY, ANY])
    spans = columns((1, 0, 2), (0, 0, 2))
    assert read_values(chunks.fetch(located, spans, continue_from=held), located.names, spans) == [b"ab", b"01"]
    assert list(chunks.fetch(located, spans, expect=held.versions).status) == [STALE, STALE]


def test_stored_knows_chunks_from_other_keys() -> None:
    store = MemoryStore()
    chunks = PlainChunks(store, "a/", DefaultKeys())
    there = [(0, 0), (0, 10), (2, 3), (10, 1)]
    for at in there:
        store.set(f"a/c/{at[0]}/{at[1]}", b"x")
    for key in (
        "a/zarr.json",
        "a/c/01/2",
        "a/c/-1/0",
        "a/c1/2",
        "a/c/1",
        "a/c/1/2/3",
        "a/c/1/2.tmp",
        "ab/c/1/1",
        "c/1/1",
        "a/c/٣/1",
    ):
        store.set(key, b"y")
    assert chunks.stored((11, 11)).tolist() == [list(at) for at in there]
    assert chunks.stored((11, 10)).tolist() == [[0, 0], [2, 3], [10, 1]], "outside of the grid there are no chunks"
    assert chunks.stored((0, 0)).shape == (0, 2)
    assert chunks.stored((11, 11)).dtype == np.int64


def test_stored_without_dimensions() -> None:
    store = MemoryStore()
    chunks = PlainChunks(store, "", DefaultKeys())
    assert chunks.stored(()).shape == (0, 0)
    chunks.publish(np.zeros((1, 0), np.int64), pieces_of([b"x"]), [ANY])
    assert store.list() == ["c"]
    assert chunks.stored(()).shape == (1, 0)


@pytest.mark.parametrize("keys", [DefaultKeys("."), DefaultKeys("/"), V2Keys("."), V2Keys("/")])
@given(coords=st.sets(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=12))
def test_stored_finds_published_chunks(keys: ChunkKeys, coords: set[tuple[int, int]]) -> None:
    chunks = PlainChunks(MemoryStore(), "a/", keys)
    chunks.store.set("a/zarr.json", b"{}")
    at = np.array(list(coords), np.int64).reshape(-1, 2)
    chunks.publish(at, pieces_of([b"x"] * len(at)), [ANY] * len(at))
    assert chunks.stored((13, 13)).tolist() == [list(row) for row in sorted(coords)]


def test_plain_chunks_pickle_and_extend() -> None:
    chunks = PlainChunks(MemoryStore(), "a/", DefaultKeys())
    chunks.publish(grid((1,)), pieces_of([b"x"]), [ANY])
    copy = pickle.loads(pickle.dumps(chunks))
    copy.extend(0, 5, 9)
    assert contents(copy, grid((1,))) == [b"x"]
    assert "a/" in repr(copy)
    with pytest.raises(InvalidInputError):
        PlainChunks(MemoryStore(), "a", DefaultKeys())


# --- chunks that share objects ------------------------------------------------------------------------------------------------------------


class PackedChunks(PlainChunks):
    """Chunk (i,) is packed[i]: None, inline bytes, or (object, base, length) in a store. Inline chunks share one buffer."""

    def __init__(self, store: Store, packed: Sequence[Place], **more: Any) -> None:
        super().__init__(store, "", DefaultKeys())
        self.packed, self.more = packed, more

    def locate(self, coords: Columns) -> Located:
        places = [self.packed[i] for i in coords[:, 0].tolist()]
        names = list(dict.fromkeys(place[0] for place in places if isinstance(place, tuple)))
        rows, buffer = [], b"between"
        for place in places:
            if place is None:
                rows.append((NOWHERE, 0, 0, -1))
            elif isinstance(place, bytes):
                rows.append((INLINE, 0, len(buffer), len(place)))
                buffer += place + b"between"
            else:
                rows.append((STORED, names.index(place[0]), *place[1:]))
        kind, at, base, length = np.array(rows, np.int64).reshape(-1, 4).T.copy()
        return Located(names, kind.astype(np.uint8), at, base, length, [buffer], **self.more)

    def fetch(self, located: Located, spans: Columns, **how: object) -> Fetched:
        return fetch_located(self.store, located, spans, **how)  # type: ignore[arg-type]


Place = bytes | tuple[str, int, int] | None
PACKS = {"p": bytes(range(100)), "q": bytes(range(100, 150)), "empty": b""}
PLACES = st.one_of(
    st.none(),
    st.binary(max_size=5),
    st.tuples(st.just("p"), st.integers(0, 60), st.integers(0, 40)),
    st.tuples(st.just("q"), st.integers(0, 25), st.integers(0, 25)),
    st.sampled_from([("p", 0, -1), ("q", 0, -1), ("empty", 0, -1), ("empty", 0, 0), ("gone", 0, -1), ("gone", 5, 7)]),
)
SPANS = st.tuples(st.integers(0, 7), st.integers(-50, 50), st.integers(-1, 60))


def stored_packs() -> MemoryStore:
    store = MemoryStore()
    for key, value in PACKS.items():
        store.set(key, value)
    return store


def packed_value(place: Place) -> bytes | None:
    if not isinstance(place, tuple):
        return place
    name, base, length = place
    return None if name not in PACKS else PACKS[name] if length < 0 else PACKS[name][base : base + length]


@given(st.lists(PLACES, min_size=8, max_size=8), st.lists(SPANS, max_size=12))
def test_a_span_of_a_chunk_never_leaves_it(packed: list[Place], requested: list[tuple[int, int, int]]) -> None:
    chunks = PackedChunks(stored_packs(), packed)
    alone = MemoryStore()  # the same chunks, each in its own object
    names = [f"chunk/{i}" for i in range(8)]
    for name, place in zip(names, packed, strict=True):
        if (value := packed_value(place)) is not None:
            alone.set(name, value)
    located = chunks.locate(np.arange(8).reshape(-1, 1))
    spans = columns(*requested)
    fetched, simple = chunks.fetch(located, spans), alone.fetch(names, spans)
    assert read_values(fetched, names, spans) == read_values(simple, names, spans)
    assert list(fetched.status) == list(simple.status)
    assert fetched.sizes.tolist() == simple.sizes.tolist()
    rows = np.unique(spans[:, 0])
    taken, of_taken = located.take(rows), spans.copy()
    of_taken[:, 0] = np.searchsorted(rows, spans[:, 0])
    assert set(taken.names) == {key for i in rows.tolist() if (key := located.key(i)) is not None}
    assert [taken.key(i) for i in range(len(rows))] == [located.key(i) for i in rows.tolist()]
    assert read_values(chunks.fetch(taken, of_taken), names, of_taken) == read_values(simple, names, spans)


def test_chunks_of_one_object_are_fetched_as_spans_of_it() -> None:
    store = CountingStore(stored_packs())
    chunks = PackedChunks(stored_packs(), [("p", 10, 20), None, ("p", 30, 20), b"inline", ("q", 0, -1)])
    chunks.store = store
    located = chunks.locate(np.arange(5).reshape(-1, 1))
    assert located.names == ["p", "q"]
    assert [located.key(i) for i in range(5)] == ["p", None, "p", None, "q"]
    labels = located.labels()
    assert [label != "" for label in labels] == [True, False, True, False, True]
    assert len(set(labels)) == 4
    spans = columns((0, -4, 4), (2, 0, 5), (3, 1, 2), (4, -1, -1), (1, 0, 5), (0, 0, 50))
    fetched = chunks.fetch(located, spans)
    assert [(done.operation, done.key, done.start, done.length) for done in store.requests] == [
        ("fetch", "p", 10, 25),
        ("fetch", "q", -1, -1),
    ], "what chunks share of an object is one request"
    assert list(fetched.status) == [FOUND, ABSENT_KEY, FOUND, FOUND, FOUND]
    assert fetched.sizes.tolist() == [20, -1, 20, 6, 50]
    assert fetched.rows[4, 0] == MISSING


def test_versions_of_shared_objects() -> None:
    store = stored_packs()
    chunks = PackedChunks(store, [("p", 0, 5), ("p", 5, 5), ("q", 0, 5), None, b"in"])
    located, spans = chunks.locate(np.arange(5).reshape(-1, 1)), whole(5)
    held = chunks.fetch(located, spans)
    p, q = held.versions[0], held.versions[2]
    assert list(held.versions) == [p, p, q, None, None]
    store.set("p", b"something else")
    again = chunks.fetch(located, spans, continue_from=held)
    assert read_values(again, ["p", "p", "q", "", ""], spans) == [
        PACKS["p"][:5],
        PACKS["p"][5:10],
        PACKS["q"][:5],
        None,
        b"in",
    ]
    fetched = chunks.fetch(located, spans, expect=[p, None, q, None, None])
    assert [fetched.status[0], fetched.status[2:]] == [STALE, [FOUND, ABSENT_KEY, FOUND]]
    now = store.get_versioned("p")
    assert now is not None
    fetched = chunks.fetch(located, spans, expect=[now[1], p, None, None, None])
    assert list(fetched.status) == [FOUND, STALE, FOUND, ABSENT_KEY, FOUND], (
        "of two chunks that expect different versions one is stale"
    )
    assert fetched.rows[1].tolist() == [MISSING, 0, 0]
    with pytest.raises(InvalidInputError):
        chunks.fetch(located, spans, continue_from=store.fetch(located.names, whole(2)))
    fetched = chunks.fetch(located, spans, expect=[ABSENT, None, None, p, ABSENT])
    assert [fetched.status[0], *fetched.status[2:]] == [STALE, FOUND, STALE, STALE], (
        "what is nowhere or inline has no version"
    )
    assert list(chunks.fetch(located, spans, expect=[None, None, None, ABSENT, None]).status)[3] == ABSENT_KEY
    assert located.expected_objects([None, b"1", None, b"2", b"3"]) == [b"1", None]
    assert located.expected_objects([b"0", b"1", b"2", None, None]) == [b"0", b"2"]


# --- known versions, required objects -----------------------------------------------------------------------------------------------


def test_known_versions_are_handed_on_and_compared_and_objects_expect_nothing() -> None:
    class Expecting(WrappedStore):
        def fetch(self, names: Sequence[str], spans: Columns, **how: Any) -> Fetched:
            assert how["expect"] is None
            return super().fetch(names, spans, **how)

    class Lazy(Sequence[Version | None]):
        """Versions that are created on first use."""

        made = 0

        def __len__(self) -> int:
            return 5

        def __getitem__(self, row: Any) -> Any:
            if row >= 5:
                raise IndexError
            self.made += 1
            return None if row == 3 else b"v%d" % row

    store, versions = CountingStore(stored_packs()), Lazy()
    packed: list[Place] = [("p", 0, 5), ("p", 5, 5), ("q", 0, -1), None, b"in"]
    chunks = PackedChunks(Expecting(store), packed, versions=versions)
    located, spans = chunks.locate(np.arange(5).reshape(-1, 1)), whole(5)
    fetched = chunks.fetch(located, spans)
    assert fetched.versions is versions
    assert not versions.made, "who asks for no version pays for none"
    assert fetched.version_may_repeat is None
    assert chunks.fetch(located, spans, expect=fetched.versions).status == [FOUND, FOUND, FOUND, ABSENT_KEY, FOUND]
    fetched = chunks.fetch(located, spans, expect=[b"v0", b"v0", ABSENT, ABSENT, b"other"])
    assert list(fetched.status) == [FOUND, STALE, STALE, ABSENT_KEY, STALE]
    assert (fetched.rows[[1, 2, 3, 4], 0] == MISSING).all()
    store.clear()
    looked = chunks.fetch(located, NO_SPANS)
    assert not store.count(), "nothing has to be looked up"
    assert list(looked.status) == [FOUND, FOUND, FOUND, ABSENT_KEY, FOUND]
    assert looked.sizes.tolist() == [5, 5, -1, -1, 2]
    again = chunks.fetch(located, spans, continue_from=looked)
    assert read_values(again, ["p", "p", "q", "", ""], spans)[2] == PACKS["q"]
    assert list(located.take(np.array([4, 1])).versions or ()) == [b"v4", b"v1"]


@pytest.mark.parametrize("single_read", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_an_object_that_must_be_there(tmp_path: Path, single_read: bool, held: bool) -> None:
    for store in (MemoryStore(), LocalStore(tmp_path)):
        store.set("p", bytes(100))
        for place in (("gone", 0, 5), ("gone", 0, -1)):
            packed: list[Place] = [("p", 0, 5), place, None, b"in"]
            lenient, strict = PackedChunks(store, packed), PackedChunks(store, packed, must_exist=True)
            spans = columns((0, 0, -1), (1, 0, -1), (2, 0, -1), (3, 0, -1))
            located = strict.locate(np.arange(4).reshape(-1, 1))
            before = lenient.fetch(located._replace(must_exist=False), spans) if held else None
            with pytest.raises(StoreError, match="missing") as caught:
                strict.fetch(located, spans, single_read=single_read, continue_from=before)
            assert (caught.value.key, caught.value.errno) == ("gone", ENOENT)
            others = located.take(np.array([0, 2, 3]))
            fetched = strict.fetch(others, whole(3), single_read=single_read)
            assert list(fetched.status) == [FOUND, ABSENT_KEY, FOUND]


def test_a_folder_in_the_place_of_an_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("folder/x", b"1")
    packed: list[Place] = [("folder", 0, -1), ("folder", 0, 3), None]
    chunks = PackedChunks(store, packed)
    located = chunks.locate(np.arange(3).reshape(-1, 1))
    assert list(chunks.fetch(located, whole(3)).status) == [FOLDER, FOLDER, ABSENT_KEY]
    assert chunks.fetch(located, whole(3)).sizes.tolist() == [-1, -1, -1]
    with pytest.raises(StoreError, match="missing"):
        chunks.fetch(located._replace(must_exist=True), whole(3))


def test_whole_objects_are_left_to_the_kernel_where_each_is_read_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("p", bytes(range(100)))
    chunks = PackedChunks(store, [("p", 0, -1), None, b"in", ("gone", 0, -1)])
    located = chunks.locate(np.arange(4).reshape(-1, 1))
    assert list(chunks.fetch(located, whole(4), single_read=True).status) == [UNKNOWN, ABSENT_KEY, FOUND, UNKNOWN]
    twice = columns((0, 0, 2), (0, 2, 2), (0, 4, 4))
    assert chunks.fetch(located, twice, single_read=True).status[0] == FOUND


def test_parts_of_few_objects() -> None:
    packed: list[Place] = [("b", 0, 1), None, ("a", 0, 1), ("b", 1, 1), b"in", ("c", 0, 1), ("a", 5, 1)]
    located = PackedChunks(MemoryStore(), packed).locate(np.arange(7).reshape(-1, 1))
    assert located.names == ["b", "a", "c"]
    assert [part.tolist() for part in located.parts(2)] == [[0, 1, 2, 3, 4, 6], [5]]
    assert [part.tolist() for part in located.parts(1)] == [[0, 1, 3, 4], [2, 6], [5]]
    assert [located.take(part).names for part in located.parts(2)] == [["b", "a"], ["c"]]
    nowhere = PackedChunks(MemoryStore(), [None, b""]).locate(np.arange(2).reshape(-1, 1))
    assert [part.tolist() for part in nowhere.parts(2)] == [[0, 1]]


def test_kinds_of_a_storage_s_own_lie_in_objects_too() -> None:
    class Noted(ObjectList):
        def take(self, rows: Columns) -> Noted:
            return Noted(super().take(rows))

    kind, place = np.array([STORED, 3, NOWHERE, 3, INLINE, STORED], np.uint8), np.array([0, 2, 0, 1, 0, 1], np.int64)
    located = Located(Noted(["a", "b", "c"]), kind, place, np.zeros(6, np.int64), np.full(6, 4), [b"1234"])
    assert [located.key(i) for i in range(6)] == ["a", "c", None, "b", None, "b"]
    assert [label != "" for label in located.labels()] == [True, False, False, False, False, True]
    assert [part.tolist() for part in located.parts(1)] == [[0, 2, 4], [3, 5], [1]]
    taken = located.take(np.array([1, 2, 3]))
    assert isinstance(taken.names, Noted)
    assert [taken.key(i) for i in range(3)] == ["c", None, "b"]
    assert taken.names == ["b", "c"]


def test_rows_of_located_plain_chunks_are_taken() -> None:
    chunks = PlainChunks(stored_packs(), "", V2Keys())
    located = chunks.locate(np.arange(5).reshape(-1, 1)).take(np.array([4, 0, 3]))
    assert located.plain
    assert located.names == ["4", "0", "3"]
    assert list(chunks.fetch(located, whole(3)).status) == [ABSENT_KEY] * 3


@given(
    st.integers(0, 2**62), st.integers(0, 2**62 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)
)
def test_object_spans_do_not_overflow(base: int, length: int, start: int, count: int) -> None:
    located = Located(["p"], np.ones(1, np.uint8), np.zeros(1, np.int64), np.array([base]), np.array([length]))
    _, first, size = object_spans(located, columns((0, start, count)))[0].tolist()
    assert base <= first <= first + size <= base + length
