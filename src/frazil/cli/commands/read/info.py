"""`frazil info`: describes one array or group."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from frazil.array.array import Array
from frazil.array.group import Group
from frazil.array.info import FORMATS, table
from frazil.cli.arguments.locations import add_path, open_node_of
from frazil.cli.command import Command, add_location
from frazil.cli.output import print_result
from frazil.errors import FrazilError
from frazil.metadata.json_text import Json, as_json
from frazil.metadata.model import ArrayMetadata, GroupMetadata


def add_arguments(parser: ArgumentParser) -> None:
    add_location(parser)
    add_path(parser)


def run(options: Namespace) -> None:
    node = open_node_of(options)
    if isinstance(node, Array):
        info = node.info
        print_result(options, {"kind": "array", **info.to_json()}, str(info))
        return
    group = _group(node)
    print_result(options, group, _table(group))


def _group(group: Group) -> dict[str, Json]:
    members = group.tree(0).nodes
    return {
        "kind": "group",
        "path": group.path,
        "zarr_format": group.metadata.zarr_format,
        "explicit": not group.metadata.implicit,
        "arrays": [name for name, node in members if isinstance(node, ArrayMetadata)],
        "groups": [name for name, node in members if isinstance(node, GroupMetadata)],
        "unreadable": [name for name, node in members if isinstance(node, FrazilError)],
        "attributes": as_json(dict(group.attrs), "attributes"),
    }


def _table(group: dict[str, Json]) -> str:
    arrays, groups, unreadable = group["arrays"], group["groups"], group["unreadable"]
    attributes, zarr_format = group["attributes"], group["zarr_format"]
    assert isinstance(zarr_format, int | str)
    assert isinstance(arrays, list)
    assert isinstance(groups, list)
    assert isinstance(unreadable, list)
    assert isinstance(attributes, dict)
    lines = [
        ("path", f"/{group['path']}"),
        ("kind", "group" if group["explicit"] else "group without a document"),
        ("format", FORMATS[zarr_format]),
        ("arrays", ", ".join(map(str, arrays)) or "none"),
        ("groups", ", ".join(map(str, groups)) or "none"),
        *([("unreadable", f"{', '.join(map(str, unreadable))} (tree says why)")] if unreadable else []),
        *((f"attribute {name}", str(value)) for name, value in attributes.items()),
    ]
    return table(lines)


COMMAND = Command(
    "info",
    "what an array or group is, and how much of it is stored",
    "Prints the shape, data type, chunks, shards, codecs and attributes of an array, and its size in memory "
    "and in the store. Of a group it prints the members and attributes. No element is read.",
    (
        ("frazil info sea.zarr", "a table"),
        ("frazil info ocean.zarr level1/temp", "an array within a group"),
        ("frazil info sea.repo@dev level1/temp", "an array on a branch of a repository"),
        ("frazil info sea.zarr --json", "the same as JSON; sizes are in bytes"),
    ),
    add_arguments,
    run,
)
