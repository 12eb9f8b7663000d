"""`frazil copy`: copies the content of one location to another, with unchanged bytes. The work itself is in operations/."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.cli.arguments.locations import InSession, add_virtual_prefix, in_snapshot
from frazil.cli.branch_writes import add_message, print_written, writable
from frazil.cli.command import Command
from frazil.cli.progress import Progress
from frazil.operations.copy.copy import CopyTask, prepare_copy


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder, zip archive or URL of an array, a group or a repository, or of a node below it, as in sea.zarr/level1; or a snapshot of a repository, as in sea.repo@v1",
    )
    parser.add_argument(
        "destination",
        metavar="DESTINATION",
        help="an empty place, or what an interrupted copy left; or a branch of a repository, as in sea.repo@main/level1",
    )
    parser.add_argument("--overwrite", action="store_true", help="remove what is at DESTINATION first")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare DESTINATION with SOURCE at the end: digests if the object stores have them, otherwise all bytes",
    )
    add_message(parser)
    add_virtual_prefix(parser)


def run(options: Namespace) -> None:
    source = in_snapshot(options.source, options.virtual_prefix)
    snapshot = None
    with writable(options, options.destination, "DESTINATION as sea.repo@main") as target:
        task = _prepared(options, source, target)
        with Progress("copying", None) as report:
            done = task.run(report)
            if target is not None:
                snapshot = target.session.commit(options.message or f"Copy {options.source}", rebase="disjoint")
    print_written(options, done.to_json(), str(done), snapshot)


def _prepared(options: Namespace, source: InSession | None, target: InSession | None) -> CopyTask:
    return prepare_copy(
        options.source if source is None else source.session.store,
        options.destination if target is None else target.session.store,
        path="" if source is None else source.path,
        to="" if target is None else target.path,
        overwrite=options.overwrite,
        verify=options.verify,
        named=(None if source is None else source.name, None if target is None else target.name),
    )


COMMAND = Command(
    "copy",
    "copies an array, a group or a repository to another place",
    "Copies what is stored, without decoding. Metadata documents are written last (of a repository: the "
    "branches), so an unfinished copy never shows an incomplete array. Run an interrupted copy again to "
    "continue it. It then skips values that are there already: between folders those with the same size and "
    "time of change, between object stores those with the same digest, in repositories files with the same "
    "name. --verify also compares all values. A repository is copied with its whole history; SOURCE@REF copies "
    "one snapshot, as plain Zarr. If DESTINATION is a branch, the copy is one commit. Links are not followed. "
    "Files that are no keys, such as lock files, are left out.",
    (
        ("frazil copy ocean.zarr copy.zarr", "a group and everything below it"),
        ("frazil copy ocean.zarr/level1/temp temp.zarr --verify", "one array of it; all values are compared"),
        ("frazil copy sea.repo copy.repo --json", "a repository with its history; the report as JSON"),
        ("frazil copy sea.repo@v1 v1b.zarr", "what a repository had at a tag, as plain Zarr"),
        ("frazil copy ocean.zarr sea.repo@main/ocean -m 'add the ocean'", "into a repository, as one commit"),
    ),
    add_arguments,
    run,
)
