"""The store requests of hierarchies of the 2022 draft, counted: one listing and the documents, and nothing that the layout does not need."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import frazil
from frazil.errors import AlreadyExistsError, NotFoundError
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

ENTRY = ("fetch", "zarr.json")


def requests_of(store: CountingStore) -> list[tuple[str, str]]:
    """The requests since the last call, as (operation, key)."""
    found = [(done.operation, done.key) for done in store.requests]
    store.clear()
    return found


def documents(operation: str, *paths: str) -> list[tuple[str, str]]:
    """Both documents that a node may have."""
    return [
        (operation, f"meta/{path}.{kind}.json" if path else f"meta/{kind}.json")
        for path in paths
        for kind in ("array", "group")
    ]


@pytest.fixture
def store() -> CountingStore:
    """a (implicit) / b (implicit) / x, a / y, e (explicit)."""
    store = CountingStore(MemoryStore())
    group = frazil.create_group(store, zarr_format="draft")
    group.create_array("a/b/x", shape=(4, 4), dtype="u1", chunks=(2, 2), shards=(4, 4))
    group.create_array("a/y", data=np.arange(4))
    group.create_group("e")
    store.clear()
    return store


# --- reading -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [frazil.open, frazil.open_group])
def test_opening_a_hierarchy_is_its_entry_point_and_the_root(
    store: CountingStore, call: Callable[[CountingStore], object]
) -> None:
    call(store)
    assert requests_of(store) == [ENTRY, *documents("fetch", "")]


@pytest.mark.parametrize(
    ("path", "listed"), [("a/b/x", False), ("a/y", False), ("e", False), ("a", True), ("a/b", True), ("none", True)]
)
def test_opening_a_node_of_a_location(store: CountingStore, path: str, listed: bool) -> None:
    """A final node would have been found at once. Then follow the entry point, and both documents in one batch; a group without a document needs a listing."""
    if path == "none":
        with pytest.raises(NotFoundError):
            frazil.open(store, path=path)
    else:
        frazil.open(store, path=path)
    listing = [("list", f"meta/{path}/")] if listed else []
    expected = [ENTRY, ("fetch", f"{path}/zarr.json"), *documents("fetch", path), *listing]
    assert requests_of(store)[: len(expected)] == expected  # if there is no node, a repository is looked for


@pytest.mark.rule("D75")
def test_nodes_of_an_open_group(store: CountingStore) -> None:
    group = frazil.open_group(store)
    store.clear()
    group["a/b/x"], group["e"]
    assert requests_of(store) == documents("fetch", "a/b/x", "e")
    group["a"]
    assert requests_of(store) == [*documents("fetch", "a"), ("list", "meta/a/")]
    assert "a/y" in group
    assert requests_of(store) == documents("look up", "a/y")
    assert "none" not in group
    assert requests_of(store) == [*documents("look up", "none"), ("list", "meta/none/")]


@pytest.mark.rule("D73")
def test_a_tree_is_one_listing_and_the_documents(store: CountingStore) -> None:
    group = frazil.open_group(store)
    store.clear()
    below = [("fetch", f"meta/{name}.json") for name in ("a/b/x.array", "a/y.array", "e.group")]
    str(group.tree())
    assert requests_of(store) == [("list", "meta/"), *below]
    assert [path for path, _ in group.members(max_depth=None)] == ["a", "a/b", "a/b/x", "a/y", "e"]
    assert requests_of(store) == [("list", "meta/"), *below]
    group.tree(max_depth=1)
    assert requests_of(store) == [("list", "meta/"), *below[1:]]


@pytest.mark.rule("D72")
def test_members_are_one_listing_and_their_documents(store: CountingStore) -> None:
    group = frazil.open_group(store)
    store.clear()
    assert list(group) == ["a", "e"]
    assert requests_of(store) == [("list", "meta/")], "a listing names them"
    assert [name for name, _ in group.items()] == ["a", "e"]
    assert requests_of(store) == [("list", "meta/"), ("fetch", "meta/e.group.json")]
    inner = group["a"]
    assert isinstance(inner, frazil.Group)
    store.clear()
    assert [name for name, _ in inner.members()] == ["b", "y"]
    assert requests_of(store) == [("list", "meta/a/"), ("fetch", "meta/a/y.array.json")]


def test_chunks_cost_what_they_cost_under_the_final_codec(store: CountingStore) -> None:
    array = frazil.open_array(store, path="a/b/x", mode="r+")
    array[...] = 1
    again = pickle.loads(pickle.dumps(frazil.open_array(store.inner, path="a/b/x")))
    counted = CountingStore(store.inner)
    read = frazil.open_array(counted, path="a/b/x")
    counted.clear()
    assert (read[0, 0], again[0, 0]) == (1, 1)
    assert requests_of(counted) == [("fetch", "data/a/b/x/c0/0")] * 2, "the index, and the chunk"
    read[1, 1]
    assert requests_of(counted) == [("fetch", "data/a/b/x/c0/0")]


# --- creating and removing -----------------------------------------------------------------------------------------------------------


def test_creating_a_hierarchy() -> None:
    store = CountingStore(MemoryStore())
    frazil.create_group(store, zarr_format="draft")
    entry = [ENTRY, ("put", "zarr.json")]  # each creation checks it: another process may have created a node there
    # a hierarchy must not be created among the files of a repository
    repository = [("list", "refs/branch.main/"), ("fetch", "repo")]
    beside = [
        ("fetch", ".zgroup"),
        ("fetch", ".zarray"),
    ]  # in one batch with the entry point: a node of Zarr v2 must not be hidden
    assert requests_of(store) == [
        ENTRY,
        *beside,
        *repository,
        *documents("look up", ""),
        *entry,
        ("put", "meta/group.json"),
    ]


@pytest.mark.rule("D71")
def test_creating_nodes(store: CountingStore) -> None:
    group = frazil.open_group(store, mode="r+")
    store.clear()
    group.create_group("f")
    assert requests_of(store) == [
        *documents("fetch", ""),
        *documents("look up", "f"),
        ENTRY,
        ("put", "meta/f.group.json"),
    ]
    group.create_array("g/h", shape=3, dtype="u1")
    assert requests_of(store) == [
        *documents("fetch", "", "g"), *documents("look up", "g/h"), ("list", "meta/g/h/"), ("list", "data/g/h/"), ENTRY, ("put", "meta/g/h.array.json"),
    ]  # fmt: skip
    group.create_arrays({f"m/{i}": {"shape": 3, "dtype": "u1"} for i in range(3)})
    requests = requests_of(store)
    new = [f"m/{i}" for i in range(3)]
    assert requests[:10] == [*documents("fetch", "", "m"), *documents("look up", *new)], "in two batches"
    assert requests[16:] == [ENTRY, *[("put", f"meta/{path}.array.json") for path in new]]
    with pytest.raises(AlreadyExistsError):
        group.create_array("a/y", shape=3, dtype="u1")
    assert requests_of(store) == [*documents("fetch", "", "a"), *documents("look up", "a/y")]


@pytest.mark.rule("D74")
def test_removing_nodes(store: CountingStore) -> None:
    group = frazil.open_group(store, mode="r+")
    store.clear()
    del group["a/y"]
    assert requests_of(store) == [
        *documents("look up", "a/y"), *documents("erase", "a/y"), ("list", "meta/a/y/"), ("list", "data/a/y/"), ("erase", "data/a/y/c0"),
    ]  # fmt: skip
    del group["e"]
    assert requests_of(store) == [
        *documents("look up", "e"),
        *documents("erase", "e"),
        ("list", "meta/e/"),
        ("list", "data/e/"),
    ]
    del group["a"]
    assert requests_of(store) == [
        *documents("look up", "a"), ("list", "meta/a/"), *documents("erase", "a"), ("list", "meta/a/"), ("erase", "meta/a/b/x.array.json"), ("list", "data/a/"),
    ]  # fmt: skip


def test_changing_attributes(store: CountingStore) -> None:
    array = frazil.open_array(store, path="a/y", mode="r+")
    store.clear()
    array.attrs["units"] = "m"
    assert requests_of(store) == [("fetch", "meta/a/y.array.json"), ("put", "meta/a/y.array.json")]
    array.resize((9,))
    assert requests_of(store) == [("fetch", "meta/a/y.array.json"), ("put", "meta/a/y.array.json")]
