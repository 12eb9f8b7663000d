"""Virtual chunks in stores for which each span is a request: few requests, and the expected versions."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repository.virtual.test_virtual_fetch import read

import frazil
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.repository.virtual.prefixes import StoreAt
from frazil.repository.virtual.virtual_fetch import open_containers
from frazil.stores.memory import MemoryStore
from frazil.stores.transfer.merged_spans import GAP
from frazil.stores.values import Columns, Fetched, Version
from frazil.testing import CountingStore
from frazil.testing.buffered_store import BufferedStore

CHUNKS = 50
FAR = 2 * GAP  # bytes between chunks that are too far from each other to be read as one


class TaggedStore(BufferedStore):
    """Versions are ETags, as in object stores; each fetch is recorded."""

    __slots__ = ("fetches",)

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.fetches: list[tuple[int, int, bool]] = []  # names, spans, whether any version was expected

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        self.fetches.append((len(names), len(spans), expect is not None and any(expect)))
        plain = None if expect is None else [version and _plain(version) for version in expect]
        fetched = super().fetch(names, spans, expect=plain, continue_from=continue_from, single_read=single_read)
        return fetched._replace(versions=[version and b'"%s"' % version.hex().encode() for version in fetched.versions])


def _plain(tag: bytes) -> bytes:
    try:
        return bytes.fromhex(tag.strip(b'"').decode())
    except ValueError:
        return b"another"


class Sea:
    """A repository with the array t of 50 chunks of 4 bytes, and objects of 200 bytes in two stores."""

    def __init__(self) -> None:
        self.near, self.far = (TaggedStore(MemoryStore()) for _ in range(2))
        self.prefixes = {"s3://near/": self.near, "https://far.example/data/": self.far}
        self.repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=self.prefixes)
        with self.repo.transaction(message="an array") as root:
            root.create_array("t", shape=4 * CHUNKS, dtype="u1", chunks=4, codecs=[])

    def write(self, value: int, key: str = "d.bin") -> None:
        for store in (self.near, self.far):
            store.inner.set(key, bytes([value]) * 200)

    def refer(self, urls: str | list[str], chunks: range = range(CHUNKS), **options: object) -> None:
        session = self.repo.writable_session()
        coords = [[chunk] for chunk in chunks]
        session.set_virtual_chunks("t", coords, urls, [4 * chunk for chunk in chunks], 4, **options)  # type: ignore[arg-type]
        session.commit("references")
        self.near.fetches.clear()
        self.far.fetches.clear()

    @property
    def array(self) -> frazil.Array:
        found = self.repo.readonly_session().open("t")
        assert isinstance(found, frazil.Array)
        return found


@pytest.fixture
def sea() -> Sea:
    made = Sea()
    made.write(7)
    return made


def test_spans_of_one_object_are_one_request(sea: Sea) -> None:
    sea.refer("s3://near/d.bin")
    assert (sea.array[...] == 7).all()
    assert sea.near.fetches == [(1, 1, True)]


def test_neighbours_alone_are_merged() -> None:
    inner = MemoryStore()
    inner.set("d", bytes(range(250)) * 5000)
    store = CountingStore(inner)
    places = open_containers({"s3://near/": store})
    spans = np.array([(0, 0, 10), (0, FAR, 10), (0, 20, 10), (0, FAR + 10, 5)], np.int64)
    places.fetch(["s3://near/d"], spans)
    assert [(request.start, request.length) for request in store.requests] == [(0, 30), (FAR, 15)]


def test_each_store_is_asked_once(sea: Sea) -> None:
    urls = [("s3://near/d.bin", "https://far.example/data/d.bin")[chunk % 2] for chunk in range(CHUNKS)]
    sea.refer(urls)
    assert (sea.array[...] == 7).all()
    assert len(sea.near.fetches) == len(sea.far.fetches) == 1


class MeetingStore(TaggedStore):
    """Answers after all of its kind were requested."""

    __slots__ = ("meeting",)

    def fetch(self, *arguments: Any, **options: Any) -> Fetched:
        self.meeting.wait(20)
        return super().fetch(*arguments, **options)


def test_stores_at_a_distance_are_asked_at_the_same_time() -> None:
    meeting, prefixes = Barrier(3), {}
    for number in range(3):
        prefixes[f"s3://{number}/"] = store = MeetingStore(MemoryStore())
        store.inner.set("a", bytes([number]) * 10)
        store.meeting = meeting
    spans = np.array([(2, 0, 1), (0, 0, 2), (1, 0, 3), (2, 5, 5)], np.int64)
    fetched = open_containers(prefixes).fetch([f"s3://{number}/a" for number in range(3)], spans)
    assert read(fetched) == [b"\2", b"\0" * 2, b"\1" * 3, b"\2" * 5]


def test_two_prefixes_of_one_store_are_asked_together(sea: Sea) -> None:
    repo = frazil.Repository.open(
        sea.repo._files.store, virtual_prefixes={"s3://one/": sea.near, "s3://two/": sea.near}
    )
    session = repo.writable_session()
    session.set_virtual_chunks("t", [[0], [1]], ["s3://one/d.bin", "s3://two/d.bin"], [0, 4], 4)
    assert sea.near.fetches == [(2, 0, False)]
    array = session.open("t")
    assert isinstance(array, frazil.Array) and (array[:8] == 7).all()
    assert sea.near.fetches[1:] == [(2, 2, True)]


@pytest.mark.parametrize(
    "outside",
    ["s3://nearby/d.bin", "s3://near/../d.bin", "https://far.example/d.bin", "s3://a:b@near/d.bin", "file:///d.bin"],
)
def test_urls_outside_are_refused_before_any_request(sea: Sea, outside: str) -> None:
    places, spans = open_containers(sea.prefixes), np.array([(0, 0, 1), (1, 0, 1)], np.int64)
    with pytest.raises(InvalidInputError):
        places.fetch(["s3://near/d.bin", outside], spans)
    with pytest.raises(InvalidInputError):
        places.look_up(["s3://near/d.bin", outside])
    session = sea.repo.writable_session()
    with pytest.raises(InvalidInputError):
        session.set_virtual_chunks("t", [[0], [1]], ["s3://near/d.bin", outside], 0, 4)
    assert not session.has_changes and not sea.near.fetches and not sea.far.fetches


def test_setting_asks_once_for_each_object(sea: Sea) -> None:
    sea.write(8, "e.bin")
    session = sea.repo.writable_session()
    urls = [f"s3://near/{'de'[chunk % 2]}.bin" for chunk in range(CHUNKS)]
    session.set_virtual_chunks("t", [[chunk] for chunk in range(CHUNKS)], urls, 0, 4)
    assert sea.near.fetches == [(2, 0, False)]
    session.set_virtual_chunks("t", [[0]], "s3://near/d.bin", 0, 4, check=False)
    session.set_virtual_chunks("t", [[0]], "s3://near/d.bin", 0, 4, check={"s3://near/d.bin": '"0123"'})
    assert len(sea.near.fetches) == 1


@pytest.mark.parametrize("url", ["s3://near/d.bin", "https://far.example/data/d.bin"])
def test_another_etag_is_an_error(sea: Sea, url: str) -> None:
    sea.refer(url)
    sea.write(8)
    for selection in (slice(12, 16), slice(None)):
        with pytest.raises(DataError, match="has changed: it had the version") as caught:
            sea.array[selection]
        assert (caught.value.key, caught.value.chunk, caught.value.path) == (
            url,
            (selection.start // 4 if selection.start else 0,),
            "t",
        )
    store = sea.near if url.startswith("s3") else sea.far
    assert all(spans == 0 or expected for _, spans, expected in store.fetches), (
        "no bytes of another version are asked for"
    )


def test_a_changed_or_erased_source_is_an_error(sea: Sea) -> None:
    sea.refer("s3://near/d.bin")
    sea.near.inner.set("d.bin", bytes(201))
    with pytest.raises(DataError, match="it had 200 bytes and has 201"):
        sea.array[...]
    sea.near.inner.erase("d.bin")
    with pytest.raises(StoreError, match="does not exist") as caught:
        sea.array[8:]
    assert caught.value.key == "s3://near/d.bin" and caught.value.chunk == (2,)


def test_a_missing_object_among_others(sea: Sea) -> None:
    sea.write(7, "e.bin")
    sea.refer([f"s3://near/{'de'[chunk % 2]}.bin" for chunk in range(CHUNKS)])
    sea.near.inner.erase("e.bin")
    with pytest.raises(StoreError, match="does not exist") as caught:
        sea.array[...]
    assert caught.value.key == "s3://near/e.bin" and caught.value.chunk == (1,)
    assert (sea.array[:4] == 7).all()


def test_given_etags(sea: Sea) -> None:
    (check,) = open_containers(sea.prefixes).look_up(["s3://near/d.bin"]).values()
    for tag in (check.tag, check.tag.strip('"'), (200, check.tag)):
        sea.refer("s3://near/d.bin", check={"s3://near/d.bin": tag})
        assert (sea.array[...] == 7).all()
        assert sea.near.fetches == [(1, 1, True)]
    sea.refer("s3://near/d.bin", check={"s3://near/d.bin": "0123"})
    with pytest.raises(DataError, match="it had the version '\"0123\"'"):
        sea.array[...]
    with pytest.raises(InvalidInputError, match="check names a file that has none of these chunks"):
        sea.refer("s3://near/d.bin", check={"s3://near/e.bin": "0"})
    for wrong in ("", "ä", 'W/"0"', 3, (-1, "0"), ("0", 1), None):
        with pytest.raises(InvalidInputError):
            sea.refer("s3://near/d.bin", check={"s3://near/d.bin": wrong})
    with pytest.raises(InvalidInputError, match="True, False, or a mapping"):
        sea.refer("s3://near/d.bin", check=1)


def test_unchecked_references_are_read_as_it_is(sea: Sea) -> None:
    sea.refer("s3://near/d.bin", check=False)
    sea.write(9)
    assert (sea.array[...] == 9).all()
    assert sea.near.fetches == [(1, 1, False)]


def test_a_session_travels_with_its_stores() -> None:
    store = MemoryStore("test-virtual-remote")
    store.set("d.bin", bytes([7]) * 200)
    repo = frazil.Repository.create(MemoryStore("test-virtual-remote-repo"), virtual_prefixes={"s3://near/": store})
    try:
        with repo.transaction(message="an array") as root:
            root.create_array("t", shape=4 * CHUNKS, dtype="u1", chunks=4, codecs=[])
        session = repo.writable_session()
        fork = pickle.loads(pickle.dumps(session.fork()))
        fork.set_virtual_chunks("t", [[0]], "s3://near/d.bin", 0, 4)
        assert (fork.open("t")[:4] == 7).all()
        session.merge(pickle.loads(pickle.dumps(fork)))
        session.commit("by a worker")
        assert (repo.readonly_session().open("t")[:4] == 7).all()  # type: ignore[index]
        store.set("d.bin", bytes(200))
        with pytest.raises(DataError):
            repo.readonly_session().open("t")[:4]  # type: ignore[index]
    finally:
        store.erase_prefix("")


def test_a_store_is_opened_when_it_is_asked_and_once() -> None:
    at = StoreAt("memory://test-virtual-at", 8)
    assert at.get() is at.get()
    again = pickle.loads(pickle.dumps(at))
    assert (again.url, again.requests_in_flight) == (at.url, 8) and again.get() is not at.get()
    missing = StoreAt("nothing://here", 8)
    with pytest.raises(InvalidInputError, match="no store for the scheme"):
        missing.get()


def test_prefixes_of_one_bucket_share_its_store() -> None:
    places = open_containers(["s3://a/x/", "s3://a/y/", "s3://b/", "https://A:443/x/", "https://a/y/"]).containers
    urls = {place.prefix: place.source for place in places}
    assert urls["s3://a/x/"] is urls["s3://a/y/"] is not urls["s3://b/"]
    assert urls["https://A:443/x/"] is urls["https://a/y/"]
    assert {place.prefix: (place.keys, place.address) for place in places} == {
        "s3://a/x/": ("x/", ""),
        "s3://a/y/": ("y/", ""),
        "s3://b/": ("", ""),
        "https://A:443/x/": ("x/", ""),
        "https://a/y/": ("y/", ""),
    }
    (own,) = open_containers({"s3://a/x/": "s3://a/x"}).containers
    (other,) = open_containers({"s3://a/x/": "https://host/a b%20c"}).containers
    assert (own.keys, own.address) == ("x/", "")
    assert (other.keys, other.address) == ("a b c/", "https://host/a%20b%20c/")
    assert not own.source._opened  # type: ignore[union-attr]


@given(st.binary(max_size=20))
def test_expected_versions_are_those_of_the_first_read(version: bytes) -> None:
    (place,) = open_containers({"s3://a/": CountingStore(MemoryStore())}).containers
    check = place.file_check("x", version, 3)
    expected = place.expected("x", check)
    assert expected in {version, None} or version.hex() == check.tag or expected == bytes.fromhex(check.tag)
    assert place.expected("y", check) is None, "another place has other versions"
