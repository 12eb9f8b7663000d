"""`frazil du`: sums that match the stored bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import TEMP
from tests.servers.buckets import S3
from tests.servers.web import WebServer

import frazil
from frazil.cli.main import main


def nodes_of(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> dict[str, dict]:
    assert main([*arguments, "--json"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return {node["path"]: node for node in json.loads(out)}


def stored(folder: Path) -> tuple[int, int]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "zarr.json"]
    return sum(path.stat().st_size for path in files), len(files)


def test_bytes_of_every_node(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    nodes = nodes_of(["du", "ocean.zarr"], capfd)
    assert list(nodes) == ["", "flat", "level1", "level1/temp"]
    for path, node in nodes.items():
        assert (node["stored_nbytes"], node["objects"]) == stored(workdir / "ocean.zarr" / path)
    assert nodes["level1"]["nbytes"] == nodes["level1/temp"]["nbytes"] == TEMP.nbytes
    assert nodes[""]["nbytes"] == TEMP.nbytes + 12
    assert {node["kind"] for path, node in nodes.items() if path in ("", "level1")} == {"group"}
    assert list(nodes_of(["du", "ocean.zarr", "--depth", "0"], capfd)) == [""]
    assert list(nodes_of(["du", "ocean.zarr", "--depth", "1"], capfd)) == ["", "flat", "level1"]
    assert nodes_of(["du", "ocean.zarr", "level1/temp"], capfd)[""]["objects"] == nodes["level1/temp"]["objects"]


def test_a_table(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["du", "ocean.zarr"]) == 0
    head, top, flat, level1, temp = capfd.readouterr().out.splitlines()
    assert head.split() == ["decoded", "stored", "ratio", "objects", "path"]
    assert [line.split()[-1] for line in (top, flat, level1, temp)] == [".", "flat", "level1/", "level1/temp"]
    assert flat.split()[:2] == ["12", "B"]
    assert len({line.rstrip().rindex(" ") for line in (head, top, flat, level1, temp)}) == 1


def test_unreadable_nodes_are_reported(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (workdir / "ocean.zarr" / "flat" / "zarr.json").write_text("{}")
    nodes = nodes_of(["du", "ocean.zarr"], capfd)
    assert (nodes["flat"]["kind"], nodes["flat"]["unreadable"], nodes[""]["unreadable"]) == ("unreadable", 1, 1)
    assert nodes[""]["nbytes"] == TEMP.nbytes
    assert main(["du", "ocean.zarr"]) == 0
    assert "flat (unreadable: " in capfd.readouterr().out


def test_in_a_repository_a_draft_a_bucket_and_on_a_web_server(
    workdir: Path, s3: S3, web_server: WebServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert nodes_of(["du", "sea.repo@dev"], capfd)[""]["objects"] == 3
    assert nodes_of(["du", "sea.repo", "salt"], capfd)[""]["nbytes"] == 32
    assert nodes_of(["du", "old.zr3"], capfd)["level1/temp"]["nbytes"] == TEMP.nbytes
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()
    frazil.copy("ocean.zarr", f"s3://{bucket}/ocean.zarr")
    assert nodes_of(["du", f"s3://{bucket}/ocean.zarr"], capfd) == nodes_of(["du", "ocean.zarr"], capfd)
    with web_server(workdir) as url:
        assert main(["du", f"{url}/ocean.zarr"]) == 1
        assert "listable" in capfd.readouterr().err
