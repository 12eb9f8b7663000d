"""`frazil repo repair`: replaces damaged parts by new commits and branches."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import add_repository, add_virtual_prefix, open_repository
from frazil.cli.command import Command
from frazil.cli.hints import with_options
from frazil.cli.output import print_checked
from frazil.cli.progress import Steps

_OPTIONS = (
    ("decode", "also find chunks that cannot be decoded"),
    ("digests", "also find chunk files with other bytes than were written, where the repository has digests"),
    ("older", "chunks that are lost become what they were in the newest older snapshot that has them"),
    ("accept-loss", "give up what is lost: chunks read as fill value, attributes are empty, damaged nodes are removed"),
    (
        "tips",
        "branches that cannot be repaired without loss or a mix with older data go back to their last complete snapshot",
    ),
    ("history", "end histories before snapshots that are damaged or missing"),
    ("dry-run", "print what would be done, and write nothing"),
)


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    for name, text in _OPTIONS:
        parser.add_argument(f"--{name}", action="store_true", help=text)
    add_virtual_prefix(parser)


def run(options: Namespace) -> None:
    repo = open_repository(options.location, options.virtual_prefix)
    with Steps() as report:
        done = repo.repair(
            decode=options.decode,
            digests=options.digests,
            older=options.older,
            accept_loss=options.accept_loss,
            tips=options.tips,
            history=options.history,
            dry_run=options.dry_run,
            progress=report,
        )
    print_checked(options, done.to_json(), with_options(str(done), options.parser), ok=done.ok)


COMMAND = Command(
    "repo repair",
    "repairs damage by new commits and branches",
    "Verifies a repository and repairs the damage that it finds. On each branch, a new commit replaces what is "
    "damaged by what older snapshots have. If the tip of a branch cannot be read, a new branch NAME-repaired "
    "begins at its last complete snapshot. No file is changed or removed. Prints what was repaired, what is "
    "lost, and which problems remain. The exit status is 1 if problems remain.",
    (
        ("frazil repo repair sea.repo --dry-run", "what would be repaired, and what is lost"),
        ("frazil repo repair sea.repo", "whatever can be repaired without giving anything up"),
        ("frazil repo repair sea.repo --older", "lost chunks become what they were before"),
        ("frazil repo repair sea.repo --accept-loss", "lost chunks read as fill value"),
        ("frazil repo repair sea.repo --tips --json", "go back to the last complete snapshots; as JSON"),
    ),
    add_arguments,
    run,
)
