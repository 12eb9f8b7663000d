"""`frazil completion`: a script that makes a shell complete command lines."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.command import Command
from frazil.cli.completion import SCRIPTS


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SCRIPTS), help=f"the shell: {', '.join(SCRIPTS)}")


def run(options: Namespace) -> None:
    print(SCRIPTS[options.shell](options.program))


COMMAND = Command(
    "completion",
    "a script that completes command lines in bash, zsh or fish",
    "Prints a script that completes commands, options, the choices of options, and file names. Nodes and URLs "
    "are not completed.",
    (
        ("frazil completion bash", 'in ~/.bashrc: eval "$(frazil completion bash)"'),
        ("frazil completion zsh", "in ~/.zshrc, after compinit: source <(frazil completion zsh)"),
        ("frazil completion fish", "in ~/.config/fish/config.fish: frazil completion fish | source"),
    ),
    add_arguments,
    run,
    prints_json=False,
)
