"""The command line frame: help, examples, errors, exit statuses, pipes and signals."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest
from tests.servers.buckets import S3

import frazil
from frazil.cli.arguments import locations
from frazil.cli.main import COMMANDS, main
from frazil.errors import FrazilError

PROGRAM = [sys.executable, "-m", "frazil"]
ENDLESS = {"serve"}  # whose examples test_serve.py runs


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help_and_examples(command, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: frazil {command.name}" in text
    assert command.description in " ".join(text.split())
    assert len(command.examples) >= 2
    for line, what in command.examples:
        assert line.startswith(f"frazil {command.name} ")
        assert line in text
        assert what in text


EXAMPLES = [line for command in COMMANDS if command.name not in ENDLESS for line, _ in command.examples]


@pytest.mark.parametrize("line", [line for line in EXAMPLES if "s3://" in line])
def test_examples_on_buckets_work(
    line: str, s3: S3, workdir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    (s3.folder / "bucket").mkdir(exist_ok=True)
    s3.store("bucket").set("ocean.nc", (workdir / "ocean.nc").read_bytes())
    test_examples_work(line, workdir, capfd)


@pytest.mark.parametrize("line", [line for line in EXAMPLES if "s3://" not in line])
def test_examples_work(line: str, workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, *arguments = shlex.split(line)
    assert program == "frazil"
    assert main(arguments) == 0
    output = capfd.readouterr()
    assert ("--explain" in arguments) == bool(output.err)
    if "-o" in arguments:
        assert (workdir / arguments[arguments.index("-o") + 1]).stat().st_size > 0
    else:
        assert output.out


def test_every_argument_has_help() -> None:
    for command in COMMANDS:
        parser = ArgumentParser()
        command.fill(parser)
        assert all(action.help for action in parser._actions)


def test_the_tour_works(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = [line.strip() for line in capfd.readouterr().out.splitlines() if line.startswith("  frazil ")]
    assert len(lines) >= 5
    for line in lines:
        assert main(shlex.split(line.split("   ")[0])[1:]) == 0
    assert capfd.readouterr().err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"frazil {frazil.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["info"],
        ["info", "sea.zarr", "--nonsense"],
        ["get", "sea.zarr", "1;2"],
        ["get", "sea.zarr", "1:2:3:4"],
        ["get", "ocean.zarr", "level1/temp", "__import__('os')"],
        ["get", "sea.zarr", ":", "--format", "xls"],
        ["tree", "ocean.zarr", "--depth", "0"],
        ["set", "sea.zarr"],
        ["set", "sea.zarr", "1;2", "0"],
        ["du", "ocean.zarr", "--depth", "-1"],
        ["rechunk", "sea.zarr"],
        ["rechunk", "sea.zarr", "a.png", "--chunks", "0,1"],
        ["rechunk", "sea.zarr", "a.png", "--chunks", "none"],
        ["rechunk", "sea.zarr", "a.png", "--shards", "x"],
        ["rechunk", "sea.zarr", "a.png", "--codecs", "[1"],
        ["rechunk", "sea.zarr", "a.png", "--memory", "much"],
        ["rechunk", "sea.zarr", "a.png", "-m", "why"],
        ["view", "sea.zarr"],
        ["view", "sea.zarr", "-o", "a.png", "--size", "-3"],
        ["view", "sea.zarr", "-o", "a.png", "--min", "nan"],
        ["view", "sea.zarr", "-o", "a.png", "--cmap", "sepia"],
        ["view", "sea.zarr", "-o", "a.jpg"],
        ["view", "sea.zarr", "-o", "-", "--json"],
        ["import", "ocean.nc"],
        ["import", "ocean.nc", "a.png", "--virtual", "--adopt"],
        ["import", "ocean.nc", "./ocean.nc", "a.png"],
        ["serve"],
        ["serve", "sea.zarr", "--port", "65536"],
        ["serve", "sea.zarr", "--port", "-1"],
        ["serve", "sea.zarr", "level1"],
        ["repo"],
        ["repo", "nonsense"],
        ["repo", "init"],
        ["repo", "init", "a.png", "--compatible", "everything"],
        ["repo", "log", "sea.repo", "-n", "0"],
        ["repo", "diff", "sea.repo"],
        ["repo", "branch", "sea.repo", "--delete"],
        ["repo", "branch", "sea.repo", "--at", "v1"],
        ["repo", "branch", "sea.repo", "a", "--at", "v1", "--reset", "v1"],
        ["repo", "branch", "sea.repo", "a", "--expect", "v1"],
        ["repo", "tag", "sea.repo", "--at", "v1"],
    ],
    ids=" ".join,
)
def test_wrong_usage(arguments: list[str], workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    output = capfd.readouterr()
    assert output.out == ""
    assert "usage: frazil" in output.err
    assert not (workdir / "a.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info", "nothing.zarr"], ["nothing.zarr"]),
        (["info", "ocean.zarr", "level1/salt"], ["level1/salt"]),
        (["get", "sea.zarr", "600"], ["600", "axis 0"]),
        (["get", "sea.zarr", "0, 0, 0"], ["3 indices", "2 dimensions"]),
        (["get", "nothing.zarr", "0"], ["nothing.zarr"]),
        (["get", "ocean.zarr"], ["a group is there", "frazil tree"]),
        (["get", "ocean.zarr", "level1", "0"], ["a group is there"]),
        (["get", "ocean.zarr", "level1/salt"], ["level1/salt"]),
        (["get", "ocean.zarr", "level1/temp", "--format", "csv"], ["two dimensions", "integers"]),
        (["get", "sea.zarr", "-o", "no/such/folder/a.npy"], ["no/such/folder", "No such file"]),
        (["view", "sea.zarr", "-o", "no/such/folder/a.png"], ["frazil: no/such/folder/a.png: No such file"]),
        (["tree", "."], ["a node is a folder with a zarr.json"]),
        (["view", "ocean.zarr", "level1/temp", "-o", "a.png"], ["two dimensions", '"0, :, :"']),
        (["view", "sea.zarr", "-o", "a.png", "--min", "5", "--max", "4"], ["from 5 to 4"]),
        (["info", "sea.repo@nonsense"], ["'nonsense'"]),
        (["info", "sea.repo@"], ["after the @", "sea.repo@main"]),
        (["info", "sea.repo@v1", "level1/salt"], ["level1/salt", "frazil tree sea.repo@v1"]),
        (["info", "sea.zarr@main"], ["sea.zarr@main", "neither"]),
        (["tree", "sea.repo@v1/level1/salt"], ["level1/salt", "frazil tree sea.repo@v1"]),
        (["import", "ocean.nc", "sea.zarr"], ["an array is at /"]),
        (["import", "ocean.nc", "new.repo@dev"], ["no repository"]),
        (["import", "ocean.nc", "sea.repo@v1"], ["v1"]),
        (["import", "sea.zarr", "new.repo"], ["sea.zarr"]),
        (["import", "missing.nc", "new.repo"], ["missing.nc"]),
        (["convert", "sea.repo"], ["in place", "DESTINATION"]),
        (["convert", "sea.repo@v1/level1", "a.zarr"], ["level1", "leave the path out"]),
        (["serve", "nothing.zarr"], ["nothing is there", "nothing.zarr"]),
        (["serve", "sea.repo@v9"], ["'v9'"]),
        (["serve", "sea.repo@v1/level2"], ["nothing is there", "level2"]),
        (["serve", "sea.repo@v1", "--follow"], ["'v1'", "not a branch"]),
        (["serve", "sea.zarr", "--follow"], ["only a branch", "at each request"]),
        (["serve", "sea.zarr", "--host", "192.0.2.1"], ["192.0.2.1"]),
        (["repo", "log", "sea.zarr"], ["no repository", "of Zarr is there"]),
        (["repo", "log", "sea.repo@v1/level1"], ["level1", "no meaning"]),
        (["repo", "diff", "sea.repo", "v1", "v9"], ["'v9'"]),
        (["repo", "init", "sea.repo"], ["already"]),
        (["repo", "branch", "sea.repo", "dev"], ["already", "dev"]),
        (["repo", "branch", "sea.repo", "main", "--delete"], ["main", "cannot be deleted"]),
        (["repo", "branch", "sea.repo", "a/b"], ["'/'"]),
        (["repo", "branch", "sea.repo", "dev", "--reset", "v1", "--expect", "main"], ["dev", "has changed"]),
        (["repo", "branch", "sea.repo@dev", "a"], ["without @dev"]),
        (["repo", "tag", "sea.repo", "v1"], ["already", "v1"]),
    ],
    ids=" ".join,
)
def test_errors_are_one_line(
    arguments: list[str], words: list[str], workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sorted(os.listdir(workdir))
    assert main(arguments) == 1
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err.startswith("frazil: ")
    assert output.err.endswith("\n")
    assert output.err.count("\n") == 1
    assert all(word in output.err for word in words)
    assert sorted(os.listdir(workdir)) == before


def test_damaged_data_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    frazil.create_array(tmp_path / "a.zarr", data=[1, 2, 3], chunks=(3,))
    (tmp_path / "a.zarr" / "c" / "0").write_bytes(b"nonsense")
    assert main(["get", str(tmp_path / "a.zarr")]) == 1
    assert "could not be decoded" in capfd.readouterr().err
    (tmp_path / "a.zarr" / "zarr.json").write_bytes(b'{"zarr_format": 3,\n "node_type": "array"}')
    assert main(["info", str(tmp_path / "a.zarr")]) == 1
    assert capfd.readouterr().err.count("\n") == 1


def test_every_error_becomes_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: BaseException) -> int:
        def raise_it(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(locations, "node_or_location", raise_it)
        return main(["info", "x"])

    assert fail(FrazilError("one\ntwo", hint="three")) == 1
    assert capsys.readouterr().err == "frazil: one\\ntwo. Hint: three\n"
    assert fail(MemoryError("much")) == 1
    assert capsys.readouterr().err == "frazil: not enough memory: much. Hint: select less\n"
    assert fail(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == ""
    with pytest.raises(ZeroDivisionError):  # a bug is not hidden
        fail(ZeroDivisionError())


def test_the_program_prints_values_and_errors_and_returns_codes(workdir: Path) -> None:
    done = subprocess.run([*PROGRAM, "get", "sea.zarr", "0, :3", "--json"], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{"shape": [3], "data_type": "uint16", "values": [0, 3, 6]}\n'
    done = subprocess.run([*PROGRAM, "info", "nothing"], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (1, "")


def test_signs_that_the_terminal_lacks(workdir: Path) -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([*PROGRAM, "tree", "ocean.zarr"], capture_output=True, check=False, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"temp (3, 40, 50) float32" in done.stdout


def test_a_pipe_that_closes(workdir: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        for arguments in (
            ["get", "sea.zarr", "--format", "csv"],
            ["info", "sea.zarr"],
            ["get", "sea.zarr", "--format", "npy"],
        ):
            done = subprocess.run([*PROGRAM, *arguments], stdout=pipe, stderr=subprocess.PIPE, check=False)
            assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_standard_stream_that_is_closed(closed: int, workdir: Path) -> None:
    for arguments, status in (["get", "sea.zarr", "0, :3"], 0), (["info", "nothing"], 1):
        command = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *PROGRAM, *arguments]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        assert done.returncode == (1 if closed == 1 else status)
        assert done.stdout == ("[0 3 6]\n" if closed != 1 and not status else "")
        if closed == 1:
            assert done.stderr == "frazil: standard output is closed. Hint: redirect it, as in > /dev/null\n"


def test_an_interrupt(workdir: Path) -> None:
    reading, writing = os.pipe()  # no process reads, so that the program waits in the middle of its work
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as pipe:
        program = subprocess.Popen(
            [*PROGRAM, "get", "sea.zarr", "--format", "csv"], stdout=pipe, stderr=subprocess.PIPE
        )
        os.read(reading, 1)
        program.send_signal(signal.SIGINT)
        _, output = program.communicate(timeout=60)
    assert (program.returncode, output) == (130, b"")
