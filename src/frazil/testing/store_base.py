"""Shared code of the parts of StoreTests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from frazil.stores.store import Store
from frazil.stores.transfer.content import read_values
from frazil.stores.values import Columns, Fetched, Version, Versions
from frazil.testing.store_profiles import ANY_KEYS, StoreProfile

NINE_BAD_KEYS = ["", "/", "/a", "a/", "a//b", ".", "a/../b", "a\0b", "a/\udc80"]


def columns(*spans: tuple[int, int, int]) -> Columns:
    return np.array(spans, np.int64).reshape(-1, 3)


class StoreTestBase:
    """Subclasses define make_store: a new and empty store at every call. A store that cannot be written also needs filled_with.

    profile  which keys and values the store takes (store_profiles.py); any by default"""

    profile: ClassVar[StoreProfile] = ANY_KEYS

    def make_store(self) -> Store:
        raise AssertionError(f"{type(self).__name__} does not define make_store")

    def new_store(self) -> Store:
        """The store to test, with the keys of the profile."""
        return self.profile.over(self.make_store())

    def filled(self, **values: bytes) -> Store:
        """A new store with values under simple keys."""
        return self.filled_with(values)

    def filled_with(self, values: dict[str, bytes]) -> Store:
        store = self.new_store()
        for key, value in values.items():
            store.set(key, value)
        return store

    def fetch(
        self,
        store: Store,
        names: Sequence[str],
        *spans: tuple[int, int, int],
        expect: Versions | None = None,
    ) -> tuple[Fetched, list[bytes | None]]:
        requested = columns(*spans)
        fetched = store.fetch(names, requested, expect=expect)
        return fetched, read_values(fetched, names, requested)

    def version(self, store: Store, key: str) -> Version:
        found = store.get_versioned(key)
        assert found is not None, f"nothing is at {key}"
        assert found[1] is not None, "a conditional store knows the versions of what it found"
        return found[1]
