"""`frazil ls`: what is below a node, or below a prefix of keys where there is no node."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from itertools import chain

from frazil.api.node_locations import nothing_at
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.array.hierarchy.repository_locations import MAIN_FILES
from frazil.cli.arguments.locations import add_path, find_node, open_node
from frazil.cli.command import Command, add_location
from frazil.cli.output import print_result
from frazil.errors import NotFoundError
from frazil.operations.listing import Entry, entries_of_node, entries_of_prefix, lines
from frazil.stores.locations import resolve


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_path(parser)
    parser.add_argument(
        "-l",
        "--long",
        action="store_true",
        help="also show the stored bytes, and the stored chunks (or shards) of arrays",
    )
    parser.add_argument(
        "-r",
        "--recursive",
        action="store_true",
        help="also list everything below; in a folder that is no node, all files",
    )


def run(options: Namespace) -> None:
    found = list(_entries(options))
    print_result(options, [entry.to_json() for entry in found], "\n".join(lines(found)))


def _entries(options: Namespace) -> Iterator[Entry]:
    location, path, shown = (
        options.location,
        options.path or "",
        {"recursive": options.recursive, "sizes": options.long},
    )
    store, prefix = resolve(location, path)
    has_keys = "@" not in location and store.capabilities.listable
    try:
        node = find_node(location, path) if has_keys else open_node(location, path)
    except NotFoundError:  # of a repository: keys may be there. If its tip is lost, it says so
        if not has_keys or not store.is_empty(prefix + MAIN_FILES) or store.is_empty(prefix):
            raise
        return entries_of_prefix(store, prefix, **shown)
    if not isinstance(node, NodeLocation):
        return entries_of_node(node, **shown)
    if path and not store.is_empty(prefix + MAIN_FILES):  # find_node looks for a repository at LOCATION and above
        raise nothing_at(node)
    entries = entries_of_prefix(store, prefix, **shown)
    if (first := next(entries, None)) is None:
        raise nothing_at(node)
    return chain([first], entries)


COMMAND = Command(
    "ls",
    "the members of a group, or the content of a folder",
    "Prints a line for each member of a group; arrays with shape, data type, chunks and shards. An array is "
    "one line. In a folder that is no node it lists arrays, groups, repositories, other folders, and files "
    "that belong to no node.",
    (
        ("frazil ls ocean.zarr", "the members of a group"),
        ("frazil ls ocean.zarr level1 --long", "with the stored bytes"),
        ("frazil ls sea.repo@v1 --recursive", "all that a repository had at a tag"),
        ("frazil ls .", "what is in a folder that is no node"),
        ("frazil ls ocean.zarr --long --json", "as JSON; sizes are in bytes"),
    ),
    add_arguments,
    run,
)
