"""`frazil get`, from the command line to the values that NumPy reads back."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import SEA, TEMP, THERE

from frazil.cli.main import main


def output_of(arguments: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> bytes:
    assert main(arguments) == 0
    out, err = capfdbinary.readouterr()
    assert err == b""
    return out


def test_paths_and_selections_after_the_location(workdir: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A selection follows an array's location, a path follows a group's."""
    row = np.array2string(SEA[10], max_line_width=120).encode() + b"\n"
    assert output_of(["get", "sea.zarr", "10"], capfdbinary) == row
    flat = b"[ 0  1  2  3  4  5  6  7  8  9 10 11]\n"
    assert output_of(["get", "ocean.zarr", "flat"], capfdbinary) == flat
    assert output_of(["get", "ocean.zarr", "flat", "..."], capfdbinary) == flat
    assert output_of(["get", "ocean.zarr", "flat", "-3::-5"], capfdbinary) == b"[9 4]\n"
    assert output_of(["get", "ocean.zarr/flat", "[5, -1, 5]"], capfdbinary) == b"[ 5 11  5]\n"
    assert output_of(["get", "ocean.zarr/flat", "7"], capfdbinary) == b"7\n"
    assert output_of(["get", "sea.zarr", "-1,-1"], capfdbinary) == f"{SEA[-1, -1]}\n".encode()


def test_a_folder_that_is_no_node(hierarchy: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert output_of(["get", str(hierarchy), "sea.zarr", "0, 1"], capfdbinary) == b"3\n"
    assert output_of(["get", str(hierarchy), "ocean.zarr/flat"], capfdbinary).startswith(b"[ 0  1")


def test_formats(workdir: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    part = SEA[3:400:7, ::-2]
    select = ["get", "sea.zarr", "3:400:7, ::-2"]
    for arguments in (
        [*select, "--format", "csv"],
        [*select, "-o", "part.csv"],
        [*select, "-o", "x", "--format", "csv"],
    ):
        out = output_of(arguments, capfdbinary)
        data = out or (workdir / arguments[arguments.index("-o") + 1]).read_bytes()
        np.testing.assert_array_equal(np.loadtxt(io.BytesIO(data), delimiter=","), part)
    assert output_of([*select, "-o", "part.npy"], capfdbinary) == b""
    read = np.load("part.npy")
    assert read.dtype == part.dtype
    np.testing.assert_array_equal(read, part)
    np.testing.assert_array_equal(np.load(io.BytesIO(output_of([*select, "--format", "npy"], capfdbinary))), part)
    document = json.loads(output_of([*select, "--json"], capfdbinary))
    assert document == {"shape": list(part.shape), "data_type": "uint16", "values": part.tolist()}
    assert output_of([*select, "-o", "part.json"], capfdbinary) == b""
    assert json.loads((workdir / "part.json").read_text()) == document
    assert output_of([*select, "--full", "-o", "part.txt"], capfdbinary) == b""
    assert b"..." not in (workdir / "part.txt").read_bytes()
    assert (workdir / "part.txt").read_bytes() == output_of([*select, "--full"], capfdbinary)


def test_nan_in_json(workdir: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    document = json.loads(output_of(["get", "ocean.zarr", "level1/temp", "0, 4:6, 0", "--json"], capfdbinary))
    assert document["values"] == ["NaN", float(str(TEMP[0, 5, 0]))]


def test_a_file_is_whole_or_not_there(workdir: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (workdir / "out.csv").write_text("old")
    assert main(["get", "ocean.zarr", "level1/temp", "-o", "out.csv"]) == 1
    assert b"two dimensions" in capfdbinary.readouterr().err
    assert (workdir / "out.csv").read_text() == "old"
    assert output_of(["get", "ocean.zarr", "flat", "-o", "out.csv"], capfdbinary) == b""
    assert (workdir / "out.csv").read_text().split() == list(map(str, range(12)))
    (workdir / "link.csv").symlink_to("out.csv")
    assert output_of(["get", "ocean.zarr", "flat", ":2", "-o", "link.csv"], capfdbinary) == b""
    assert (workdir / "link.csv").is_symlink()
    assert (workdir / "out.csv").read_text() == "0\n1\n"
    assert sorted(path.name for path in workdir.iterdir()) == sorted(["link.csv", "out.csv", *THERE])


def test_values_are_written_to_a_device(workdir: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert output_of(["get", "ocean.zarr", "flat", "--format", "npy", "-o", "/dev/null"], capfdbinary) == b""


def test_an_unknown_ending_needs_a_format(workdir: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["get", "sea.zarr", "0, :3", "-o", "x.xls"]) == 2
    error = capfdbinary.readouterr().err
    assert b"x.xls: give --format, or a name that ends in .txt, .text, .csv, .json, .npy" in error
    assert not Path("x.xls").exists()
    assert output_of(["get", "sea.zarr", "0, :3", "--format", "csv", "-o", "x.xls"], capfdbinary) == b""
    Path("v1.2").mkdir()
    assert output_of(["get", "sea.zarr", "0, :3", "-o", "v1.2/x"], capfdbinary) == b"", "the ending is that of the file"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [["0, :3"], ["--format", "npy"]], ids=" ".join)
def test_a_full_device_is_named(arguments: list[str], workdir: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["get", "sea.zarr", *arguments, "-o", "/dev/full"]) == 1
    assert capfdbinary.readouterr().err == b"frazil: /dev/full: No space left on device\n"


def test_npy_is_not_written_to_a_terminal(workdir: Path) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "frazil", "get", "sea.zarr", "--format", "npy"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert b"-o FILE" in done.stderr
