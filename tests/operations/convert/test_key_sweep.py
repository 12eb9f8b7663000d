"""The memory of a sweep over the keys of a hierarchy."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

import frazil
from frazil.base.arrays import Columns
from frazil.operations.convert.hierarchy_keys import Hierarchy
from frazil.operations.convert.key_sweep import Sweep
from frazil.stores import MemoryStore, Page
from frazil.testing import CountingStore


class Listed(CountingStore):
    """Knows which columns of its pages are still referenced."""

    __slots__ = ("columns",)

    def list_page(self, prefix: str, after: str = "", **options: Any) -> Page:
        page = super().list_page(prefix, after, **options)
        if page.sizes is not None:
            self.columns: list[weakref.ref[Columns]] = [*getattr(self, "columns", []), weakref.ref(page.sizes)]
        return page


def test_no_page_is_kept_for_an_array_without_dimensions() -> None:
    """One chunk kept the keys of up to 65,536 others."""
    memory = MemoryStore()
    root = frazil.create_group(memory)
    for name in ("a", "c"):
        root.create_array(name, data=np.uint8(7), codecs=[])
    root.create_array("b", data=np.arange(1, 6, dtype="u1"), chunks=(1,), codecs=[])
    store = Listed(memory)
    nodes = {name: root[name].metadata for name in "abc"}
    found = []
    for chunks in Sweep(store, Hierarchy("", root._location.layout), nodes):
        found.append((chunks.keys, chunks.sizes_in(store).tolist()))
        if not chunks.coords.size:
            assert store.columns
            assert not [column for column in store.columns if column() is not None]
    assert found == [([f"b/c/{number}" for number in range(5)], [1] * 5), (["a/c"], [1]), (["c/c"], [1])]
