"""`frazil copy`: its output, and the result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import SEA, TEMP

import frazil
from frazil.cli.main import main
from frazil.operations.copy.journal import JOURNAL_NAME
from frazil.stores import LocalStore, MemoryStore


def test_a_group_an_array_and_what_is_said(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "ocean.zarr", "copy.zarr"]) == 0
    output = capfd.readouterr()
    source = LocalStore(workdir / "ocean.zarr")
    nbytes = sum(source.sizes(source.list()).tolist())
    first, second = output.out.splitlines()
    assert first == f"copied {workdir / 'ocean.zarr'} to {workdir / 'copy.zarr'}"
    assert second.startswith(f"  {len(source.list())} keys, {nbytes / 1024:.1f} KiB in ")
    assert output.err == ""
    target = LocalStore(workdir / "copy.zarr")
    assert {key: target.get(key) for key in target.list()} == {key: source.get(key) for key in source.list()}
    assert main(["copy", "copy.zarr", "ocean2.zarr/"]) == 0
    assert main(["copy", "ocean.zarr", "copy.zarr"]) == 1
    assert "--overwrite" in capfd.readouterr().err
    assert main(["copy", "sea.zarr", "copy.zarr", "--overwrite", "--verify"]) == 0
    assert "all bytes were compared" in capfd.readouterr().out
    np.testing.assert_array_equal(frazil.open_array("copy.zarr")[...], SEA)
    assert main(["copy", "ocean.zarr/level1/temp", "temp.zarr"]) == 0
    assert frazil.open_array("temp.zarr").shape == TEMP.shape
    capfd.readouterr()


def test_into_a_store_in_memory_for_programs(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "sea.zarr", "memory://cli/below", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["kind"], document["keys"], document["found"], document["removed"], document["snapshot"]) == (
        "hierarchy",
        10,
        0,
        0,
        None,
    )
    assert document["nbytes"] > 0
    assert document["seconds"] >= 0
    np.testing.assert_array_equal(frazil.open_array("memory://cli/below")[...], SEA)
    MemoryStore("cli").erase_prefix("")


def test_a_message_that_cannot_be_committed(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "no.zarr", "sea.repo@main/new", "-m", os.fsdecode(b"\xff")]) == 1
    assert "without lone surrogates" in capfd.readouterr().err  # before the source is opened


def test_a_repository_points_of_it_and_its_branches(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "sea.repo", "copy.repo"]) == 0
    assert "with all its history" in capfd.readouterr().out
    assert frazil.Repository.open("copy.repo").tags == ["v1"]
    assert main(["copy", "sea.repo@v1", "v1.zarr"]) == 0
    np.testing.assert_array_equal(frazil.open_array("v1.zarr/level1/temp")[...], TEMP)
    assert main(["copy", "sea.repo@dev/level1/temp", "dev.zarr"]) == 0
    np.testing.assert_array_equal(frazil.open_array("dev.zarr")[:2], TEMP[:2] + 1)
    assert main(["copy", "sea.repo/salt", "salt.zarr"]) == 0
    np.testing.assert_array_equal(frazil.open_array("salt.zarr")[...], np.arange(4))
    capfd.readouterr()
    assert main(["copy", "ocean.zarr", "copy.repo@dev/ocean", "-m", "add the ocean", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    repo = frazil.Repository.open("copy.repo")
    newest = next(repo.history("dev"))
    assert (newest.id, newest.message) == (document["snapshot"], "add the ocean")
    assert document["destination"] == f"{workdir / 'copy.repo'}@dev/ocean"
    np.testing.assert_array_equal(repo.readonly_session("dev").root["ocean/flat"][...], np.arange(12))
    assert main(["copy", "ocean.zarr", "copy.repo@dev/ocean"]) == 1
    assert main(["copy", "sea.repo@v1", "copy.repo@dev/ocean", "--overwrite"]) == 0
    assert next(repo.history("dev")).message == "Copy sea.repo@v1"
    assert sorted(repo.readonly_session("dev").root["ocean"]) == ["level1"]


@pytest.mark.parametrize(
    ("source", "destination", "output"),
    [
        ("nowhere", "x", "nothing is there"),
        ("ocean.zarr", "ocean.zarr/level1/copy", "inside the other"),
        ("ocean.zarr", "sea.repo", "a repository already exists"),
        ("ocean.zarr", "sea.repo/inside", "among the files of a repository"),
        ("ocean.zarr", "sea.repo@v1", "v1"),
        ("ocean.zarr", "sea.repo@", "there is no name after the @"),
        ("ocean.zarr", "new.repo@main/x", "there is no repository at new.repo"),
        ("sea.repo@nothing", "x", "nothing"),
    ],
)
def test_mistakes_are_one_line(
    workdir: Path, capfd: pytest.CaptureFixture[str], source: str, destination: str, output: str
) -> None:
    before = sorted(os.listdir(workdir))
    assert main(["copy", source, destination]) == 1
    err = capfd.readouterr().err
    assert output in err
    assert err.count("\n") == 1
    assert sorted(os.listdir(workdir)) == before


def test_a_message_is_for_commits(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["copy", "ocean.zarr", "x", "-m", "why"]) == 2
    assert "-m is for a branch" in capfd.readouterr().err
    assert not (workdir / "x").exists()
    (workdir / "a@b").mkdir()
    assert main(["copy", "ocean.zarr", "a@b"]) == 0


KILLED = """
import os, signal, sys
from frazil.cli import progress
from frazil.cli.main import main

def killed(self, nbytes):
    os.kill(os.getpid(), signal.SIGKILL)

progress.Progress.__call__ = killed
main(["copy", *sys.argv[1:]])
"""


def test_a_command_that_was_killed_is_run_again(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, "sea.repo", "copy.repo"], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (workdir / "copy.repo" / JOURNAL_NAME).exists()
    there = len(LocalStore(workdir / "copy.repo").list()) - 1
    assert not frazil.Repository.exists("copy.repo")
    assert main(["copy", "sea.repo", "copy.repo", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    source, target = LocalStore(workdir / "sea.repo"), LocalStore(workdir / "copy.repo")
    assert (document["keys"], document["found"]) == (len(source.list()) - there, there)
    assert {key: target.get(key) for key in target.list()} == {key: source.get(key) for key in source.list()}
