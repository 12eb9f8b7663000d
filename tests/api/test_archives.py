"""Zip archives as locations: of functions, commands, copies, xarray, repositories, and in a bucket."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.cli.main import main
from frazil.errors import AlreadyExistsError, InvalidInputError, NotFoundError, ReadOnlyError
from frazil.stores import ObjectStore, ZipStore
from tests.servers.buckets import S3

VALUES = np.arange(2400).reshape(40, 60)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_functions(folder: Path) -> None:
    array = frazil.create_array("x.zarr.zip", path="g/a", data=VALUES, chunks=(10, 10), shards=(20, 30))
    array.attrs["unit"] = "m"
    assert frazil.open("x.zarr.zip/g/a", mode="r")[3, 4] == VALUES[3, 4]
    assert list(frazil.open_group("x.zarr.zip")) == ["g"]
    with pytest.raises(AlreadyExistsError):
        frazil.create_array("x.zarr.zip/g/a", shape=4, dtype="i1")
    frazil.create_array("x.zarr.zip/g/a", shape=4, dtype="i1", overwrite=True)[:] = 3
    assert frazil.open_array(f"file://{folder}/x.zarr.zip/g/a")[:].tolist() == [3] * 4
    with pytest.raises(NotFoundError):
        frazil.open("none.zarr.zip")
    with pytest.raises(InvalidInputError, match="in_place"):
        frazil.create_array("x.zarr.zip", path="b", shape=4, dtype="i1", chunks=2, shards=4, shard_writes="in_place")
    assert os.listdir(folder) == ["x.zarr.zip"]


@pytest.mark.parametrize("zarr_format", [2, "draft"])
def test_dialects(folder: Path, zarr_format: int | str) -> None:
    frazil.create_array("x.zip", path="a", data=VALUES, chunks=(10, 10), zarr_format=zarr_format)
    assert (frazil.open_array("x.zip", path="a")[:] == VALUES).all()


def test_copies_and_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frazil.create_array("x.zarr", path="a", data=VALUES, chunks=(10, 10), shards=(20, 30))
    assert frazil.copy("x.zarr", "x.zarr.zip", verify=True).keys == 6
    frazil.copy("x.zarr.zip", "y.zarr.zip")
    frazil.copy("y.zarr.zip", "y.zarr")
    assert frazil.checksum("y.zarr", path="a") == frazil.checksum("x.zarr", path="a")
    for command in (
        ["ls", "y.zarr.zip"],
        ["info", "y.zarr.zip/a"],
        ["get", "y.zarr.zip/a", "0, 1:3"],
        ["validate", "--decode", "y.zarr.zip"],
    ):
        assert main(command) == 0
    assert "1 2" in " ".join(capsys.readouterr().out.split())


def test_repositories(folder: Path) -> None:
    repo = frazil.Repository.create("sea.zip")
    with repo.transaction("main", message="one") as root:
        root.create_array("a", data=VALUES, chunks=(10, 10), shards=(20, 30))
    assert (frazil.open_array("sea.zip@main/a")[5:30:3] == VALUES[5:30:3]).all()
    frazil.Repository.create("folder.repo")
    with pytest.raises(InvalidInputError, match="among the files of a repository"):
        frazil.create_array("folder.repo/x.zarr.zip", shape=4, dtype="i1")


def test_xarray(folder: Path) -> None:
    xr = pytest.importorskip("xarray")
    pytest.importorskip("frazil.xarray")
    dataset = xr.Dataset({"v": (("y", "x"), VALUES * 1.5)}, {"x": np.arange(60)})
    dataset.frazil.write("x.zarr.zip")
    xr.testing.assert_identical(xr.open_dataset("x.zarr.zip", engine="frazil").load(), dataset)


def test_arrays_of_a_zip_archive_in_a_bucket_are_read(folder: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    frazil.create_array("x.zarr.zip", path="a", data=VALUES, chunks=(10, 10), shards=(20, 30))
    frazil.create_array("x.zarr.zip", path="b", data=VALUES, chunks=(10, 10))
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()
    s3.store(bucket).set("p/x.zarr.zip", (folder / "x.zarr.zip").read_bytes())
    for path in ("a", "b"):
        assert (frazil.open_array(f"s3://{bucket}/p/x.zarr.zip/{path}")[7:33:2] == VALUES[7:33:2]).all()
    group = frazil.open_group(f"s3://{bucket}/p/x.zarr.zip", storage_options=s3.options())
    assert sorted(group) == ["a", "b"]
    with pytest.raises(ReadOnlyError, match="and copy the file"):
        frazil.create_array(f"s3://{bucket}/p/x.zarr.zip", path="c", shape=4, dtype="i1")
    store = ZipStore("p/x.zarr.zip", store=s3.store(bucket))
    assert isinstance(store.location[0], ObjectStore)
    frazil.copy(store, "back.zarr")
    assert (frazil.open_array("back.zarr/b")[:] == VALUES).all()
