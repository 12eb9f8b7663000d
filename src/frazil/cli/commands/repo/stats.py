"""`frazil repo stats`: what a repository consists of."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import add_repository, open_repository
from frazil.cli.command import Command, whole_number
from frazil.cli.output import print_result
from frazil.cli.progress import Steps


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument(
        "--largest",
        metavar="N",
        type=whole_number("a number of objects, 0 or more", 0, 2**31),
        default=10,
        help="list the N largest objects (default: 10)",
    )


def run(options: Namespace) -> None:
    repo = open_repository(options.location)
    with Steps() as report:
        found = repo.stats(largest=options.largest, progress=report)
    print_result(options, found.to_json(), str(found))


COMMAND = Command(
    "repo stats",
    "bytes by array and by commit, live and dead",
    "Prints how many bytes of a repository are live and dead, by kind of object, by array and by commit, and "
    "the largest objects. Live is what branches and tags refer to; dead is what garbage collection removes. An "
    "object that several commits or arrays share is counted once, for the first commit that refers to it. All "
    "keys are listed, and all snapshots and manifests are read; no chunk is read, and nothing is written.",
    (
        ("frazil repo stats sea.repo", "tables of bytes"),
        ("frazil repo stats sea.repo --largest 100", "more of the largest objects"),
        ("frazil repo stats sea.repo --json", "as JSON: every array and every commit"),
    ),
    add_arguments,
    run,
)
