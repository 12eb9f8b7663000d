"""`frazil repo tag`: the tags of a repository, listed and made."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.command import Command
from frazil.cli.locations import MAIN, add_repository, open_repository
from frazil.cli.output import add_json, say_result
from frazil.cli.refs import Point, as_json, points, told


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument("name", metavar="NAME", nargs="?", help="the tag to make; all are listed without it")
    parser.add_argument("--at", metavar="REF", help="what it names: a branch as it is now, a tag or a snapshot (main)")
    add_json(parser)


def run(options: Namespace) -> None:
    if options.name is None and options.at:
        options.refuse("--at needs the NAME of a tag")
    repo = open_repository(options.location)
    if options.name is None:
        found = points(repo.tags, repo.lookup_tag)
        say_result(options, [as_json(point) for point in found], told(found))
        return
    repo.create_tag(options.name, options.at or MAIN)
    done = Point(options.name, repo.lookup_tag(options.name))
    say_result(options, as_json(done), told([done]))


COMMAND = Command(
    "repo tag",
    "the tags of a repository; makes them",
    "Prints a line for each tag, its name and its snapshot; with NAME, makes that tag and prints its line. Tags are for ever: they are never\n"
    "moved nor deleted.",
    (
        ("frazil repo tag sea.repo", "all tags"),
        ("frazil repo tag sea.repo v2", "a name for where main is now"),
        ("frazil repo tag sea.repo v3 --at dev --json", "one for where another branch is, for programs"),
    ),
    add_arguments,
    run,
)
