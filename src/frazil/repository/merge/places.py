"""Where nodes of two deltas cannot be at once, by their places in the hierarchy. Pure.

Nodes themselves, their metadata and chunks, are compared in conflicts.py, which makes values of what is found here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from frazil.repository.merge.delta import Delta

__all__ = ["Places", "Side", "paths_above"]


def paths_above(path: str) -> Iterator[str]:
    """The paths above a path, the nearest first."""
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


class Side:
    """A delta by the places of its nodes. sources: old paths of moved nodes by the new ones; placed: paths at which it put something; arrays: those of arrays among
    them"""

    __slots__ = ("arrays", "delta", "gone", "made", "moved", "placed", "sources")

    def __init__(self, delta: Delta) -> None:
        self.delta = delta
        self.made, self.gone, self.moved = delta.made.keys(), delta.removed.keys(), delta.moved
        self.sources = {new: old for old, new in delta.moved.items()}
        self.placed = self.made | self.sources.keys()
        self.arrays = {path for path, made in delta.made.items() if made.is_array}
        self.arrays |= {new for old, new in delta.moved.items() if old in delta.arrays}

    def name(self, old: str) -> str:
        """Where a node of the base is now; of one that is gone, where it was."""
        return self.moved.get(old, old)

    def source(self, path: str) -> str | None:
        """Where the node was in the base that is at this path now, if it was there (or nothing was ever at this path); None: it was made, or what was there is
        away."""
        if path in self.sources:
            return self.sources[path]
        return None if path in self.made or path in self.gone or path in self.moved else path


class Tell(Protocol):
    """Takes a conflict. ours_may_stay: whether it can be solved by our change."""

    def __call__(self, kind: str, path: str, /, *, ours_may_stay: bool = True) -> None: ...


class Places:
    """Where nodes of two sides cannot be at once. tell: takes what is found; same: whether both made the same group at a path."""

    __slots__ = ("_beneath", "_follow", "_linked", "_others", "_tell", "ours", "same", "theirs")

    def __init__(self, ours: Side, theirs: Side, tell: Tell, same: Callable[[str], bool]) -> None:
        self.ours, self.theirs, self._tell, self.same = ours, theirs, tell, same
        self._beneath: dict[str, list[str]] | None = None
        self._others: set[str] | None = None
        # nodes of the beginning that have to be where they have them if ours gives way; and those where it has to, which are taken first
        self._follow: tuple[list[str], list[str]] = [], []
        self._linked: set[str] = (
            set()
        )  # our paths, and old ones of what we removed, that are in conflict by their places

    def find(self, nodes: Iterable[tuple[str, str]]) -> None:
        """Tells of all places. nodes: kinds and old paths of nodes that are in conflict already, as we removed or renamed them."""
        for kind, old in nodes:
            self._take(kind, old if kind == "changed" else self.ours.name(old))
        self._our_places()
        self._their_places()
        self._links()

    # --- what meets -----------------------------------------------------------------------------------------------------------------

    def _our_places(self) -> None:
        """What we made or renamed, where they have something, or no group above."""
        ours, theirs = self.ours, self.theirs
        for path in ours.placed:
            source = ours.sources.get(path)
            if path in theirs.placed and not self._is_same(path, source):
                self._take("created", path)
            followed = source is not None and source in theirs.moved
            if source not in theirs.gone and any(self._is_spoilt(above, followed) for above in paths_above(path)):
                self._take("parent", path, ours_may_stay=False)

    def _is_same(self, path: str, source: str | None) -> bool:
        """Of a path where both put something: whether it is the same."""
        if source is not None or path in self.theirs.sources:
            return source == self.theirs.sources.get(path)
        return path not in self.ours.arrays and path not in self.theirs.arrays and self.same(path)

    def _is_spoilt(self, above: str, followed: bool) -> bool:
        """Whether nothing of ours can lie beneath this path on their side. followed: it is about a node that they renamed, too; of a group above it that both
        renamed it is told by itself. The root is there whether a node stands for it or not, unless it is an array."""
        if above == "/":
            return above in self.theirs.arrays
        source = self.ours.source(above)
        if source is not None and source in self.theirs.gone:
            return True
        if source is not None and self.theirs.moved.get(source, above) != above:
            return source not in self.ours.moved or not followed
        return above in self.theirs.arrays

    def _their_places(self) -> None:
        """Groups that we removed or renamed, and arrays that we made, where they put something."""
        ours, theirs = self.ours, self.theirs
        for above in {above for path in theirs.placed for above in paths_above(path)}:
            source = theirs.source(above)
            if source is not None and source in ours.gone:
                self._take("changed", source)
            if above in ours.arrays and above not in theirs.placed:
                self._take("parent", above, ours_may_stay=False)
        alone = [path for path in theirs.placed if theirs.sources.get(path) not in ours.moved]
        for above in {above for path in alone for above in paths_above(path)}:
            source = theirs.source(above)
            if source is not None and ours.moved.get(source, above) != above:
                self._take("parent", ours.moved[source], ours_may_stay=False)

    def _take(self, kind: str, path: str, *, ours_may_stay: bool = True) -> None:
        """Tells of a node of ours at a path; of one that we removed, where it was."""
        ours, theirs = self.ours, self.theirs
        if kind == "changed":
            old, at = path, theirs.name(path)
        else:
            old, at = ours.sources.get(path, ""), path
            self._linked.add(path)
        if ours_may_stay and kind in {"changed", "created"}:
            ours_may_stay = not self._holds_others(at)
        self._tell(kind, path, ours_may_stay=ours_may_stay)
        if old and old not in theirs.gone:
            self._follow[not ours_may_stay].append(old)

    def _holds_others(self, path: str) -> bool:
        """Whether they renamed something to this path or beneath it that we left where it was."""
        if self._others is None:
            ours = self.ours
            places = [
                place for place, old in self.theirs.sources.items() if old not in ours.gone and old not in ours.moved
            ]
            self._others = {above for place in places for above in (place, *paths_above(place))}
        return path in self._others

    # --- what goes with it ------------------------------------------------------------------------------------------------------------

    def _links(self) -> None:
        """What we put or removed that cannot stay so when conflicts that were told are solved by their change: it is in conflict, too."""
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
            place = theirs.name(old)
            if place in ours.placed and ours.sources.get(place) != old:
                self._link(place, "created", must)
                self._link_beneath(place, must)
            for above in paths_above(place):
                self._make_room(above, must)

    def _make_room(self, above: str, must: bool) -> None:
        """A group on their side has to be there."""
        ours = self.ours
        source = self.theirs.source(above)
        if source is not None and source in ours.gone:
            self._take("changed", source, ours_may_stay=not must)
        elif source is not None and ours.moved.get(source, above) != above:
            self._link(ours.moved[source], "parent", must)
        if above in ours.arrays and ours.sources.get(above) != source:
            self._link(above, "parent", must)

    def _link_beneath(self, path: str, must: bool) -> None:
        if self._beneath is None:
            self._beneath = {}
            for placed in self.ours.placed:
                for above in paths_above(placed):
                    self._beneath.setdefault(above, []).append(placed)
        for placed in self._beneath.get(path, ()):
            self._link(placed, "parent", must)

    def _link(self, path: str, kind: str, must: bool) -> None:
        source = self.ours.sources.get(path)
        if path not in self._linked and source not in self.theirs.gone:
            self._take(kind, path, ours_may_stay=not must)
