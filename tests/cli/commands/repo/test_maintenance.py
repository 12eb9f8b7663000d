"""`frazil repo gc`, `frazil repo expire`, `frazil repo verify` and `frazil repo repair`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import frazil
from frazil.cli.main import main


def output_of(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out


def test_gc(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    repo = frazil.Repository.open("sea.repo", durable=False)
    repo.reset_branch("main", "v1")
    repo.reset_branch("dev", "v1")
    dry = json.loads(output_of(["repo", "gc", "sea.repo", "--dry-run", "--json"], capfd))
    assert dry["dry_run"]
    assert dry["condemned"]["snapshots"] == 3
    assert output_of(["repo", "gc", "sea.repo", "--dry-run"], capfd).startswith("dry run, nothing is changed")
    assert "condemned: 3 snapshots" in output_of(["repo", "gc", "sea.repo"], capfd)
    for path in Path("sea.repo/gc/condemned").iterdir():
        os.utime(path, (0, 0))
    assert output_of(["repo", "gc", "sea.repo", "--wait", "1"], capfd).startswith("removed: 3 snapshots")
    assert "snapshots" in output_of(["repo", "gc", "sea.repo", "--now"], capfd)
    assert frazil.Repository.open("sea.repo").readonly_session(tag="v1").root["level1/temp"].shape == (3, 40, 50)


def test_gc_where_a_chunk_file_is_missing(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    chunk = min(Path("sea.repo/chunks").iterdir())
    chunk.unlink()
    assert main(["repo", "gc", "sea.repo", "--now"]) == 1
    error = capfd.readouterr().err
    assert f"the first is chunks/{chunk.name}" in error
    assert "--accept-loss" in error
    done = json.loads(output_of(["repo", "gc", "sea.repo", "--accept-loss", "--json"], capfd))
    assert done["missing"] == 1


def test_expire(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dry = json.loads(output_of(["repo", "expire", "sea.repo", "--older-than", "0d", "--dry-run", "--json"], capfd))
    assert len(dry["snapshots"]) == 2
    assert output_of(["repo", "expire", "sea.repo", "--older-than", "30d"], capfd) == "expired snapshots: 0, left: 5\n"
    output = output_of(["repo", "expire", "sea.repo", "--older-than", "0h", "--branches"], capfd)
    assert output.startswith("expired snapshots: ")
    assert "deleted: branch dev" in output
    assert len(output_of(["repo", "log", "sea.repo"], capfd).splitlines()) == 1


def test_verify(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of(["repo", "verify", "sea.repo", "--decode"], capfd).endswith("sound\n")
    assert json.loads(output_of(["repo", "verify", "sea.repo", "--json"], capfd))["ok"]
    next(Path("sea.repo/manifests").iterdir()).unlink()
    assert main(["repo", "verify", "sea.repo", "--json"]) == 1
    out, _ = capfd.readouterr()
    assert {problem["kind"] for problem in json.loads(out)["problems"]} == {"manifest"}
    assert main(["repo", "verify", "sea.repo"]) == 1
    assert "manifest: " in capfd.readouterr().out


def test_repair(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of(["repo", "repair", "sea.repo"], capfd) == "problems: 0 before, 0 left\n"
    repo = frazil.Repository.open("sea.repo")
    tip, parent = [commit.id for commit in repo.history()][:2]
    Path("sea.repo/snapshots", tip).unlink()
    assert main(["repo", "repair", "sea.repo", "--dry-run", "--json"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert document["dry_run"]
    assert document["created"] == {"main-repaired": parent}
    assert json.loads(output_of(["repo", "repair", "sea.repo", "--tips", "--json"], capfd))["moved"] == {"main": parent}
    assert output_of(["repo", "verify", "sea.repo", "--no-history"], capfd).endswith("sound\n")


@pytest.mark.parametrize(
    "arguments",
    [["gc", "sea.repo", "--wait", "0"], ["expire", "sea.repo"], ["expire", "sea.repo", "--older-than", "yesterday"]],
)
def test_wrong_usage(arguments: list[str], workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["repo", *arguments]) == 2


def test_invalid_options_are_refused(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["repo", "expire", "sea.repo", "--older-than", "0d", "--tags"]) == 1
    assert "tags cannot be deleted" in capfd.readouterr().err
    assert main(["repo", "gc", "sea.zarr"]) == 1
