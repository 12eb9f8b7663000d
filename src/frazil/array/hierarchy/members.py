"""What lies below a group: its members, and all nodes below it. Single nodes are in nodes.py."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.array.hierarchy.nodes import Metadata, Place, look_up
from frazil.errors import FrazilError
from frazil.metadata.layout import Candidate
from frazil.metadata.model import GroupMetadata


def nodes_below(place: Place, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
    """The nodes below a group by path, depth first, each level sorted by name; an error stands for a document that cannot be read.
    max_depth: 0 for the direct members, None for all."""
    if (reader := place.reader) is not None:
        yield from reader.below(place.path, max_depth)
        return
    layout = place.layout
    if layout.at_once and max_depth != 0:
        keys = place.store.list_prefix(layout.documents_prefix(place.path))
        deep = place.path.count("/") + (place.path != "") + (max_depth or 0)
        below = layout.descendants(place.path, keys)
        if max_depth is not None:
            below = [candidate for candidate in below if candidate.path.count("/") <= deep]
        yield from look_up(place, below).items()
        return
    levels = [iter(look_up(place, children_of(place)).items())]  # a loop: a hierarchy may be deeper than Python's stack
    while levels:
        for path, metadata in levels[-1]:
            yield path, metadata
            if isinstance(metadata, GroupMetadata) and (max_depth is None or len(levels) <= max_depth):
                levels.append(iter(look_up(place, children_of(place.at(path))).items()))
                break
        else:
            levels.pop()


def member_paths(place: Place) -> list[str]:
    """Paths of the direct members of a group, sorted, also of such as cannot be read. One listing, and one batch of look-ups where it does not say all."""
    if (reader := place.reader) is not None:
        return list(reader.children(place.path))
    candidates = children_of(place)
    if place.layout.implicit_groups:  # a listing shows documents themselves
        return [candidate.path for candidate in candidates]
    sizes = iter(place.store.sizes([key for candidate in candidates for key in candidate.keys]).tolist())
    return [candidate.path for candidate in candidates if max([next(sizes) for _ in candidate.keys]) >= 0]


def children_of(place: Place) -> list[Candidate]:
    """The direct members that one listing shows; a document may be missing."""
    return place.layout.children(place.path, *place.store.list_dir(place.layout.documents_prefix(place.path)))
