"""Chunk storage: the plain one over a store, and the translation of spans where many chunks share an object."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import InvalidInputError
from frazil.metadata.chunk_keys import DefaultKeys, V2Keys
from frazil.stores.chunk_storage import (
    INLINE,
    NOWHERE,
    STORED,
    ChunkKeys,
    ChunkStorage,
    Located,
    PlainChunks,
    fetch_located,
    object_spans,
)
from frazil.stores.content import read_values
from frazil.stores.memory import MemoryStore
from frazil.stores.store import (
    ABSENT,
    ABSENT_KEY,
    ANY,
    FOUND,
    MISSING,
    STALE,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Version,
)
from frazil.stores.values import pieces_of
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
    return read_values(storage.fetch(located, spans), [located.key(i) for i in range(len(coords))], spans)


class Unconditional(WrappedStore):
    """A store that knows no conditions."""

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
    assert again.nchunks_initialized() == 2


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
    assert read_values(chunks.fetch(located, spans, held=held), located.names, spans) == [b"ab", b"01"]
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
def test_stored_finds_what_was_published(keys: ChunkKeys, coords: set[tuple[int, int]]) -> None:
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
    """Chunk (i,) is packed[i]: None, inline bytes, or (object, base, length) in a store."""

    def __init__(self, store: MemoryStore, packed: Sequence[bytes | tuple[str, int, int] | None]) -> None:
        super().__init__(store, "", DefaultKeys())
        self.packed = packed

    def locate(self, coords: Columns) -> Located:
        places = [self.packed[i] for i in coords[:, 0].tolist()]
        names = list(dict.fromkeys(place[0] for place in places if isinstance(place, tuple)))
        inline = [place for place in places if isinstance(place, bytes)]
        rows = []
        for place in places:
            if place is None:
                rows.append((NOWHERE, 0, 0, -1))
            elif isinstance(place, bytes):
                rows.append((INLINE, inline.index(place), 0, len(place)))
            else:
                rows.append((STORED, names.index(place[0]), *place[1:]))
        kind, at, base, length = np.array(rows, np.int64).reshape(-1, 4).T.copy()
        return Located(names, kind.astype(np.uint8), at, base, length, inline)

    def fetch(self, located: Located, spans: Columns, **how: object) -> Fetched:
        return fetch_located(self.store, located, spans, **how)  # type: ignore[arg-type]


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


def packed_value(place: bytes | tuple[str, int, int] | None) -> bytes | None:
    if not isinstance(place, tuple):
        return place
    name, base, length = place
    return None if name not in PACKS else PACKS[name] if length < 0 else PACKS[name][base : base + length]


@given(st.lists(PLACES, min_size=8, max_size=8), st.lists(SPANS, max_size=12))
def test_a_span_of_a_chunk_never_leaves_it(
    packed: list[bytes | tuple[str, int, int] | None], asked: list[tuple[int, int, int]]
) -> None:
    chunks = PackedChunks(stored_packs(), packed)
    alone = MemoryStore()  # the same chunks, an object each
    names = [f"chunk/{i}" for i in range(8)]
    for name, place in zip(names, packed, strict=True):
        if (value := packed_value(place)) is not None:
            alone.set(name, value)
    located = chunks.locate(np.arange(8).reshape(-1, 1))
    spans = columns(*asked)
    fetched, simple = chunks.fetch(located, spans), alone.fetch(names, spans)
    assert read_values(fetched, names, spans) == read_values(simple, names, spans)
    assert list(fetched.status) == list(simple.status)
    assert fetched.sizes.tolist() == simple.sizes.tolist()


def test_chunks_of_one_object_are_fetched_as_spans_of_it() -> None:
    store = CountingStore(stored_packs())
    chunks = PackedChunks(stored_packs(), [("p", 10, 20), None, ("p", 30, 20), b"inline", ("q", 0, -1)])
    chunks.store = store
    located = chunks.locate(np.arange(5).reshape(-1, 1))
    assert located.names == ["p", "q"]
    assert [located.key(i) for i in range(5)] == ["p", "", "p", "", "q"]
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
    again = chunks.fetch(located, spans, held=held)
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
        chunks.fetch(located, spans, held=store.fetch(located.names, whole(2)))


@given(
    st.integers(0, 2**62), st.integers(0, 2**62 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)
)
def test_object_spans_do_not_overflow(base: int, length: int, start: int, count: int) -> None:
    located = Located(["p"], np.ones(1, np.uint8), np.zeros(1, np.int64), np.array([base]), np.array([length]))
    _, first, size = object_spans(located, columns((0, start, count)))[0].tolist()
    assert base <= first <= first + size <= base + length
