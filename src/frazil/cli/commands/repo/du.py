"""`frazil repo du`: bytes by path, in one snapshot and in all histories."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import add_repository, open_repository
from frazil.cli.command import Command
from frazil.cli.output import print_result
from frazil.cli.progress import Steps
from frazil.repository.format import MAIN
from frazil.repository.inspection.report import usage_text


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument("path", metavar="PATH", nargs="?", default="", help="a group or array (default: everything)")
    parser.add_argument("--at", metavar="REF", default=MAIN, help="a branch, a tag or a snapshot (default: main)")


def run(options: Namespace) -> None:
    repo = open_repository(options.location)
    with Steps() as report:
        found = repo.usage(options.at, options.path, progress=report)
    print_result(options, [usage._asdict() for usage in found], usage_text(found))


COMMAND = Command(
    "repo du",
    "bytes of each array and group: in a snapshot, and in all histories",
    "Prints a line for each array and group: the bytes of the chunks in the snapshot, the bytes that all "
    "branches, tags and their histories keep, the bytes in files elsewhere (virtual chunks), and the number of "
    "chunks. Arrays that were removed are listed as long as a history keeps them. No chunk is read.",
    (
        ("frazil repo du sea.repo", "all of main"),
        ("frazil repo du sea.repo level1", "a group"),
        ("frazil repo du sea.repo --at v1 --json", "at a tag, as JSON"),
    ),
    add_arguments,
    run,
)
