"""`frazil repo merge`, `cherry-pick` and `revert`: the changes of a branch or a commit, in another branch."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from frazil.cli.arguments.locations import add_repository, open_repository
from frazil.cli.command import Command
from frazil.cli.output import print_result
from frazil.cli.refs import Point, as_json, points_text
from frazil.repository.format import MAIN

_ANOTHER: Final = "If the branch has moved on in the same places, nothing is changed, and the conflicts are listed."


def _add_arguments(parser: ArgumentParser, name: str, option: str, branch: str) -> None:
    """name: what the first argument names;  option, branch: that names the branch, and its help"""
    add_repository(parser)
    parser.add_argument("name", metavar="REF", help=name)
    parser.add_argument(option, metavar="BRANCH", dest="branch", default=MAIN, help=f"{branch} (default: main)")
    parser.add_argument("-m", "--message", metavar="TEXT", help="the message of the commit")
    parser.add_argument(
        "--solver",
        choices=("disjoint", "ours", "theirs"),
        default="disjoint",
        help="in conflicts: refuse (disjoint, the default), make the change (ours), or keep what is in the branch (theirs)",
    )


def _print_tip(options: Namespace, snapshot: str) -> None:
    done = Point(options.branch, snapshot)
    print_result(options, as_json(done), points_text([done]))


def _add_merge_arguments(parser: ArgumentParser) -> None:
    _add_arguments(parser, "the branch, tag or snapshot to merge", "--into", "the branch that gets the changes")


def _merge(options: Namespace) -> None:
    repo = open_repository(options.location)
    _print_tip(options, repo.merge(options.name, options.branch, message=options.message, solver=options.solver))


def _add_pick_arguments(parser: ArgumentParser) -> None:
    _add_arguments(parser, "the commit: its id, or a branch or tag", "--onto", "the branch that gets the changes")


def _pick(options: Namespace) -> None:
    repo = open_repository(options.location)
    _print_tip(options, repo.cherry_pick(options.name, options.branch, message=options.message, solver=options.solver))


def _add_revert_arguments(parser: ArgumentParser) -> None:
    _add_arguments(parser, "the commit: its id, or a branch or tag", "--branch", "the branch in which it is undone")


def _revert(options: Namespace) -> None:
    repo = open_repository(options.location)
    _print_tip(options, repo.revert(options.name, options.branch, message=options.message, solver=options.solver))


COMMANDS = (
    Command(
        "repo merge",
        "makes the changes of one branch in another",
        "Makes the changes that REF has and the branch has not, in one commit, and prints the branch and its snapshot. If the branch has "
        f"no commits of its own since both parted, and there is no -m, it moves to REF. {_ANOTHER} Chunks are copied only where both sides appended rows.",
        (
            ("frazil repo merge sea.repo dev", "what was tried on dev, into main"),
            ("frazil repo merge sea.repo main --into dev", "what is new in main, into dev"),
            ('frazil repo merge sea.repo dev --solver ours -m "as on dev"', "dev wins in conflicts"),
        ),
        _add_merge_arguments,
        _merge,
    ),
    Command(
        "repo cherry-pick",
        "makes the changes of one commit in another branch",
        f"Makes the changes of one commit in a branch, as a new commit, and prints the branch and its snapshot. {_ANOTHER}",
        (
            ("frazil repo cherry-pick sea.repo dev", "the last commit of dev, into main"),
            (
                "frazil repo cherry-pick sea.repo main --onto old --json",
                "the last commit of main into another branch; as JSON",
            ),
        ),
        _add_pick_arguments,
        _pick,
    ),
    Command(
        "repo revert",
        "undoes one commit",
        f"Undoes the changes of one commit, in a new commit of a branch, and prints the branch and its snapshot. {_ANOTHER}",
        (
            ("frazil repo revert sea.repo main", "undoes the last commit"),
            (
                "frazil repo revert sea.repo dev --branch dev --json",
                "undoes the last commit of another branch; as JSON",
            ),
        ),
        _add_revert_arguments,
        _revert,
    ),
)
