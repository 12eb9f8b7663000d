"""Conflicts between the paths of nodes of two deltas. Pure.

conflicts.py compares the nodes themselves, their metadata and chunks, and turns the results of this module into conflicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeAlias

from frazil.repository.merge.delta import Delta
from frazil.repository.session.attributes import same_stored_attributes
from frazil.repository.session.change_set import above

PathConflict: TypeAlias = tuple[str, str, bool]  # kind, path, whether our change can solve it


class Side:
    """A delta by the paths of its nodes. sources: former paths of moved nodes by the new ones; placed: paths of new and moved nodes; arrays: of these, the
    paths of arrays"""

    def __init__(self, delta: Delta) -> None:
        self.made, self.removed, self.moved, self.name = delta.made, delta.removed, delta.moved, delta.name
        self.sources = {new: old for old, new in delta.moved.items()}
        self.placed = self.made.keys() | self.sources.keys()
        self.arrays = {path for path, node in delta.made.items() if node.is_array}
        self.arrays |= {new for old, new in delta.moved.items() if old in delta.arrays}

    def source(self, path: str) -> str | None:
        """The path in the base of the node that is at a path now; None if it is new, or if the node of the base is no longer at the path."""
        if path in self.sources:
            return self.sources[path]
        return None if path in self.made or path in self.removed or path in self.moved else path


def path_conflicts(ours: Side, theirs: Side, nodes: Iterable[tuple[str, str]]) -> list[PathConflict]:
    """All conflicts about paths. nodes: kinds and paths in the base of nodes that are in conflict already because we removed or renamed them"""
    found = _PathConflicts(ours, theirs)
    for kind, old in nodes:
        found.take(kind, old if kind == "changed" else ours.name(old))
    found.compare_our_paths()
    found.compare_their_paths()
    found.follow_links()
    return found.conflicts


class _PathConflicts:
    def __init__(self, ours: Side, theirs: Side) -> None:
        self.ours, self.theirs = ours, theirs
        self.conflicts: list[PathConflict] = []
        # nodes of the base that must be at their path on their side if ours yields; and those that must be there in any case, which come first
        self._follow: tuple[list[str], list[str]] = [], []
        self._linked: set[str] = set()  # our paths in conflict; for removed nodes the former paths

    # --- direct conflicts -----------------------------------------------------------------------------------------------------------------

    def compare_our_paths(self) -> None:
        """Checks our new and moved nodes for nodes of theirs at the same path, and for missing groups above."""
        ours, theirs = self.ours, self.theirs
        for path in ours.placed:
            source = ours.sources.get(path)
            if path in theirs.placed and not self._is_same(path, source):
                self.take("created", path)
            followed = source is not None and source in theirs.moved
            if source not in theirs.removed and any(self._is_unusable(group, followed) for group in above(path)):
                self.take("parent", path, ours_may_stay=False)

    def _is_same(self, path: str, source: str | None) -> bool:
        """Whether both put the same node at a path: one node of the base, or equal new groups."""
        ours, theirs = self.ours, self.theirs
        if source is not None or path in theirs.sources:
            return source == theirs.sources.get(path)
        mine, other = ours.made[path].node, theirs.made[path].node
        if mine is None or other is None or path in ours.arrays or path in theirs.arrays:
            return False
        return same_stored_attributes(mine.attributes, other.attributes)

    def _is_unusable(self, group: str, followed: bool) -> bool:
        """Whether nodes of ours cannot be below this path on their side. followed: of a node that they renamed too; then a group above it that both renamed is
        a conflict of its own. The root always exists, unless it is an array."""
        if group == "/":
            return group in self.theirs.arrays
        source = self.ours.source(group)
        if source is not None and source in self.theirs.removed:
            return True
        if source is not None and self.theirs.moved.get(source, group) != group:
            return source not in self.ours.moved or not followed
        return group in self.theirs.arrays

    def compare_their_paths(self) -> None:
        """Checks their new and moved nodes for groups above that we removed or renamed, and for arrays of ours."""
        ours, theirs = self.ours, self.theirs
        for group in _groups_above(theirs.placed):
            source = theirs.source(group)
            if source is not None and source in ours.removed:
                self.take("changed", source)
            if group in ours.arrays and group not in theirs.placed:
                self.take("parent", group, ours_may_stay=False)
        for group in _groups_above(path for path in theirs.placed if theirs.sources.get(path) not in ours.moved):
            source = theirs.source(group)
            if source is not None and ours.moved.get(source, group) != group:
                self.take("parent", ours.moved[source], ours_may_stay=False)

    def take(self, kind: str, path: str, *, ours_may_stay: bool = True) -> None:
        """Adds the conflict of a node of ours at its path; of a removed node, at its former path."""
        ours, theirs = self.ours, self.theirs
        if kind == "changed":
            old, at = path, theirs.name(path)
        else:
            old, at = ours.sources.get(path, ""), path
            self._linked.add(path)
        if ours_may_stay and kind in {"changed", "created"}:
            ours_may_stay = at not in self._paths_moved_into
        self.conflicts.append((kind, path, ours_may_stay))
        if old and old not in theirs.removed:
            self._follow[not ours_may_stay].append(old)

    @cached_property
    def _paths_moved_into(self) -> set[str]:
        """Paths to which, or below which, they renamed a node that we did not move: it must not be removed with them."""
        ours = self.ours
        paths = [at for at, old in self.theirs.sources.items() if old not in ours.removed and old not in ours.moved]
        return {*paths, *_groups_above(paths)}

    # --- linked conflicts ------------------------------------------------------------------------------------------------------------

    def follow_links(self) -> None:
        """Adds the changes of ours that become impossible when a conflict is solved by their change: they are in conflict, too."""
        ours, theirs = self.ours, self.theirs
        done = set[str]()
        while any(self._follow):
            must = bool(self._follow[1])
            old = self._follow[must].pop()
            if old in done:
                continue
            done.add(old)
            if old in ours.moved:
                self._link_beneath(ours.moved[old], must)
            path = theirs.name(old)
            if path in ours.placed and ours.sources.get(path) != old:
                self._link(path, "created", must)
                self._link_beneath(path, must)
            for group in reversed(above(path)):
                self._make_room(group, must)

    def _make_room(self, group: str, must: bool) -> None:
        """Requires that a group exists on their side."""
        ours = self.ours
        source = self.theirs.source(group)
        if source is not None and source in ours.removed:
            self.take("changed", source, ours_may_stay=not must)
        elif source is not None and ours.moved.get(source, group) != group:
            self._link(ours.moved[source], "parent", must)
        if group in ours.arrays and ours.sources.get(group) != source:
            self._link(group, "parent", must)

    def _link_beneath(self, path: str, must: bool) -> None:
        for placed in self._new_paths_below.get(path, ()):
            self._link(placed, "parent", must)

    @cached_property
    def _new_paths_below(self) -> Mapping[str, list[str]]:
        """The paths below each group at which we put a node."""
        beneath: dict[str, list[str]] = defaultdict(list)
        for placed in self.ours.placed:
            for group in above(placed):
                beneath[group].append(placed)
        return beneath

    def _link(self, path: str, kind: str, must: bool) -> None:
        source = self.ours.sources.get(path)
        if path not in self._linked and source not in self.theirs.removed:
            self.take(kind, path, ours_may_stay=not must)


def _groups_above(paths: Iterable[str]) -> set[str]:
    return {group for path in paths for group in above(path)}
