"""Consolidated metadata: written, opened, found stale, and read instead of listings if a location cannot list."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import frazil
from frazil.cli.main import main
from frazil.errors import InvalidInputError, MetadataError, NotFoundError, ReadOnlyError, StoreError
from frazil.stores import MemoryStore
from frazil.stores.values import Capabilities
from frazil.stores.wrappers import WrappedStore
from frazil.testing import CountingStore
from tests.servers.web import WebServer


class Unlisted(WrappedStore):
    """A store that cannot list, as web servers cannot."""

    __slots__ = ()

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(listable=False, direct=False)


def fill(root: frazil.Group) -> None:
    root.attrs["title"] = "sea"
    root.create_array("depth", data=np.arange(5.0), fill_value=-0.0, dimension_names=["z"])
    root.create_array("a/b/temp", data=np.arange(12).reshape(3, 4), chunks=(2, 2), shards=(2, 4), attributes={"u": "K"})
    root.create_array("a b/salt", shape=3, dtype="f4", fill_value=float("nan"))
    root.create_group("empty")


def consolidated() -> MemoryStore:
    store = MemoryStore()
    fill(frazil.create_group(store))
    frazil.consolidate_metadata(store)
    return store


def nodes(group: frazil.Group) -> list[tuple[str, object]]:
    return sorted(((path, node.metadata) for path, node in group.members(None)), key=lambda pair: pair[0])


def without_copies(found: list[tuple[str, object]]) -> list[tuple[str, object]]:
    return [(p, n.without_consolidated() if hasattr(n, "without_consolidated") else n) for p, n in found]


def test_without_listings_nodes_come_from_the_copies() -> None:
    store = consolidated()
    counting = CountingStore(Unlisted(store))
    group, plain = frazil.open_group(counting), frazil.open_group(store)
    assert without_copies(nodes(group)) == nodes(plain)
    assert list(group) == sorted(plain) == ["a", "a b", "depth", "empty"]
    assert list(group["a"]) == ["b"]  # type: ignore[arg-type]
    assert sorted(str(group.tree()).splitlines()) == sorted(str(plain.tree()).splitlines())
    assert "a/b/temp" in group
    assert "nothing" not in group
    temp = group["a/b/temp"]
    assert counting.count() == 1, "the document of the group"
    with pytest.raises(NotFoundError):
        group["nothing"]
    np.testing.assert_array_equal(temp[...], np.arange(12).reshape(3, 4))  # type: ignore[index]
    assert temp._location.copies is None, "pickles of arrays are small"
    again = pickle.loads(pickle.dumps(frazil.open_group(Unlisted(store))))
    assert list(again) == sorted(plain)
    with pytest.raises(ReadOnlyError):
        group.create_group("new")


def test_a_group_below_is_found_in_the_copies_of_the_location() -> None:
    store = CountingStore(Unlisted(consolidated()))
    assert list(frazil.open_group(store, path="a")) == ["b"]
    assert store.count() == 2, "the documents of the location and of the group"
    assert [path for path, _ in frazil.open_group(store, path="a").members(None)] == ["b", "b/temp"]
    with pytest.raises(StoreError, match="listable"):
        list(frazil.open_group(store, "r+", path="a"))


def test_copies_are_not_read_if_they_are_not_wanted() -> None:
    """They may be stale."""
    store = consolidated()
    document = json.loads(store.get("depth/zarr.json") or b"")
    store.set(
        "depth/zarr.json", json.dumps({**document, "attributes": {"late": 1}}).encode()
    )  # as another program does
    opened = frazil.open_group(Unlisted(store), use_consolidated=False)
    with pytest.raises(StoreError, match="listable"):
        list(opened)
    assert isinstance(depth := opened["depth"], frazil.Array) and depth.attrs["late"] == 1
    for location in (Unlisted(store), frazil.open_consolidated(store, check=False)):
        copied = xr.open_dataset(location, engine="frazil", drop_variables=["salt"])  # type: ignore[arg-type]
        assert "late" not in copied.depth.attrs
    with pytest.raises(StoreError, match="listable"):
        xr.open_dataset(Unlisted(store), engine="frazil", consolidated=False)  # type: ignore[arg-type]
    listed = frazil.open_consolidated(store, check=False)
    assert xr.open_dataset(listed, engine="frazil", consolidated=False).depth.attrs["late"] == 1  # type: ignore[arg-type]
    tree = xr.open_datatree(
        listed,
        engine="frazil",
        consolidated=False,
        drop_variables=["temp", "salt"],  # type: ignore[arg-type]
    )
    assert tree["depth"].attrs["late"] == 1


def test_changed_nodes_are_read_from_documents() -> None:
    store = consolidated()
    group = frazil.open_group(Unlisted(store), "r+")
    with pytest.raises(StoreError, match="listable"):
        list(group)
    group.create_array("new", shape=1, dtype="u1")
    assert frazil.open_group(store).metadata.consolidated is None


def test_opened_by_name() -> None:
    store = consolidated()
    plain = frazil.open_group(store)
    counting = CountingStore(store)
    for group in (frazil.open_consolidated(store), frazil.open_consolidated(counting, check=False)):
        assert without_copies(nodes(group)) == nodes(plain)
        assert group.read_only
    assert counting.count() == 1
    assert list(frazil.open_consolidated(frazil.open_group(store))) == sorted(plain)
    with pytest.raises(NotFoundError, match="no consolidated metadata"):
        frazil.open_consolidated(store, path="a")
    frazil.consolidate_metadata(store, path="a")
    assert list(frazil.open_consolidated(store, path="a")) == ["b"]


def test_opened_by_name_for_writing() -> None:
    store = consolidated()
    for mode in ("r+", "a"):
        group = frazil.open_consolidated(store, mode=mode)
        assert not group.read_only
    assert frazil.open_consolidated(store, mode="r").read_only
    group.create_array("new", shape=1, dtype="u1")
    with pytest.raises(NotFoundError, match="no consolidated metadata"):
        frazil.open_consolidated(store, mode="a")
    for mode in ("w", "w-", "x"):
        with pytest.raises(InvalidInputError, match="mode"):
            frazil.open_consolidated(store, mode=mode)  # type: ignore[arg-type]
    assert "new" in frazil.open_group(store)


@pytest.mark.parametrize("change", ["attributes", "shape", "new", "gone", "group"])
def test_stale_copies_are_found(change: str) -> None:
    store = consolidated()
    copied = store.get("zarr.json")
    group = frazil.open_group(store, "r+")
    match change:
        case "attributes":
            group["depth"].attrs["x"] = 1
        case "shape":
            group["a/b/temp"].resize((9, 9))  # type: ignore[union-attr]
        case "new":
            group.create_group("empty/inner")
        case "gone":
            del group["a/b/temp"]
        case _:
            group["empty"].attrs["x"] = 1
    assert copied is not None
    store.set("zarr.json", copied)  # as left by programs that do not remove the copies
    with pytest.raises(MetadataError, match="stale"):
        frazil.open_consolidated(store)
    if change != "new":
        with pytest.raises(MetadataError, match="stale"):
            frazil.open_consolidated(Unlisted(store), check=True)
    assert list(frazil.open_consolidated(store, check=False)) == ["a", "a b", "depth", "empty"]
    frazil.consolidate_metadata(store)
    frazil.open_consolidated(store)


def test_equal_copies_in_another_form_are_not_stale() -> None:
    store = MemoryStore()
    frazil.create_array(store, path="x", shape=3, dtype="f4", codecs=["bytes", "zstd"])
    document = json.loads(store.get("zarr.json") or b"")
    copy = json.loads(store.get("x/zarr.json") or b"")
    copy["codecs"] = ["bytes", {"name": "zstd", "configuration": {"level": 0, "checksum": False}}]
    stored = json.loads(store.get("x/zarr.json") or b"")
    stored["codecs"] = [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "zstd", "configuration": {"level": 0}},
    ]
    copy["codecs"][0] = stored["codecs"][0]
    copy["storage_transformers"] = []
    document["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": {"x": copy}}
    store.set("zarr.json", json.dumps(document).encode())
    store.set("x/zarr.json", json.dumps(stored).encode())
    assert list(frazil.open_consolidated(store)) == ["x"]


def test_refusals(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="x") as root, pytest.raises(InvalidInputError, match="no consolidated metadata"):
        frazil.consolidate_metadata(root)
    draft = frazil.create_group(MemoryStore(), zarr_format="draft")
    with pytest.raises(InvalidInputError, match="draft of 2022 has no consolidated metadata"):
        frazil.consolidate_metadata(draft)
    store = consolidated()
    with pytest.raises(StoreError, match="listable"):
        frazil.consolidate_metadata(Unlisted(store))
    store.set("empty/zarr.json", b"[")
    with pytest.raises(MetadataError) as caught:
        frazil.consolidate_metadata(store)
    assert caught.value.key == "empty/zarr.json"
    document = json.loads(store.get("zarr.json") or b"")
    document["consolidated_metadata"]["metadata"]["../out"] = {}
    store.set("zarr.json", json.dumps(document).encode())
    with pytest.raises(MetadataError, match="paths of nodes"):
        frazil.open_group(Unlisted(store))


def test_the_command_line_lists_what_a_web_server_has(
    tmp_path: Path, web_server: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(frazil.create_group(tmp_path / "sea.zarr"))
    with web_server(tmp_path) as url:
        assert main(["ls", f"{url}/sea.zarr"]) != 0
        frazil.consolidate_metadata(tmp_path / "sea.zarr")
        capsys.readouterr()
        assert main(["ls", f"{url}/sea.zarr", "--recursive"]) == 0
        assert "a/b/temp" in capsys.readouterr().out
        assert main(["ls", f"{url}/sea.zarr", "a/b"]) == 0
        assert "temp" in capsys.readouterr().out
        assert main(["tree", f"{url}/sea.zarr"]) == 0
        assert "salt" in capsys.readouterr().out
