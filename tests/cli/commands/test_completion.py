"""`frazil completion`: the bash script completes the parsers' arguments, tested in bash itself; those for zsh and fish name every command and option."""

from __future__ import annotations

import shutil
import subprocess
from argparse import ArgumentParser
from pathlib import Path

import pytest

from frazil.cli.completion import SCRIPTS
from frazil.cli.main import COMMANDS, build_parser, main

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not there")


def completed(folder: Path, parser: ArgumentParser, *lines: list[str]) -> list[list[str]]:
    """Bash's completions of the last word of each command line, sorted."""
    script = [SCRIPTS["bash"](parser)]
    for words in lines:
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        script += [
            f"COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}",
            f"_{parser.prog}",
            r'printf "%s\n" "${COMPREPLY[@]}"',
            "echo ---",
        ]
    output = subprocess.run(
        ["bash", "--norc", "-u", "-c", "\n".join(script)], cwd=folder, check=True, capture_output=True, text=True
    )
    assert output.stderr == ""
    return [sorted(filter(None, part.split("\n"))) for part in output.stdout.split("---\n")[:-1]]


@needs_bash
def test_bash(tmp_path: Path) -> None:
    for name in ("sea ice.zarr", "sea.repo", "other"):
        (tmp_path / name).mkdir()
    names = {command.name.split()[0] for command in COMMANDS}
    groups = sorted(command.name.split()[1] for command in COMMANDS if " " in command.name)
    every, begun, group, places, options, values, below, nothing = completed(
        tmp_path,
        build_parser(),
        ["frazil", ""],
        ["frazil", "val"],
        ["frazil", "repo", ""],
        ["frazil", "info", "sea"],
        ["frazil", "repo", "log", "--g"],
        ["frazil", "get", "sea.repo", "-o", "oth"],
        ["frazil", "completion", ""],
        ["frazil", "tree", "sea.repo", "--depth", ""],
    )
    assert every == sorted(names)
    assert begun == ["validate"]
    assert group == groups
    assert places == ["sea ice.zarr", "sea.repo"]
    assert options == ["--graph"]
    assert values == ["other"]
    assert below == sorted(SCRIPTS)
    assert nothing == []


@needs_bash
def test_every_option_of_every_command_is_completed(tmp_path: Path) -> None:
    for command, offered in zip(
        COMMANDS,
        completed(tmp_path, build_parser(), *[["frazil", *command.name.split(), "-"] for command in COMMANDS]),
        strict=True,
    ):
        parser = ArgumentParser()
        command.fill(parser)
        assert offered == sorted(name for action in parser._actions for name in action.option_strings), command.name


@needs_bash
def test_words_that_a_shell_takes_for_more(tmp_path: Path) -> None:
    parser = ArgumentParser("prog")
    command = parser.add_subparsers().add_parser("run", help='it\'s [a: b] "c" `d` $e')
    command.add_argument("--kind", choices=("a", "b"), metavar="it's", help='it\'s [a: b] "c" `d` $e 100%%')
    assert completed(tmp_path, parser, ["prog", "run", "--kind", "a"], ["prog", "'; touch y; '"]) == [["a"], []]
    for shell in ("zsh", "fish"):
        assert "it" in SCRIPTS[shell](parser)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_are_valid(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the shell is installed, it reads the script."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in COMMANDS:
        assert command.name.split()[-1] in script
    assert "graph" in script
    if shutil.which(shell) is not None:
        file = tmp_path / "script"
        file.write_text(script)
        subprocess.run([shell, "-n", str(file)], check=True)
