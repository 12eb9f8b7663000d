#!/usr/bin/env python3
"""Prints docs/cli.md, made from the parsers of the commands. Its text does not depend on the version of Python, as that of --help does.

.venv/bin/python tools/cli_page.py >docs/cli.md"""

from __future__ import annotations

from argparse import Action, ArgumentParser

from frazil.cli.command import Command
from frazil.cli.main import COMMANDS, DESCRIPTION, TOUR


def page() -> str:
    parts = [
        "# The command line",
        f"<!-- Made by tools/cli_page.py from the parsers; do not edit. -->\n\n`frazil` {DESCRIPTION[0].lower()}{DESCRIPTION[1:]}",
    ]
    parts.append(f"```text\n{TOUR}\n```")
    parts += [section(command) for command in COMMANDS]
    return "\n\n".join(parts) + "\n"


def section(command: Command) -> str:
    parser = ArgumentParser(add_help=False)
    command.fill(parser)
    actions = list(parser._actions)
    usage = " ".join(
        ["frazil", command.name, *(spelled(action) for action in sorted(actions, key=lambda a: not a.option_strings))]
    )
    rows = ["| argument | meaning |", "|---|---|"]
    rows += [
        f"| {', '.join(f'`{name}`' for name in names(action))} | {escaped(action.help or '')} |" for action in actions
    ]
    examples = "\n".join(f"{line.ljust(70)}  # {what}" for line, what in command.examples)
    return (
        f"## frazil {command.name}\n\n{command.description}\n\n```text\n{usage}\n```\n\n"
        + "\n".join(rows)
        + f"\n\n```sh\n{examples}\n```"
    )


def names(action: Action) -> list[str]:
    value = metavar(action) + "..." * (action.nargs == "+")
    if not action.option_strings:
        return [value]
    return [f"{option} {value}".strip() for option in action.option_strings]


def spelled(action: Action) -> str:
    shortest = names(action)[0]
    optional = action.nargs == "?" or (action.option_strings and not action.required)
    return f"[{shortest}]" if optional else shortest


def metavar(action: Action) -> str:
    if action.nargs == 0:
        return ""
    if action.metavar is None and action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
