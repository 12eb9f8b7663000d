"""`frazil repo diff`: what changed between two snapshots of a repository."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import add_repository, open_repository
from frazil.cli.command import Command
from frazil.cli.output import print_result
from frazil.metadata.json_text import as_json
from frazil.repository.format import MAIN


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument("old", metavar="OLD", help="a branch, a tag, or the id of a snapshot or its beginning")
    parser.add_argument("new", metavar="NEW", nargs="?", default=MAIN, help="another one (default: main)")


def run(options: Namespace) -> None:
    difference = open_repository(options.location).diff(options.old, options.new)
    text = "" if difference.is_empty else str(difference)
    print_result(options, as_json(difference.to_json(), "difference"), text)


COMMAND = Command(
    "repo diff",
    "what changed between two snapshots",
    "Prints a line for each array or group that differs: + added, - removed, r renamed, ~ changed, and the "
    "number of chunks that differ. Prints nothing if nothing differs. With --json it also prints the "
    "coordinates of chunks, at most 100 for each array. No chunk is read.",
    (
        ("frazil repo diff sea.repo v1 main", "what changed since a tag"),
        ("frazil repo diff sea.repo dev", "how main differs from another branch"),
        ("frazil repo diff sea.repo v1 dev --json", "two others, as JSON"),
    ),
    add_arguments,
    run,
)
