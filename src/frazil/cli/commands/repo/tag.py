"""`frazil repo tag`: lists and creates the tags of a repository."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import add_repository, open_repository
from frazil.cli.command import Command
from frazil.cli.output import print_result
from frazil.cli.refs import Point, as_json, points, points_text
from frazil.repository.format import MAIN


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument("name", metavar="NAME", nargs="?", help="the tag to create (default: list all tags)")
    parser.add_argument(
        "--at", metavar="REF", help="the snapshot that it names: of a branch, of a tag, or by its id (default: main)"
    )


def run(options: Namespace) -> None:
    if options.name is None and options.at:
        options.refuse("--at needs the NAME of a tag")
    repo = open_repository(options.location)
    if options.name is None:
        found = points(repo.tags, repo.lookup_tag)
        print_result(options, [as_json(point) for point in found], points_text(found))
        return
    repo.create_tag(options.name, options.at or MAIN)
    done = Point(options.name, repo.lookup_tag(options.name))
    print_result(options, as_json(done), points_text([done]))


COMMAND = Command(
    "repo tag",
    "lists and creates tags",
    "Prints a line for each tag: its name and its snapshot. With NAME it creates that tag and prints its line. "
    "A tag is permanent: it cannot be moved or deleted.",
    (
        ("frazil repo tag sea.repo", "all tags"),
        ("frazil repo tag sea.repo v2", "a name for where main is now"),
        ("frazil repo tag sea.repo v3 --at dev --json", "a name for where another branch is; as JSON"),
    ),
    add_arguments,
    run,
)
