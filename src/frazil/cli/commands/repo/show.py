"""`frazil repo show`: one commit, or one object of a repository."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import add_repository, open_repository
from frazil.cli.command import Command
from frazil.cli.output import print_result
from frazil.metadata.json_text import as_json
from frazil.repository.format import MAIN


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument(
        "name",
        metavar="REF",
        nargs="?",
        default=MAIN,
        help="a branch, a tag, a snapshot or the beginning of its id, or the whole id of any object (default: main)",
    )


def run(options: Namespace) -> None:
    found = open_repository(options.location).show(options.name)
    print_result(options, as_json(found.to_json(), "what is shown"), str(found))


COMMAND = Command(
    "repo show",
    "a commit: what it changed and wrote; or one object",
    "Prints the message, time and parent of a commit, what it changed, and the size of what it wrote. Of a "
    "manifest, a chunk file or an attribute file it prints the size, the content, and the arrays that refer to "
    "it at the tips of branches and tags. No chunk is read.",
    (
        ("frazil repo show sea.repo", "the last commit to main"),
        ("frazil repo show sea.repo v1", "what a tag points to"),
        ("frazil repo show sea.repo dev --json", "the last commit of another branch, as JSON"),
    ),
    add_arguments,
    run,
)
