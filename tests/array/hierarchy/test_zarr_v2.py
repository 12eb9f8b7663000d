"""Nodes of Zarr v2 are refused by name, whichever way they are asked for."""

from __future__ import annotations

import pytest

import frazil
from frazil.errors import NotFoundError
from frazil.stores import MemoryStore


@pytest.mark.parametrize(("document", "kind"), [(".zarray", "array"), (".zgroup", "group")])
def test_a_member_of_zarr_v2_is_named(document: str, kind: str) -> None:
    store = MemoryStore()
    group = frazil.create_group(store)
    store.set(f"inner/v2/{document}", b"{}")
    for find in (lambda: group["inner/v2"], lambda: frazil.open(store, path="inner/v2")):
        with pytest.raises(NotFoundError, match=f"a Zarr v2 {kind} is there") as caught:
            find()
        assert caught.value.key == f"inner/v2/{document}"
    with pytest.raises(NotFoundError, match="there is no 'inner/nothing' in the group"):
        group["inner/nothing"]
    assert group.get("inner/v2") is None
    assert "inner/v2" not in group
