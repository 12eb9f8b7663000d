"""`frazil checksum`: checksums of the content of arrays."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from frazil.array.array import Array
from frazil.array.group import Group
from frazil.cli.arguments.locations import add_path, add_virtual_prefix, open_node
from frazil.cli.command import Command, add_location
from frazil.cli.output import print_json, print_text
from frazil.cli.progress import Progress
from frazil.errors import one_line
from frazil.operations.checksum import checksum


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_path(parser)
    add_virtual_prefix(parser)


def run(options: Namespace) -> None:
    node = open_node(options.location, options.path or "", options.virtual_prefix)
    found: dict[str, str] = {}
    arrays = list(_arrays(node))
    with Progress("reading", sum(array.nbytes for _, array in arrays)) as report:
        for path, array in arrays:
            found[path] = checksum(array, progress=report)
    if options.json:
        print_json(dict(found))
    elif found:
        print_text("\n".join(f"{digest}  {one_line(path) or '.'}" for path, digest in found.items()))


def _arrays(node: Array | Group) -> Iterator[tuple[str, Array]]:
    """The arrays below the node by path; the node itself under "", if it is an array."""
    if isinstance(node, Array):
        yield "", node
        return
    for path, member in node.members(None):
        if isinstance(member, Array):
            yield path, member


COMMAND = Command(
    "checksum",
    "checksums of the content of arrays, independent of how it is stored",
    "Prints a line for each array: a checksum of 64 hexadecimal digits, and the path. Two arrays have the same "
    "checksum if data type, shape and all elements are the same, to the bit. Chunks, shards, codecs, byte "
    "order, dialect and location make no difference. docs/checksums.md defines the checksum.",
    (
        ("frazil checksum sea.zarr", "of one array"),
        ("frazil checksum ocean.zarr", "of each array of a group"),
        ("frazil checksum sea.repo@v1 level1/temp", "of an array as it was at a tag"),
        ("frazil checksum ocean.zarr --json", "as JSON: an object of paths and checksums"),
    ),
    add_arguments,
    run,
)
