"""Arrays and groups over nodes that a port stores: everything goes through the port, and the store is not touched."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.array.memory_nodes import KeptNodes, kept_location
from tests.conformance.draft.user_extensions import MASK, REGISTRY

import frazil
from frazil.array.creation.array_creation import new_array
from frazil.array.group import Group, as_node
from frazil.array.hierarchy.node_changes import create_nodes
from frazil.array.hierarchy.nodes import find_nodes
from frazil.array.hierarchy.root import for_creation, locate
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FrazilError,
    InvalidInputError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
)
from frazil.metadata.model import GroupMetadata
from frazil.stores import MemoryStore
from frazil.stores.wrappers import WrappedStore

SMALL = {"shape": (4,), "dtype": "i4", "chunks": (2,)}


def root(nodes: KeptNodes) -> Group:
    location, node = locate(kept_location(nodes), "")
    assert isinstance(node, GroupMetadata)
    return Group(location, node)


def array_at(group: Group, path: str) -> frazil.Array:
    found = group[path]
    assert isinstance(found, frazil.Array)
    return found


def filled() -> tuple[KeptNodes, Group]:
    nodes = KeptNodes()
    group = root(nodes)
    group.create_array("top", **SMALL)[...] = 1
    group.create_group("below", attributes={"name": "below"}).create_array("deep/leaf", **SMALL)[...] = 2
    return nodes, group


def test_nodes_are_created_found_and_listed() -> None:
    nodes, group = filled()
    assert sorted(nodes.nodes) == ["", "below", "below/deep", "below/deep/leaf", "top"]
    assert [*group] == ["below", "top"]
    assert len(group) == 2
    assert [path for path, _ in group.members(None)] == ["below", "below/deep", "below/deep/leaf", "top"]
    assert [path for path, _ in group.members(1)] == ["below", "below/deep", "top"]
    assert "below/deep" in group
    assert "below/no" not in group
    assert array_at(group, "below/deep/leaf")[...].tolist() == [2] * 4
    assert "leaf" in str(group.tree())
    assert group.require_group("below/deep").path == "below/deep"
    made = group.create_arrays({"many/a": SMALL, "many/b": {**SMALL, "shape": 6}})
    made["many/b"][...] = 3
    assert array_at(group, "many/b")[...].tolist() == [3] * 6
    group["data"] = np.arange(3)
    assert array_at(group, "data")[...].tolist() == [0, 1, 2]
    assert set(find_nodes(kept_location(nodes), ["top", "gone"])) == {"top"}
    with pytest.raises(NotFoundError):
        group["gone"]


def test_nodes_are_changed() -> None:
    nodes, group = filled()
    top, other = array_at(group, "top"), array_at(group, "top")
    top.attrs["units"] = "m"
    assert top.append([5, 6]) == (6,)
    assert other.refresh().shape == (6,)
    assert dict(other.attrs) == {"units": "m"}
    assert other[...].tolist() == [1, 1, 1, 1, 5, 6]
    other.resize(3)
    other.resize(5)
    assert top.refresh()[...].tolist() == [1, 1, 1, 0, 0]
    group.attrs["a"] = 1
    assert dict(root(nodes).attrs) == {"a": 1}
    group.create_array("top", **SMALL, overwrite=True)
    assert array_at(group, "top")[...].tolist() == [0] * 4, "chunks belong to a node, not to its path"
    group.create_array("top", **{**SMALL, "dtype": "f8"}, overwrite=True)
    for act in (top.refresh, lambda: top.resize(9), lambda: top.append([1]), lambda: top.attrs.update(b=1)):
        with pytest.raises(ConflictError):
            act()
    group.create_group("top", overwrite=True)
    with pytest.raises(InvalidInputError, match="another kind"):
        top.attrs["b"] = 1
    del group["top"]
    with pytest.raises(NotFoundError):
        top.refresh()
    with pytest.raises(NotFoundError):
        top.attrs["b"] = 1
    with pytest.raises(NotFoundError):
        del group["top"]


def test_a_node_that_cannot_be_read_is_an_error_where_it_is_asked_for() -> None:
    nodes, group = filled()
    nodes.nodes["top"] = (9, MetadataError("no such data type", path="data_type"))
    with pytest.raises(MetadataError):
        group["top"]
    with pytest.raises(MetadataError):
        [*group.members()]
    with pytest.raises(MetadataError):
        find_nodes(kept_location(nodes), ["top"])
    assert [path for path, _ in group.members(skip_unreadable=True)] == ["below"]
    assert [*group] == ["below", "top"]
    assert "top" in group
    del group["top"]
    assert "top" not in group


def test_a_refused_creation_leaves_everything() -> None:
    nodes, group = filled()
    before = dict(nodes.nodes)
    refused: list[tuple[type[FrazilError], Callable[[], object]]] = [
        (AlreadyExistsError, lambda: group.create_array("top", **SMALL)),
        (AlreadyExistsError, lambda: group.create_arrays({"new": SMALL, "below/deep": SMALL})),
        (InvalidInputError, lambda: group.create_group("top/under")),
        (InvalidInputError, lambda: group.create_array("new", data=[["text"]], dtype="i4")),
        (InvalidInputError, lambda: group.create_array("top", shape=3, data=[1, 2], dtype="i4", overwrite=True)),
        (InvalidInputError, lambda: group.move("top", "top/in")),
        (AlreadyExistsError, lambda: group.move("top", "below")),
        (NotFoundError, lambda: group.move("gone", "there")),
    ]
    for kind, create in refused:
        with pytest.raises(kind):
            create()
        assert nodes.nodes == before


def test_nodes_are_moved_with_their_chunks() -> None:
    nodes, group = filled()
    group.move("below/deep", "x/y")
    assert [path for path, _ in group.members(None)] == ["below", "top", "x", "x/y", "x/y/leaf"]
    assert array_at(group, "x/y/leaf")[...].tolist() == [2] * 4
    group["x"].move("y/leaf", "z")  # type: ignore[union-attr]
    assert array_at(group, "x/z")[...].tolist() == [2] * 4
    with pytest.raises(ReadOnlyError):
        Group(kept_location(nodes)._replace(read_only=True), GroupMetadata()).move("top", "t")


def test_nodes_are_located_and_made_in_one_dialect() -> None:
    nodes, _ = filled()
    location = kept_location(nodes)
    found, node = locate(location.at("below"), "/deep/leaf/", 3)
    assert found.path == "below/deep/leaf"
    assert node == nodes.find("below/deep/leaf")
    assert locate(location, "none")[1] is None
    for dialect in ("draft", "draft-2021"):
        with pytest.raises(InvalidInputError, match=dialect):
            locate(location, "top", dialect)
        with pytest.raises(InvalidInputError, match=dialect):
            for_creation(location, "new", dialect, overwrite=False)
    with pytest.raises(InvalidInputError, match="entry_point"):
        for_creation(location, "new", None, overwrite=False, entry_point={})
    with pytest.raises(InvalidInputError):
        locate(location, "a/../b")
    at, replaces = for_creation(location, "new/one", 3, overwrite=True)
    assert (at.path, replaces) == ("new/one", None)
    made = new_array(at, False, [1, 2, 3])
    assert made[...].tolist() == [1, 2, 3]
    create_nodes(location.at("new/two"), {"new/two": GroupMetadata()}, overwrite=False)
    assert nodes.children("new") == ["new/one", "new/two"]


def test_storage_transformers_are_refused() -> None:
    nodes, group = filled()
    before = dict(nodes.nodes)
    with pytest.raises(InvalidInputError, match="storage transformers"):
        group.through([WrappedStore])
    with pytest.raises(InvalidInputError, match="storage transformers"):
        array_at(group, "top").through([WrappedStore])
    location = kept_location(nodes)._replace(transformers=(WrappedStore,))
    with pytest.raises(InvalidInputError, match="storage transformers"):
        as_node(location.at("top"), array_at(group, "top").metadata)
    named = Group(kept_location(nodes)._replace(registry=REGISTRY), GroupMetadata())
    with_one: dict[str, object] = {**SMALL, "storage_transformers": [{"name": MASK, "configuration": {"mask": 1}}]}
    for create in (
        lambda: named.create_array("new", **with_one),  # type: ignore[arg-type]
        lambda: named.create_arrays({"new": with_one}),
        lambda: named.create_array("top", **with_one, overwrite=True),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError, match="storage transformers"):
            create()
    assert array_at(group, "top").through([]).path == "top"
    assert nodes.nodes == before


def test_the_store_is_for_display() -> None:
    nodes, _ = filled()
    store = MemoryStore()
    group = Group(kept_location(nodes, store), GroupMetadata())
    assert group.store is array_at(group, "top").store is store
    assert repr(store) in repr(array_at(group, "top"))
    assert not store.list()
