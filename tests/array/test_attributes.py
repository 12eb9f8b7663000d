"""Attributes of arrays and groups in plain stores, beyond what test_array.py and test_group.py do with them."""

from __future__ import annotations

import pytest

import frazil
from frazil.stores import MemoryStore


@pytest.mark.parametrize(("before", "after"), [(1, True), (0, False), (1, 1.0), ([1, {"a": 0}], [True, {"a": False}])])
def test_a_value_that_python_calls_equal_is_still_another(before: object, after: object) -> None:
    store = MemoryStore()
    group = frazil.create_group(store, attributes={"a": before})
    group.attrs["a"] = after
    kept = frazil.open_group(store).attrs["a"]
    assert repr(kept) == repr(after)


def test_the_same_value_is_not_written_again() -> None:
    store = MemoryStore()
    group = frazil.create_group(store, attributes={"a": 1})
    before = store.get_versioned("zarr.json")
    group.attrs["a"] = 1
    assert store.get_versioned("zarr.json") == before
