"""`frazil convert`: a hierarchy in another dialect. The work itself is in operations/."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import add_virtual_prefix, hierarchy_at
from frazil.cli.branch_writes import add_message, print_written, writable
from frazil.cli.command import Command, add_location
from frazil.cli.output import print_result
from frazil.cli.progress import Progress
from frazil.errors import InvalidInputError
from frazil.metadata.model import FORMATS
from frazil.operations.convert.convert import prepare


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    parser.add_argument(
        "destination",
        metavar="DESTINATION",
        nargs="?",
        help="an empty place, or a branch of a repository, as in sea.repo@main/level1 (default: in place)",
    )
    parser.add_argument(
        "--to",
        choices=[str(version) for version in FORMATS],
        default="3",
        help="the dialect: 3 (final Zarr v3, the default), 2 (Zarr v2), draft (December 2022), draft-2021 (its older dialect)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and write nothing")
    parser.add_argument("--overwrite", action="store_true", help="remove what is at DESTINATION first")
    parser.add_argument(
        "--recode",
        action="store_true",
        help="decode arrays whose codecs the dialect does not have, and encode them with its default codecs",
    )
    add_message(parser)
    add_virtual_prefix(parser)


def run(options: Namespace) -> None:
    if options.overwrite and options.destination is None:
        options.refuse("--overwrite has no meaning in place: give DESTINATION")
    to = int(options.to) if options.to.isdigit() else options.to
    source = hierarchy_at(options.location, options.virtual_prefix)
    if options.destination is None and source is not options.location:
        raise InvalidInputError("a repository is not converted in place", hint="give DESTINATION")
    snapshot = None
    with writable(options, options.destination, "DESTINATION as sea.repo@main") as target:
        task = prepare(
            source,
            options.destination if target is None else target.session.store,
            to,
            to_path="" if target is None else target.path,
            overwrite=options.overwrite,
            recode=options.recode,
        )
        if options.dry_run:
            done = task.preview()
        else:
            total = task.preview().nbytes if sys.stderr.isatty() else 0  # the total is needed only for a bar
            with Progress("converting", total) as report:
                done = task.run(report)
            if target is not None:
                snapshot = target.session.commit(options.message or f"Convert {options.location}", rebase="disjoint")
    if target is None:
        print_result(options, done.to_json(), str(done))
    else:
        done = done._replace(destination=target.name)
        print_written(options, done.to_json(), str(done), snapshot)


COMMAND = Command(
    "convert",
    "converts a hierarchy between final Zarr v3, Zarr v2 and the drafts",
    "Converts a hierarchy between final Zarr v3, Zarr v2, and the drafts of 2022 and 2021. Chunks and shards "
    "are moved without decoding. What the other dialect cannot express is listed before anything is written. "
    "An interrupted conversion is continued by the same command. In place, the hierarchy can be read at any "
    "time: in the old dialect until zarr.json is replaced, then in the new one.",
    (
        ("frazil convert old.zr3 new.zarr", "a hierarchy of a draft as final Zarr v3, elsewhere"),
        ("frazil convert old.zr3 --dry-run", "what a conversion in place would do"),
        ("frazil convert old.zr3", "in place"),
        ("frazil convert ocean.zarr ocean.zr3 --to draft --recode", "to the draft of December 2022, which has no zstd"),
        ("frazil convert v2.zarr sea.repo@main/old -m 'add the old data'", "Zarr v2 into a repository, as one commit"),
        ("frazil convert sea.repo@v1 v1.zarr", "what a repository had at a tag, as a plain folder"),
        ("frazil convert ocean.zarr old2.zr3 --to draft-2021 --json", "for zarr-python 2; the report as JSON"),
    ),
    add_arguments,
    run,
)
