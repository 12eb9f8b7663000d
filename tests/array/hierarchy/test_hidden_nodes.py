"""A new node hides no node of another dialect at its path, or above it."""

from __future__ import annotations

import numpy as np
import pytest

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.stores import MemoryStore

VALUES = np.arange(6.0)
REFUSED = (InvalidInputError, AlreadyExistsError)


def mixed() -> tuple[MemoryStore, frazil.Group]:
    """A group of final Zarr v3 with a hierarchy of Zarr v2 in it."""
    inner, store = MemoryStore(), MemoryStore()
    frazil.create_group(inner, zarr_format=2).create_array("x", data=VALUES)
    root = frazil.create_group(store)
    for key in inner.list():
        store.set(f"old/{key}", inner.get(key) or b"")
    root.create_array("source", data=VALUES)
    return store, root


CREATIONS = {
    "create_group": lambda root: root.create_group("old"),
    "create_group below": lambda root: root.create_group("old/deep/g"),
    "create_array": lambda root: root.create_array("old/x", data=VALUES),
    "create_array below": lambda root: root.create_array("old/y", data=VALUES),
    "require_group": lambda root: root.require_group("old/x"),
    "setitem": lambda root: root.__setitem__("old/y", VALUES),
    "create_hierarchy": lambda root: root.create_hierarchy({"old": root.metadata}),
    "move": lambda root: root.move("source", "old/z"),
    "top level": lambda root: frazil.create_array(root.store, path="old/y", data=VALUES),
    "top level group": lambda root: frazil.create_group(root.store, path="old"),
    "rechunk": lambda root: frazil.rechunk(root["source"], root.store, to="old/r", chunks=(2,)),
}


@pytest.mark.parametrize("name", CREATIONS)
def test_a_new_node_hides_none_of_zarr_v2(name: str) -> None:
    store, root = mixed()
    before = store.list()
    with pytest.raises(REFUSED):
        CREATIONS[name](root)  # type: ignore[no-untyped-call]
    assert store.list() == before


def test_overwriting_removes_it() -> None:
    store, root = mixed()
    root.create_array("old", data=VALUES, overwrite=True)
    assert [key for key in store.list() if key.endswith((".zgroup", ".zarray"))] == []
    store, root = mixed()
    root.create_group("old", overwrite=True)
    assert list(root) == ["old", "source"]
    assert [key for key in store.list() if key.startswith("old/")] == ["old/zarr.json"]
    store, root = mixed()
    with pytest.raises(InvalidInputError, match="a node of Zarr v2 is at /old"):
        root.create_array("old/x", data=VALUES, overwrite=True)


def test_a_new_node_of_zarr_v2_is_not_hidden() -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=2)
    inner = MemoryStore()
    frazil.create_group(inner).create_array("x", data=VALUES)
    for key in inner.list():
        store.set(f"new/{key}", inner.get(key) or b"")
    before = store.list()
    for create in (lambda: root.create_group("new"), lambda: root.create_array("new/y", data=VALUES)):
        with pytest.raises(InvalidInputError, match="a node of final Zarr v3 is at /new"):
            create()
    assert store.list() == before
