"""`frazil du`: the bytes of every node of a hierarchy, decoded and stored."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import add_path, open_node_of
from frazil.cli.command import Command, add_location, whole_number
from frazil.cli.output import print_result
from frazil.operations.usage import lines, usage


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_path(parser)
    parser.add_argument(
        "-d",
        "--depth",
        metavar="N",
        type=whole_number("a number of levels; 0 shows the total alone", 0, 10**6),
        help="show nodes down to N levels below, 0 for the total alone (default: all)",
    )


def run(options: Namespace) -> None:
    found = usage(open_node_of(options))
    if options.depth is not None:
        found = [node for node in found if not node.path or node.path.count("/") < options.depth]
    print_result(options, [node.to_json() for node in found], "\n".join(lines(found)))


COMMAND = Command(
    "du",
    "bytes of each array and group, decoded and stored",
    "Prints a line for each node: the bytes of its elements, the bytes of its stored chunks and shards, the "
    "ratio of the two, and the number of stored objects. The line of a group has the sums of everything below "
    "it. Only keys are listed: no value is read, and metadata documents are not counted.",
    (
        ("frazil du ocean.zarr", "every node of a hierarchy"),
        ("frazil du ocean.zarr level1 --depth 0", "the total of one group"),
        ("frazil du sea.repo@v1", "what a repository had at a tag"),
        ("frazil du ocean.zarr --json", "as JSON; sizes are in bytes"),
    ),
    add_arguments,
    run,
)
