"""Consolidated metadata of zarr-python read by us, and ours by it; served groups, listed by zarr-python and by xarray over HTTP."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.operations.serve.server import serve
from frazil.stores import LocalStore
from tests.servers.proxy import FaultProxy
from tests.servers.web import WebServer

zarr = pytest.importorskip("zarr")
obstore = pytest.importorskip("obstore.store")


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    """Those that consolidated metadata may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def over_http(url: str) -> zarr.storage.ObjectStore:
    return zarr.storage.ObjectStore(
        obstore.HTTPStore.from_url(url, client_options={"allow_http": True}), read_only=True
    )


def fill(root: frazil.Group) -> None:
    root.attrs["title"] = "sea"
    root.create_array("depth", data=np.arange(5.0), dimension_names=["z"])
    root.create_array("a/b/temp", data=np.arange(12).reshape(3, 4), chunks=(2, 2), shards=(2, 4), attributes={"u": "K"})
    root.create_array("a b/salt", shape=3, dtype="f4", fill_value=float("nan"))
    root.create_group("empty")


def test_our_consolidated_metadata_is_read_by_zarr_python(tmp_path: Path) -> None:
    fill(frazil.create_group(tmp_path / "g"))
    frazil.consolidate_metadata(tmp_path / "g")
    group = zarr.open_consolidated(str(tmp_path / "g"))
    below = dict(group.members(max_depth=None))
    assert sorted(below) == ["a", "a b", "a b/salt", "a/b", "a/b/temp", "depth", "empty"]
    assert (below["a/b/temp"].shards, dict(below["a/b/temp"].attrs)) == ((2, 4), {"u": "K"})
    assert np.isnan(below["a b/salt"].fill_value)
    ours = json.loads((tmp_path / "g/zarr.json").read_text())["consolidated_metadata"]
    zarr.consolidate_metadata(str(tmp_path / "g"))
    theirs = json.loads((tmp_path / "g/zarr.json").read_text())["consolidated_metadata"]
    assert list(ours["metadata"]) == list(theirs["metadata"])
    assert ours["metadata"]["empty"] == theirs["metadata"]["empty"]
    frazil.open_consolidated(tmp_path / "g")


def test_consolidated_metadata_of_zarr_python_is_read(tmp_path: Path, web_server: WebServer) -> None:
    root = zarr.open_group(str(tmp_path / "g"), mode="w", zarr_format=3)
    level = root.create_group("level1", attributes={"depth": 10})
    level.create_array("temp", shape=(6, 4), chunks=(3, 2), dtype="float32", compressors=zarr.codecs.BloscCodec())
    level.create_array("salt", shape=(6, 4), chunks=(3, 2), shards=(6, 4), dtype="int16")[...] = 7
    root.create_group("empty")
    zarr.consolidate_metadata(str(tmp_path / "g"))
    frazil.open_consolidated(tmp_path / "g", check=True)
    with web_server(tmp_path) as url:
        group = frazil.open_group(f"{url}/g")
        assert [path for path, _ in group.members(None)] == ["empty", "level1", "level1/salt", "level1/temp"]
        assert (np.asarray(group["level1/salt"]) == 7).all()


def test_zarr_python_lists_served_nodes(tmp_path: Path) -> None:
    fill(frazil.create_group(tmp_path / "g"))
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="one") as root:
        fill(root)
    for store in (LocalStore(tmp_path / "g"), repo.readonly_session().store):
        with serve(store) as server:
            group = zarr.open_group(over_http(server.url), mode="r")
            assert sorted(group) == ["a", "a b", "depth", "empty"]
            assert group["a/b/temp"][...].tolist() == np.arange(12).reshape(3, 4).tolist()


def test_xarray_opens_what_is_on_a_web_server_in_few_requests(tmp_path: Path, web_server: WebServer) -> None:
    xarray = pytest.importorskip("xarray")
    names = [f"v{i}" for i in range(30)]
    data = xarray.Dataset({name: ("x", np.arange(4) + i) for i, name in enumerate(names)}, {"x": np.arange(4)})
    data.to_zarr(tmp_path / "g", zarr_format=3, consolidated=True)
    counts = {}
    with web_server(tmp_path) as url:
        for engine in ("frazil", "zarr"):
            with FaultProxy(url) as proxy:
                place = f"{proxy.url}/g"
                found = xarray.open_dataset(place if engine == "frazil" else over_http(place), engine=engine)
                xarray.testing.assert_identical(found.load(), data)
                counts[engine] = len(proxy.requests)
    assert counts["frazil"] <= counts["zarr"]
