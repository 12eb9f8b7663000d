"""Hints of errors as options of a command."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import pytest

import frazil
from frazil.cli.hints import with_options
from frazil.cli.main import main


def parser() -> ArgumentParser:
    made = ArgumentParser()
    made.add_argument("source")
    made.add_argument("-o", "--overwrite", action="store_true")
    made.add_argument("--chunk-size", type=int)
    made.add_argument("--virtual-prefix", action="append")
    made.add_argument("--virtual", dest="mode", action="store_const", const="virtual")
    return made


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("replace it with overwrite=True", "replace it with --overwrite"),
        ("overwrite=True, or leave it", "--overwrite, or leave it"),
        ('a chunk: chunk_size=3, chunk_size="a b"', "a chunk: --chunk-size 3, --chunk-size 'a b'"),
        ("leave it out: chunk_size=", "leave it out: --chunk-size"),
        ("with chunk_size=; else", "with --chunk-size; else"),
        ("virtual_prefixes=['s3://a/', \"file:///b/\"]", "--virtual-prefix s3://a/ --virtual-prefix file:///b/"),
        ('mode="virtual"; mode="copy"', '--virtual; mode="copy"'),
        ("virtual_prefixes={prefix: location}", "virtual_prefixes={prefix: location}"),
        ("source=True, recode=True, overwrite=3", "source=True, recode=True, overwrite=3"),
        ("chunk_size=True", "chunk_size=True"),
        ("no_overwrite=True", "no_overwrite=True"),
    ],
)
def test_arguments_become_options(hint: str, expected: str) -> None:
    assert with_options(hint, parser()) == expected


def test_an_error_names_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        frazil.create_array(tmp_path / name, data=[1])
    assert main(["copy", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "--overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["set", "none.zarr", "3"], ["validate", "none.zarr"], ["rechunk", "none.zarr", "b.zarr"]]
)
def test_no_command_is_told_to_create_a_node_by_a_mode(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "there is no such folder" in error
    assert "mode=" not in error


def test_a_selection_in_two_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first was searched as a node below the array."""
    monkeypatch.chdir(tmp_path)
    frazil.create_array("sea.zarr", shape=(4, 4), dtype="u1")
    for command in (["get", "sea.zarr", "0", ":2"], ["set", "sea.zarr", "0", ":2", "7"]):
        assert main(command) == 1
        assert 'a selection is one argument: "0, :2"' in capsys.readouterr().err
    assert main(["get", "sea.zarr", "...", "0"]) == 1
    assert 'a selection is one argument: "..., 0"' in capsys.readouterr().err
    frazil.create_array("years.zarr", path="2023", shape=(4,), dtype="u1")
    for command in (["sea.zarr", "temp", ":2"], ["years.zarr", "2024", ":2"], ["none.zarr", "2024", ":2"]):
        assert main(["get", *command]) == 1
        assert "there is no such folder" in capsys.readouterr().err
