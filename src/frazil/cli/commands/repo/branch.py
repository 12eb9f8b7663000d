"""`frazil repo branch`: lists, creates, moves and deletes the branches of a repository."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import frazil
from frazil.cli.arguments.locations import add_repository, open_repository
from frazil.cli.command import Command
from frazil.cli.output import print_result
from frazil.cli.refs import Point, as_json, points, points_text
from frazil.repository.format import MAIN


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="the branch to create or change (default: list all branches)"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--at", metavar="REF", help="where the new branch begins: a branch, a tag or a snapshot (default: main)"
    )
    action.add_argument("--reset", metavar="REF", help="move the branch to a branch, a tag or a snapshot")
    action.add_argument("--delete", action="store_true", help="delete the branch")
    parser.add_argument("--expect", metavar="ID", help="with --reset: move it only if it points to this snapshot now")


def run(options: Namespace) -> None:
    if options.name is None and (options.at or options.reset or options.delete):
        options.refuse("--at, --reset and --delete need the NAME of a branch")
    if options.expect and not options.reset:
        options.refuse("--expect has a meaning only with --reset")
    repo = open_repository(options.location)
    if options.name is None:
        found = points(repo.branches, repo.lookup_branch)
        print_result(options, [as_json(point) for point in found], points_text(found))
        return
    done = _change(repo, options)
    document = {**as_json(done), **({"deleted": True} if options.delete else {})}
    print_result(options, document, ("deleted  " if options.delete else "") + points_text([done]))


def _change(repo: frazil.Repository, options: Namespace) -> Point:
    """Where the branch points afterwards, or pointed when it was deleted."""
    name = options.name
    if options.delete:
        was = repo.lookup_branch(name)
        repo.delete_branch(name)
        return Point(name, was)
    if options.reset:
        repo.reset_branch(name, options.reset, expect=options.expect)
    else:
        repo.create_branch(name, options.at or MAIN)
    return Point(name, repo.lookup_branch(name))


COMMAND = Command(
    "repo branch",
    "lists, creates, moves and deletes branches",
    "Prints a line for each branch: its name, and the snapshot that it points to. With NAME it creates that "
    "branch and prints its line; --reset moves it, and --delete deletes it. The snapshots of a moved or "
    "deleted branch can be read by their ids until garbage collection removes them.",
    (
        ("frazil repo branch sea.repo", "all branches"),
        ("frazil repo branch sea.repo trial --at v1", "a new branch that begins at a tag"),
        ("frazil repo branch sea.repo dev --reset v1", "a branch moved back to a tag"),
        ("frazil repo branch sea.repo old --delete", "a branch deleted"),
        ("frazil repo branch sea.repo --json", "all branches, as JSON"),
    ),
    add_arguments,
    run,
)
