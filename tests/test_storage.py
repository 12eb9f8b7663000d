"""The stores of zarr.storage, by its names and with its arguments."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil import storage
from frazil.base.retry import FREE_FILES
from frazil.errors import AlreadyExistsError, FormatError, InvalidInputError, NotFoundError, ReadOnlyError, StoreError
from frazil.stores import MemoryStore, Store, WrappedStore


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
    with pytest.raises(InvalidInputError, match="not a store"):
        storage.FsspecStore.from_url("memory://frazil-storage/inside")
    memory = pytest.importorskip("obstore.store").MemoryStore()
    frazil.create_array(storage.ObjectStore(memory), data=np.arange(3))
    assert frazil.load(storage.ObjectStore(memory, read_only=True)).tolist() == [0, 1, 2]  # type: ignore[union-attr] # of an array


def test_the_names_are_classes(tmp_path: Path) -> None:
    """Scripts test stores by them, and join them in annotations."""
    array = frazil.create_array(storage.LocalStore(tmp_path / "a.zarr"), shape=(4,), dtype="i4")
    names = (storage.LocalStore, storage.MemoryStore, storage.ZipStore, storage.FsspecStore, storage.ObjectStore)
    made: list[object] = [array.store, storage.MemoryStore(), storage.ZipStore(tmp_path / "a.zip", mode="w")]
    made.append(storage.FsspecStore(pytest.importorskip("fsspec").filesystem("memory"), path="/frazil-kinds.zarr"))
    made.append(storage.ObjectStore(pytest.importorskip("obstore.store").MemoryStore()))
    for store, expected in zip(made, names, strict=True):
        assert [name for name in names if isinstance(store, name)] == [expected]
    assert isinstance(storage.MemoryStore({}, read_only=True), storage.MemoryStore)
    assert not isinstance({}, storage.MemoryStore)
    assert isinstance(array.store, storage.LocalStore | storage.MemoryStore)
    assert {str, storage.ZipStore} < set((storage.ZipStore | storage.StoreLike).__args__)
    with pytest.raises(InvalidInputError, match="base class"):
        type("Counting", (storage.MemoryStore,), {})


def test_stores_say_whether_they_are_read_only(tmp_path: Path) -> None:
    for store in (storage.MemoryStore(), storage.MemoryStore({}), storage.LocalStore(tmp_path)):
        assert not store.read_only
    for store in (storage.MemoryStore(read_only=True), storage.LocalStore(tmp_path, read_only=True)):
        assert store.read_only


def test_nodes_are_locations() -> None:
    """Not mappings of keys to bytes, whose methods a group has."""
    group = frazil.group({})
    group.create_array("below/deep/leaf", shape=(4,), dtype="i4")
    group.create_array("top", shape=(4,), dtype="i4")
    assert frazil.open_array(group, path="below/deep/leaf").path == "below/deep/leaf"
    held: dict[str, bytes] = {}
    frazil.copy(group["below"], held)
    frazil.copy(group["top"], frazil.open_group(held, mode="r+"), to="top")
    assert [path for path, _ in frazil.open_group(held).members(None)] == ["deep", "deep/leaf", "top"]


def test_nodes_that_are_open_for_reading_are_locations_for_reading(tmp_path: Path) -> None:
    frazil.create_group(tmp_path / "a.zarr").create_array("g/a", shape=(4,), dtype="i4")
    group = frazil.open_group(tmp_path / "a.zarr", mode="r")
    assert frazil.open_array(group["g"], path="a").shape == (4,)
    with pytest.raises(ReadOnlyError):
        frazil.create_array(group, path="new", shape=(4,), dtype="i4")
    with pytest.raises(ReadOnlyError):
        frazil.open_group(group, mode="r+").attrs["x"] = 1
    with pytest.raises(ReadOnlyError):
        frazil.save(group["g"], np.arange(3))
    assert list(frazil.open_group(tmp_path / "a.zarr/g")) == ["a"]


class _Own(WrappedStore):
    """A store of a user, with an attribute that zarr-python's stores have, too."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.read_only = False


def test_a_store_of_a_user_may_have_an_attribute_read_only() -> None:
    assert not _Own(MemoryStore()).read_only
    own = _Own(storage.MemoryStore({}, read_only=True))
    assert not own.read_only
    assert isinstance(own, storage.MemoryStore)
    own.inner = own
    assert not isinstance(own, storage.MemoryStore)


_KILLED = """
import os, sys
from frazil.stores import ZipStore
store = ZipStore(sys.argv[1])
store.set("old", bytes(1000))
with store:
    store.set("new", bytes(100_000))
    os.kill(os.getpid(), 9)
"""


def test_a_new_archive_takes_the_place_of_one_whose_writer_was_killed(tmp_path: Path) -> None:
    """The journal is removed with the archive: otherwise it would be restored into a later file with the same inode."""
    path = tmp_path / "a.zip"
    assert subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False).returncode < 0
    assert {file.name for file in tmp_path.iterdir()} == {"a.zip", "a.zip.journal"}
    store = storage.ZipStore(path, mode="w")
    assert [file.name for file in tmp_path.iterdir()] == ["a.zip"]
    assert store.list() == []
    frazil.create_array(store, data=np.arange(1000))
    assert frazil.open_array(path)[...].tolist() == list(range(1000))
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert "old" not in file.namelist()


def test_mode_w_replaces_archives_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.stores.zip.archive_file.FREE_FILES", FREE_FILES._replace(within=0.01))
    path, text, empty, folder = (tmp_path / name for name in ("a.zip", "b.txt", "c.zip", "d.zip"))
    frazil.create_array(storage.ZipStore(path, mode="w"), data=[1, 2])
    before = path.read_bytes()
    with pytest.raises(InvalidInputError, match="read_only"):
        storage.ZipStore(path, mode="w", read_only=True)
    with storage.ZipStore(path, mode="a") as writer:
        writer.set("more", b"1")
        with pytest.raises(StoreError, match="another writer"):
            storage.ZipStore(path, mode="w")
        writer.erase("more")
    assert frazil.load(path).tolist() == [1, 2]  # type: ignore[union-attr] # of an array
    text.write_text("precious")
    for mode in ("a", "w"):
        with pytest.raises(FormatError, match="the end record of the zip archive is missing"):
            storage.ZipStore(text, mode=mode).set("a", b"1")
    assert text.read_text() == "precious"
    folder.mkdir()
    with pytest.raises(StoreError, match="folder"):
        storage.ZipStore(folder, mode="w")
    assert folder.is_dir()
    empty.touch()
    storage.ZipStore(empty, mode="w").set("a", b"1")
    with zipfile.ZipFile(empty) as file:
        assert file.namelist() == ["a"]
    assert storage.ZipStore(path, mode="w").list() == []
    assert path.stat().st_size < len(before)
