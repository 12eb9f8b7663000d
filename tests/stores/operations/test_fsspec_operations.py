"""File systems of fsspec as locations: the suite of all stores over them, and arrays in them."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from tests.reference_cycles import is_freed
from zarr.storage import MemoryStore as ZarrMemoryStore

import frazil
from frazil.errors import InvalidInputError, NotFoundError, StoreError
from frazil.stores import LocalStore, Store
from frazil.stores.locations import resolve
from frazil.testing import StoreTests


class TestFiles(StoreTests):
    def make_store(self) -> Store:
        return resolve((fsspec.filesystem("memory"), f"/{uuid.uuid4()}"))[0]


class TestMap(StoreTests):
    def make_store(self) -> Store:
        return resolve(fsspec.filesystem("memory").get_mapper(f"/{uuid.uuid4()}"))[0]


class TestAsynchronous(StoreTests):
    """A file system whose methods are coroutines inside."""

    def make_store(self) -> Store:
        return resolve((AsyncFileSystemWrapper(fsspec.filesystem("memory")), f"/{uuid.uuid4()}"))[0]


class Refusing(MemoryFileSystem):
    """Like servers that refuse ranges beyond the end of a file."""

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        if start and start >= self.info(path)["size"]:
            raise OSError("not satisfiable")
        return super().cat_file(path, start, end, **kwargs)


class TestRefusing(StoreTests):
    def make_store(self) -> Store:
        return resolve((Refusing(), f"/{uuid.uuid4()}"))[0]


class Walking(MemoryFileSystem):
    """As most file systems list all files."""

    find = fsspec.AbstractFileSystem.find


class TestWalking(StoreTests):
    def make_store(self) -> Store:
        return resolve((Walking(), f"/{uuid.uuid4()}"))[0]


def test_arrays() -> None:
    files = fsspec.filesystem("memory")
    name = f"/{uuid.uuid4()}/sea.zarr"
    data = np.arange(600).reshape(20, 30)
    array = frazil.create_array((files, name), path="a/t", data=data, chunks=(5, 5), shards=(10, 10))
    array[1:3, 2:4] = data[1:3, 2:4] = 0
    for place in ((files, name), (files, Path(name)), files.get_mapper(name)):
        np.testing.assert_array_equal(frazil.open_array(place, path="a/t")[:, ::-3], data[:, ::-3])
        assert list(frazil.open_group(place)) == ["a"]
    assert pickle.loads(pickle.dumps(array))[19, 29] == 599
    with pytest.raises(InvalidInputError, match="the same location"):
        frazil.copy((files, name), files.get_mapper(name))


def test_folders_are_stores_of_ours(tmp_path: Path) -> None:
    for place in ((fsspec.filesystem("file"), tmp_path), fsspec.get_mapper(str(tmp_path))):
        store, prefix = resolve(place, "a")
        assert isinstance(store, LocalStore)
        assert (store.path, prefix) == (str(tmp_path), "a/")


def test_folders_are_made_where_files_need_them(tmp_path: Path) -> None:
    files = DirFileSystem(str(tmp_path), fsspec.filesystem("file"))
    frazil.create_array((files, "x"), path="a/b", data=np.arange(3))
    assert frazil.open_array(tmp_path / "x", path="a/b")[2] == 2


def test_invalid_fsspec_locations_are_refused() -> None:
    files = fsspec.filesystem("memory")
    for wrong in (files, (files, ""), (files, 3), (files, None)):
        with pytest.raises(InvalidInputError, match="together with a path"):
            resolve(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="asynchronous"):
        resolve((AsyncFileSystemWrapper(files, asynchronous=True), "x"))
    for other in ((1, 2), (files, "a", "b"), 3):
        with pytest.raises(InvalidInputError, match="not"):
            resolve(other)  # type: ignore[arg-type]


class Failing(MemoryFileSystem):
    def cat_file(self, *args: Any, **kwargs: Any) -> bytes:
        raise PermissionError("no access")


def test_a_failure_is_an_error_and_no_fill_value() -> None:
    with pytest.raises(StoreError, match="PermissionError"):
        frazil.open_array((Failing(), "/x"))
    with pytest.raises(NotFoundError):
        frazil.open_array((fsspec.filesystem("memory"), f"/{uuid.uuid4()}"))


class Unavailable(MemoryFileSystem):
    """As HTTPFileSystem: whatever goes wrong, `info` raises FileNotFoundError from it."""

    broken = False

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        try:
            if self.broken:
                raise OSError("503")
            return super().info(path, **kwargs)  # type: ignore[no-any-return]
        except OSError as error:
            raise FileNotFoundError(path) from error

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        if self.broken:
            raise OSError("503")
        return super().cat_file(path, start, end, **kwargs)


def test_a_server_that_is_busy_has_no_missing_shards() -> None:
    files, name = Unavailable(skip_instance_cache=True), f"/{uuid.uuid4()}"
    array = frazil.create_array((files, name), shape=(16,), dtype="i4", chunks=(2,), shards=(8,))
    array[:8] = 1
    assert array[...].tolist() == [1] * 8 + [0] * 8
    store = array.store
    files.broken = True
    for call in (
        lambda: array[0],
        lambda: array[15],
        lambda: store.get_partial_values([("c/0", (-4, None))]),
        lambda: store.sizes(["c/0", "c/1"]),
        lambda: store.exists("c/0"),
    ):
        with pytest.raises(StoreError, match="503") as caught:
            call()
        assert caught.value.key in {"c/0", "c/1"}


class HalfListed(Walking):
    """A connection that breaks while folders are listed."""

    broken = ""

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        if self.broken and path.endswith(self.broken):
            raise TimeoutError("no answer")
        return super().ls(path, detail, **kwargs)  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_folder_that_cannot_be_listed_is_no_empty_one(is_async: bool) -> None:
    files, name = HalfListed(skip_instance_cache=True), f"/{uuid.uuid4()}"
    store = resolve((AsyncFileSystemWrapper(files) if is_async else files, name))[0]
    for key in ("a/b/c", "a/d", "e"):
        store.set(key, b"1")
    assert store.list() == ["a/b/c", "a/d", "e"]
    for folder in (name, "/a", "/a/b"):
        files.broken = folder
        for call in (store.list, lambda: store.erase_prefix("a/")) if folder != name else (store.list,):
            with pytest.raises(StoreError, match="TimeoutError"):
                call()
    files.broken = ""
    assert store.list() == ["a/b/c", "a/d", "e"]
    assert store.list_prefix("a/") == ["a/b/c", "a/d"]


def test_a_signature_is_not_shown() -> None:
    store = resolve((Failing(), "https://files.example.org/x?sig=secret"))[0]
    assert "secret" not in repr(store)
    assert "files.example.org/x" in repr(store)


@pytest.mark.parametrize("kind", ["dict", "fsspec", "zarr"])
def test_copies_and_rechunks_go_there(kind: str) -> None:
    """Their stores compare versions only among writers of one process."""
    files = fsspec.filesystem("memory")
    source = frazil.create_array("memory://copied", data=np.arange(60).reshape(6, 10), chunks=(2, 5), overwrite=True)
    for i, act in enumerate((frazil.copy, lambda one, other: frazil.rechunk(one, other, chunks=(3, 4)))):
        places: dict[str, Any] = {"dict": {}, "fsspec": (files, f"/{uuid.uuid4()}"), "zarr": ZarrMemoryStore()}
        act("memory://copied", places[kind])
        found = frazil.open_array(places[kind])
        assert found.chunks == ((2, 5), (3, 4))[i]
        np.testing.assert_array_equal(found[:], source[:])
        assert frazil.checksum(places[kind]) == frazil.checksum(source)


def test_errors_are_freed_with_their_last_reference() -> None:
    class Failed(MemoryFileSystem):
        def cat_file(self, *args: Any, **kwargs: Any) -> bytes:
            raise StoreError("of another store of ours")

    store = resolve((Failed(), "/x"))[0]
    assert is_freed(StoreError, lambda: store.get("a"))
    assert is_freed(StoreError, lambda: resolve((Failing(), "/x"))[0].get("a"))
