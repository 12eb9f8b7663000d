"""The type of a command, how its parser is built, and arguments that many commands share. Each command has a file of its own; main.py lists them."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from textwrap import fill
from typing import Final

from frazil.base.record import Record

_COLUMNS: Final = 79  # of the description in --help; aligned lines in the examples are not broken
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?) ?(?:([kMGTP])(i?))?B?", re.IGNORECASE)
_POWERS: Final = " kmgtp"


class Command(Record):
    """name: one word, or that of a group of commands and one word; summary: one line; examples: (command line, what it does); run: takes the parsed
    arguments; prints_json: whether it has --json"""

    name: str
    summary: str
    description: str
    examples: tuple[tuple[str, str], ...]
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]
    prints_json: bool = True

    def fill(self, parser: ArgumentParser) -> None:
        """Gives a new parser the arguments and texts of this command."""
        parser.description = fill(self.description, _COLUMNS)
        parser.epilog = "examples:\n" + "\n".join(f"  {line}\n      {effect}" for line, effect in self.examples)
        parser.formatter_class = RawDescriptionHelpFormatter
        self.add_arguments(parser)
        if self.prints_json:
            parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.set_defaults(run=self.run, refuse=parser.error, parser=parser)


def add_location(parser: ArgumentParser, meaning: str | None = None) -> None:
    """The first argument of commands on arrays and groups. meaning: its help text, if not the usual one."""
    parser.add_argument(
        "location",
        metavar="LOCATION",
        help=meaning
        or "a folder, zip archive or URL of an array or group, or of a node below it, as in sea.zarr/level1; or a repository, as in sea.repo@v1",
    )


def whole_number(name: str, low: int, high: int) -> Callable[[str], int]:
    """The type of an argument: a whole number from low to high, both included. name: its name in errors."""

    def parse(text: str) -> int:
        if not text.isdecimal() or len(text) > 20 or not low <= int(text) <= high:
            raise ArgumentTypeError(f"{text!r} is not {name}")
        return int(text)

    return parse


def size(text: str) -> int:
    """A number of bytes, as in 5000, 500MB or 1.5 GiB."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not a size; give a number of bytes, or such as 500MB or 10GiB")
    number, power, binary = found.groups()
    whole, _, fraction = number.partition(".")
    thousandths = int(whole) * 1000 + int(fraction.ljust(3, "0") or 0)
    return int(thousandths * (1024 if binary else 1000) ** _POWERS.index((power or " ").lower()) // 1000)


def list_of_names(text: str) -> list[str]:
    """The type of an argument: names between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
