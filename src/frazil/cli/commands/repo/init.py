"""`frazil repo init`: a new repository."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import frazil
from frazil.cli.arguments.locations import add_repository
from frazil.cli.command import Command
from frazil.cli.output import print_result
from frazil.repository.format import MAIN


def add_arguments(parser: ArgumentParser) -> None:
    add_repository(parser)
    parser.add_argument(
        "--compatible",
        choices=("alpha-library",),
        help="write only what the Icechunk library of the alpha format can read and continue; commits then cost more",
    )
    parser.add_argument(
        "--chunk-digests",
        choices=("crc32c",),
        help="end the names of files in digests of their bytes, which `frazil repo verify` compares (of chunk files with --digests)",
    )


def run(options: Namespace) -> None:
    repo = frazil.Repository.create(
        options.location, compatible=options.compatible, chunk_digests=options.chunk_digests
    )
    first = repo.lookup_branch(MAIN)
    print_result(options, {"branch": MAIN, "snapshot": first}, f"{MAIN}  {first}")


COMMAND = Command(
    "repo init",
    "creates a repository",
    "Creates an empty repository with one branch, main, that has one snapshot, and prints both. If there is a "
    "repository already, that is an error, and nothing is changed.",
    (
        ("frazil repo init new.repo", "a new repository"),
        (
            "frazil repo init old.repo --compatible alpha-library",
            "one that the library of the alpha format can use, too",
        ),
        ("frazil repo init new.repo --chunk-digests crc32c", "one whose chunk files can be checked without decoding"),
    ),
    add_arguments,
    run,
)
