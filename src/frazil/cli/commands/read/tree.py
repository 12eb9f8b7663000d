"""`frazil tree`: the nodes below a group."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.api.ref_locations import within_repository
from frazil.array.array import Array
from frazil.array.hierarchy.tree import Tree
from frazil.cli.arguments.locations import add_path, open_node_of
from frazil.cli.command import Command, add_location, whole_number
from frazil.cli.output import print_result
from frazil.errors import NotFoundError
from frazil.metadata.json_text import Json


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_path(parser)
    parser.add_argument(
        "--depth",
        metavar="N",
        type=whole_number("a number of levels; 1 shows the direct members", 1, 10**6),
        help="show N levels below the group (default: all)",
    )


def run(options: Namespace) -> None:
    try:
        node = open_node_of(options)
    except NotFoundError as error:
        if within_repository(options.location) is None:  # the usual hint is `frazil tree` itself
            error.hint = "a node is a folder with a zarr.json; `frazil ls` shows what is there"
        raise
    if isinstance(node, Array):
        below = Tree(f"/{node.path} {node.shape} {node.metadata.data_type.label}", ())
        top: Json = {"kind": "array", "shape": list(node.shape), "data_type": node.metadata.data_type.label}
    else:
        below = node.tree(None if options.depth is None else options.depth - 1)
        top = {"kind": "group"}
    print_result(options, {"": top, **below.to_json()}, str(below))


COMMAND = Command(
    "tree",
    "the arrays and groups below a group",
    "Draws the nodes below a group as a tree; arrays with shape and data type. With --json it prints an object "
    'with a member for each path; the path of the group itself is "".',
    (
        ("frazil tree ocean.zarr", "everything below the group"),
        ("frazil tree ocean.zarr --depth 1", "only its direct members"),
        ("frazil tree sea.repo@v1", "what a repository had at a tag"),
        ("frazil tree ocean.zarr level1 --json", "what is below level1, as JSON"),
    ),
    add_arguments,
    run,
)
