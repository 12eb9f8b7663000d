"""Repositories of later formats are refused by name, and nothing is created among their files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.repository.archived_repositories import created, empty_files, info, snapshot
from tests.stores.local_disks import run_processes

import frazil
import frazil.storage
from frazil.errors import AccessError, AlreadyExistsError, FormatError, FrazilError, NotFoundError
from frazil.repository.alpha.branches import create_repository, exists, later_format, open_tip

MARKS = {
    "refs/branch.main/ref.json": (b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}', "format 1"),
    "repo": ("ICE🧊CHUNK".encode() + b"ic-2.1.2", "format 2"),
}


@pytest.mark.parametrize("key", MARKS)
def test_later_formats_are_refused_by_name(key: str) -> None:
    files = empty_files()
    data, name = MARKS[key]
    files.store.set(key, data)
    assert name in str(later_format(files))
    assert not exists(files)
    with pytest.raises(FormatError, match=f"Icechunk repository of {name}, which Frazil does not read yet"):
        open_tip(files, "main")
    for opens in (frazil.open, frazil.open_group, frazil.open_array, frazil.Repository.open, frazil.convert):
        with pytest.raises(FormatError, match=f"Icechunk repository of {name}, which"):
            opens(files.store)
    with pytest.raises(FormatError, match=f"Icechunk repository of {name}, which"):
        frazil.open(files.store, path="a/b")
    with pytest.raises(AlreadyExistsError):
        create_repository(files, info(1).id, snapshot(info(1)))
    assert files.store.list() == [key]


def _writes(location: Any, parent: Any) -> list[Callable[[], object]]:
    """All that would remove a repository at `location`, or write among its files. parent: the location above, in which its name is "sea"."""
    new: dict[str, Any] = {"shape": (4,), "dtype": "i4"}
    source = frazil.stores.MemoryStore()
    frazil.create_array(source, **new)[:] = 1
    return [
        lambda: frazil.open(location, mode="a"),
        lambda: frazil.open(location, mode="w", **new),
        *[partial(frazil.open_group, location, mode) for mode in ("a", "w", "w-")],
        *[partial(frazil.open_array, location, mode, **new) for mode in ("a", "w", "w-")],
        lambda: frazil.create_group(location),
        lambda: frazil.create_group(location, overwrite=True),
        lambda: frazil.create_group(location, path="x"),
        lambda: frazil.create_array(location, overwrite=True, **new),
        lambda: frazil.create_array(location, path="x/y", **new),
        lambda: frazil.create_group(parent, overwrite=True),
        lambda: frazil.create_array(parent, overwrite=True, **new),
        lambda: frazil.open_group(parent, "a").create_group("sea/x", overwrite=True),
        lambda: frazil.copy(source, location, overwrite=True),
        lambda: frazil.copy(source, location),
        lambda: frazil.rechunk(source, location, chunks=(2,), overwrite=True),
    ]


@pytest.mark.parametrize("key", MARKS)
@pytest.mark.parametrize("place", ["folder", "memory"])
def test_nothing_overwrites_later_formats_or_writes_among_their_files(key: str, place: str, tmp_path: Path) -> None:
    """Formerly most of these removed repositories of format 2."""
    store = frazil.stores.LocalStore(tmp_path) if place == "folder" else frazil.stores.MemoryStore()
    frazil.create_group(store)
    for name, data in ((key, MARKS[key][0]), ("chunks/1CECHNKREP0F1RSTCMT0", b"1")):
        store.set(f"sea/{name}", data)
    location: Any = tmp_path / "sea" if place == "folder" else frazil.storage.StorePath(store, "sea")
    before = {name: store.get(name) for name in store.list()}
    for write in _writes(location, store):
        with pytest.raises(FrazilError) as caught:
            write()
        assert "write to a branch" not in f"{caught.value.hint}"
        assert {name: store.get(name) for name in store.list()} == before


@pytest.mark.parametrize("key", [*MARKS, "refs/branch.main/ZZZZZZZZ.json"])
def test_a_group_creates_no_node_at_a_repository(key: str, tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path)
    file = tmp_path / "sea" / key
    file.parent.mkdir(parents=True)
    file.write_bytes(MARKS[key][0] if key in MARKS else b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}')
    for create in (
        root.create_group,
        root.require_group,
        lambda name: root.create_arrays({name: {"shape": 1, "dtype": "i4"}}),
    ):
        with pytest.raises(AlreadyExistsError, match="repository"):
            create("sea")
    assert not (tmp_path / "sea" / "zarr.json").exists()


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="needs another user")
def test_a_file_of_others_above_hinders_no_new_node(tmp_path: Path) -> None:
    """A file named "repo" in /tmp, which only its owner can read."""
    with tempfile.TemporaryDirectory() as name:  # tmp_path is in a folder of this user alone
        folder = Path(name)
        (folder / "mine").mkdir()
        (folder / "repo").write_bytes(MARKS["repo"][0])
        for path, mode in ((folder, 0o755), (folder / "mine", 0o777), (folder / "repo", 0o600)):
            path.chmod(mode)

        def as_nobody() -> None:
            os.setuid(65534)
            frazil.create_array(folder / "mine/a", shape=(4,), dtype="i4")[:] = 1
            with pytest.raises(AccessError):
                frazil.create_group(folder, overwrite=True)

        for _ in range(2):  # imports all modules, which others may not read
            frazil.create_array(tmp_path / "a", shape=(4,), dtype="i4", overwrite=True)[:] = 1
        run_processes([as_nobody])
        assert (folder / "repo").exists()


def test_a_location_without_a_repository() -> None:
    files = empty_files()
    files.store.set("repo", b"something else")
    files.store.set("refs/branch.main/ref.json", b"<html>a page that a proxy has for everything</html>")
    assert later_format(files) is None
    with pytest.raises(NotFoundError, match="no repository here"):
        open_tip(files, "dev")
    create_repository(files, info(1).id, snapshot(info(1)))
    with pytest.raises(NotFoundError, match="no branch of this name: 'dev'"):
        open_tip(files, "dev")


def test_marks_beside_a_repository_do_no_harm() -> None:
    files, first = created()
    for key, (data, _) in MARKS.items():
        files.store.set(key, data)
    assert open_tip(files, "main") == first
    with pytest.raises(NotFoundError):
        open_tip(files, "dev")
