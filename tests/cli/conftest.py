"""A folder with sample data, named as in the examples of the commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import frazil
from frazil.stores import LocalStore
from frazil.testing import CountingStore

SEA = ((np.mgrid[:600, :700][0] * 7 + np.mgrid[:600, :700][1] * 3) % 5000).astype(np.uint16)
TEMP = np.random.default_rng(0).normal(10, 5, (3, 40, 50)).astype(np.float32)

LINKED, COPIED = (
    ("ocean.nc", "corner.npy"),
    ("sea.zarr", "ocean.zarr", "basins.zarr", "v2.zarr", "old.zr3", "sea.repo", "sea.cache"),
)
THERE = (*LINKED, *COPIED)


@pytest.fixture(scope="session")
def hierarchy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sea.zarr, a sharded array; ocean.zarr, a group with level1/temp; basins.zarr, codes; v2.zarr, an array of Zarr v2; old.zr3, a hierarchy of the older
    draft; sea.repo, a repository; ocean.nc, a NetCDF4 file with level1/temp; corner.npy, six numbers; sea.cache, with cached data of sea.repo. Read-only."""
    folder = tmp_path_factory.mktemp("hierarchy")
    frazil.create_array(folder / "sea.zarr", data=SEA, chunks=(64, 64), shards=(256, 256), dimension_names=("y", "x"))
    ocean = frazil.create_group(folder / "ocean.zarr", attributes={"title": "The sea"})
    temp = ocean.create_array(
        "level1/temp", shape=TEMP.shape, dtype="float32", chunks=(1, 16, 16), fill_value=float("nan")
    )
    temp[:, 5:, :] = TEMP[:, 5:, :]
    ocean["flat"] = np.arange(12, dtype=np.int8)
    old = frazil.create_group(folder / "old.zr3", zarr_format="draft-2021", attributes={"title": "The old sea"})
    old.create_array("level1/temp", data=TEMP, chunks=(1, 8, 8), shards=(1, 16, 16))
    frazil.create_array(folder / "v2.zarr", data=TEMP, chunks=(1, 20, 25), zarr_format=2)
    frazil.create_array(folder / "basins.zarr", data=np.arange(600, dtype=np.int8).reshape(20, 30) // 100)
    fill_repository(folder / "sea.repo")
    write_netcdf(folder / "ocean.nc")
    np.save(folder / "corner.npy", np.arange(6).reshape(2, 3))
    distant = CountingStore(LocalStore(folder / "sea.repo"))
    assert frazil.Repository.open(distant, cache=folder / "sea.cache").readonly_session().root["salt"][0] == 0
    return folder


def write_netcdf(path: Path, kind: str = "NETCDF4") -> None:
    """flat, and level1/temp (temp in classic NetCDF), with attributes and names of dimensions."""
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.title = "The sea"
        group = file
        if kind == "NETCDF4":
            group = file.createGroup("level1")
            group.depth = 10.0
        for name, length in zip(("t", "y", "x"), TEMP.shape, strict=True):
            group.createDimension(name, length)
        options = {"zlib": True, "shuffle": True, "chunksizes": (1, 16, 16)} if kind == "NETCDF4" else {}
        temp = group.createVariable("temp", "f4", ("t", "y", "x"), fill_value=np.float32(-1), **options)
        temp.units = "degrees"
        temp[...] = TEMP
        file.createDimension("n", 12)
        file.createVariable("flat", "i2", ("n",))[...] = np.arange(12)


def fill_repository(folder: Path) -> None:
    """A repository: v1 has level1/temp; dev, starting there, changed two of its chunks; main got salt instead, and a title. The branch old is at v1, too."""
    repo = frazil.Repository.create(folder, durable=False)
    with repo.transaction(message="first data\n\nof the sea") as root:
        root.create_array("level1/temp", data=TEMP, chunks=(1, 40, 50))
    repo.create_tag("v1", "main")
    for branch in ("dev", "old"):
        repo.create_branch(branch, "v1")
    with repo.transaction("dev", message="warmer") as root:
        root["level1/temp"][:2] += 1
    with repo.transaction(message="add salt", metadata={"by": "me"}) as root:
        root.create_array("salt", data=np.arange(4))
    with repo.transaction(message="name it") as root:
        root.attrs["title"] = "The sea"


@pytest.fixture
def workdir(hierarchy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: the test's own, with links to the arrays, so that it can be written to."""
    for name in LINKED:
        (tmp_path / name).symlink_to(hierarchy / name)
    for name in COPIED:
        shutil.copytree(hierarchy / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
