"""What users see: errors that suggest a solution, signatures, and what a prompt shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import frazil
from frazil.cli.main import main
from frazil.errors import ConflictError, FrazilError, InvalidInputError, NotFoundError, StoreError
from frazil.stores import MemoryStore
from tests.servers.scripted import answer, scripted


@pytest.mark.parametrize("call", [frazil.create_array, frazil.create_group, frazil.open, frazil.open_array, frazil.open_group,
                                  frazil.Repository.create, frazil.Repository.open, frazil.convert, frazil.copy])  # fmt: skip
def test_signatures_are_short(call: object) -> None:
    text = str(inspect.signature(call))  # type: ignore[arg-type]
    assert len(text) < 1500 and "registry: Registry = Registry(" not in text
    assert len(repr(frazil.Registry)) < 100
    assert len(repr(inspect.signature(frazil.create_array).parameters["registry"].default)) < 60


def test_a_prompt_shows_what_print_shows() -> None:
    repo = frazil.Repository.create(MemoryStore())
    session = repo.writable_session()
    array = session.root.create_array("a", data=[1, 2, 3])
    for value in (session.root.tree(), array.info, session.diff()):
        assert repr(value) == str(value) and "\n" in f"{value}\n"
    session.commit("data")
    difference = repo.diff(next(iter(repo.history())).parent or "", "main")
    assert repr(difference) == str(difference) and "/a" in repr(difference)


@pytest.mark.parametrize(
    ("dtype", "meant"),
    [("flaot32", "float32"), ("unit8", "uint8"), ("complex46", "complex64"), ("Float32", "float32"), ("datetime", "numpy.datetime64")],
)  # fmt: skip
def test_a_mistyped_data_type(dtype: str, meant: str) -> None:
    with pytest.raises(FrazilError, match=f"did you mean '{meant}'"):
        frazil.create_array(MemoryStore(), shape=3, dtype=dtype)


def test_a_mistyped_codec() -> None:
    for codecs in (["bytes", "zsdt"], [{"name": "bytes"}, {"name": "zsdt"}]):
        with pytest.raises(FrazilError, match="did you mean 'zstd'"):
            frazil.create_array(MemoryStore(), shape=3, dtype="i4", codecs=codecs)
    for name, meant in (
        ("shufle", "numcodecs.shuffle"),
        ("sharding", "sharding_indexed"),
        ("crc32C", "crc32c"),
        ("lz", "numcodecs.lz4"),
    ):
        with pytest.raises(FrazilError, match=f"did you mean '{meant}'" if name.islower() else "small letters"):
            frazil.create_array(MemoryStore(), shape=3, dtype="i4", codecs=["bytes", name])
    with pytest.raises(FrazilError, match="register it"):
        frazil.create_array(MemoryStore(), shape=3, dtype="i4", codecs=["bytes", "something.else"])


def test_a_tag_that_is_taken_for_a_branch() -> None:
    repo = frazil.Repository.create(MemoryStore())
    repo.create_tag("v1", "main")
    for call in (repo.readonly_session, repo.writable_session, repo.lookup_branch):
        with pytest.raises(NotFoundError, match="'v1' is a tag") as caught:
            call("v1")
        assert "readonly_session(tag='v1')" in str(caught.value)
        with pytest.raises(NotFoundError, match="no branch of this name") as caught:
            call("v2")
        assert "tag" not in str(caught.value)


@pytest.mark.parametrize("opening", [frazil.open, frazil.open_array, frazil.open_group])
def test_a_file_of_netcdf(opening: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with netCDF4.Dataset(tmp_path / "ocean.nc", "w") as file:
        file.createDimension("x", 2)
    for location in (tmp_path / "ocean.nc", str(tmp_path / "missing.NC"), str(tmp_path / "a.h5")):
        with pytest.raises((NotFoundError, StoreError), match="frazil import"):
            opening(location)  # type: ignore[operator]
    with scripted(lambda request: answer(404)) as server:
        with pytest.raises(NotFoundError, match=f"frazil import {server.url}/far/ocean.nc sea.repo"):
            opening(f"{server.url}/far/ocean.nc")  # type: ignore[operator]
    assert main(["info", str(tmp_path / "ocean.nc")]) == 1
    assert "frazil import" in capfd.readouterr().err


def test_points_in_repositories_are_opened_as_by_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    repo = frazil.Repository.create("x.repo")
    assert len(frazil.open_group("x.repo@main")) == 0
    with repo.transaction(message="one") as root:
        root.create_array("g/a", data=np.arange(4))
    repo.create_tag("v1", "main")
    first = repo.lookup("main")
    with repo.transaction(message="two") as root:
        root["g/a"][:] = 7
    for name, values in (("main", [7] * 4), ("v1", [0, 1, 2, 3]), (first, [0, 1, 2, 3]), (first[:8], [0, 1, 2, 3])):
        for location in (f"x.repo@{name}/g/a", Path(f"x.repo@{name}/g/a"), str(tmp_path / f"x.repo@{name}" / "g/a")):
            assert frazil.open_array(location)[:].tolist() == values
            assert frazil.open(location)[:].tolist() == values  # type: ignore[index]
        assert frazil.open_array(f"x.repo@{name}", path="g/a")[:].tolist() == values
        assert frazil.open_array(f"x.repo@{name}/g", path="a")[:].tolist() == values
        assert frazil.open_group(f"x.repo@{name}")["g/a"][:].tolist() == values
        assert [*frazil.open_group(f"x.repo@{name}/g")] == ["a"]
    for mode in ("r+", "a", "w", "w-"):
        with pytest.raises(InvalidInputError, match="only be read by its name"):
            frazil.open_array("x.repo@main/g/a", mode, **({} if mode == "r+" else {"shape": 4, "dtype": "i4"}))  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="only be read by its name"):
            frazil.open_group("x.repo@main", mode)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        frazil.open_array("x.repo@nothing/g/a")
    with pytest.raises(NotFoundError):
        frazil.open_array("x.repo@main/g/b")
    with pytest.raises(InvalidInputError, match="a group is there"):
        frazil.open_array("x.repo@main")
    with pytest.raises(InvalidInputError, match="there is no name"):
        frazil.open_array("x.repo@")
    with pytest.raises(InvalidInputError, match="zarr_format"):
        frazil.open_array("x.repo@main/g/a", zarr_format="draft")


def test_a_copy_of_virtual_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with netCDF4.Dataset("ocean.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "i4", ("x",))[:] = [1, 2]
    assert main(["import", "ocean.nc", "x.repo", "--virtual"]) == 0
    for command in (["copy", "x.repo@main", "new.zarr"], ["convert", "x.repo@main", "new2.zarr"]):
        assert main(command) == 1
        assert "--virtual-prefix" in capfd.readouterr().err
        assert main([*command, "--virtual-prefix", tmp_path.resolve().as_uri() + "/"]) == 0
        assert frazil.open_array(command[2], path="v")[:].tolist() == [1, 2]
    assert main(["copy", "x.repo@main", "third.zarr"]) == 1
    assert not [path for path in Path("third.zarr").rglob("*") if path.is_file()], "no note is left behind"


def test_names_of_branches_tags_and_snapshots_that_are_mixed_up(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo")
    tip = repo.lookup("main")
    repo.create_branch("develop", "main")
    repo.create_tag("v1.0", "main")
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: repo.readonly_session("develpo"), "did you mean 'develop'"),
        (lambda: repo.readonly_session("nothing"), "repo.branches, or `frazil repo branch`, lists them"),
        (lambda: repo.writable_session(tip), f"is a snapshot: readonly_session.snapshot='{tip}'"),
        (lambda: repo.readonly_session(tip[:6].lower()), f"is a snapshot: readonly_session.snapshot='{tip}'"),
        (lambda: repo.delete_branch("v1.0"), "'v1.0' is a tag"),
        (lambda: repo.reset_branch("v1.0", "main"), "'v1.0' is a tag"),
        (lambda: repo.readonly_session(tag="main"), "'main' is a branch"),
        (lambda: repo.lookup_tag("v1.1"), "did you mean 'v1.0'"),
        (lambda: repo.lookup("v1,0"), "did you mean 'v1.0'"),
        (lambda: frazil.Repository.open(tmp_path / "sea.repo@main"), "a repository is opened without @main"),
        (lambda: frazil.open_array(tmp_path / "sea.repo" / "a" / "t"), "frazil.open...*sea.repo@main/a/t"),
        (lambda: frazil.open_array(tmp_path / "sea.repo", path="a/t"), "frazil.open...*sea.repo@main/a/t"),
    ]
    for call, match in calls:
        with pytest.raises(NotFoundError, match=match):
            call()


def test_control_characters_in_names_are_escaped() -> None:
    """Names of nodes are untrusted: no text of ours contains their control characters, or lines that they forge."""
    name = "a\x1b[31m\nb\x9b"
    store = MemoryStore()
    group = frazil.create_group(store).create_group(name)
    array = group.create_array("t", data=np.arange(4))
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message=name) as root:
        root.create_array(f"{name}/t", data=np.arange(4))
    one, two = repo.writable_session(), repo.writable_session()
    for session in (one, two):
        session.root[f"{name}/t"][0] = 7
    shown: list[object] = [group, array, array.info, group.tree(), one.diff(), one, repo, next(iter(repo.history()))]
    one.commit("first")
    for call in (
        lambda: two.commit("second"),
        two.rebase,
        lambda: frazil.open_array(store, path=f"{name}/u"),
        lambda: frazil.open_array(store, **{name: 1}),
        lambda: frazil.create_array(MemoryStore(), shape=3, dtype=name),
        lambda: frazil.create_array(MemoryStore(), shape=3, dtype="i4", codecs=[name]),
        lambda: frazil.create_array(MemoryStore(), shape=3, dtype="i4", codecs=[{"name": "zstd", "configuration": {name: 1}}]),
    ):  # fmt: skip
        with pytest.raises(FrazilError) as caught:
            call()  # type: ignore[no-untyped-call]
        shown += [caught.value, *(caught.value.conflicts if isinstance(caught.value, ConflictError) else ())]
    assert len(shown) > 16
    for value in shown:
        for text in (str(value), repr(value)):
            assert all(line.isprintable() for line in text.split("\n"))
            assert not any(line.startswith("b") for line in text.split("\n"))


def test_an_unknown_name_has_a_short_message() -> None:
    """With a similar name the list of all names would only hide it."""
    for arguments in ({"dtype": "flaot32"}, {"codecs": ["bytes", "zsdt"]}, {"dtype": object}):
        with pytest.raises(FrazilError) as caught:
            frazil.create_array({}, **{"shape": 3, "dtype": "i4", **arguments})  # type: ignore[arg-type]
        assert caught.value.hint and len(str(caught.value)) < 250
    with pytest.raises(FrazilError, match="registered: bytes"):
        frazil.create_array({}, shape=3, dtype="i4", codecs=["quite_another"])


@pytest.mark.parametrize(("name", "meant"), [("chunk", "chunks"), ("fillvalue", "fill_value"), ("dimension_name", "dimension_names")])  # fmt: skip
def test_a_mistyped_argument(name: str, meant: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} is not an argument here.*did you mean '{meant}'"):
        frazil.create_array({}, shape=3, dtype="i4", **{name: 3})  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=f"did you mean '{meant}'"):
        frazil.create_group({}).create_arrays({"a": {"shape": 3, "dtype": "i4", name: 3}})


def test_messages_for_missing_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The hint says what is there instead. Commands do not name modes of Python."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("old/meta").mkdir(parents=True)
    Path("begun").mkdir()
    Path("begun/__frazil_copy.json").write_text("{}")
    for place, hint in (
        ("nothing.zarr", "there is no such folder"),
        ("folder", "this folder holds no node"),
        ("s3:/bucket/sea.zarr", "two slashes: s3://"),
        ("old/level1", "hierarchy of the 2022 draft"),
        ("begun", "not complete: run it again"),
    ):
        with pytest.raises(NotFoundError) as caught:
            frazil.open_array(place)
        assert hint in (caught.value.hint or "")
        assert main(["info", place]) == 1
        printed = capfd.readouterr().err
        assert hint in printed
        assert "mode=" not in printed


def test_a_hierarchy_of_zarr_is_no_repository(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The hint was to create one there, which Repository.create refuses."""
    frazil.create_array(tmp_path / "sea.zarr", data=[1])
    with pytest.raises(NotFoundError) as caught:
        frazil.Repository.open(tmp_path / "sea.zarr")
    assert caught.value.hint == "an array or group of Zarr is there; frazil.open reads it"
    assert main(["repo", "log", str(tmp_path / "sea.zarr")]) == 1
    assert "repo init" not in capfd.readouterr().err


def test_a_web_server_that_cannot_be_reached() -> None:
    """The reason is the one of the system. urllib3 counts it as a time-out."""
    for url, reason in (
        ("http://127.0.0.1:9/sea.zarr", "Connection refused"),
        ("http://nowhere.invalid/sea.zarr", "not known|resolution"),
    ):
        store = frazil.stores.ObjectStore(url, retry_config={"max_retries": 0})
        with pytest.raises(StoreError, match=reason) as caught:
            frazil.open_array(store)
        assert "in time" not in str(caught.value)
        assert "time-outs" not in (caught.value.hint or "")


def test_a_web_server_is_no_destination(tmp_path: Path) -> None:
    frazil.create_array(tmp_path / "sea.zarr", data=[1])
    with pytest.raises(frazil.errors.ReadOnlyError, match="can only be read"):
        frazil.copy(tmp_path / "sea.zarr", "http://127.0.0.1:9/sea.zarr")


def test_messages_name_the_location_and_no_object(tmp_path: Path) -> None:
    """As users wrote it: neither the repr of a store nor that of the objects around it."""
    folder, archive, repository = f"{tmp_path}/a.zarr", f"{tmp_path}/a.zarr.zip", f"{tmp_path}/sea.repo"
    repo = frazil.Repository.create(repository)
    with repo.transaction("main", message="one") as root:
        root.create_array("x", data=np.zeros(3))
    for place in (folder, archive, "memory://test-messages"):
        frazil.create_array(place, path="x", data=np.zeros(3))
    cases: list[tuple[str, Callable[[], object]]] = [
        (folder, lambda: frazil.open(folder, path="y")),
        (folder, lambda: frazil.create_array(folder, path="x", shape=2, dtype="i4")),
        (folder, lambda: frazil.open_array(folder, mode="r", path="x").append(np.zeros(1))),
        (folder, lambda: frazil.stores.ReadOnlyStore(frazil.stores.LocalStore(folder)).set("a", b"")),
        (archive, lambda: frazil.open(archive, path="y")),
        (archive, lambda: frazil.create_array(archive, path="x", shape=2, dtype="i4")),
        ("memory://test-messages", lambda: frazil.open("memory://test-messages", path="y")),
        (repository, lambda: frazil.Repository.create(repository)),
        (f"{repository}@main", lambda: frazil.open(repo.writable_session("main").store, path="y")),
        (f"{repository}@{repo.lookup('main')}", lambda: frazil.create_group(repo.readonly_session("main").store, path="h")),
        (f"{repository}@main", lambda: frazil.create_array(repo.writable_session("main").store, path="x", shape=2, dtype="i4")),
        (f"{repository}@", lambda: root.create_group("h")),
    ]  # fmt: skip
    for number, (named, call) in enumerate(cases):
        with pytest.raises(frazil.FrazilError) as caught:
            call()
        message = caught.value.message
        assert "Store(" not in message and "<" not in message, (number, message)
        assert named in message, (number, message)


def test_hints_do_not_suggest_to_create_what_can_only_be_read(tmp_path: Path) -> None:
    frazil.Repository.create(tmp_path / "sea.repo")
    for place, creates in ((f"{tmp_path}/sea.repo@main/nothing", False), (f"{tmp_path}/nothing", True)):
        with pytest.raises(NotFoundError) as caught:
            frazil.open(place)
        assert caught.value.hint is not None and ('mode="a"' in caught.value.hint) is creates
