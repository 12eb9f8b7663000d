"""`frazil du`: the bytes of every node of a hierarchy, decoded and stored."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from frazil.cli.command import Command, add_location
from frazil.cli.locations import add_path, open_place
from frazil.cli.output import add_json, say, say_json
from frazil.operations.usage import lines, usage


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_path(parser)
    parser.add_argument(
        "-d",
        "--depth",
        metavar="N",
        type=_levels,
        help="show nodes down to N levels below, 0 for the total alone; all, where it is left out",
    )
    add_json(parser)


def _levels(text: str) -> int:
    if not text.isdecimal() or int(text) >= 10**6:
        raise ArgumentTypeError(f"{text!r} is no number of levels; 0 shows the total alone")
    return int(text)


def run(options: Namespace) -> None:
    found = usage(open_place(options))
    if options.depth is not None:
        found = [node for node in found if not node.path or node.path.count("/") < options.depth]
    if options.json:
        say_json([node.to_json() for node in found])
    else:
        say("\n".join(lines(found)))


COMMAND = Command(
    "du",
    "bytes of each array and group, decoded and stored",
    "A line for each node: the bytes of its elements, the bytes of its stored chunks and shards, how many times smaller these are, how many objects they are in.\n"
    "A group has the sums of all below it. Keys are listed and nothing is read; documents do not count.",
    (
        ("frazil du ocean.zarr", "every node of a hierarchy"),
        ("frazil du ocean.zarr level1 --depth 0", "the total of one group"),
        ("frazil du sea.repo@v1", "what a repository had at a tag"),
        ("frazil du ocean.zarr --json", "for programs; sizes are in bytes"),
    ),
    add_arguments,
    run,
)
