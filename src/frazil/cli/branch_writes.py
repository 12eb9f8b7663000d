"""Writing where a branch of a repository may be named: the session, its commit, and how both are printed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from frazil.api.session import checked_commit
from frazil.cli.arguments.locations import InSession, on_branch
from frazil.cli.output import print_result
from frazil.metadata.json_text import Json


def add_message(parser: ArgumentParser, target: str = "DESTINATION") -> None:
    """target: the argument that may name a branch"""
    parser.add_argument("-m", "--message", metavar="TEXT", help=f"the message of the commit, if {target} is a branch")


@contextmanager
def writable(
    options: Namespace, location: str | None, example: str, prefixes: list[str] | None = None
) -> Iterator[InSession | None]:
    """The session of a branch, whose changes are discarded at the end unless they are committed; None for any other location, where -m is refused.

    example  the argument with a branch, for the refusal
    Raises NotFoundError, InvalidInputError, as on_branch, and for a message that cannot be committed."""
    if options.message is not None:
        checked_commit(options.message)
    target = None if location is None else on_branch(location, prefixes)
    if target is None and options.message is not None:
        options.refuse(f"-m is for a branch of a repository: give {example}")
    try:
        yield target
    finally:
        if target is not None and target.session.has_changes:
            target.session.discard()


def print_written(options: Namespace, document: dict[str, Json], text: str, snapshot: str | None) -> None:
    """Prints what was written, and the snapshot if it was committed."""
    committed = "" if snapshot is None else f"\n  committed as {snapshot}"
    print_result(options, {**document, "snapshot": snapshot}, text + committed)
