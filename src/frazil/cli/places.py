"""From arguments to the array that they name and what of it is wanted."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import frazil
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.cli.selection import parse_selection
from frazil.errors import InvalidInputError, NotFoundError, SelectionError
from frazil.operations.window import Window, window


def open_place(options: Namespace) -> Array | Group:
    """The node at LOCATION [PATH]. Raises NotFoundError, MetadataError."""
    return frazil.open(options.location, path=options.path or "")


def add_path(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", nargs="?", help="a node below it, as in level1/temp")


def add_selection(parser: ArgumentParser) -> None:
    """LOCATION [PATH] [SELECTION]: after an array's location follows a selection, after a group's a path."""
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        help="a node below it, as in level1/temp; left out where LOCATION is the array itself",
    )
    parser.add_argument(
        "selection",
        metavar="SELECTION",
        nargs="?",
        help='what stands between brackets in Python, each item for its own dimension: "10, ::-2, ..." or "[3, 1], 5:"; all, where it is left out',
    )


def open_window(options: Namespace) -> Window:
    """The array, and what is selected of it. Ends the program where the text of the selection is none.
    Raises NotFoundError, MetadataError, SelectionError, InvalidInputError where a group is there."""
    path, text = options.path, options.selection
    if path is not None and text is None:
        array, text = _path_or_selection(options.location, path)
    else:
        array = frazil.open(options.location, path=path or "")
    if isinstance(array, Group):
        raise InvalidInputError(
            "a group is there, not an array", path=array.path or "/", hint="`frazil tree` shows the arrays below it"
        )
    try:
        selection = parse_selection("..." if text is None else text)
    except SelectionError as error:
        options.refuse(str(error))
        raise
    return window(array, selection)


def _path_or_selection(location: str, word: str) -> tuple[Array | Group, str | None]:
    """An array has no nodes below it, and a group no elements: what is there says what the word is."""
    try:
        node = frazil.open(location)
    except NotFoundError as missing:
        try:  # a folder that is no node may hold nodes
            return frazil.open(location, path=word), None
        except NotFoundError:
            raise missing from None
    if isinstance(node, Group):
        return node[word], None
    return node, word
