"""The guard of destinations, tested with every function and command that takes one: none of them overwrites a repository with its history."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import frazil
import frazil.xarray
import frazil.zarr
from frazil.api.destinations import check_destination
from frazil.array.hierarchy.repository_locations import MAIN_FILES
from frazil.cli.main import main
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, NotFoundError
from frazil.formats.alpha.refs import folder_of
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.locations import resolve

Write = Callable[[str], object]


def by_command(*words: str) -> Write:
    def run(place: str) -> None:
        status = main([place if word == "PLACE" else word for word in words])
        if status:
            raise InvalidInputError(f"exit status {status}")

    return run


FUNCTIONS: dict[str, Write] = {
    "create_array": lambda place: frazil.create_array(place, shape=4, dtype="i4"),
    "create_array overwrite": lambda place: frazil.create_array(place, shape=4, dtype="i4", overwrite=True),
    "create_array path": lambda place: frazil.create_array(place, path="a/b", shape=4, dtype="i4", overwrite=True),
    "create_array draft": lambda place: frazil.create_array(
        place, path="a", shape=4, dtype="i4", zarr_format="draft", overwrite=True
    ),
    "create_group": frazil.create_group,
    "create_group overwrite": lambda place: frazil.create_group(place, overwrite=True),
    "open_array w": lambda place: frazil.open_array(place, "w", shape=4, dtype="i4"),
    "open_array w-": lambda place: frazil.open_array(place, "w-", shape=4, dtype="i4"),
    "open_array a": lambda place: frazil.open_array(place, "a", shape=4, dtype="i4"),
    "open_group w": lambda place: frazil.open_group(place, "w"),
    "open_group w-": lambda place: frazil.open_group(place, "w-"),
    "open_group a": lambda place: frazil.open_group(place, "a"),
    "Repository.create": frazil.Repository.create,
    "convert": lambda place: frazil.convert("old.zr3", place),
    "convert overwrite": lambda place: frazil.convert("old.zr3", place, overwrite=True),
    "copy": lambda place: frazil.copy("plain.zarr", place),
    "copy overwrite": lambda place: frazil.copy("plain.zarr", place, overwrite=True),
    "copy of a repository": lambda place: frazil.copy("other.repo", place),
}
COMMANDS: dict[str, Write] = {
    "frazil convert": by_command("convert", "old.zr3", "PLACE"),
    "frazil convert --overwrite": by_command("convert", "old.zr3", "PLACE", "--overwrite"),
    "frazil copy": by_command("copy", "plain.zarr", "PLACE"),
    "frazil copy --overwrite": by_command("copy", "plain.zarr", "PLACE", "--overwrite"),
    "frazil repo init": by_command("repo", "init", "PLACE"),
    "frazil get -o": by_command("get", "plain.zarr", "-o", "PLACE", "--format", "csv"),
    "frazil view -o": by_command("view", "plain.zarr", "-o", "PLACE"),
}
WRITERS = {**FUNCTIONS, **COMMANDS}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("destinations")
    for name in ("x.repo", "other.repo", "above/inner.repo"):
        repo = frazil.Repository.create(folder / name, durable=False)
        with repo.transaction(message="data") as root:
            root.create_array("a", data=np.arange(4))
    frazil.create_array(folder / "plain.zarr", data=np.ones((4, 4)))
    frazil.create_array(folder / "old.zr3", data=[1, 2], zarr_format="draft")
    with netCDF4.Dataset(folder / "ocean.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "i4", ("x",))[:] = 1
    return folder


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, a copy of the template."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def check_refused(write: Write, place: Path, target: str) -> FrazilError | OSError:
    before = files(place)
    with pytest.raises((FrazilError, OSError, SystemExit)) as caught:
        write(target)
    assert files(place) == before
    assert not isinstance(caught.value, SystemExit) or caught.value.code == 2
    return caught.value  # type: ignore[return-value]


@pytest.mark.parametrize("name", WRITERS)
def test_a_repository_is_not_overwritten(name: str, place: Path) -> None:
    check_refused(WRITERS[name], place, "x.repo")


@pytest.mark.parametrize("name", [*WRITERS, "frazil import"])
def test_destinations_inside_a_repository_are_refused(name: str, place: Path) -> None:
    write = by_command("import", "ocean.nc", "PLACE") if name == "frazil import" else WRITERS[name]
    for inside in ("x.repo/chunks", "x.repo/b/c", "x.repo/refs/branch.main", "x.repo/sea.png"):
        check_refused(write, place, inside)


@pytest.mark.parametrize("name", [name for name in WRITERS if not name.startswith(("frazil copy", "frazil convert"))])
def test_a_point_in_a_repository_is_no_place_of_its_own(name: str, place: Path) -> None:
    for point in ("x.repo@main", "x.repo@main/b", "x.repo@nothing", "x.repo@"):
        check_refused(WRITERS[name], place, point)
        assert not Path(point.partition("/")[0]).exists()


def test_names_within_a_repository_may_look_like_points_of_another(place: Path) -> None:
    repo = frazil.Repository.create("names.repo")
    with repo.transaction(message="odd") as root:
        root.create_array("inner.repo@x/a", data=np.arange(2))
    repo.create_tag("old.repo@1", "main")
    for point in ("main", "old.repo@1"):
        assert frazil.open_array(f"names.repo@{point}/inner.repo@x/a").shape == (2,)
    assert "a" in frazil.open_group("names.repo@old.repo@1/inner.repo@x")


MAKERS: dict[str, Write] = {
    **{name: write for name, write in WRITERS.items() if "get" not in name and "view" not in name},
    "frazil import": by_command("import", "ocean.nc", "PLACE"),
    "import_file": lambda place: frazil.import_file("ocean.nc", place),
    "as_store": frazil.zarr.as_store,
    "xarray": xr.Dataset({"a": ("x", [1])}).frazil.write,
}


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_is_created_at_a_point_of_a_missing_repository(name: str, place: Path) -> None:
    """It would hide this point if the repository is created later."""
    for point in ("missing.repo@main", "missing.repo@v1/b"):
        error = check_refused(MAKERS[name], place, point)
        assert name.startswith("frazil ") or ("missing.repo" in str(error) and isinstance(error, NotFoundError))
        assert not Path(point.partition("/")[0]).exists()


def test_the_error_says_how_a_plain_store_gets_such_a_name(place: Path) -> None:
    with pytest.raises(NotFoundError, match="plain store") as caught:
        frazil.create_array("missing.repo@a", data=[1])
    hint = str(caught.value.hint)
    location = eval(hint[hint.index("frazil.stores") : hint.index(")", hint.index("LocalStore")) + 1])
    frazil.create_array(location, data=[1])
    assert frazil.open_array("missing.repo@a")[0] == 1
    Path("other.repo@a").mkdir()
    frazil.create_array("other.repo@a", data=[2])


@pytest.mark.parametrize("name", [name for name in WRITERS if "overwrite" in name or name.endswith(" w")])
def test_a_folder_with_a_repository_in_it_is_not_overwritten(name: str, place: Path) -> None:
    above = "above" if "path" not in name else "."
    if name == "create_array path":
        Path("a").mkdir()
        Path("above").rename("a/b")
    check_refused(WRITERS[name], place, above)


def test_allowed_destinations(place: Path) -> None:
    main(["copy", "plain.zarr", "x.repo@main/copied"])
    assert frazil.open_array("x.repo@main/copied").shape == (4, 4)
    main(["import", "ocean.nc", "x.repo@main", "--path", "from/file"])
    assert frazil.open_group("x.repo@main")["from/file/v"].shape == (2,)
    frazil.copy("x.repo", "other.repo", overwrite=True)
    assert frazil.Repository.open("other.repo").lookup("main") == frazil.Repository.open("x.repo").lookup("main")
    Path("me@home").mkdir()
    frazil.create_group("me@home")
    frazil.create_group("you@home")
    frazil.create_array("above/beside.zarr", data=[1], overwrite=True)
    frazil.convert("old.zr3", "plain.zarr", overwrite=True)
    assert frazil.open_array("plain.zarr").shape == (2,)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_stores_and_their_parts(name: str, place: Path) -> None:
    store = MemoryStore("guarded")
    for key in store.list():
        store.erase(key)
    frazil.Repository.create("memory://guarded/a/x.repo").transaction("main", message="m")
    before = {key: store.get(key) for key in store.list()}
    for location in ("memory://guarded/a/x.repo", "memory://guarded/a/x.repo/b", "memory://guarded/a/x.repo@main"):
        with pytest.raises((AlreadyExistsError, InvalidInputError)):
            FUNCTIONS[name](location)
        assert {key: store.get(key) for key in store.list()} == before


def test_the_guard_knows_where_branch_files_are() -> None:
    assert folder_of("branch", "main") == MAIN_FILES


def test_errors_have_hints(place: Path) -> None:
    def error_text(location: str, **options: Any) -> str:
        with pytest.raises(FrazilError) as caught:
            check_destination(location, *resolve(location), **options)
        return str(caught.value)

    assert "write to a branch" in error_text("x.repo")
    assert "x.repo@main/b" in error_text("x.repo/b")
    assert "transaction" in error_text("x.repo@main")
    assert "above/inner.repo" in error_text(".", overwrite=True) or "inner.repo" in error_text(".", overwrite=True)


def test_an_array_at_a_repository_is_not_told_to_replace_it(place: Path) -> None:
    for create in (frazil.create_array, partial(frazil.open_array, mode="a")):
        with pytest.raises(AlreadyExistsError, match="a repository already exists") as caught:
            create("x.repo", shape=4, dtype="i4")
        assert "write to a branch" in str(caught.value) and "overwrite=True" not in str(caught.value)


def test_a_symbolic_link_into_a_repository(tmp_path: Path) -> None:
    frazil.Repository.create(tmp_path / "x.repo")
    (tmp_path / "link").symlink_to(tmp_path / "x.repo" / "refs")
    with pytest.raises(InvalidInputError, match="among the files of a repository"):
        frazil.create_array(tmp_path / "link" / "tag.t", data=np.arange(3.0))
    assert [found.name for found in (tmp_path / "x.repo" / "refs").iterdir()] == ["branch.main"]


GROUP_WRITERS: dict[str, Callable[[frazil.Group, str, bool], object]] = {
    "create_group": lambda group, path, overwrite: group.create_group(path, overwrite=overwrite),
    "create_array": lambda group, path, overwrite: group.create_array(path, shape=4, dtype="i4", overwrite=overwrite),
    "create_arrays": lambda group, path, overwrite: group.create_arrays(
        {path: {"shape": 4, "dtype": "i4"}}, overwrite=overwrite
    ),
}


@pytest.mark.parametrize("name", GROUP_WRITERS)
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_groups_do_not_overwrite_repositories(name: str, kind: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path) if kind == "local" else MemoryStore()
    group = frazil.create_group(store)
    group.create_group("a/b")
    repository = MemoryStore()
    frazil.Repository.create(repository)
    for key in repository.list():
        store.set(f"a/b/x.repo/{key}", repository.get(key) or b"")
    before = {key: store.get(key) for key in store.list()}
    for path in ("a", "a/b", "a/b/x.repo"):
        with pytest.raises(AlreadyExistsError, match="repository") as caught:
            GROUP_WRITERS[name](group, path, True)
        assert caught.value.path == "a/b/x.repo"
    for path in ("a/b/x.repo/y", "a/b/x.repo/refs/z"):
        for overwrite in (True, False) if kind == "local" else (True,):
            with pytest.raises(InvalidInputError, match="among the files of a repository"):
                GROUP_WRITERS[name](group, path, overwrite)
    assert {key: store.get(key) for key in store.list()} == before
    GROUP_WRITERS[name](group, "a/c", True)
    GROUP_WRITERS[name](group, "a/c", True)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_repositories_inside_hierarchies_are_refused(tmp_path: Path, zarr_format: int) -> None:
    """Programs would find only one of the two."""
    for name, create in (("a", frazil.create_array), ("g", frazil.create_group)):
        create(tmp_path / name, zarr_format=zarr_format, **({"data": [1, 2]} if name == "a" else {}))  # type: ignore[operator]
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(AlreadyExistsError, match="array or group"):
            frazil.Repository.create(tmp_path / name)
        with pytest.raises(AlreadyExistsError, match="array or group"):
            frazil.Repository.open_or_create(tmp_path / name)
        assert main(["repo", "init", str(tmp_path / name)]) == 1
        assert sorted(tmp_path.rglob("*")) == before
