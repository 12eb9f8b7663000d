"""The names of zarr-python's Group: members by kind, creation, items that are replaced."""

from __future__ import annotations

import numpy as np
import pytest

import frazil
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, NodeKindError, NotFoundError
from frazil.stores import MemoryStore


def filled() -> frazil.Group:
    group = frazil.group()
    group.create_array("x", shape=4, dtype="i4")
    group.create_array("below/y", shape=4, dtype="i4")
    group.create_group("below/empty")
    return group


def test_members_by_kind() -> None:
    group = filled()
    assert list(group.array_keys()) == ["x"]
    assert [array.path for array in group.array_values()] == ["x"]
    assert list(group.group_keys()) == ["below"]
    assert [below.path for below in group.group_values()] == ["below"]
    assert (group.nmembers(), group.nmembers(None)) == (2, 4)
    below = group["below"]
    assert (group.name, group.basename, below.name, below.basename) == ("/", "", "/below", "below")
    assert "below" in group._ipython_key_completions_()


def test_attributes_are_updated() -> None:
    group = filled()
    assert group.update_attributes({"a": 1}) is group
    assert dict(group.attrs) == {"a": 1}


def test_an_item_replaces_the_existing_node() -> None:
    group = filled()
    group["x"] = np.arange(3.0)
    assert (group["x"].dtype, group["x"][...].tolist()) == (np.dtype("f8"), [0, 1, 2])
    group["below"] = [[1, 2]]
    assert group["below"].shape == (1, 2)
    assert group.nmembers(None) == 2
    group["x"] = group["below"]
    assert group["x"][...].tolist() == [[1, 2]]


@pytest.mark.parametrize(("name", "value"), [("empty", 0), ("zeros", 0), ("ones", 1)])
def test_arrays_of_one_value(name: str, value: int) -> None:
    group = frazil.group()
    array = getattr(group, name)(name="a", shape=(2, 3), dtype="i2", chunks=(1, 3))
    assert (array.dtype, array.chunks) == (np.dtype("i2"), (1, 3))
    assert (array[...] == value).all()
    assert getattr(group, name)(name="b", shape=2).dtype == np.float64
    like = getattr(group, f"{name}_like")(name="c", data=array)
    assert (like.shape, like.dtype, like.chunks) == (array.shape, array.dtype, array.chunks)
    assert (like[...] == value).all()
    full = group.full(name="d", shape=2, fill_value=7)
    assert full[...].tolist() == [7, 7]
    assert group.full_like(name="e", data=full)[...].tolist() == [7, 7]
    assert group.full_like(name="f", data=np.zeros(2, "u1"), fill_value=3).fill_value == 3


@pytest.mark.parametrize(
    ("dtype", "chunks", "shards"),
    [
        ("bytes", 2, None),
        ("complex_bfloat16", 2, 4),
        ({"name": "zarrs.optional", "configuration": {"name": "int16"}}, 2, None),
        ({"name": "zarrs.optional", "configuration": {"name": "string"}}, 2, None),
        ("int16", [[2, 3]], None),
        ("int16", 2, [[2, 4]]),
    ],
)
def test_data_types_and_grids_that_numpy_does_not_know_are_kept(dtype: object, chunks: object, shards: object) -> None:
    source = frazil.create_array(MemoryStore(), shape=5, dtype=dtype, chunks=chunks, shards=shards)
    group = frazil.group()
    made = [group.empty_like(name="a", data=source), frazil.empty_like(source), frazil.array(source)]
    made += [frazil.from_array(MemoryStore(), data=source, write_data=write) for write in (True, False)]
    made += [group.create_array("b", data=source, chunks=source.chunks), group.create_array("c", data=source.lazy[...])]
    assert {array.metadata.data_type for array in made} == {source.metadata.data_type}
    assert {array.metadata.chunk_grid for array in made[:-2]} == {source.metadata.chunk_grid}
    assert group.empty_like(name="d", data=source, chunks=1).shards is None
    old = frazil.create_group(MemoryStore(), zarr_format=2)
    null = old.create_array("a", shape=3, dtype="i4", chunks=3, fill_value=None)
    assert old.empty_like("b", null).metadata.fill_is_undefined


def test_ragged_data_is_refused() -> None:
    group = frazil.group()
    for create in (group.array, lambda name, data: group.empty_like(name=name, data=data)):
        with pytest.raises(InvalidInputError, match="not an array"):
            create("x", [[1], [2, 3]])


def test_older_names_of_creating_arrays() -> None:
    group = frazil.group()
    made = group.create_dataset("a", shape=3, dtype="i4")
    assert group.require_dataset("a", shape=3, dtype="i4") == made
    assert group.require_dataset("b", shape=3).dtype == group.create_dataset("d", shape=3).dtype == np.float64
    assert group.create("f", shape=3).dtype == np.float64
    assert group.create_dataset("e", data=np.arange(3, dtype="i2")).dtype == np.int16
    with pytest.raises(AlreadyExistsError):
        group.require_dataset("a", shape=4, dtype="i4")
    assert group.array("c", [1, 2])[...].tolist() == [1, 2]


def test_many_nodes_at_once() -> None:
    group = frazil.group()
    nodes = {
        "a": {"attributes": {"k": 1}},
        "a/x": {"shape": (4,), "dtype": "u1", "chunks": (2,)},
        "b": {},
        "c": None,
    }
    made = dict(group.create_hierarchy(nodes))
    assert list(made) == list(nodes)
    assert dict(made["a"].attrs) == {"k": 1}
    assert made["a/x"].chunks == (2,)
    assert sorted(path for path, _ in group.members(None)) == ["a", "a/x", "b", "c"]
    with pytest.raises(AlreadyExistsError):
        group.create_hierarchy({"b": {}})
    deep = dict(group.create_hierarchy({"d/e/f": {}, "d": {"attributes": {"k": 2}}, "d/e": {}}))
    assert (list(deep), dict(deep["d"].attrs)) == (["d/e/f", "d", "d/e"], {"k": 2})
    with pytest.raises(InvalidInputError, match="does not describe"):
        group.create_hierarchy({"d": 5})


def test_metadata_of_zarr_python() -> None:
    zarr = pytest.importorskip("zarr")
    group = frazil.group()
    nodes = [zarr.create_array({}, shape=(4,), dtype="i4", zarr_format=version).metadata for version in (2, 3)]
    with pytest.raises(InvalidInputError, match="Zarr v2"):
        group.create_hierarchy({"x": nodes[0]})
    assert list(group) == []
    assert dict(group.create_hierarchy({"x": nodes[1]}))["x"].shape == (4,)


def test_nodes_of_a_refused_hierarchy_leave_nothing() -> None:
    group = frazil.group(MemoryStore())
    for wrong in ({"a": {}, "b": {"shape": 4}}, {"a": {}, "b": {"shape": 4, "dtype": "none"}}, {"a": {"colour": 1}}):
        with pytest.raises(FrazilError):
            group.create_hierarchy(wrong)
        assert list(group) == []


def test_name_is_the_path_of_a_new_member() -> None:
    """Same call as in zarr-python. The format of a member is that of its group."""
    group = frazil.create_group(MemoryStore())
    assert group.create_array(name="a/x", shape=3, dtype="i4").path == "a/x"
    assert group.create_group(name="b").path == "b"
    for call in (lambda: group.create_array(shape=3, dtype="i4"), group.create_group):
        with pytest.raises(InvalidInputError, match="has no path"):
            call()
    with pytest.raises(InvalidInputError, match="format of its group"):
        group.create_array("y", shape=3, dtype="i4", zarr_format=2)  # type: ignore[call-arg]
    assert "y" not in group


def test_info() -> None:
    group = frazil.group(attributes={"title": "sea"})
    group.require_groups("a", "b/c")
    group.zeros("x", shape=(3,))
    assert ("read only", "no") in group.info.rows()
    assert "members" not in str(group.info)
    assert "attribute title" in str(group.info)
    found = group.info_complete()
    assert (found.arrays, found.groups) == (1, 3)
    assert "1 array, 3 groups" in repr(found)
    assert group.info.to_json()["attributes"] == {"title": "sea"}
    assert "frazil.Group info" in group.info._repr_html_()


def test_nodes_of_one_kind() -> None:
    group = frazil.group()
    group.create("a/x", shape=(3,), dtype="i4")
    assert group.get_array("a/x").shape == (3,)
    assert group.get_group("a").path == "a"
    for call in (lambda: group.get_array("a"), lambda: group.get_group("a/x"), lambda: group.require_group("a/x")):
        with pytest.raises(NodeKindError):
            call()
    with pytest.raises(NotFoundError):
        group.get_array("b")
    assert group.array("y", [1, 2])[:].tolist() == [1, 2]
    assert group.array("z", shape=(2,)).dtype == np.float64
    assert str(group.tree(level=0, expand=True, plain=True)).count("\n") == str(group.tree(0)).count("\n")


def test_a_hierarchy_from_metadata() -> None:
    group = frazil.group(attributes={"title": "sea"})
    group.create_array(
        "x", shape=(4, 4), dtype="i2", chunks=(2, 2), shards=(4, 4), fill_value=7, dimension_names=("a", "b")
    )
    group.create_group("b", attributes={"level": 1})
    nodes = {"": group.metadata, **{path: node.metadata for path, node in group.members(None)}}
    made = dict(frazil.create_hierarchy(store={}, nodes=nodes))
    assert set(made) == set(nodes)
    assert all(made[path].metadata == node for path, node in nodes.items())
    old = frazil.group(zarr_format=2).create_array("x", shape=3, dtype="i4")
    with pytest.raises(InvalidInputError):
        group.create_hierarchy({"y": old.metadata})


def test_the_place_of_a_node_is_a_location() -> None:
    group = frazil.group()
    array = group.create_array("a/x", shape=3, dtype="i4")
    store_path = group.store_path / "a" / "x"
    assert store_path == array.store_path == (group.store, "a/x")
    assert frazil.open_array(store_path, "r+") == array
    assert frazil.open_group(group.store_path, path="a").path == "a"
    assert frazil.create_array(store=group.store_path / "a/y", shape=1, dtype="u1").path == "a/y"
    assert str(store_path) == f"{group.store!r}/a/x"


def test_consolidated_metadata_by_the_name_of_zarr_python() -> None:
    group = frazil.group()
    group.create_array("a/x", shape=3, dtype="i4")
    assert group.metadata.consolidated_metadata is None
    found = frazil.consolidate_metadata(group).metadata.consolidated_metadata
    assert found is not None
    assert sorted(found.metadata) == ["a", "a/x"]
    assert found.metadata["a/x"]["shape"] == [3]  # type: ignore[index,call-overload] # of an object
    assert frazil.open_group(group.store).metadata.consolidated_metadata == found
    assert frazil.group(zarr_format=2).metadata.consolidated_metadata is None
