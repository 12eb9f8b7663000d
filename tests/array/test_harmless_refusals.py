"""Cases that new users found: calls that must not change existing data, listings with unreadable nodes, ignored arguments."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError, MetadataError, SelectionError, UnknownExtensionError
from frazil.stores import MemoryStore


@pytest.mark.parametrize(
    "wrong", [{"data": np.arange(3), "shape": (4,)}, {"data": ["a", "b"], "dtype": "i4"}, {"data": [[1], [2, 3]]}]
)
def test_wrong_data_replaces_nothing(tmp_path: Path, wrong: dict[str, object]) -> None:
    frazil.create_array(tmp_path / "a", data=np.arange(4))
    with pytest.raises(InvalidInputError):
        frazil.create_array(tmp_path / "a", overwrite=True, **wrong)
    assert frazil.open_array(tmp_path / "a")[...].tolist() == [0, 1, 2, 3]
    with pytest.raises(InvalidInputError):
        frazil.create_array(tmp_path / "new", **wrong)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("path", ["", "/"])
def test_a_group_is_not_replaced_through_itself(path: str) -> None:
    root = frazil.group()
    root.create_group("below").create_array("leaf", data=[1])
    for group in (root, root["below"]):
        assert isinstance(group, frazil.Group)
        for change in (
            group.__delitem__,
            partial(group.__setitem__, value=[1]),
            partial(group.create_group, overwrite=True),
            partial(group.require_group, overwrite=True),
            partial(group.move, to="moved"),
        ):
            with pytest.raises(InvalidInputError, match="the group itself"):
                change(path)
    assert [path for path, _ in root.members(None)] == ["below", "below/leaf"]


def hierarchy_with_unreadable_nodes() -> MemoryStore:
    store = MemoryStore()
    group = frazil.create_group(store)
    group.create_array("a", shape=3, dtype="i4")
    group.create_group("g")
    document = store.get("a/zarr.json")
    assert document is not None
    store.set("codec/zarr.json", document.replace(b'"bytes"', b'"acme.bytes"'))
    store.set("type/zarr.json", document.replace(b'"int32"', b'"acme.int"'))
    store.set("broken/zarr.json", b"{")
    return store


def test_unreadable_nodes_do_not_hide_others() -> None:
    group = frazil.open_group(hierarchy_with_unreadable_nodes())
    assert list(group) == ["a", "broken", "codec", "g", "type"]
    assert len(group) == 5
    assert group["a"].shape == (3,)
    assert [path for path, _ in group.members(skip_unreadable=True)] == ["a", "g"]
    with pytest.raises((MetadataError, UnknownExtensionError), match="skip_unreadable"):
        list(group.members())
    text = str(group.tree())
    assert "├── a (3,) int32" in text
    assert "broken (unreadable: the document must be JSON" in text
    assert group.tree().to_json()["type"]["kind"] == "unreadable"
    for name in ("codec", "type", "broken"):
        with pytest.raises((MetadataError, UnknownExtensionError)) as caught:
            group[name]
        assert caught.value.key == f"{name}/zarr.json"


def test_views_of_an_array_pickle() -> None:
    array = frazil.create_array(MemoryStore(), data=np.arange(8), chunks=2, attributes={"units": "m"})
    assert pickle.loads(pickle.dumps(array.blocks))[1].tolist() == [2, 3]
    assert pickle.loads(pickle.dumps(array.oindex))[[1, 5]].tolist() == [1, 5]
    assert dict(pickle.loads(pickle.dumps(array.attrs))) == {"units": "m"}


def test_arguments_are_not_swallowed(tmp_path: Path) -> None:
    location = tmp_path / "a"
    array = frazil.create_array(location, data=np.arange(8), chunks=2)
    for call in (
        lambda: frazil.open_array(location, "r", shaep=3),
        lambda: frazil.open_array(location, "r", shape=3),
        lambda: frazil.open_array(location, "a", shaep=3),
        lambda: frazil.create_array(location, shape=3, dtype="i4", index_location="middle", overwrite=True),
        lambda: frazil.create_array(location, shape=3, dtype="i4", overwrite="yes"),
        lambda: frazil.open_array(location, registry=None),
        lambda: frazil.open_array(location, runtime=None),
        lambda: array.read(out=[1]),
        lambda: array.append([1], axis=0.0),
        lambda: frazil.create_group(tmp_path / "g").create_arrays({"p": {"shpe": 3}}),
        lambda: frazil.open_group(tmp_path / "g", "r+").create_arrays({"p": {"shape": 3}}),
    ):
        with pytest.raises(InvalidInputError):
            call()
    assert frazil.open_array(location)[...].tolist() == list(range(8))


def test_errors_name_the_array() -> None:
    group = frazil.create_group(MemoryStore())
    array = group.create_array("x/y", shape=(3, 3), dtype="i4")
    for call in (lambda: array[9], lambda: array.oindex[[9], 0], lambda: array.vindex[[0], [9]], lambda: array.read(9)):
        with pytest.raises(SelectionError) as caught:
            call()
        assert caught.value.path == "x/y"
    with pytest.raises(SelectionError) as caught:
        array[...] = np.zeros((2, 2))
    assert caught.value.path == "x/y"
    with pytest.raises(AlreadyExistsError):
        group.create_group("x/y")


@pytest.mark.parametrize("rank", [33, 64, 65])
def test_too_many_dimensions(rank: int) -> None:
    with pytest.raises(InvalidInputError):
        frazil.create_array(MemoryStore(), shape=(1,) * rank, dtype="i4", chunks=(1,) * rank)
