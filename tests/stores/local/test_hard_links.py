"""Hard links below a root: the resulting places of files, and refusals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.errors import AlreadyExistsError, InvalidInputError, StoreError
from frazil.stores import LocalStore
from frazil.stores.local.new_files import link_files
from frazil.testing.checks import refusal


def linked(store: LocalStore, names: list[str], sources: list[str]) -> list[bool]:
    return [size >= 0 for size in store.copy_in(names, store, sources, shares=True)]


def test_a_link_is_the_same_file_and_has_its_version(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, sync=True)
    version = store.put("a/b", b"value")
    assert linked(store, ["c/d/e", "f"], ["a/b", "a/b"]) == [True, True]
    assert len({os.stat(tmp_path / name).st_ino for name in ("a/b", "c/d/e", "f")}) == 1
    assert store.get_versioned("f") == (b"value", version)
    store.set("a/b", b"other")
    assert linked(store, ["f", "f2"], ["a/b", "a/b"]) == [True, True]
    assert [store.get(name) for name in ("c/d/e", "f", "f2")] == [b"value", b"other", b"other"]
    assert linked(store, ["f"], ["a/b"]) == [True], "it is that file already"
    assert sorted(os.listdir(tmp_path)) == ["a", "c", "f", "f2"], "nothing is left between"


def test_links_and_special_files_are_not_followed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.set("a", b"1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "way").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "last").symlink_to(tmp_path / "root" / "a")
    (tmp_path / "root" / "folder").mkdir()
    with pytest.raises(StoreError):
        linked(store, ["way/x"], ["a"])
    (tmp_path / "root" / "within").symlink_to(tmp_path / "root" / "folder")
    (tmp_path / "root" / "folder" / "f").write_bytes(b"2")
    error = refusal(StoreError, lambda: linked(store, ["new"], ["last"]))
    assert error.key == "last" and "cannot be read" in error.message
    sources = ["folder", "a/b", "way/x", "within/f", "none/x"]
    new = [f"new{i}" for i in range(len(sources))]
    assert linked(store, new, sources) == [False] * len(sources)
    assert [size >= 0 for size in store.copy_in(new, LocalStore(store.path), sources)] == [False] * len(sources), (
        "as copies"
    )
    (tmp_path / "root" / "folder" / "f").unlink()
    with pytest.raises(StoreError):
        linked(store, ["a/below"], ["a"])
    with pytest.raises(StoreError):
        linked(store, ["folder"], ["a"])
    with pytest.raises(InvalidInputError):
        linked(store, ["x.__lock"], ["a"])
    assert os.listdir(tmp_path / "outside") == []
    assert store.list() == ["a"]


def test_a_disk_that_folds_case_is_asked_first(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("abc", b"1")
    store._folds = True
    with pytest.raises(AlreadyExistsError):
        linked(store, ["ABC"], ["abc"])
    assert store.list() == ["abc"]


def test_many_folders_need_few_descriptors(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    names = [f"old/{i}/{i}" for i in range(400)]
    for name in names:
        store.set(name, b"1")
    root = os.open(tmp_path, os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    try:
        assert link_files(root, [f"new/{i % 7}/{i}" for i in range(400)], names, sync=False) == [0] * 400
        after = len(os.listdir("/proc/self/fd")) if before else 0
    finally:
        os.close(root)
    assert after <= before  # connections of other tests may end meanwhile
    assert len(store.list_prefix("new/")) == 400
