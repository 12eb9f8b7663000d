"""From arguments to the array, group or repository that they name, and to the selection. A LOCATION is a folder or URL; for a repository, @REF may follow."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import frazil
from frazil.api.node_locations import nothing_at
from frazil.api.nodes import node_or_location
from frazil.api.ref_locations import RefLocation, at_main, cuts, has_nothing, has_repository, split_ref
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.base.record import Record
from frazil.cli.arguments.selection import parse_selection
from frazil.errors import InvalidInputError, NotFoundError, SelectionError
from frazil.metadata.paths import joined
from frazil.operations.window import Window, window
from frazil.repository.format import MAIN
from frazil.repository.virtual.prefixes import Prefixes
from frazil.stores.location_overlap import shown
from frazil.stores.locations import Location, resolve


class InSession(Record):
    """A place in a session. name: its name, the same for all commands; path: of the node"""

    session: frazil.Session
    path: str
    name: str


# --- repositories ----------------------------------------------------------------------------------------------------------------------


def open_repository(location: str, prefixes: Prefixes | None = None, *, exists: bool = False) -> frazil.Repository:
    """The repository at a LOCATION. exists: that it does is known. Raises NotFoundError, FormatError."""
    try:
        repo = frazil.Repository.open(location, virtual_prefixes=prefixes or ())
        if not exists and not frazil.Repository.exists(location):  # on a remote store, `open` does not look
            repo.lookup(MAIN)
        return repo
    except NotFoundError as error:
        named = split_ref(location)
        if named is not None:
            error.hint = f"here the repository is named without @{named.ref}"
        elif error.hint:
            error.hint = error.hint.replace("Repository.create makes", f"`frazil repo init {location}` makes")
        raise


def open_reference(location: str) -> tuple[frazil.Repository, str | None]:
    """The repository at LOCATION[@REF], and REF. Raises NotFoundError."""
    named = split_ref(location)
    if named is None:
        return open_repository(location), None
    if named.path:
        raise InvalidInputError(
            "the path of a node has no meaning here", path=named.path, hint=f"{named.repository}@{named.ref}"
        )
    return open_repository(named.repository, exists=True), named.ref


def add_repository(parser: ArgumentParser) -> None:
    """The argument that commands on repositories begin with."""
    parser.add_argument("location", metavar="LOCATION", help="the repository: a folder or URL, as in sea.repo")


# --- nodes -----------------------------------------------------------------------------------------------------------------------------


def open_node(location: str, path: str = "", prefixes: list[str] | None = None) -> Array | Group:
    """The node at LOCATION[@REF] and the path in it, for reading. Without a reference a repository is read at `main`. Raises NotFoundError, MetadataError."""
    found = find_node(location, path, prefixes)
    if not isinstance(found, NodeLocation):
        return found
    error = nothing_at(found)
    if "@" in location and isinstance(error, NotFoundError):
        error.hint = "there is neither a folder with this whole name, nor a repository with the name before the @"
    raise error


def find_node(location: str, path: str = "", prefixes: list[str] | None = None) -> Array | Group | NodeLocation:
    """As open_node; the location of a node where there is neither one nor a repository. Raises NotFoundError if the repository has no such node."""
    named = split_ref(location)
    if named is None:
        found = node_or_location(location, path)
        if not isinstance(found, NodeLocation) or (named := at_main(location)) is None:
            return found
    return _in_repository(named, path, prefixes)


def _refuse_unnamed(named: RefLocation) -> None:
    if not named.ref:
        raise InvalidInputError(
            "there is no name after the @", hint=f"a branch, a tag or a snapshot: {named.repository}@{MAIN}"
        )


def open_session(named: RefLocation, prefixes: list[str] | None = None) -> frazil.Session:
    """The session that reads what a LOCATION names. Raises NotFoundError."""
    _refuse_unnamed(named)
    repo = open_repository(named.repository, prefixes, exists=True)
    return repo.readonly_session(snapshot=repo.lookup(named.ref))


def _in_repository(named: RefLocation, path: str, prefixes: list[str] | None) -> Array | Group:
    """The node that a LOCATION names, and the path in it. Raises NotFoundError, MetadataError."""
    session = open_session(named, prefixes)
    below = joined(named.path, path)
    try:
        return session.open(below)
    except NotFoundError as error:
        if not below:  # nothing was written yet, or the root has no node
            return session.root
        error.hint = f"`frazil tree {named.repository}@{named.ref}` shows what is there"
        raise


def repository_at(location: str) -> RefLocation | None:
    """The repository, reference and path of a LOCATION with an @; the branch main of one that is a repository itself. None for all others."""
    return split_ref(location) or (RefLocation(location, MAIN, "") if has_repository(location) else None)


def hierarchy_at(location: str, prefixes: list[str] | None = None) -> Location:
    """The hierarchy at LOCATION[@REF] as something to read keys of: for a repository its store at this point, else the location itself. Raises
    NotFoundError."""
    named = repository_at(location)
    if named is None:
        return location
    if named.path:
        raise InvalidInputError(
            "a path in a repository has no meaning here", path=named.path, hint="leave the path out"
        )
    return open_session(named, prefixes).store


def in_snapshot(location: str, prefixes: list[str] | None = None) -> InSession | None:
    """The point in a repository that a LOCATION names: sea.repo@REF/PATH, or sea.repo/PATH on `main`. None for a whole repository and any other place. Raises
    NotFoundError."""
    named = split_ref(location) or (at_main(location) if has_nothing(location) else None)
    if named is None:
        return None
    session = open_session(named, prefixes)
    path = named.path.strip("/")
    return InSession(session, path, f"{shown(*resolve(named.repository))}@{session.snapshot_id}/{path}".rstrip("/"))


def on_branch(location: str, prefixes: list[str] | None = None) -> InSession | None:
    """A writable session for a LOCATION sea.repo@BRANCH/PATH; None for any other. Raises NotFoundError, InvalidInputError if it names a reference, but is not a
    repository."""
    named = split_ref(location)
    if named is None:
        _refuse_reference(location)
        return None
    _refuse_unnamed(named)
    session = open_repository(named.repository, prefixes, exists=True).writable_session(named.ref)
    path = named.path.strip("/")
    return InSession(session, path, f"{shown(*resolve(named.repository))}@{named.ref}/{path}".rstrip("/"))


def _refuse_reference(location: str) -> None:
    """Refuses the name of a new folder that looks like a point in a repository that does not exist."""
    for left, right in cuts(location, "@"):
        if has_nothing(f"{left}@{right.partition('/')[0]}"):
            raise InvalidInputError(
                "there is no repository before the @",
                path=location,
                hint=f"`frazil repo init {left}` makes one; create a folder with an @ in its name before you use it",
            )


def open_to_write(location: str, path: str, target: InSession | None) -> Array | Group:
    """The node at LOCATION and the path in it, for writing. target: the result of `on_branch` for the location. Raises NotFoundError, MetadataError,
    InvalidInputError for a repository without a branch."""
    if target is not None:
        return target.session.open(joined(target.path, path))
    try:
        return frazil.open(location, "r+", path=path)
    except NotFoundError as missing:
        named = at_main(location)
        if named is not None:
            missing.hint = f"a repository is written on a branch, as in {named.repository}@{MAIN}"
        raise


def node_within_repository(location: str, path: str, prefixes: list[str] | None) -> Array | Group | None:
    """As find_node, for a LOCATION in the folder of a repository; None for any other, where nothing is opened."""
    named = split_ref(location)
    if named is None:
        if (named := at_main(location)) is None:
            return None
        found = node_or_location(location, path)
        if not isinstance(found, NodeLocation):
            return found
    return _in_repository(named, path, prefixes)


def open_node_of(options: Namespace) -> Array | Group:
    """The node at LOCATION [PATH]. Raises NotFoundError, MetadataError."""
    return open_node(options.location, options.path or "")


def add_path(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", nargs="?", help="a node below it, as in level1/temp")


# --- selections ------------------------------------------------------------------------------------------------------------------------


def add_selection(parser: ArgumentParser) -> None:
    """LOCATION [PATH] [SELECTION]: a selection follows the location of an array, a path that of a group."""
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        help="a node below it, as in level1/temp; leave it out if LOCATION is the array itself",
    )
    parser.add_argument(
        "selection",
        metavar="SELECTION",
        nargs="?",
        help='the index as in Python, without brackets, with one item for each dimension: "10, ::-2, ..." or "[3, 1], 5:" (default: everything)',
    )
    add_virtual_prefix(parser)


def add_virtual_prefix(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--virtual-prefix",
        metavar="URL",
        action="append",
        help="allow virtual chunks of a repository to be read below this URL, as in file:///data/ or s3://bucket/; may be repeated",
    )


def open_window(options: Namespace, open_at: Callable[[str], Array | Group] | None = None) -> Window:
    """The selection of the array. Ends the program where the text is not a selection.

    open_at  opens the node at a path below LOCATION; None: for reading
    Raises NotFoundError, MetadataError, SelectionError, InvalidInputError where the node is a group."""
    path, text = options.path, options.selection
    if open_at is None:
        open_at = partial(open_node, options.location, prefixes=options.virtual_prefix)
    if path is not None and text is None:
        node, text = _path_or_selection(path, open_at)
    else:
        node = _at_path(path, text, open_at)
    array = as_array(node)
    try:
        selection = parse_selection("..." if text is None else text)
    except SelectionError as error:
        options.refuse(str(error))
        raise
    return window(array, selection)


def as_array(node: Array | Group) -> Array:
    """Raises InvalidInputError where the node is a group."""
    if isinstance(node, Group):
        raise InvalidInputError(
            "a group is there, not an array", path=node.path or "/", hint="`frazil tree` shows the arrays below it"
        )
    return node


def _at_path(path: str | None, selection: str | None, open_at: Callable[[str], Array | Group]) -> Array | Group:
    """The node at a path that a selection may follow. Raises NotFoundError, InvalidInputError."""
    try:
        return open_at(path or "")
    except (NotFoundError, InvalidInputError) as error:
        with suppress(NotFoundError, InvalidInputError):
            if path and parse_selection(path) and not isinstance(open_at(""), Group):
                error.hint = f'a selection is one argument: "{path}, {selection}"'
        raise


def _path_or_selection(word: str, open_at: Callable[[str], Array | Group]) -> tuple[Array | Group, str | None]:
    """A path below a group, a selection of an array: arrays have no nodes below them, and groups no elements."""
    try:
        node = open_at("")
    except NotFoundError as missing:
        try:  # a folder that is not a node may have nodes below it
            return open_at(word), None
        except NotFoundError:
            raise missing from None
    if isinstance(node, Group):
        return node[word], None
    return node, word
