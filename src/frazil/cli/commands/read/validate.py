"""`frazil validate`: whether stored data can be read. The checks are in operations/validate/."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.array.array import Array
from frazil.array.group import Group
from frazil.cli.arguments.locations import add_path, add_virtual_prefix, node_within_repository
from frazil.cli.command import Command, add_location
from frazil.cli.output import print_checked
from frazil.cli.progress import Progress
from frazil.operations.validate.validate import validate


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_path(parser)
    parser.add_argument("--decode", action="store_true", help="decode every stored chunk, on all cores")
    parser.add_argument("--repair", action="store_true", help="restore shards in which an append was killed")
    add_virtual_prefix(parser)


def run(options: Namespace) -> None:
    path = options.path or ""
    source: str | Array | Group = options.location
    if (node := node_within_repository(options.location, path, options.virtual_prefix)) is not None:
        source, path = node, ""
    with Progress("decoding", None, shows=options.decode) as report:
        found = validate(source, path=path, decode=options.decode, repair=options.repair, progress=report)
    print_checked(options, found.to_json(), str(found), ok=found.ok)


COMMAND = Command(
    "validate",
    "checks whether everything that is stored of an array or group can be read",
    "Reads the metadata documents of an array, or of a group and everything below it, assigns each key to a "
    "node, and checks the index of every shard: checksum, bounds, overlapping inner chunks. With --decode it "
    "also decodes every stored chunk. Prints a line for each problem, then what was checked. Nothing is "
    "changed, except with --repair: it restores the old content of shards in which an append "
    '(shard_writes="append") was killed. The exit status is 1 if problems remain. Of a repository it checks '
    "the nodes of one snapshot; `frazil repo verify` checks the files.",
    (
        ("frazil validate ocean.zarr", "documents, keys and shard indexes of a hierarchy"),
        ("frazil validate ocean.zarr level1 --decode", "every chunk of a group, too"),
        ("frazil validate ocean.zarr --repair", "the same, and restore shards in which an append was killed"),
        ("frazil validate sea.repo@v1", "what a repository had at a tag"),
        ("frazil validate sea.zarr --decode --json", 'as JSON: problems as objects, and "ok"'),
    ),
    add_arguments,
    run,
)
