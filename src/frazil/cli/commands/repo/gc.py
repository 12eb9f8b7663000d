"""`frazil repo gc`: condemns objects that nothing refers to, and removes them later."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import timedelta

from frazil.cli.arguments.locations import add_repository, open_repository
from frazil.cli.command import Command, whole_number
from frazil.cli.output import print_result
from frazil.cli.progress import Steps

_HOURS = 24
_MOST_HOURS = 24 * 366 * 10


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument(
        "--wait",
        metavar="HOURS",
        type=whole_number("a number of hours, 1 or more", 1, _MOST_HOURS),
        default=_HOURS,
        help="the time from condemning to removing (default: 24); it must be longer than any session of the Icechunk library",
    )
    parser.add_argument(
        "--now", action="store_true", help="remove at once; only safe if no process writes and no session is open"
    )
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="collect also if chunk files that branches or tags lead to are missing",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and write nothing")


def run(options: Namespace) -> None:
    repo = open_repository(options.location)
    with Steps() as report:
        done = repo.garbage_collect(
            wait=timedelta(hours=options.wait),
            now=options.now,
            accept_loss=options.accept_loss,
            dry_run=options.dry_run,
            progress=report,
        )
    print_result(options, done.to_json(), str(done))


COMMAND = Command(
    "repo gc",
    "removes what no branch and no tag refers to",
    "Removes objects that no branch and no tag refers to, in two runs. The first run condemns an object. A "
    "later run, at least 24 hours after that, removes it if it is still not needed. This is safe while others "
    "read and write. If a run is interrupted, the next one continues.",
    (
        ("frazil repo gc sea.repo --dry-run", "what would be condemned and removed"),
        ("frazil repo gc sea.repo", "run it once a day: dead objects are gone after the second run"),
        ("frazil repo gc sea.repo --wait 72", "if sessions may be open for up to three days"),
        ("frazil repo gc sea.repo --now --json", "at once, if no process writes; as JSON"),
    ),
    add_arguments,
    run,
)
