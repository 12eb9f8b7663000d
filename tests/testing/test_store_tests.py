"""StoreTests finds the errors of a wrong store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.metadata.paths import normalise
from frazil.metadata.v3.documents import parse_node
from frazil.stores.array_storage.node_keys import grouped
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store
from frazil.stores.transfer.composed_values import picked
from frazil.stores.transfer.content import join_pieces
from frazil.stores.values import Capabilities, Changed, Columns, Fetched, Page, Pieces, Version
from frazil.stores.wrappers import WrappedStore
from frazil.testing import ANY_KEYS, CHUNK_KEYS, DOCUMENT_KEYS, StoreProfile, StoreTests


class Deaf(WrappedStore):
    """Ignores `expect`."""

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return super().put_many(names, pieces, [None] * len(names))


class Unsorted(WrappedStore):
    """Lists in another order."""

    def list_page(self, *arguments: object, **named: object) -> Page:  # type: ignore[override]
        page = super().list_page(*arguments, **named)  # type: ignore[arg-type]
        return page._replace(keys=page.keys[::-1])


class Forgetful(WrappedStore):
    """Reads the present object instead of the held one."""

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        return super().fetch(names, spans, expect=expect)


class Modest(WrappedStore):
    """Supports little, and reports that."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(listable=False, erasable=False, conditional=False)


def verdict(store: type[WrappedStore], keys: StoreProfile = ANY_KEYS) -> set[str]:
    """The tests that a store fails."""

    class Suite(StoreTests):
        profile = keys

        def make_store(self) -> Store:
            return store(MemoryStore())

    failed = set()
    for name in dir(Suite):
        if name.startswith("test_"):
            try:
                getattr(Suite(), name)()
            except Exception:
                failed.add(name)
    return failed


@pytest.mark.parametrize("profile", [ANY_KEYS, CHUNK_KEYS, DOCUMENT_KEYS])
def test_a_good_store_passes(profile: StoreProfile) -> None:
    assert verdict(WrappedStore, profile) == set()


def test_a_store_that_can_do_little_passes() -> None:
    assert verdict(Modest) == set()


@pytest.mark.parametrize(
    ("store", "finding"),
    [
        (Deaf, "test_conditional_put"),
        (Deaf, "test_update_repeats_what_was_overtaken"),
        (Unsorted, "test_lists_are_sorted_by_their_bytes"),
        (Forgetful, "test_held_objects_stay_as_they_were"),
    ],
)
def test_wrong_stores_are_found(store: type[WrappedStore], finding: str) -> None:
    assert finding in verdict(store)
    if store is not Unsorted:
        assert finding in verdict(store, CHUNK_KEYS) & verdict(store, DOCUMENT_KEYS)


class OfZarr(WrappedStore):
    """Accepts only keys of a Zarr hierarchy."""

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        keys = grouped(names)
        assert not keys.others
        for (_, path), value in zip(
            keys.documents, join_pieces(picked(pieces, np.array([row for row, _ in keys.documents], int))), strict=True
        ):
            assert parse_node(value).zarr_format == 3
            normalise(path)
        for path, chunks in keys.chunks:
            array = parse_node(self.inner.get(f"{path}/zarr.json") or b"")
            assert chunks.inside(array)[0] == chunks.rows
        return super().put_many(names, pieces, expect)


@pytest.mark.parametrize("profile", [CHUNK_KEYS, DOCUMENT_KEYS])
def test_profiles_use_keys_of_zarr_alone(profile: StoreProfile) -> None:
    assert verdict(OfZarr, profile) == set()
    assert len(verdict(OfZarr)) > 30


names = st.text(st.sampled_from("ab!.-_éZ"), min_size=1).filter(lambda name: name.strip("."))


@given(st.lists(st.lists(names, min_size=1, max_size=3).map("/".join), max_size=9))
def test_profiles_keep_the_order_of_keys(keys: list[str]) -> None:
    for profile in (CHUNK_KEYS, DOCUMENT_KEYS):
        over = profile.over(MemoryStore())
        assert isinstance(over, WrappedStore)
        for key in keys:
            over.set(key, b"")
        assert over.list() == sorted(set(keys))
        assert [list(over.list_page("", key, limit=2).keys) for key in keys] == [
            sorted({other for other in keys if other > key})[:2] for key in keys
        ]


def test_the_suites_need_no_test_framework() -> None:
    code = "import sys, frazil.testing; assert not {'pytest', 'hypothesis', 'unittest'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_that_replace_values_of_each_other_are_found() -> None:
    """Without frequent switches each thread of a store in memory counts to its end before the next one starts."""

    class OfDeaf(StoreTests):
        def new_store(self) -> Store:
            return Deaf(MemoryStore())

    for _ in range(20):
        try:
            OfDeaf().test_threads_count_together()
        except AssertionError:
            return
    pytest.fail("every count was right")
