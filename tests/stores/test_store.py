"""The fallbacks of the store port, over a store that implements only the five abstract members."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.base.retry import Backoff
from frazil.errors import InvalidInputError, ReadOnlyError, StoreError
from frazil.stores import store as store_module
from frazil.stores import values
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import ABSENT, NO_SPANS, WHOLE, Capabilities, Changed, Columns, Fetched, Page, Pieces, Version
from frazil.stores.wrappers import ReadOnlyStore, WrappedStore, read_only
from frazil.testing.store_tests import StoreTests


class Bare(Store):
    """A store in memory that overrides no fallback; `can` are its capabilities."""

    most: int | None = None  # rows of a page

    def __init__(self, can: Capabilities | None = None) -> None:
        self.table = MemoryStore()
        self.can = Capabilities() if can is None else can

    @property
    def capabilities(self) -> Capabilities:
        return self.can

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        return self.table.fetch(names, spans, expect=expect, continue_from=continue_from)

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self.table.put_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        return self.table.erase_many(names, expect)

    def list_page(self, *arguments: object, **named: object) -> Page:  # type: ignore[override]
        named["limit"] = self.most if named.get("limit") is None else named["limit"]
        return self.table.list_page(*arguments, **named)  # type: ignore[arg-type]


class TestFallbacks(StoreTests):
    def make_store(self) -> Store:
        return Bare()


class TestFallbacksInSmallPages(StoreTests):
    @pytest.fixture(autouse=True)
    def _small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Bare, "most", 2)
        monkeypatch.setattr(values, "OPEN_AT_ONCE", 3)

    def make_store(self) -> Store:
        return Bare()


class TestUnconditionalStore(StoreTests):
    def make_store(self) -> Store:
        return Bare(Capabilities(conditional=False))


class TestStoreThatOnlyPuts(StoreTests):
    def make_store(self) -> Store:
        return Bare(Capabilities(erasable=False, listable=False, conditional=False))


class TestWrappedStore(StoreTests):
    def make_store(self) -> Store:
        return WrappedStore(Bare())


@given(
    st.binary(max_size=30),
    st.lists(st.tuples(st.integers(0, 35), st.binary(max_size=6)), max_size=6),
)
def test_partial_writes_are_slice_assignments(old: bytes, writes: list[tuple[int, bytes]]) -> None:
    store = Bare()
    store.set("a", old)
    taken = sorted(byte for start, value in writes for byte in range(start, start + len(value)))
    expected = bytearray(old)
    fits = len(set(taken)) == len(taken)
    for start, value in sorted(writes, key=lambda write: (write[0], len(write[1]))):
        fits = fits and start <= len(expected)
        expected[start : start + len(value)] = value
    if fits:
        store.set_partial_values(("a", start, value) for start, value in writes)
        assert store.get("a") == bytes(expected)
    else:
        with pytest.raises(InvalidInputError):
            store.set_partial_values(("a", start, value) for start, value in writes)
        assert store.get("a") == old


@given(st.binary(max_size=20), st.lists(st.tuples(st.integers(0, 25), st.none() | st.integers(0, 25)), max_size=8))
def test_partial_values_are_slices(value: bytes, ranges: list[tuple[int, int | None]]) -> None:
    store = Bare()
    store.set("a", value)
    expected = [value[start:] if length is None else value[start : start + length] for start, length in ranges]
    assert store.get_partial_values(("a", span) for span in ranges) == expected


def test_missing_capabilities_are_said_at_once() -> None:
    store = Bare(Capabilities(readable=False, listable=False, erasable=False, conditional=False))
    for call in (
        lambda: store.get("a"),
        lambda: store.get_versioned("a"),
        lambda: store.exists("a"),
        lambda: store.sizes(["a"]),
        lambda: store.get_partial_values([]),
        lambda: store.set_partial_values([("a", 0, b"")]),
        lambda: store.update("a", lambda _: b""),
        lambda: store.put("a", b"", ABSENT),
        lambda: store.erase("a"),
        lambda: store.erase_prefix(""),
        store.list,
        lambda: store.list_dir(""),
        store.is_empty,
    ):
        with pytest.raises(StoreError, match=r"not (readable|erasable|listable|conditional)"):
            call()
    store.set("a", b"1")
    assert store.table.get("a") == b"1"


def test_unwritable_stores_are_read_only() -> None:
    store = Bare(Capabilities(writable=False, erasable=False))
    for call in (
        lambda: store.set("a", b""),
        lambda: store.erase("a"),
        lambda: store.set_partial_values([("a", 0, b"")]),
    ):
        with pytest.raises(ReadOnlyError):
            call()
    assert read_only(store) is store


def test_an_update_gives_up_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    class Contested(Bare):
        def put_many(
            self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
        ) -> list[Version | Changed]:
            self.table.set(names[0], b"theirs")
            return super().put_many(names, pieces, expect)

    monkeypatch.setattr(store_module, "WRITES", Backoff(5))
    store = Contested()
    tried: list[bytes | None] = []

    def change(old: bytes | None) -> bytes:
        tried.append(old)
        return b"ours"

    with pytest.raises(StoreError, match="5 attempts") as caught:
        store.update("a", change)
    assert caught.value.key == "a"
    assert tried == [None, b"theirs", b"theirs", b"theirs", b"theirs"]
    assert store.get("a") == b"theirs"


def test_a_wrapped_store_keeps_its_better_ways() -> None:
    class Quick(Bare):
        def list_page(self, prefix: str = "", *arguments: object, **named: object) -> Page:  # type: ignore[override]
            return Page([prefix + "quick"])

    assert ReadOnlyStore(Quick()).list_dir("a/") == (["a/quick"], [])


def test_read_only_stores_pickle() -> None:
    store = MemoryStore()
    store.set("a", b"1")
    copy = pickle.loads(pickle.dumps(ReadOnlyStore(store)))
    assert copy.get("a") == b"1"
    assert not copy.capabilities.writable
    with pytest.raises(ReadOnlyError):
        copy.set("a", b"2")


def test_shared_spans_cannot_be_changed() -> None:
    for spans in (WHOLE, NO_SPANS):
        assert not spans.flags.writeable


def test_subclasses_may_do_without_a_dict() -> None:
    assert not hasattr(MemoryStore(), "__dict__")
    assert not hasattr(ReadOnlyStore(MemoryStore()), "__dict__")
