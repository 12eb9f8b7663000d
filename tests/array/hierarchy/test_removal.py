"""A removal that fails anywhere leaves no array that looks whole, and the same call finishes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import NotFoundError, StoreError
from frazil.stores.memory import MemoryStore
from frazil.stores.values import Capabilities, Changed, Columns, Fetched, Version

VALUES = np.arange(1, 5)


class Failing(MemoryStore):
    """Removes `left` keys, one by one, then fails; None: never."""

    left: int | None = None

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        found: list[Changed | None] = []
        for name, version in zip(names, expect, strict=True):
            if self.left == 0:
                raise StoreError("on purpose", key=name)
            self.left = None if self.left is None else self.left - 1
            found += super().erase_many([name], [version])
        return found


@pytest.mark.parametrize("zarr_format", [2, 3, "draft"])
@pytest.mark.parametrize("path", ["g", "g/a"])
def test_a_removal_that_fails_can_be_repeated(zarr_format: int | str, path: str) -> None:
    for left in range(100):
        store = Failing()
        root = frazil.create_group(store, zarr_format=zarr_format)
        for name in ("g/a", "g/h/b", "ga"):
            root.create_array(name, data=VALUES, chunks=1)
        store.left = left
        try:
            del root[path]
        except StoreError:
            store.left = None
        else:
            break
        for name in ("g/a", "g/h/b"):
            try:
                found = frazil.open(store, path=name)
            except NotFoundError:
                continue
            assert isinstance(found, frazil.Group) or np.array_equal(found[...], VALUES)
        del root[path]
        assert path not in root and not [key for key in store.list_prefix("") if f"{path}/" in key or f"{path}." in key]
        assert np.array_equal(root.open_array("ga")[...], VALUES)
    assert left > 4


class Interrupted(Failing):
    """As a bucket: its first removal ends with Ctrl-C. `asked` counts later look-ups."""

    asked: int | None = None

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(direct=False)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        self.asked = 0
        raise KeyboardInterrupt

    def fetch(self, names: Sequence[str], spans: Columns, **options: Any) -> Fetched:
        self.asked = None if self.asked is None else self.asked + 1
        return super().fetch(names, spans, **options)


def test_an_interrupted_removal_asks_a_remote_store_for_nothing() -> None:
    """It may be one that hangs."""
    store = Interrupted()
    root = frazil.create_group(store)
    root.create_array("a", data=VALUES, chunks=1)
    with pytest.raises(KeyboardInterrupt):
        del root["a"]
    assert store.asked == 0
