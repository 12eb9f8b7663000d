"""Matches the nodes of two snapshots of a repository by the ids that the alpha gives to nodes. Nodes in the same bytes cost nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from frazil.errors import NotFoundError
from frazil.formats.ids import ObjectId
from frazil.formats.nodes import Nodes
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.history import ancestry, common_ancestor, snapshot_file
from frazil.repository.alpha.snapshot_flags import has_freedoms, next_node
from frazil.repository.format import NodeMatching
from frazil.repository.maintenance.expired import expired_ids, require_history


def match_snapshots(files: Files, old: ObjectId, new: ObjectId, *, may_be_apart: bool = False) -> NodeMatching:
    """As RepositoryFormat.match_nodes."""
    nodes = files.snapshot(old).nodes, files.snapshot(new).nodes
    try:
        shared = _shared_ids(files, old, new)
    except NotFoundError:
        if not may_be_apart or (files.store.capabilities.listable and not len(expired_ids(files))):  # it is lost
            raise
        shared = None
    return match_nodes(*nodes, shared)


def _shared_ids(files: Files, old: ObjectId, new: ObjectId) -> int | None:
    """Ids below the result mean the same nodes in both snapshots; None if ids give no information.

    With Frazil's flag, which counts ids, it comes from the common ancestor. Without the flag an id is reused after the node with the highest id was removed:
    new ids are one more than the highest of the parent snapshot. Then an id means one node as long as no snapshot in between has only lower ids."""
    common = common_ancestor(files, old, new)
    if common is None:
        require_history(files)
        return None
    if all(has_freedoms(files.snapshot(file)) for file in (old, new)):
        return next_node(files.snapshot(common))
    try:
        return min(
            files.snapshot(file).nodes.highest_id() + 1
            for file in (*_until(files, old, common), *_until(files, new, common))
        )
    except NotFoundError:  # a snapshot in between has expired
        return None


def _until(files: Files, snapshot: ObjectId, ancestor: ObjectId) -> Iterator[ObjectId]:
    """A snapshot and its ancestors up to a given one."""
    for commit in ancestry(files, snapshot):
        file = snapshot_file(files, commit.snapshot)
        yield file
        if file == ancestor:
            return


def match_nodes(old: Nodes, new: Nodes, same_below: int | None) -> NodeMatching:
    """Matches nodes by their ids below a number, and other nodes by path; None: all by path."""
    differing = old.differing(new)
    before, after = [path for path in differing if path in old], [path for path in differing if path in new]
    if same_below is None:
        unmatched = set(before)
        pairs = {path: path for path in after if path in unmatched}
    else:
        ours, theirs = _by_id(old, before, same_below), _by_id(new, after, same_below)
        pairs = {path: theirs[number] for number, path in ours.items() if number in theirs}
        placed = set(pairs.values())
        for path in before:
            if path in new and path not in pairs and path not in placed:
                number, other = old.id_of(path), new.id_of(path)
                # ids that occur twice, or cannot be read, are not used
                if number is None or other is None or number == other < same_below:
                    pairs[path] = path
    placed = set(pairs.values())
    added = [path for path in after if path not in placed]
    return NodeMatching(pairs, added, frozenset([path for path in before if path not in pairs]))


def _by_id(nodes: Nodes, paths: Sequence[str], below: int) -> dict[int, str]:
    """Paths by id, for ids below a number that occur once."""
    found: dict[int, str] = {}
    twice: set[int] = set()
    for path in paths:
        number = nodes.id_of(path)
        if number is not None and number < below:
            if number in found:
                twice.add(number)
            found[number] = path
    return {number: path for number, path in found.items() if number not in twice}
