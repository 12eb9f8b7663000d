"""Locations in repositories: sea.repo@REF and other meanings of @."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import TEMP, fill_repository
from tests.servers.buckets import S3
from tests.servers.proxy import FaultProxy
from tests.servers.web import WebServer

import frazil
from frazil.api.ref_locations import split_ref
from frazil.cli.arguments.locations import open_node
from frazil.cli.main import main
from frazil.errors import NotFoundError


def first(location: str, path: str = "level1/temp") -> float:
    array = open_node(location, path)
    assert isinstance(array, frazil.Array)
    return float(np.asarray(array[0, 0, 0]))


def test_branch_tag_snapshot_and_main(workdir: Path) -> None:
    repo = frazil.Repository.open("sea.repo")
    then, warmer = float(TEMP[0, 0, 0]), float(TEMP[0, 0, 0] + np.float32(1))
    dev = repo.lookup_branch("dev")
    for location in ("sea.repo@dev", f"sea.repo@{dev}", f"sea.repo@{dev[:7].lower()}", f"{workdir}/sea.repo@dev"):
        assert first(location) == warmer
    for location in ("sea.repo", "sea.repo@main", "sea.repo@v1", f"file://{workdir}/sea.repo@v1", "sea.repo/"):
        assert first(location) == then
    assert first("sea.repo@dev/level1/temp", "") == first("sea.repo@dev/level1", "temp") == warmer
    assert first("sea.repo/level1/temp", "") == first("sea.repo/level1", "temp") == then
    assert "salt" in open_node("sea.repo")
    assert "salt" not in open_node("sea.repo@v1")


def test_the_commands_read_there(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["get", "sea.repo", "salt", "1:3"],
        ["get", "sea.repo@main", "salt", "1:3"],
        ["get", "sea.repo@main/salt", "1:3"],
        ["get", "sea.repo/salt", "1:3"],
    ):
        assert main(arguments) == 0
        assert capfd.readouterr().out == "[1 2]\n"
    assert main(["info", "sea.repo@dev", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["groups"] == ["level1"]
    assert main(["tree", "sea.repo@v1"]) == 0
    assert capfd.readouterr().out == "/\n└── level1/\n    └── temp (3, 40, 50) float32\n"
    assert main(["view", "sea.repo@v1", "level1/temp", "0, :, :", "-o", "a.png"]) == 0
    assert (workdir / "a.png").stat().st_size > 0


@pytest.mark.parametrize(("location", "names"), [("sea.repo", ["level1", "salt"]), ("sea.repo@dev", ["level1"])])
def test_a_state_becomes_a_plain_folder(
    location: str, names: list[str], workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", location, "plain.zarr"]) == 0
    group = frazil.open_group("plain.zarr")
    assert list(group) == names
    array = open_node(location, "level1/temp")
    assert isinstance(array, frazil.Array)
    np.testing.assert_array_equal(group["level1/temp"][...], array[...])


def test_existing_folders_precede_references(workdir: Path) -> None:
    Path("sea.repo@dev").mkdir()
    frazil.create_array("sea.repo@dev", data=[1, 2, 3])
    assert split_ref("sea.repo@dev") is None
    array = open_node("sea.repo@dev")
    assert isinstance(array, frazil.Array)
    assert array.shape == (3,)


def test_names_with_several_signs(workdir: Path) -> None:
    fill_repository(workdir / "me@home.repo")
    assert first("me@home.repo@dev") == first("sea.repo@dev")
    repo = frazil.Repository.open("me@home.repo")
    repo.create_branch("a@b", "dev")
    assert first("me@home.repo@a@b") == first("sea.repo@dev")
    assert split_ref("me@home.repo@a@b/level1") == ("me@home.repo", "a@b", "level1")
    assert first("me@home.repo") == first("sea.repo")


def test_a_repository_in_memory(workdir: Path) -> None:
    repo = frazil.Repository.create("memory://for-the-command-line/sea")
    with repo.transaction(message="one") as root:
        root.create_array("t", data=[5.0])
    assert np.asarray(open_node("memory://for-the-command-line/sea@main", "t")[...]) == 5


def test_a_repository_on_a_web_server(workdir: Path, web_server: WebServer, capfd: pytest.CaptureFixture[str]) -> None:
    """A web server cannot list: the first file of main shows that it is a repository, and a document that the @ belongs to a name."""
    (workdir / "sea.zarr").rename(workdir / "sea@2024.zarr")
    with web_server(workdir) as url:
        assert first(f"{url}/sea.repo@dev") == first("sea.repo@dev")
        assert frazil.open_array(f"{url}/sea@2024.zarr").shape == frazil.open_array("sea@2024.zarr").shape
        for command in (["tag"], ["tag", "v1"], ["branch", "dev"], ["du"], ["show"], ["verify"], ["repair"]):
            location = f"{url}/no.repo"
            assert main(["repo", command[0], location, *command[1:]]) == 1
            error = capfd.readouterr().err
            assert f"there is no repository here: {location}" in error
            assert f"`frazil repo init {location}` makes one" in error


def test_the_error_in_python_mentions_the_repository(workdir: Path) -> None:
    for opening in (frazil.open, frazil.open_array, frazil.open_group):
        with pytest.raises(
            NotFoundError, match=r'here: frazil\.open\("/.*/sea\.repo@main"\) reads .*frazil\.Repository\.open'
        ):
            opening("sea.repo")
        with pytest.raises(NotFoundError, match=r'there is a repository here: .*/sea\.repo@main/level1/temp"'):
            opening("sea.repo", path="level1/temp")
        with pytest.raises(NotFoundError, match=r"there is a repository in 'sea\.repo': .*/sea\.repo@main/level1\""):
            opening(".", path="sea.repo/level1")
        with pytest.raises(NotFoundError, match="check the location"):
            opening("nothing.zarr")


def test_virtual_chunks_are_read_where_that_is_allowed(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (workdir / "data").mkdir()
    (workdir / "data" / "raw").write_bytes(np.arange(4, dtype="<i4").tobytes())
    prefix = f"file://{workdir.resolve()}/data/"
    repo = frazil.Repository.open("sea.repo", virtual_prefixes=[prefix])
    session = repo.writable_session()
    session.root.create_array("raw", shape=4, dtype="i4", chunks=4, codecs=[])
    session.set_virtual_chunks("raw", [[0]], f"{prefix}raw", 0, 16)
    session.commit("raw numbers")
    assert main(["get", "sea.repo", "raw", ":"]) == 1
    assert "outside of the prefixes" in capfd.readouterr().err
    assert main(["get", "sea.repo", "raw", ":", "--virtual-prefix", prefix]) == 0
    assert capfd.readouterr().out == "[0 1 2 3]\n"


def test_nothing_is_looked_up_twice_in_a_bucket(
    s3: S3, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The four documents of a node, whether each folder above is a repository (two requests), and what is shown: for keys one listing."""
    with FaultProxy(s3.endpoint) as proxy:
        for name, value in s3.environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        url = s3.url(prefix="here")
        frazil.create_array(f"{url}/plain", data=TEMP[:, 0, 0], chunks=(1,))
        with frazil.Repository.create(f"{url}/sea.repo").transaction(message="first") as root:
            root.create_array("temp", data=TEMP, chunks=(1, 40, 50))
        tip = 5  # tag and branch of this name, the branch's file, the snapshot, one manifest
        for arguments, expected in (
            (["ls", "-l", f"{url}/plain/c"], 4 + 2 * 4 + 1),
            (["info", f"{url}/plain"], 1 + 1),
            (["du", f"{url}/sea.repo"], 4 + 1 + tip),
            (["info", f"{url}/sea.repo", "temp"], 5 + 1 + tip),
            (["info", f"{url}/sea.repo/temp"], 4 + 2 + 1 + tip),
            (["info", f"{url}/sea.repo@main/temp"], 1 + 1 + tip),
            (["validate", f"{url}/sea.repo/temp"], 4 + 2 + 1 + tip),
        ):
            answers = frazil.stores.ObjectStore(url).exists("here")  # the bucket is known to answer as a store
            proxy.requests.clear()
            assert main(arguments) == 0 and not answers
            assert len(proxy.requests) == expected, (arguments, [request.path for request in proxy.requests])
    capfd.readouterr()
