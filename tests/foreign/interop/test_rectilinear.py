"""Chunks of several shapes, and the codecs of the registry that zarr-python has, exchanged with it. Skipped for versions of it without them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import frazil

zarr = pytest.importorskip("zarr")
SHAPE = (12, 12)
VALUES = np.arange(144, dtype=np.int32).reshape(SHAPE)
GRIDS = {
    "plain": {"chunks": [[4, 5, 3], [3, 9]]},
    "one dimension": {"chunks": [[4, 5, 3], 5]},
    "sharded": {"chunks": (2, 3), "shards": [[4, 6, 2], [3, 9]]},
}
LONGER = {"chunks": [[4, 5, 8], [3, 30]]}  # which zarr-python reads, but does not create


@pytest.fixture(autouse=True)
def enabled() -> object:
    try:
        zarr.config.get("array.rectilinear_chunks")
    except KeyError:
        pytest.skip("this zarr-python has no rectilinear chunk grids")
    with zarr.config.set({"array.rectilinear_chunks": True}):
        yield


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_theirs_are_read_and_written(grid: dict[str, object], tmp_path: Path) -> None:
    theirs = zarr.create_array(tmp_path / "a", shape=SHAPE, dtype="int32", fill_value=7, **grid)
    theirs[...] = VALUES
    ours = frazil.open_array(tmp_path / "a", mode="r+")
    assert np.array_equal(ours[...], VALUES)
    ours[3:9, 2:11:3] = -1
    assert np.array_equal(theirs[...], ours[...])


@pytest.mark.parametrize("grid", [*GRIDS.values(), LONGER], ids=[*GRIDS, "longer than the array"])
def test_ours_are_read_and_written(grid: dict[str, object], tmp_path: Path) -> None:
    ours = frazil.create_array(tmp_path / "a", shape=SHAPE, dtype="int32", fill_value=7, **grid)  # type: ignore[arg-type]
    ours[...] = VALUES
    theirs = zarr.open_array(tmp_path / "a", mode="r+")
    assert np.array_equal(theirs[...], VALUES)
    theirs[3:9, 2:11] = -1
    assert np.array_equal(theirs[...], ours[...])
    ours.append(np.full((9, 12), 5, np.int32))
    assert np.array_equal(zarr.open_array(tmp_path / "a")[...], ours[...])


@pytest.mark.skipif(find_spec("zarr.codecs.scale_offset") is None, reason="this zarr-python has no scale_offset")
@pytest.mark.parametrize("dtype", ["uint16", "int64", "uint64", "float32", "float64"])
def test_scale_offset(dtype: str, tmp_path: Path) -> None:
    codecs = [
        {"name": "scale_offset", "configuration": {"offset": 1000, "scale": 3}},
        {"name": "bytes", "configuration": {"endian": "little"}},
    ]
    values = np.arange(1000, 1100).astype(dtype)
    ours = frazil.create_array(tmp_path / "a", shape=100, chunks=30, dtype=dtype, fill_value=1000, codecs=codecs)
    ours[...] = values
    assert np.array_equal(zarr.open_array(tmp_path / "a")[...], values)
    stored = (tmp_path / "a" / "c" / "0").read_bytes()
    zarr.open_array(tmp_path / "a", mode="r+")[...] = values
    assert (tmp_path / "a" / "c" / "0").read_bytes() == stored
