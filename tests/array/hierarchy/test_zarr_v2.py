"""Hierarchies of Zarr v2: nodes in two documents, their changes, their copies, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.array.hierarchy.root import locate
from frazil.codecs import PackBits
from frazil.errors import AlreadyExistsError, InvalidInputError, MetadataError, NotFoundError
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

VALUES = np.arange(12.0).reshape(3, 4)


def documents(store: MemoryStore) -> list[str]:
    return [key for key in store.list() if key.rpartition("/")[2].startswith(".")]


def test_a_hierarchy() -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=2, attributes={"title": "sea"})
    array = root.create_array("a/x", data=VALUES, chunks=(2, 2), dimension_names=["y", "x"], attributes={"u": "K"})
    root.create_group("a/empty")
    assert documents(store) == [".zattrs", ".zgroup", "a/.zgroup", "a/empty/.zgroup", "a/x/.zarray", "a/x/.zattrs"]
    assert json.loads(store.get("a/x/.zattrs") or b"") == {"u": "K", "_ARRAY_DIMENSIONS": ["y", "x"]}
    assert "a/x/1.1" in store.list()
    for opened in (frazil.open_group(store), frazil.open_group(store, zarr_format=2), frazil.open_group(store, "a")):
        assert [path for path, _ in opened.members(None)] == ["a", "a/empty", "a/x"]
        assert (list(opened), opened.attrs.asdict(), opened.metadata.zarr_format) == (["a"], {"title": "sea"}, 2)
    for again in (frazil.open_array(store, path="a/x"), frazil.open(store, path="a/x", zarr_format=2), array):
        np.testing.assert_array_equal(again[...], VALUES)  # type: ignore[index]
        assert again.dimension_names == ("y", "x")  # type: ignore[union-attr]
        assert again.attrs.asdict() == {"u": "K", "_ARRAY_DIMENSIONS": ["y", "x"]}
    assert "a/x" in root
    assert "a/y" not in root
    with pytest.raises(NotFoundError):
        root["a/y"]
    with pytest.raises(InvalidInputError, match="zarr_format 2"):
        frazil.open_group(store, zarr_format="draft")


def test_names_of_dimensions_are_an_attribute() -> None:
    """As programs for zarr-python read and write them."""
    store = MemoryStore()
    array = frazil.create_array(store, data=VALUES, zarr_format=2)

    def names() -> object:
        assert frazil.open_array(store).dimension_names == array.dimension_names
        assert (
            frazil.open_array(store).attrs.asdict() == array.attrs.asdict() == json.loads(store.get(".zattrs") or b"{}")
        )
        return array.dimension_names

    array.attrs["_ARRAY_DIMENSIONS"] = ("y", "x")
    array.attrs["units"] = "K"
    assert names() == ("y", "x")
    array.attrs.update(_ARRAY_DIMENSIONS=["v", "u"])
    assert names() == ("v", "u")
    assert array.metadata.to_dict()["attributes"] == {"units": "K", "_ARRAY_DIMENSIONS": ["v", "u"]}
    assert frazil.from_array({}, data=array).attrs.asdict() == {"units": "K"}
    for zarr_format in (2, 3):  # as scripts copy arrays
        given = {"zarr_format": zarr_format, "attributes": array.attrs.asdict()}
        copy = frazil.create_array({}, data=VALUES, dimension_names=array.dimension_names, **given)  # type: ignore[arg-type]
        assert (copy.dimension_names, copy.attrs.asdict()) == (("v", "u"), array.attrs.asdict())
    with pytest.raises(MetadataError, match="reserved"):
        frazil.create_array({}, data=VALUES, zarr_format=2, dimension_names=["a", "b"], attributes=array.attrs.asdict())
    array.attrs["_ARRAY_DIMENSIONS"] = ["of another meaning"]
    assert names() is None
    array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    del array.attrs["_ARRAY_DIMENSIONS"]
    assert names() is None
    array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    array.attrs.put({})
    assert names() is None


def test_a_later_node_has_the_dialect_of_its_hierarchy() -> None:
    store = MemoryStore()
    frazil.create_group(store, zarr_format=2)
    frazil.create_array(store, path="b", data=VALUES)
    assert documents(store) == [".zgroup", "b/.zarray"]
    with pytest.raises(InvalidInputError, match="cannot be in it"):
        frazil.create_array(store, path="c", data=VALUES, zarr_format=3)
    final = MemoryStore()
    frazil.create_group(final)
    with pytest.raises(AlreadyExistsError):
        frazil.create_array(final, path="c", data=VALUES, zarr_format=2)


@pytest.mark.parametrize("zarr_format", [None, 3, "draft"])
def test_new_nodes_do_not_hide_nodes_of_another_dialect(zarr_format: int | str | None) -> None:
    store = MemoryStore()
    frazil.create_array(store, path="a", data=VALUES, zarr_format=2)
    frazil.create_group(store, path="g", zarr_format=2)
    store.erase(".zgroup")  # so that each is its own hierarchy
    before = store.list()
    for location, path in ((store, "a"), (store, "a/b"), (store, "g"), (store, "g/b/c")):
        for create in (frazil.create_group, frazil.create_array):
            arguments = {} if create is frazil.create_group else {"shape": (2,), "dtype": "u1"}
            with pytest.raises((InvalidInputError, AlreadyExistsError)):
                create(location, path=path, zarr_format=zarr_format, **arguments)  # type: ignore[operator]
    assert store.list() == before
    frazil.create_group(store, path="g", zarr_format=zarr_format, overwrite=True)
    assert zarr_format == "draft" or "g/.zgroup" not in store.list()


@pytest.mark.parametrize("zarr_format", [None, 3, "draft"])
def test_a_group_does_not_hide_an_array(zarr_format: int | str | None, tmp_path: Path) -> None:
    frazil.create_array(tmp_path, data=VALUES, zarr_format=2)
    with pytest.raises((InvalidInputError, AlreadyExistsError)):
        frazil.create_group(tmp_path, zarr_format=zarr_format)
    np.testing.assert_array_equal(frazil.open_array(tmp_path)[...], VALUES)
    frazil.create_array(tmp_path, data=VALUES + 1, zarr_format=3, overwrite=True)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["zarr.json"]
    np.testing.assert_array_equal(frazil.open_array(tmp_path)[...], VALUES + 1)


def test_changes() -> None:
    store = MemoryStore()
    array = frazil.create_array(store, path="x", data=VALUES, chunks=(2, 2), zarr_format=2, dimension_names=["y", "x"])
    array.attrs["a"] = 1
    array.resize((5, 4))
    array[4] = 9
    again = frazil.open_array(store, "r+", path="x")
    assert (again.shape, dict(again.metadata.attributes), again.dimension_names) == ((5, 4), {"a": 1}, ("y", "x"))
    assert again[4].tolist() == [9] * 4
    del again.attrs["a"]
    assert json.loads(store.get("x/.zattrs") or b"") == {"_ARRAY_DIMENSIONS": ["y", "x"]}
    again.append(VALUES)
    assert frazil.open_array(store, path="x").shape == (8, 4)
    root = frazil.open_group(store, "r+")
    root.move("x", "deep/z")
    np.testing.assert_array_equal(root["deep/z"][5:], VALUES)  # type: ignore[index]
    del root["deep"]
    assert list(root) == []
    with pytest.raises(AlreadyExistsError):
        frazil.create_group(store, path="", zarr_format=2)


def test_nodes_of_another_kind_are_not_replaced() -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=2)
    root.create_array("x", data=VALUES)
    with pytest.raises(AlreadyExistsError):
        root.create_group("x")
    with pytest.raises(AlreadyExistsError):
        root.create_array("x", data=VALUES)
    root.create_group("x", overwrite=True)
    assert isinstance(root["x"], frazil.Group)
    frazil.create_array(store, data=VALUES, overwrite=True, zarr_format=2)
    assert documents(store) == [".zarray"]


def test_consolidated_metadata() -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=2, attributes={"t": 1})
    root.create_array("a/x", data=VALUES, attributes={"u": "K"})
    frazil.consolidate_metadata(store)
    keys = json.loads(store.get(".zmetadata") or b"")["metadata"]
    assert list(keys) == [".zgroup", ".zattrs", "a/.zgroup", "a/x/.zarray", "a/x/.zattrs"]
    copied = store.get(".zmetadata")
    counting = CountingStore(store)
    group = frazil.open_consolidated(counting, check=False)
    requests = counting.count()
    assert [path for path, _ in group.members(None)] == ["a", "a/x"]
    assert group["a/x"].attrs.asdict() == {"u": "K"}
    assert counting.count() == requests
    frazil.open_array(store, "r+", path="a/x").attrs["u"] = "C"
    assert store.get(".zmetadata") is None, "a change drops the copies"
    assert copied is not None
    store.set(".zmetadata", copied)
    with pytest.raises(MetadataError, match="stale"):
        frazil.open_consolidated(store)
    for change in ("create", "remove", "own"):
        store.set(".zmetadata", copied)
        match change:
            case "create":
                root.create_group("a/new")
            case "remove":
                del root["a/new"]
            case _:
                root.attrs["t"] = 2
        assert store.get(".zmetadata") is None, change


def test_invalid_v2_arrays_are_refused(tmp_path: Path) -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=2)
    for arguments, member in (
        ({"shards": (4, 4), "chunks": (2, 2)}, "codecs"),
        ({"chunk_key_encoding": "default"}, "chunk_key_encoding"),
        ({"dimension_names": ["x", None]}, "dimension_names"),
        (
            {
                "codecs": [
                    {"name": "transpose", "configuration": {"order": [0, 1]}},
                    "bytes",
                    {"name": "sharding_indexed"},
                ]
            },
            "",
        ),
    ):
        with pytest.raises(MetadataError) as caught:
            root.create_array("x", shape=(4, 4), dtype="f4", **arguments)  # type: ignore[arg-type]
        assert (caught.value.path or "").startswith(member)
    assert list(root) == []
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="x") as session, pytest.raises(InvalidInputError, match="zarr_format 2") as refused:
        locate(session._location, "", 2)
    assert "convert" in (refused.value.hint or "")


def test_refusals_of_what_zarr_v2_does_not_have_name_it() -> None:
    with pytest.raises(MetadataError, match=r"^Zarr v2 has no data type bfloat16"):
        frazil.create_array({}, shape=2, dtype="bfloat16", zarr_format=2)
    with pytest.raises(MetadataError, match=r"^Zarr v2 and .* have only the codecs of numcodecs, not packbits"):
        frazil.create_array({}, shape=2, dtype="bool", codecs=[PackBits()], zarr_format=2)


def test_chunks_without_elements_are_there_only_while_the_array_has_none() -> None:
    store = MemoryStore()
    document = {"zarr_format": 2, "shape": [0], "chunks": [0], "dtype": "<i4", "compressor": None, "fill_value": 7, "order": "C", "filters": None}  # fmt: skip
    store.set(".zarray", json.dumps(document).encode())
    frazil.open_array(store, "r+").resize(3)
    assert json.loads(store.get(".zarray") or b"") == {**document, "shape": [3], "chunks": [1]}
    assert frazil.open_array(store)[...].tolist() == [7, 7, 7]


def test_bad_documents() -> None:
    good = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i4", "compressor": None, "fill_value": 0, "order": "C", "filters": None}  # fmt: skip
    for change in (
        {"zarr_format": 3},
        {"shape": [-1]},
        {"chunks": [2, 2]},
        {"chunks": [0]},
        {"dtype": [["f", "<i4", [1] * 40]]},
        {"dtype": "<i3"},
        {"dtype": "|O"},
        {"order": "A"},
        {"filters": {}},
        {"filters": [{"id": "pickle"}]},
        {"compressor": {"id": "nothing"}},
        {"fill_value": "x"},
        {"dimension_separator": "-"},
    ):
        store = MemoryStore()
        store.set("x/.zarray", json.dumps({**good, **change}).encode())
        with pytest.raises(InvalidInputError) as caught:
            frazil.open_array(store, path="x")
        assert caught.value.key == "x/.zarray", change
    for attributes in (b"[", b"[1]", b"{}x"):
        store = MemoryStore()
        store.set("x/.zarray", json.dumps(good).encode())
        store.set("x/.zattrs", attributes)
        with pytest.raises(MetadataError) as caught:
            frazil.open_array(store, path="x")
        assert caught.value.key == "x/.zattrs"


def test_zeros_are_stored_where_the_fill_value_is_null() -> None:
    store = MemoryStore()
    document = {"zarr_format": 2, "shape": [4, 4], "chunks": [2, 2], "dtype": "<i4", "compressor": None, "fill_value": None, "order": "C", "filters": None}  # fmt: skip
    store.set("x/.zarray", json.dumps(document).encode())
    array = frazil.open_array(store, "r+", path="x")
    assert (array[...] == 0).all()
    array[2, 2] = 0
    assert store.get("x/1.1") == bytes(16)
    array[:, :2] = 0
    assert [key for key in store.list() if ".z" not in key] == ["x/0.0", "x/1.0", "x/1.1"]
    array[...] = 0
    assert len(store.list()) == 5
    assert json.loads(store.get("x/.zarray") or b"")["fill_value"] is None


def test_the_order_of_chunks() -> None:
    store = MemoryStore()
    for order in ("C", "F"):
        frazil.create_array(store, path=order, data=VALUES, chunks=(3, 4), compressors=None, order=order, zarr_format=2)
        assert json.loads(store.get(f"{order}/.zarray") or b"")["order"] == order
        assert store.get(f"{order}/0.0") == VALUES.tobytes(order)
        assert np.array_equal(frazil.open_array(store, path=order)[...], VALUES)
