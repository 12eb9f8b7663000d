"""Every file of examples/ runs, and prints the expected output."""

from __future__ import annotations

import importlib.util
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.faults.concurrent_calls import fork
from tests.operations.pictures import decode_png

EXAMPLES = Path(__file__).parent.parent / "examples"

EXPECTED = {
    "append_in_time.py": ["14 days, 336 hours", "12:00"],
    "many_writers.py": ["512 inner chunks into 8 shards", "all 2,097,152 elements are right"],
    "block_by_block.py": ["15 blocks of 1000 x 1000; mean 2045.5"],
    "own_store.py": ["64 writers of one shard, none of them lost", "heat/c/0/0, heat/zarr.json, zarr.json in "],
    "own_extensions.py": [
        "('y', 'x') of meta/depth.array.json.gz, meta/group.json.gz",
        "without the registry: the metadata encoding",
    ],
    "transformers.py": [
        "the first time: mean 499.6, ",
        "the second time: mean 499.6, 0 requests, 0 bytes",
        "4 shards have 64 chunks",
        "after erasing the diagonal: 56 chunks, sea[0, 0] is 0",
    ],
    "own_codec.py": ["zstd alone: ", "differences and zstd: ", "without the registry: the codec"],
}


def run(example: Path, *arguments: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", example, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
        check=False,
        cwd=folder,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run_forked(name: str, folder: Path, *arguments: str) -> str:
    """In a fork of this process, which has imported the packages."""
    output, errors = folder.with_suffix(".output"), folder.with_suffix(".errors")

    def example() -> None:
        for stream, path in ((1, output), (2, errors)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = [name, *arguments]
        os.environ["COLUMNS"] = "80"
        os.chdir(folder)
        warnings.simplefilter("error")
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        sys.stdout.flush()

    status = os.waitpid(fork(example), 0)[1]
    assert (status, errors.read_text()) == (0, "")
    return output.read_text()


@pytest.mark.parametrize("name", EXPECTED)
def test_examples_leave_nothing_behind(name: str, tmp_path: Path) -> None:
    output = run_forked(name, tmp_path)
    assert all(words in output for words in EXPECTED[name])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted({*EXPECTED} - {"many_writers.py"}))  # whose processes take seconds to start
def test_examples_keep_what_they_write_in_a_given_folder(name: str, tmp_path: Path) -> None:
    output = run_forked(name, tmp_path, str(tmp_path / "example.zarr"))
    assert all(words in output for words in EXPECTED[name])
    assert list(tmp_path.iterdir()) == [tmp_path / "example.zarr"]


def test_every_example_is_tested() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted([*EXPECTED, "demo.py"])


@pytest.mark.skipif(importlib.util.find_spec("global_land_mask") is None, reason="`make demo` installs its data")
def test_demo(tmp_path: Path) -> None:
    output = run(EXAMPLES / "demo.py", "--folder", str(tmp_path))
    assert "all 933,120,000 elements are those of the source" in output
    assert "of 256 MiB allowed" in output
    assert "(atlantis) Italy sinks" in output
    assert "~ /land  2 chunks written" in output
    assert "none on atlantis,\nand the 1,336,000 elements around it are the same" in output
    world = decode_png((tmp_path / "world.png").read_bytes())
    assert world.shape[0] == 720
    ocean, land = world[360, 100], world[360, 400]  # in the Pacific; in Brazil
    assert (world[715, 700] == land).all()  # the Antarctic is at the bottom
    assert (world[3, 700] == ocean).all()
    assert (ocean != land).any()
