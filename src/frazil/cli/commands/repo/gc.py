"""`frazil repo gc`: what nothing refers to any more is condemned, and later removed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import timedelta

from frazil.cli.command import Command, whole_number
from frazil.cli.locations import add_repository, open_repository
from frazil.cli.output import add_json, say_result
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
        help="from condemning to removing (24): longer than sessions of the Icechunk library are open",
    )
    parser.add_argument(
        "--now", action="store_true", help="remove at once: only where nobody writes, and no session is open"
    )
    parser.add_argument("--dry-run", action="store_true", help="tell what would be done, and write nothing")
    add_json(parser)


def run(options: Namespace) -> None:
    repo = open_repository(options.location)
    with Steps() as report:
        done = repo.garbage_collect(
            wait=timedelta(hours=options.wait), now=options.now, dry_run=options.dry_run, progress=report
        )
    say_result(options, done.to_json(), str(done))


COMMAND = Command(
    "repo gc",
    "removes what no branch and no tag leads to",
    "Condemns objects that no branch and no tag leads to, and removes those that an earlier run condemned at least 24 hours ago and that are\n"
    "still not needed. Safe beside readers and writers. It may be interrupted; the next run goes on.",
    (
        ("frazil repo gc sea.repo --dry-run", "what would be condemned and removed"),
        ("frazil repo gc sea.repo", "once a day: what is dead is gone after the second run"),
        ("frazil repo gc sea.repo --wait 72", "where sessions are open for up to three days"),
        ("frazil repo gc sea.repo --now --json", "at once, where nobody writes; for programs"),
    ),
    add_arguments,
    run,
)
