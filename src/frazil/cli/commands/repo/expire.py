"""`frazil repo expire`: cuts histories before snapshots that are too old."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import timedelta

from frazil.cli.arguments.locations import add_repository, open_repository
from frazil.cli.command import Command, whole_number
from frazil.cli.output import print_result

_AGE = re.compile(r"([0-9]{1,6})(d|h)")


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument(
        "--older-than",
        metavar="TIME",
        required=True,
        type=_time,
        help="snapshots expire that are older than an age (30d, 12h) or a time (2026-01-01T00:00:00Z)",
    )
    parser.add_argument(
        "--keep-last",
        metavar="N",
        type=whole_number("a number of snapshots, 1 or more", 1, 2**63 - 1),
        default=1,
        help="keep the newest N snapshots of each branch, whatever their age (default: 1)",
    )
    parser.add_argument(
        "--tags", action="store_true", help="also delete tags of expired snapshots, if the format allows it"
    )
    parser.add_argument(
        "--branches", action="store_true", help="also delete branches whose last commit is older, except main"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would expire, and write nothing")


def _time(text: str) -> timedelta | str:
    age = _AGE.fullmatch(text)
    if age is not None:
        count = int(age[1])
        return timedelta(days=count) if age[2] == "d" else timedelta(hours=count)
    if "T" not in text:
        raise ArgumentTypeError(
            f"{text!r} is not an age in days or hours, such as 30d or 12h, and no time such as 2026-01-01T00:00:00Z"
        )
    return text


def run(options: Namespace) -> None:
    done = open_repository(options.location).expire(
        older_than=options.older_than,
        keep_last=options.keep_last,
        keep_tagged=not options.tags,
        expire_branches=options.branches,
        dry_run=options.dry_run,
    )
    print_result(options, done.to_json(), str(done))


COMMAND = Command(
    "repo expire",
    "ends histories before old snapshots",
    "Records that old snapshots have expired: histories end before them. Branches and tags keep the snapshots "
    "that they point to. Nothing is removed until `frazil repo gc` removes it.",
    (
        ("frazil repo expire sea.repo --older-than 90d --dry-run", "what would expire"),
        ("frazil repo expire sea.repo --older-than 90d --keep-last 10", "keep the last ten of each branch"),
        ("frazil repo expire sea.repo --older-than 2026-01-01T00:00:00Z --json", "before a time, as JSON"),
    ),
    add_arguments,
    run,
)
