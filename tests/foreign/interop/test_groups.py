"""Groups of zarr-python, with consolidated metadata and without, and ours read by it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import NotFoundError

zarr = pytest.importorskip("zarr")


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    """Those that consolidated metadata may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def theirs(path: Path, *, consolidated: bool) -> None:
    root = zarr.open_group(str(path), mode="w", zarr_format=3)
    root.attrs["title"] = "sea"
    level = root.create_group("level1", attributes={"depth": 10})
    level.create_array("temp", shape=(6, 4), chunks=(3, 2), dtype="float32", attributes={"units": "K"})[...] = 1.5
    level.create_array("salt", shape=(6, 4), chunks=(3, 2), shards=(6, 4), dtype="int16")[...] = np.arange(24).reshape(
        6, 4
    )
    root.create_group("empty")
    root.create_array("depth", shape=(3,), chunks=(3,), dtype="float64", dimension_names=["z"])[...] = [1, 2, 3]
    if consolidated:
        zarr.consolidate_metadata(str(path))


@pytest.mark.rule("K24")
@pytest.mark.parametrize("consolidated", [True, False])
def test_groups_of_zarr_python_are_read(consolidated: bool, tmp_path: Path) -> None:
    theirs(tmp_path / "g", consolidated=consolidated)
    text = (tmp_path / "g/zarr.json").read_text()
    assert ('"kind": "inline"' in text) == consolidated
    group = frazil.open_group(tmp_path / "g")
    assert group.attrs.asdict() == {"title": "sea"}
    assert sorted(group) == ["depth", "empty", "level1"]
    paths = [path for path, _ in group.members(max_depth=None)]
    assert sorted(paths) == ["depth", "empty", "level1", "level1/salt", "level1/temp"]
    salt, depth = group["level1/salt"], group["depth"]
    assert isinstance(salt, frazil.Array)
    assert isinstance(depth, frazil.Array)
    assert (salt.shards, salt[5].tolist()) == ((6, 4), [20, 21, 22, 23])
    assert (depth.dimension_names, depth[...].tolist()) == (("z",), [1, 2, 3])
    assert group["level1"].attrs.asdict() == {"depth": 10}
    assert "temp" in str(group.tree())


@pytest.mark.parametrize("change", ["create", "group", "remove"])
def test_consolidated_metadata_goes_when_it_would_be_stale(change: str, tmp_path: Path) -> None:
    path = tmp_path / "g"
    theirs(path, consolidated=True)
    group = frazil.open_group(path, mode="r+")
    group.attrs["title"] = "ocean"
    assert "consolidated_metadata" in json.loads((path / "zarr.json").read_text()), (
        "the group's own attributes are not in it"
    )
    if change == "create":
        group.create_array("new", shape=2, dtype="u1")
    elif change == "group":
        group.create_group("new")
    else:
        del group["depth"]
    assert "consolidated_metadata" not in json.loads((path / "zarr.json").read_text())
    again = zarr.open_group(str(path), mode="r", zarr_format=3)
    assert dict(again.attrs) == {"title": "ocean"}
    assert ("new" in again, "depth" in again) == (change != "remove", change != "remove")


def test_our_groups_are_read_by_zarr_python(tmp_path: Path) -> None:
    path = tmp_path / "g"
    group = frazil.create_group(path, attributes={"a": [1, {"b": None}], "ü": "ö"})
    group.create_array(
        "x/y/höhe", data=np.arange(12).reshape(3, 4), chunks=(2, 2), shards=(4, 4), attributes={"units": "m"}
    )
    group.create_group("x/z")
    again = zarr.open_group(str(path), mode="r", zarr_format=3)
    assert dict(again.attrs) == {"a": [1, {"b": None}], "ü": "ö"}
    assert sorted(name for name, _ in again["x"].members(max_depth=None)) == ["y", "y/höhe", "z"]
    array = again["x/y/höhe"]
    assert array[...].tolist() == np.arange(12).reshape(3, 4).tolist()
    assert (array.shards, array.chunks, dict(array.attrs)) == ((4, 4), (2, 2), {"units": "m"})
    zarr.consolidate_metadata(str(path))
    assert sorted(frazil.open_group(path)["x"]) == ["y", "z"]
    del frazil.open_group(path, mode="r+")["x/y"]
    with pytest.raises(NotFoundError):
        frazil.open_group(path)["x/y/höhe"]
    assert sorted(zarr.open_group(str(path), mode="r", zarr_format=3)["x"]) == ["z"]


def test_changes_of_attributes_and_shape_are_seen_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "a"
    array = frazil.create_array(path, data=np.arange(10), chunks=2, shards=4)
    array.append([10, 11, 12])
    other = zarr.open_array(str(path), mode="r+", zarr_format=3)
    assert other[...].tolist() == list(range(13))
    other.attrs["by"] = "zarr-python"
    other.resize((20,))
    other[13:] = 7
    array.refresh()
    assert (array.shape, array.attrs.asdict()) == ((20,), {"by": "zarr-python"})
    assert array[...].tolist() == [*range(13), *[7] * 7]
    array.resize(3)
    assert zarr.open_array(str(path), mode="r", zarr_format=3)[...].tolist() == [0, 1, 2]
