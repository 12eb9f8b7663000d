"""`frazil convert`: a hierarchy in another dialect. What that takes is in operations/."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from frazil.cli.command import Command, add_location
from frazil.cli.locations import add_virtual_prefix, hierarchy_at
from frazil.cli.output import add_json, is_terminal, say_result
from frazil.cli.progress import Progress
from frazil.errors import InvalidInputError
from frazil.metadata.model import FORMATS
from frazil.operations.convert.convert import prepare


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    parser.add_argument(
        "destination", metavar="DESTINATION", nargs="?", help="an empty place; in place, where it is left out"
    )
    parser.add_argument(
        "--to",
        choices=[str(known) for known in FORMATS],
        default="3",
        help="the dialect: 3 (final Zarr v3, the default), 2 (Zarr v2), draft (December 2022), draft-2021 (its older dialect)",
    )
    parser.add_argument("--dry-run", action="store_true", help="write nothing, and tell what would be done")
    parser.add_argument("--overwrite", action="store_true", help="first remove what is at DESTINATION")
    parser.add_argument(
        "--recode",
        action="store_true",
        help="decode arrays whose codecs the dialect cannot name, and encode them with its default codecs",
    )
    add_virtual_prefix(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    if options.overwrite and options.destination is None:
        options.refuse("--overwrite has no meaning in place: give DESTINATION")
    to = int(options.to) if options.to.isdigit() else options.to
    source = hierarchy_at(options.location, options.virtual_prefix)
    if options.destination is None and source is not options.location:
        raise InvalidInputError("a repository is not converted in place", hint="give DESTINATION")
    task = prepare(source, options.destination, to, overwrite=options.overwrite, recode=options.recode)
    if options.dry_run:
        done = task.survey()
    else:
        total = task.survey().nbytes if is_terminal(sys.stderr) else 0  # only a bar needs to know beforehand
        with Progress("converting", total) as report:
            done = task.run(report)
    say_result(options, done.to_json(), str(done))


COMMAND = Command(
    "convert",
    "a hierarchy of one dialect of Zarr as one of another",
    "Converts between final Zarr v3, Zarr v2, and the drafts of 2022 and 2021. Chunks and shards move as the bytes that they are; what the\n"
    "dialect cannot express is listed before anything is written. Run again, it continues where it was interrupted;\n"
    "in place, the hierarchy can be read at any time: as the old dialect until zarr.json is replaced, then as the new one.",
    (
        ("frazil convert old.zr3 new.zarr", "a hierarchy of a draft as final Zarr v3, elsewhere"),
        ("frazil convert old.zr3 --dry-run", "what it would take to do so in place"),
        ("frazil convert old.zr3", "in place"),
        ("frazil convert ocean.zarr ocean.zr3 --to draft --recode", "to the draft of December 2022, which has no zstd"),
        ("frazil convert sea.repo@v1 v1.zarr", "what a repository had at a tag, as a plain folder"),
        ("frazil convert ocean.zarr old2.zr3 --to draft-2021 --json", "for zarr-python 2; what was done, for programs"),
    ),
    add_arguments,
    run,
)
