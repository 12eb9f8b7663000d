"""Appending where the value is replaced while it is read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from frazil.stores import MemoryStore
from frazil.stores.values import ABSENT, ANY, STALE, Changed, Columns, Fetched, Version


class Replaced(MemoryStore):
    """The first fetch finds that another writer replaces the value meanwhile."""

    replaced = False

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
        if self.replaced or not len(spans):
            return fetched
        self.replaced = True
        self.set(names[0], b"new")
        return fetched._replace(status=[STALE])


@pytest.mark.parametrize("expect", [ANY, ABSENT])
def test_a_value_that_is_replaced_meanwhile(expect: Version | None) -> None:
    """It is read again, unless a version is expected: then the caller gets the change."""
    store = Replaced()
    store.set("a", b"old")
    assert isinstance(store.append("a", b"!", expect), Changed) == (expect is ABSENT)
    assert store.get("a") == (b"new" if expect is ABSENT else b"new!")
