"""`frazil repo du`: bytes by path, in one snapshot and in all histories."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.command import Command
from frazil.cli.locations import MAIN, add_repository, open_repository
from frazil.cli.output import add_json, say_result
from frazil.cli.progress import Steps
from frazil.repository.inspection.report import usage_text


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument(
        "path", metavar="PATH", nargs="?", default="", help="a group or array; all, where it is left out"
    )
    parser.add_argument("--at", metavar="REF", default=MAIN, help="a branch, a tag or a snapshot (main)")
    add_json(parser)


def run(options: Namespace) -> None:
    repo = open_repository(options.location)
    with Steps() as report:
        found = repo.usage(options.at, options.path, progress=report)
    say_result(options, [one._asdict() for one in found], usage_text(found))


COMMAND = Command(
    "repo du",
    "bytes by path: in a snapshot, and kept by all histories",
    "Prints a line for each array and group: bytes of the chunks that the snapshot has, bytes that all branches, tags and their histories keep of it, bytes in files\n"
    "elsewhere, and how many chunks. Arrays that were removed and are kept are listed, too. No chunk is read.",
    (
        ("frazil repo du sea.repo", "all of main"),
        ("frazil repo du sea.repo level1", "a group"),
        ("frazil repo du sea.repo --at v1 --json", "at a tag, for programs"),
    ),
    add_arguments,
    run,
)
