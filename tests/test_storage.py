"""The stores of zarr.storage, by its names and with its arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil import storage
from frazil.errors import AlreadyExistsError, InvalidInputError, NotFoundError, ReadOnlyError


def test_folders_and_memory(tmp_path: Path) -> None:
    for store in (storage.LocalStore(tmp_path / "a.zarr"), storage.MemoryStore(), storage.MemoryStore({})):
        frazil.create_array(store, shape=(4,), dtype="i4")[:] = 7
        assert frazil.open_array(store)[:].tolist() == [7] * 4
        store.close()
    held: dict[str, bytes] = {}
    with storage.MemoryStore(held) as store:
        frazil.create_group(store)
    assert set(held) == {"zarr.json"}
    for closed in (storage.LocalStore(tmp_path / "a.zarr", read_only=True), storage.MemoryStore(held, read_only=True)):
        with pytest.raises(ReadOnlyError):
            frazil.create_array(closed, shape=(4,), dtype="i4", overwrite=True)


def test_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with pytest.raises(NotFoundError):
        storage.ZipStore(path)
    for value in (1, 2):
        store = storage.ZipStore(path, mode="w")
        frazil.create_array(store=store, shape=(4,), dtype="i4")[:] = value
        store.close()
        assert frazil.open_array(storage.ZipStore(path, read_only=True), mode="r")[0] == value
    with storage.ZipStore(path, mode="a") as store:
        frazil.open_array(store, mode="r+")[0] = 3
    assert frazil.open_array(storage.ZipStore(path))[0] == 3
    with pytest.raises(ReadOnlyError):
        frazil.open_array(storage.ZipStore(path), mode="r+")[0] = 4
    with pytest.raises(AlreadyExistsError):
        storage.ZipStore(path, mode="x")
    with path.open("rb") as file, pytest.raises(InvalidInputError, match="path"):
        storage.ZipStore(file)  # type: ignore[arg-type] # which it is not
    with pytest.raises(InvalidInputError, match="mode"):
        storage.ZipStore(path, mode="r+")
    with pytest.raises(InvalidInputError, match="compression"):
        storage.ZipStore(tmp_path / "b.zip", mode="w", compression=8)


def test_file_systems(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    for store in (
        storage.FsspecStore(files, path="/frazil-storage.zarr"),
        storage.FsspecStore.from_mapper(files.get_mapper("/frazil-mapper.zarr")),
        storage.FsspecStore.from_url(f"file://{tmp_path}/b.zarr"),
    ):
        frazil.zeros(4, store=store)[:] = 1
        assert frazil.open_array(store)[:].sum() == 4
    with pytest.raises(InvalidInputError, match="no store"):
        storage.FsspecStore.from_url("memory://frazil-storage/inside")
    memory = pytest.importorskip("obstore.store").MemoryStore()
    frazil.create_array(storage.ObjectStore(memory), data=np.arange(3))
    assert frazil.load(storage.ObjectStore(memory, read_only=True)).tolist() == [0, 1, 2]  # type: ignore[union-attr] # of an array
