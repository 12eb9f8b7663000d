"""`frazil validate`: its output and exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.servers.buckets import S3

import frazil
from frazil.cli.main import main


def test_sound_hierarchies_have_no_problems(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for location in ("ocean.zarr", "sea.zarr", "old.zr3", "sea.repo", "sea.repo@v1", "sea.repo@dev/level1"):
        assert main(["validate", location, "--decode"]) == 0
        out, err = capfd.readouterr()
        assert ": no problems\n  looked at " in out
        assert err == ""
    assert main(["validate", "ocean.zarr", "level1", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["ok"], document["arrays"], document["decoded"], document["problems"]) == (True, 1, False, [])


def test_a_plain_node_among_the_files_of_a_repository_is_validated(
    workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As info and tree show it."""
    (workdir / "ocean.zarr").rename(workdir / "sea.repo" / "ocean.zarr")
    for arguments in (["sea.repo/ocean.zarr/level1"], ["sea.repo", "ocean.zarr/level1"]):
        assert main(["validate", *arguments]) == 0
        assert "sea.repo/ocean.zarr/level1: no problems" in capfd.readouterr().out


def test_problems_are_lines_and_status_1(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (workdir / "ocean.zarr" / "flat" / "c" / "0").write_bytes(b"nonsense")
    (workdir / "ocean.zarr" / "notes.txt").write_bytes(b"")
    assert main(["validate", "ocean.zarr"]) == 1
    assert capfd.readouterr().out.splitlines()[:2] == [
        "key: /: the key belongs to no node, and to no chunk of one (key notes.txt)",
        f"{workdir / 'ocean.zarr'}: 1 problem",
    ]
    assert main(["validate", "ocean.zarr", "--decode", "--json"]) == 1
    out, err = capfd.readouterr()
    document = json.loads(out)
    assert err == ""
    assert [problem["kind"] for problem in document["problems"]] == ["key", "chunk"]
    assert document["problems"][1]["chunk"] == [0]
    (workdir / "ocean.zarr" / "zarr.json").write_bytes(b"nonsense")
    assert main(["validate", "ocean.zarr"]) == 1
    assert capfd.readouterr().out.startswith("document: /: ")


def test_an_array_in_a_bucket_is_validated(
    workdir: Path, s3: S3, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()
    frazil.copy("sea.zarr", f"s3://{bucket}/sea.zarr")
    assert main(["validate", f"s3://{bucket}/sea.zarr", "--decode"]) == 0
    assert "9 stored objects, 9 shard indexes" in capfd.readouterr().out
