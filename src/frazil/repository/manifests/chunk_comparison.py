"""Which chunks of one array differ between two lists of manifests. Manifests that both list are not looked at where that can be helped: what a commit leaves alone costs
nothing.

Whoever calls gives a way to load manifests; what references are is in references.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil.formats.alpha.nodes import ManifestReference
from frazil.formats.ids import ObjectId
from frazil.record import Record
from frazil.repository.manifests.coordinates import no_coordinates, sorted_coordinates, within
from frazil.repository.manifests.references import References, read_extents, rows_of_array, same_references

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.alpha.manifests import Manifest

    Columns = NDArray[np.int64]
    Booleans = NDArray[np.bool_]

__all__ = ["Listed", "compare_chunks", "own_manifests"]

Load: TypeAlias = "Callable[[Sequence[ObjectId]], Sequence[Manifest]]"


class Listed(Record):
    """An array in a snapshot. grid: chunks along each dimension; manifests: of which the first that has a chunk counts; free: whether the snapshot has overlays and
    extents, as only ours do: in others no two manifests of an array have the same chunk"""

    node: int
    grid: tuple[int, ...]
    manifests: tuple[ManifestReference, ...]
    free: bool


def own_manifests(old: Listed, new: Listed) -> list[ObjectId]:
    """The manifests that a comparison begins with: those that only one of the two lists."""
    common = set(_common(old, new))
    return [reference.id for side in (old, new) for reference in side.manifests if reference.id not in common]


def compare_chunks(old: Listed, new: Listed, load: Load) -> tuple[Columns, Columns]:
    """Coordinates of the chunks that were added or changed, and of those that are not there any more: int64[n, d], sorted. Both arrays are of one rank.

    Chunks are the same where their references are. One that only a manifest before those that both list has counts as changed, whatever these say of it.
    Chunks outside a grid do not count; those that stay behind in a manifest that both list are not told when the grid shrinks."""
    common = _common(old, new)
    sides = [_Listing(side, common, load) for side in (old, new)]
    chunks = sorted_coordinates(np.concatenate([side.chunks() for side in sides]))
    chunks = chunks[within(chunks, old.grid) | within(chunks, new.grid)]
    before, after = (side.find(chunks, side.preceding(chunks)) for side in sides)
    was, now = before.numbers >= 0, after.numbers >= 0
    written = now & ~was
    both = np.flatnonzero(now & was)
    written[both] = ~_same(before, after, both)
    # what is gone from the manifests that differ may be in one that both list, behind them
    gone = np.flatnonzero(was & ~now)
    following = sides[1].following(chunks[gone])
    if following:
        uncovered = sides[1].find(chunks[gone], following, alone=True)
        found = uncovered.numbers >= 0
        same = _same(before.at(gone), uncovered, np.flatnonzero(found))
        written[gone[found][~same]] = True
        gone = gone[~found]
    return chunks[written], chunks[gone]


def _common(old: Listed, new: Listed) -> list[ObjectId]:
    """The manifests of both, in the one order that they have in both; of other orders, those that both end with. Chunks that no other manifest has are the
    same on both sides."""
    if old.node != new.node:
        return []  # each array has references of its own there
    ours, theirs = ([reference.id for reference in side.manifests] for side in (old, new))
    both = set(ours) & set(theirs)
    here, there = ([at for at in dict.fromkeys(side) if at in both] for side in (ours, theirs))
    if here == there:
        return here
    count = 0
    while ours[-count - 1] == theirs[-count - 1]:
        count += 1
    return ours[len(ours) - count :]


class _Found(Record):
    """Of each chunk the number of its manifest, -1 where it has none, and its row there."""

    references: References
    numbers: Columns
    rows: Columns

    def at(self, places: Columns) -> _Found:
        return self._replace(numbers=self.numbers[places], rows=self.rows[places])


class _Listing:
    """The manifests of one side."""

    __slots__ = ("common", "last", "load", "own", "side")

    def __init__(self, side: Listed, common: Sequence[ObjectId], load: Load) -> None:
        self.side, self.load = side, load
        self.common = set(common)
        ids = [reference.id for reference in side.manifests if reference.id not in self.common]
        self.own: Mapping[ObjectId, Manifest] = dict(zip(ids, load(ids) if ids else [], strict=True))
        places = [place for place, reference in enumerate(side.manifests) if reference.id in self.own]
        self.last = places[-1] if places else 0

    def chunks(self) -> Columns:
        """All that are in manifests of this side alone."""
        rank = len(self.side.grid)
        parts = [rows_of_array(manifest, self.side.node, rank)[1] for manifest in self.own.values()]
        return np.concatenate([no_coordinates(rank), *parts])

    def preceding(self, chunks: Columns) -> list[ManifestReference]:
        """Common manifests that may hide chunks in later ones."""
        if not self.side.free:
            return []
        return self._may_hold(self.side.manifests[: self.last], chunks)

    def following(self, chunks: Columns) -> list[ManifestReference]:
        """Common manifests in which there may be chunks that were hidden."""
        return self._may_hold(self.side.manifests, chunks) if self.side.free and len(chunks) else []

    def find(self, chunks: Columns, others: Sequence[ManifestReference], *, alone: bool = False) -> _Found:
        """Where chunks are in this side's own manifests and some others, or in the others alone."""
        ids = [reference.id for reference in others]
        found = {} if alone else dict(self.own)
        found |= dict(zip(ids, self.load(ids) if ids else [], strict=True))
        listed = [found[reference.id] for reference in self.side.manifests if reference.id in found]
        references = References(listed, self.side.node, len(self.side.grid))
        numbers, rows = references.find(chunks)
        return _Found(references, np.where(within(chunks, self.side.grid), numbers, -1), rows)

    def _may_hold(self, listed: Sequence[ManifestReference], chunks: Columns) -> list[ManifestReference]:
        chosen = []
        for reference in listed:
            if reference.id in self.common:
                box = read_extents(reference.extents, len(self.side.grid))
                if box is None or ((chunks >= box.first) & (chunks <= box.last)).all(axis=1).any():
                    chosen.append(reference)
        return chosen


def _same(left: _Found, right: _Found, places: Columns) -> Booleans:
    """Whether both say the same of the chunks at these places, which both have: bool[k]."""
    same = np.zeros(len(places), np.bool_)
    ours, theirs = left.numbers[places], right.numbers[places]
    count = len(right.references.manifests)
    pairs, which = np.unique(ours * count + theirs, return_inverse=True)
    for number, pair in enumerate(pairs.tolist()):
        chosen = which == number
        rows = places[chosen]
        one, other = left.references.manifests[pair // count], right.references.manifests[pair % count]
        same[chosen] = same_references(one, left.rows[rows], other, right.rows[rows])
    return same
