"""`frazil validate`: whether what is stored can be read. What is looked at is in operations/validate/."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from frazil.array.array import Array
from frazil.array.group import Group
from frazil.cli.command import Command, add_location
from frazil.cli.locations import add_path, add_virtual_prefix, is_in_repository, open_node
from frazil.cli.output import add_json, say, say_json
from frazil.cli.progress import Progress
from frazil.operations.validate.validate import validate


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_path(parser)
    parser.add_argument("--decode", action="store_true", help="decode every stored chunk, on all cores")
    parser.add_argument("--repair", action="store_true", help="restore shards of which an append was killed")
    add_virtual_prefix(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    path = options.path or ""
    source: str | Array | Group = options.location
    if is_in_repository(options.location):
        source, path = open_node(options.location, path, options.virtual_prefix), ""
    with Progress("decoding", None, shows=options.decode) as report:
        found = validate(source, path=path, decode=options.decode, repair=options.repair, progress=report)
    if options.json:
        say_json(found.to_json())
    else:
        say(str(found))
    if not found.ok:
        sys.stdout.flush()
        raise SystemExit(1)


COMMAND = Command(
    "validate",
    "whether everything that is stored of an array or group can be read",
    "Reads the documents of an array, or of a group with all below it, assigns every key to a node, and checks the index of every shard: its checksum, bounds, and\n"
    "whether inner chunks overlap. With --decode every stored chunk is decoded, as far as its elements lie within the array. Prints a line for each problem, then what was looked at. Changes nothing, but\n"
    'with --repair it restores shards of which an append (shard_writes="append") was killed, to what they were before. Exit status 1 with problems that are left. Of a repository the nodes of one point are looked at, not its own files.',
    (
        ("frazil validate ocean.zarr", "documents, keys and shard indexes of a hierarchy"),
        ("frazil validate ocean.zarr level1 --decode", "every chunk of a group, too"),
        ("frazil validate ocean.zarr --repair", "the same, and shards that a killed append left torn are restored"),
        ("frazil validate sea.repo@v1", "what a repository had at a tag"),
        ("frazil validate sea.zarr --decode --json", 'for programs: problems as objects, and "ok"'),
    ),
    add_arguments,
    run,
)
