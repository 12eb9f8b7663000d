"""`frazil shards`: tables, pictures, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.operations.pictures import decode_png

from frazil.cli.main import main


def test_all_shards_are_listed_in_a_table(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["shards", "sea.zarr"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "shard"
    assert len(lines) == 1 + 9 + 1
    assert lines[1].startswith("0, 0")
    assert lines[-1].startswith(f"9 shards of {workdir / 'sea.zarr'}: ")
    assert main(["shards", "sea.zarr", "--most", "2"]) == 0
    assert "and 7 more" in capfd.readouterr().out
    assert main(["shards", "sea.repo", "level1/temp"]) == 1
    assert "has no shards" in capfd.readouterr().err


def test_shards_shows_one_shard_and_its_picture(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["shards", "sea.zarr", "--shard", "1,2", "-o", "shard.png"]) == 0
    out = capfd.readouterr().out
    assert "inner chunk 4, 8" in out
    assert "# inner chunks, i index" in out
    assert decode_png((workdir / "shard.png").read_bytes()).shape[0] > 256  # with a title and a legend
    assert main(["shards", "sea.zarr", "--shard", "1,2", "--json"]) == 0
    (shard,) = json.loads(capfd.readouterr().out)["shards"]
    assert shard["coords"] == [1, 2]
    assert {piece["kind"] for piece in shard["pieces"]} == {"chunk", "index"}
    assert main(["shards", "sea.zarr", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["shards"]) == 9


@pytest.mark.parametrize("arguments", [["--shard", "a"], ["--shard", "-1,0"], ["--most", "0"], ["--json", "-o", "-"]])
def test_wrong_usage(arguments: list[str], workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["shards", "sea.zarr", *arguments]) == 2
    assert "usage: frazil shards" in capfd.readouterr().err


def test_missing_shards(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["shards", "sea.zarr", "--shard", "9,9"]) == 1
    assert "3 x 3 shards" in capfd.readouterr().err
    assert main(["shards", "ocean.zarr"]) == 1
    assert "a group is there" in capfd.readouterr().err
