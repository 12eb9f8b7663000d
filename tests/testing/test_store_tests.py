"""StoreTests finds what a wrong store does wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from frazil.stores.memory import MemoryStore
from frazil.stores.store import Capabilities, Changed, Columns, Fetched, Pieces, Store, Version
from frazil.stores.wrappers import WrappedStore
from frazil.testing import StoreTests


class Deaf(WrappedStore):
    """Does not listen to `expect`."""

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return super().put_many(names, pieces, [None] * len(names))


class Unsorted(WrappedStore):
    """Lists in another order."""

    def list_keys(self, prefix: str = "", start_after: str = "", limit: int | None = None) -> list[str]:
        return super().list_keys(prefix, start_after, limit)[::-1]


class Forgetful(WrappedStore):
    """Reads the present object where it should read the held one."""

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        held: Fetched | None = None,
        once: bool = False,
    ) -> Fetched:
        return super().fetch(names, spans, expect=expect)


class Modest(WrappedStore):
    """Can do little, and says so."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(listable=False, erasable=False, conditional=False)


def verdict(store: type[WrappedStore]) -> set[str]:
    """The tests that a store fails."""

    class Suite(StoreTests):
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


def test_a_good_store_passes() -> None:
    assert verdict(WrappedStore) == set()


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


def test_the_suites_need_no_test_framework() -> None:
    code = "import sys, frazil.testing; assert not {'pytest', 'hypothesis', 'unittest'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
