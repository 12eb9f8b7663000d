"""`frazil ls`: members of nodes, and the contents of locations without a node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import frazil
from frazil.cli.main import main


def output_of(capfd: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["ls", *words]) == 0
    return capfd.readouterr().out.splitlines()


def entries_of(capfd: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads("\n".join(output_of(capfd, *words, "--json")))
    return found


def test_members_of_groups_and_arrays_themselves(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of(capfd, "ocean.zarr") == ["flat     array  12  int8  chunks 12", "level1/  group"]
    assert output_of(capfd, "ocean.zarr", "level1") == ["temp  array  3 x 40 x 50  float32  chunks 1 x 16 x 16"]
    assert output_of(capfd, "sea.zarr") == [".  array  600 x 700  uint16  chunks 64 x 64 in shards 256 x 256"]
    assert [entry["name"] for entry in entries_of(capfd, "ocean.zarr", "-r")] == ["flat", "level1", "level1/temp"]


def test_ls_shows_stored_keys(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (entry,) = entries_of(capfd, "sea.zarr", "--long")
    array = frazil.open_array("sea.zarr")
    assert entry == {
        "name": "", "kind": "array", "shape": [600, 700], "data_type": "uint16", "chunks": [64, 64], "shards": [256, 256],
        "objects": 9, "nbytes": array.nbytes_stored(),
    }  # fmt: skip
    (line,) = output_of(capfd, "sea.zarr", "-l")
    assert line.endswith(" KiB in 9 shards")


@pytest.mark.parametrize(
    ("location", "names"),
    [
        ("sea.repo", ["level1", "salt"]),
        ("sea.repo@v1", ["level1"]),
        ("sea.repo/level1", ["temp"]),
        ("sea.repo@dev/level1", ["temp"]),
        ("old.zr3", ["level1"]),
    ],
)
def test_repositories_and_drafts(
    workdir: Path, capfd: pytest.CaptureFixture[str], location: str, names: list[str]
) -> None:
    assert [entry["name"] for entry in entries_of(capfd, location)] == names


def test_ls_without_a_node(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (workdir / "data" / "below").mkdir(parents=True)
    (workdir / "data" / "below" / "x").write_bytes(b"12345")
    (workdir / "data" / "read\nme").write_bytes(b"123")
    (workdir / "data" / "bad").mkdir()
    (workdir / "data" / "bad" / "zarr.json").write_bytes(b"{")
    (workdir / "old.zr3").rename(workdir / "data" / "old.zr3")
    (workdir / "sea.repo").rename(workdir / "data" / "sea.repo")
    entries = {entry["name"]: entry for entry in entries_of(capfd, "data", "-l")}
    assert {name: entry["kind"] for name, entry in entries.items()} == {
        "bad": "unreadable", "below/": "folder", "old.zr3": "group", "read\nme": "key", "sea.repo": "repository",
    }  # fmt: skip
    assert entries["read\nme"]["nbytes"] == 3
    assert output_of(capfd, "data/below", "--long") == ["x  key  5 B"]
    assert "below/x" in [entry["name"] for entry in entries_of(capfd, "data", "--recursive")]
    assert all(line.count("\n") == 0 for line in output_of(capfd, "data"))


def test_unreadable_members_are_reported(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    group = frazil.create_group("g.zarr")
    group.create_array("good", shape=(3,), dtype="int8")
    group.create_array("bad", shape=(3,), dtype="int8")
    document = json.loads((workdir / "g.zarr/bad/zarr.json").read_text())
    document["codecs"].append({"name": "of_nobody"})
    (workdir / "g.zarr/bad/zarr.json").write_text(json.dumps(document))
    bad, good = entries_of(capfd, "g.zarr", "--long")
    assert (bad["kind"], good["kind"]) == ("unreadable", "array")
    assert "of_nobody" in str(bad["reason"])


def test_ls_of_a_repository_whose_tip_is_lost(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is no folder without a node."""
    tip = frazil.Repository.open("sea.repo").lookup("main")
    (workdir / "sea.repo/snapshots" / tip).unlink()
    assert main(["ls", "sea.repo"]) == 1
    assert "the snapshot is lost: verify shows" in capfd.readouterr().err


def test_ls_of_a_repository_below_a_location(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is no folder without a node: its files tell nothing, and the error says how to read it."""
    assert main(["ls", ".", "sea.repo"]) == 1
    assert "there is a repository in 'sea.repo'" in capfd.readouterr().err
    assert output_of(capfd, ".", "sea.repo/refs/tag.v1") == ["ref.json  key"]


@pytest.mark.parametrize("location", ["nowhere", "sea.repo@nothing", "sea.repo@v1/nothing"])
def test_ls_of_a_missing_location(workdir: Path, capfd: pytest.CaptureFixture[str], location: str) -> None:
    assert main(["ls", location]) == 1
    err = capfd.readouterr().err
    assert err.startswith("frazil: ")
    assert err.count("\n") == 1
