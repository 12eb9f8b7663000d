"""The members of a group, and all nodes below it. Single nodes are in nodes.py."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.array.hierarchy.nodes import NodeLocation, look_up
from frazil.errors import FrazilError
from frazil.metadata.layout import Candidate
from frazil.metadata.model import GroupMetadata, Metadata


def nodes_below(location: NodeLocation, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
    """The nodes below a group by path, depth first, each level sorted by name; for a document that cannot be read, the error. max_depth: 0 for the direct
    members, None for all."""
    if (reader := location.reader) is not None:
        yield from reader.below(location.path, max_depth)
        return
    layout = location.layout
    if layout.at_once and max_depth != 0:
        keys = location.store.list_prefix(layout.documents_prefix(location.path))
        deep = location.path.count("/") + (location.path != "") + (max_depth or 0)
        below = layout.descendants(location.path, keys)
        if max_depth is not None:
            below = [candidate for candidate in below if candidate.path.count("/") <= deep]
        yield from look_up(location, below).items()
        return
    levels = [
        iter(look_up(location, children_of(location)).items())
    ]  # a loop: a hierarchy may be deeper than Python's stack
    while levels:
        for path, metadata in levels[-1]:
            yield path, metadata
            if isinstance(metadata, GroupMetadata) and (max_depth is None or len(levels) <= max_depth):
                levels.append(iter(look_up(location, children_of(location.at(path))).items()))
                break
        else:
            levels.pop()


def member_paths(location: NodeLocation) -> list[str]:
    """Paths of the direct members of a group, sorted, also of unreadable ones. One listing, and one batch of look-ups if the listing is not sufficient."""
    if (reader := location.reader) is not None:
        return list(reader.children(location.path))
    candidates = children_of(location)
    if location.layout.implicit_groups:  # the listing shows the documents
        return [candidate.path for candidate in candidates]
    sizes = iter(location.store.sizes([key for candidate in candidates for key in candidate.keys]).tolist())
    return [candidate.path for candidate in candidates if max([next(sizes) for _ in candidate.keys]) >= 0]


def children_of(location: NodeLocation) -> list[Candidate]:
    """The candidates for direct members in one listing; a document may be missing."""
    layout, prefix = location.layout, location.layout.documents_prefix(location.path)
    if layout.implicit_groups:
        return layout.children(location.path, *location.store.list_dir(prefix))
    # documents show what is a node, so folders need not be searched for keys
    names = [prefix + name for name in location.store.list_names(prefix)]
    return layout.children(location.path, [], [name for name in names if name[-1] == "/"])
