"""`frazil repo stats`: what a repository consists of."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.command import Command, whole_number
from frazil.cli.locations import add_repository, open_repository
from frazil.cli.output import add_json, say_result
from frazil.cli.progress import Steps


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument(
        "--largest",
        metavar="N",
        type=whole_number("a number of objects, 0 or more", 0, 2**31),
        default=10,
        help="list the N largest objects (10)",
    )
    add_json(parser)


def run(options: Namespace) -> None:
    repo = open_repository(options.location)
    with Steps() as report:
        found = repo.stats(largest=options.largest, progress=report)
    say_result(options, found.to_json(), str(found))


COMMAND = Command(
    "repo stats",
    "bytes by array and by commit, live and dead, and how chunks are packed",
    "Lists all keys, and reads all snapshots and manifests that branches and tags lead to; no chunk is read, and nothing is written.\n"
    "What several commits or arrays refer to counts once, for the first commit that did. Dead is what garbage collection removes.",
    (
        ("frazil repo stats sea.repo", "tables of bytes"),
        ("frazil repo stats sea.repo --largest 100", "more of the largest objects"),
        ("frazil repo stats sea.repo --json", "for programs: every array and every commit"),
    ),
    add_arguments,
    run,
)
