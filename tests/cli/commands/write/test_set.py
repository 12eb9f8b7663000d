"""`frazil set`: the result, and that nothing is created if it is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import SEA, TEMP
from tests.servers.buckets import S3
from tests.servers.web import WebServer

import frazil
from frazil.cli.main import main

PROGRAM = [sys.executable, "-m", "frazil"]


def test_a_value_and_a_file(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["set", "sea.zarr", "10, ::-2", "7"]) == 0
    assert capfd.readouterr() == ("350 elements set\n", "")
    expected = SEA.copy()
    expected[10, ::-2] = 7
    np.testing.assert_array_equal(frazil.open_array("sea.zarr")[...], expected)
    assert main(["set", "ocean.zarr", "flat", "-3"]) == 0
    np.testing.assert_array_equal(frazil.open_array("ocean.zarr/flat")[...], [-3] * 12)
    assert main(["set", "ocean.zarr", "flat", "-3:", "5", "--json"]) == 0
    output = capfd.readouterr().out
    assert json.loads(output[output.index("{") :]) == {"path": "flat", "shape": [3], "nbytes": 3, "snapshot": None}
    np.testing.assert_array_equal(frazil.open_array("ocean.zarr/flat")[8:], [-3, 5, 5, 5])
    np.save("map.npy", TEMP[1] * 2)
    assert main(["set", "ocean.zarr", "level1/temp", "[2, 0]", "map.npy"]) == 0
    np.testing.assert_array_equal(frazil.open_array("ocean.zarr/level1/temp")[0], TEMP[1] * 2)
    assert main(["set", "ocean.zarr/level1/temp", "NaN"]) == 0
    assert np.isnan(frazil.open_array("ocean.zarr/level1/temp")[...]).all()


@pytest.mark.parametrize(
    ("dtype", "text", "value"),
    [
        ("string", "sea", "sea"),
        ("string", "12", "12"),
        ("string", " nan", " nan"),
        ("bytes", "YQA=", b"a\0"),
        ({"name": "zarrs.optional", "configuration": {"name": "string"}}, "null", None),
        ({"name": "zarrs.optional", "configuration": {"name": "string"}}, '"a\\u0000"', "a\0"),
    ],
)
@pytest.mark.parametrize("selection", ["1", "1:", "..."])
def test_text_and_bytes_of_any_length(
    dtype: object, text: str, value: object, selection: str, workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    array = frazil.create_array("words.zarr", shape=(3,), dtype=dtype)
    expected = [array.fill_value] * 3
    count = {"1": 1, "1:": 2, "...": 3}[selection]
    expected[3 - count :] = [value] * count
    if selection == "1":
        expected = [expected[0], value, expected[0]]
    assert main(["set", "words.zarr", selection, text]) == 0
    assert array[...].tolist() == expected
    capfd.readouterr()


def test_get_and_set_round_trip(workdir: Path) -> None:
    assert main(["get", "sea.zarr", "5:60:3, ::-1", "-o", "part.npy"]) == 0
    assert main(["set", "sea.zarr", "...", "0"]) == 0
    with open("part.npy", "rb") as part:
        done = subprocess.run(
            [*PROGRAM, "set", "sea.zarr", "5:60:3, ::-1", "-"], stdin=part, check=True, capture_output=True
        )
    assert done.stderr == b""
    expected = np.zeros_like(SEA)
    expected[5:60:3] = SEA[5:60:3]
    np.testing.assert_array_equal(frazil.open_array("sea.zarr")[...], expected)


def test_set_commits_to_a_branch(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["set", "sea.repo@main", "salt", ":2", "9", "-m", "salty", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    newest = next(frazil.Repository.open("sea.repo").history())
    assert (newest.id, newest.message) == (document["snapshot"], "salty")
    np.testing.assert_array_equal(frazil.open_array("sea.repo@main/salt")[...], [9, 9, 2, 3])
    assert main(["set", "sea.repo@main/salt", "1"]) == 0
    assert next(frazil.Repository.open("sea.repo").history()).message == "Set elements of salt"


def test_set_writes_to_a_bucket_and_refuses_a_web_server(
    workdir: Path, s3: S3, web_server: WebServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()
    frazil.copy("ocean.zarr", f"s3://{bucket}/ocean.zarr")
    assert main(["set", f"s3://{bucket}/ocean.zarr", "flat", ":4", "1"]) == 0
    np.testing.assert_array_equal(frazil.open_array(f"s3://{bucket}/ocean.zarr/flat")[:5], [1, 1, 1, 1, 4])
    with web_server(workdir) as url:
        capfd.readouterr()
        assert main(["set", f"{url}/ocean.zarr", "flat", ":4", "1"]) == 1
        assert capfd.readouterr().err.count("\n") == 1
    np.testing.assert_array_equal(frazil.open_array("ocean.zarr/flat")[:4], range(4))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sea.zarr", "0, 0", "70000"], ["'70000'", "uint16"]),
        (["sea.zarr", "0, 0", "missing.npy"], ["missing.npy"]),
        (["sea.zarr", "0", "corner.npy"], ["(2, 3)", "(700,)"]),
        (["sea.zarr", "600", "1"], ["600", "axis 0"]),
        (["nothing.zarr", "0", "1"], ["nothing.zarr"]),
        (["ocean.zarr", "1"], ["a group is there"]),
        (["sea.repo", "salt", "1"], ["sea.repo@main"]),
        (["sea.repo@v1", "level1/temp", "1"], ["v1"]),
        (["sea.repo@main", "pepper", "1"], ["pepper"]),
        (["nothing.repo@main", "salt", "1"], ["nothing.repo"]),
    ],
)
def test_mistakes_change_nothing(
    arguments: list[str], words: list[str], workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in workdir.rglob("*") if path.is_file()}
    assert main(["set", *arguments]) == 1
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert all(word in err for word in words), err
    assert {path: path.read_bytes() for path in workdir.rglob("*") if path.is_file()} == before


def test_a_message_is_for_commits(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["set", "sea.zarr", "0", "1", "-m", "why"]) == 2
    assert "-m is for a branch" in capfd.readouterr().err


INTERRUPTED = """
import os, signal, sys
from frazil.cli import progress
from frazil.cli.main import program

def interrupted(self, nbytes):
    os.kill(os.getpid(), signal.SIGINT)

progress.Progress.__call__ = interrupted
sys.argv = ["frazil", "set", *sys.argv[1:]]
program()
"""


def test_an_interrupt_leaves_a_branch_as_it_was(workdir: Path) -> None:
    before = next(frazil.Repository.open("sea.repo").history()).id
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "sea.repo@main", "salt", "1"], check=False, capture_output=True
    )
    assert done.returncode in (130, -signal.SIGINT)
    assert next(frazil.Repository.open("sea.repo").history()).id == before
    np.testing.assert_array_equal(frazil.open_array("sea.repo@main/salt")[...], range(4))
