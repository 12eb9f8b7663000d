"""`frazil rechunk`: rewrites an array with other chunks, shards or codecs. The work itself is in operations/rechunk/."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import frazil
from frazil.array.array import Array
from frazil.cli.arguments.layout import codecs, extents, memory, shards
from frazil.cli.arguments.locations import InSession, add_virtual_prefix, in_snapshot
from frazil.cli.branch_writes import add_message, print_written, writable
from frazil.cli.command import Command
from frazil.cli.progress import Progress
from frazil.operations.array_source import open_source
from frazil.operations.rechunk.rechunk import SAME, RechunkTask, prepare_rechunk
from frazil.stores.locations import resolve


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="an array: a folder, zip archive or URL, or a node below it, as in sea.zarr/level1; or one in a repository, as in sea.repo@v1/level1",
    )
    parser.add_argument(
        "destination",
        metavar="DESTINATION",
        help="an empty place, or what an interrupted run left; or a new node on a branch of a repository, as in sea.repo@main/new",
    )
    parser.add_argument(
        "--chunks",
        metavar="N,N,...",
        type=extents,
        default=SAME,
        help="chunks of the new array, or auto (default: same)",
    )
    parser.add_argument(
        "--shards",
        metavar="N,N,...",
        type=shards,
        default=SAME,
        help="shards of the new array, auto, or none (default: same)",
    )
    parser.add_argument(
        "--codecs",
        metavar="NAMES",
        type=codecs,
        default=SAME,
        help="names, as in zstd or transpose,zstd; auto; none; or a JSON list of objects (default: same)",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=memory,
        help="bytes of memory for elements, as in 512MiB (default: 64MiB); with more, chunks are decoded fewer times",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and write nothing")
    parser.add_argument("--overwrite", action="store_true", help="remove what is at DESTINATION first")
    add_message(parser)
    add_virtual_prefix(parser)


def run(options: Namespace) -> None:
    source = _snapshot(options)
    snapshot = None
    with writable(options, options.destination, "DESTINATION as sea.repo@main/new") as target:
        task = _prepared(options, _opened(options, source), source, target)
        if options.dry_run:
            done = task.preview()
        else:
            with Progress("writing", task.array.nbytes) as report:
                done = task.run(report)
                if target is not None:
                    snapshot = target.session.commit(options.message or f"Rechunk {options.source}", rebase="disjoint")
    print_written(options, done.to_json(), str(done), snapshot)


def _snapshot(options: Namespace) -> InSession | None:
    """The point in a repository that SOURCE names; None for a store that cannot list (a plain web server)."""
    listable = resolve(options.source)[0].capabilities.listable
    return in_snapshot(options.source, options.virtual_prefix) if listable else None


def _opened(options: Namespace, source: InSession | None) -> Array:
    runtime = frazil.Runtime()
    if options.memory is not None:
        runtime = runtime._replace(bytes_in_flight=options.memory)
    if source is None:
        return open_source(options.source, runtime=runtime)
    found = source.session.open(source.path)
    return open_source(found, runtime=runtime)  # which refuses a group


def _prepared(options: Namespace, array: Array, source: InSession | None, target: InSession | None) -> RechunkTask:
    return prepare_rechunk(
        array,
        options.destination if target is None else target.session.store,
        chunks=options.chunks,
        shards=options.shards,
        codecs=options.codecs,
        to="" if target is None else target.path,
        overwrite=options.overwrite,
        named=(None if source is None else source.name, None if target is None else target.name),
    )


COMMAND = Command(
    "rechunk",
    "writes an array with other chunks, shards or codecs to another place",
    "Writes an array again, with other chunks, shards or codecs. Elements, fill value, attributes and "
    "dimension names stay the same. Memory is bounded by --memory, or by one new shard if that is larger, and "
    "by 8 MiB at least if SOURCE is remote; --dry-run prints how often chunks would be decoded. The metadata "
    "document is written last, so an unfinished array is never visible. Run an interrupted rechunk again with "
    "the same arguments to continue it. If DESTINATION is on a branch, the result is one commit.",
    (
        ("frazil rechunk sea.zarr tiles.zarr --chunks 100,100 --shards 300,700", "other chunks and shards"),
        (
            "frazil rechunk ocean.zarr/level1/temp series.zarr --chunks 3,8,8 --memory 256MiB",
            "maps into series in time",
        ),
        (
            "frazil rechunk sea.zarr plain.zarr --shards none --codecs zstd --json",
            "without shards; what was done, as JSON",
        ),
        (
            "frazil rechunk sea.repo@v1/level1/temp sea.repo@main/rows --chunks 1,1,50 -m rows",
            "within a repository, as one commit",
        ),
        ("frazil rechunk sea.zarr big.zarr --chunks auto --shards auto --dry-run", "what would be done"),
    ),
    add_arguments,
    run,
)
