"""The chunk references of one array over all its manifests, looked up in columns; references compared; the boxes that stand in a snapshot beside manifests.

Everything here is given its manifests: base_references.py and file_cache.py fetch them, placement.py says which ones a commit writes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import eq
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil import _kernel
from frazil.errors import InvalidInputError
from frazil.formats.alpha.manifests import (
    INLINE,
    NATIVE,
    NO_FLAGS,
    VIRTUAL,
    Manifest,
    NodeIndex,
    find_row,
    index_node,
    join_manifests,
    node_manifest,
    rows_of_node,
    select_rows,
)
from frazil.formats.ids import ID_BYTES
from frazil.record import Record
from frazil.repository.virtual.file_checks import FileCheck, plain_location, read_checks

__all__ = ["Extents", "References", "box_of", "make_extents", "read_extents", "rows_of_array", "same_references"]

Columns = NDArray[np.int64]
Octets = NDArray[np.uint8]
Booleans = NDArray[np.bool_]
VectorTuple = tuple[int, ...]
_Bound = tuple[int, VectorTuple, VectorTuple]
_Bounds = tuple[int, list[_Bound]]

_BATCH: Final = 2**20  # bytes of inline chunks or locations that are compared at once
_ROOM: Final = 4  # times as many places as references: where coordinates are that close together, each has a place


# --- look-ups ---------------------------------------------------------------------------------------------------------------------------


class _Joined(Record):
    """All references of the array as one: at coordinates[i] counts row places[i, 1] of manifest places[i, 0].

    The finder finds i. There is none where coordinates are close together: then all from 0 up to the highest have a place, (-1, -1) where nothing is."""

    coordinates: Columns
    places: Columns
    finder: NodeIndex | None
    extents: VectorTuple

    def find(self, coordinates: Columns) -> Columns:
        """The number and the row for each of int64[k, d] coordinates, or -1 and -1: int64[k, 2]."""
        if not len(self.places):
            return np.full((len(coordinates), 2), -1, np.int64)
        if self.finder is not None:
            at = self.finder.find(coordinates)
            found = self.places[at]
            found[at < 0] = -1
            return found
        key, known = np.zeros(len(coordinates), np.int64), np.ones(len(coordinates), np.bool_)
        for extent, coordinate in zip(self.extents, coordinates.T, strict=True):
            known &= (coordinate >= 0) & (coordinate < extent)
            key *= extent
            key += coordinate
        found = self.places[key if known.all() else np.where(known, key, 0)]
        found[~known] = -1
        return found


class References:
    """The references of an array in ordered manifests, of which the first that has a chunk counts. Rows of other ranks than the array's are not its own.

    Indexes are made when a look-up needs them, each once; safe for many threads, which at worst make one twice."""

    __slots__ = ("_bounds", "_indexes", "_joined", "manifests", "node", "rank")

    def __init__(self, manifests: Sequence[Manifest], node: int, rank: int) -> None:
        self.manifests = tuple(manifests)
        self.node = node
        self.rank = rank
        self._indexes: list[NodeIndex | None] = [None] * len(self.manifests)
        self._bounds: _Bounds | None = None
        self._joined: _Joined | None = None

    def find(self, coordinates: Columns) -> tuple[Columns, Columns]:
        """For each of int64[k, d] coordinates the number of its manifest, -1 where none has it, and its row in that: int64[k] both."""
        _check_rank(coordinates.shape[-1] if coordinates.ndim == 2 else -1, self.rank)
        size, bounds = self._bounded()
        if self._joined is not None or (len(bounds) > 1 and len(coordinates) * len(bounds) > size):
            found = self._all().find(coordinates)
            return found[:, 0], found[:, 1]
        return self._walk(coordinates, bounds)

    def find_one(self, coordinates: Sequence[int]) -> tuple[int, int]:
        """As find, for the d coordinates of one chunk; (-1, -1) where no manifest has it. No index is made for it."""
        _check_rank(len(coordinates), self.rank)
        for number, manifest in enumerate(self.manifests):
            index = self._indexes[number]
            row = find_row(manifest, self.node, coordinates) if index is None else index.find_one(coordinates)
            if row >= 0:
                return number, row
        return -1, -1

    def coordinates(self) -> Columns:
        """int64[n, d]: the coordinates of all chunks that have a reference, those outside the grid too, each once and in order."""
        return self._all().coordinates

    def columns(self, coordinates: Columns) -> Manifest:
        """The references at int64[k, d] coordinates, in that order; flags are left out. Raises InvalidInputError where a chunk has none."""
        numbers, rows = self.find(coordinates)
        if (numbers < 0).any():
            chunk = tuple(coordinates[int(np.argmin(numbers))].tolist())
            raise InvalidInputError("a chunk has no reference", chunk=chunk)
        holders = np.unique(numbers)
        if holders.size == 1:
            return select_rows(self.manifests[int(holders[0])], rows)._replace(flags=NO_FLAGS)
        order = np.argsort(numbers, kind="stable")
        cuts = np.searchsorted(numbers[order], holders[1:])
        parts = [
            select_rows(self.manifests[number], rows[chosen])
            for number, chosen in zip(holders.tolist(), np.split(order, cuts), strict=True)
            if chosen.size
        ]
        joined = join_manifests(parts, flags=NO_FLAGS)
        if np.array_equal(joined.coordinates, coordinates.reshape(-1)):
            return joined
        places = index_node(joined, self.node, self.rank).find(coordinates)
        return select_rows(joined, places)

    def _index(self, number: int) -> NodeIndex:
        index = self._indexes[number]
        if index is None:
            index = self._indexes[number] = index_node(self.manifests[number], self.node, self.rank)
        return index

    def _bounded(self) -> _Bounds:
        """How many rows there are, and of each manifest that has some its number, the first and the last coordinates."""
        if self._bounds is None:
            found = [rows_of_node(manifest, self.node) for manifest in self.manifests]
            bounds = [
                (number, _coordinates_at(manifest, rows.start), _coordinates_at(manifest, rows.stop - 1))
                for number, (manifest, rows) in enumerate(zip(self.manifests, found, strict=True))
                if rows.start < rows.stop
            ]
            self._bounds = sum(rows.stop - rows.start for rows in found), bounds
        return self._bounds

    def _walk(self, coordinates: Columns, bounds: Sequence[_Bound]) -> tuple[Columns, Columns]:
        """Manifest by manifest, for those chunks that no earlier one has and this one may have."""
        numbers, rows = np.full(len(coordinates), -1, np.int64), np.full(len(coordinates), -1, np.int64)
        left = np.arange(len(coordinates))
        for number, first, last in bounds:
            if not left.size:
                break
            within = left
            if self.rank and len(bounds) > 1:  # rows are in order: of the first coordinate, the bounds are those of all
                outer = coordinates[left, 0]
                within = left[(outer >= (first or (0,))[0]) & (outer <= (last or (-1,))[0])]
            if not within.size:
                continue
            found = self._index(number).find(coordinates[within])
            hit = found >= 0
            numbers[within[hit]] = number
            rows[within[hit]] = found[hit]
            left = left[numbers[left] < 0]
        return numbers, rows

    def _all(self) -> _Joined:
        if self._joined is None:
            # the kernel keeps the last of equal ones, and the first manifest is to count
            parts = [rows_of_array(manifest, self.node, self.rank) for manifest in reversed(self.manifests)]
            places = np.empty((sum(len(rows) for rows, _ in parts), 2), np.int64)
            places[:, 0] = np.repeat(np.arange(len(parts))[::-1], [len(rows) for rows, _ in parts])
            places[:, 1] = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in parts)])
            coordinates = np.concatenate([np.zeros((0, self.rank), np.int64), *(part for _, part in parts)])
            order = _order(coordinates)
            if order is not None:
                places, coordinates = places[order], coordinates[order]
            self._joined = _join(coordinates, places)
        return self._joined


def _join(coordinates: Columns, places: Columns) -> _Joined:
    extents = tuple([int(coordinate.max()) + 1 for coordinate in coordinates.T]) if len(coordinates) else ()
    possible = prod(extents)
    if not len(coordinates) or possible > _ROOM * len(coordinates):
        return _Joined(coordinates, places, index_node(_bare_manifest(coordinates), 0, coordinates.shape[1]), extents)
    if possible > len(coordinates):
        room = np.full((possible, 2), -1, np.int64)
        room[np.ravel_multi_index(tuple(coordinates.T), extents)] = places
        places = room
    return _Joined(coordinates, places, None, extents)


def rows_of_array(manifest: Manifest, node: int, rank: int) -> tuple[Columns, Columns]:
    """The rows of an ordered manifest that are a node's and have as many coordinates as the array has dimensions (int64[m]), and these (int64[m, d])."""
    found = rows_of_node(manifest, node)
    starts = manifest.starts[found.start : found.stop + 1]
    right = starts[1:] - starts[:-1] == rank
    if right.all():
        coordinates = manifest.coordinates[starts[0] : starts[-1]].reshape(right.size, rank)
        return np.arange(found.start, found.stop), coordinates
    rows = np.flatnonzero(right)
    return rows + found.start, manifest.coordinates[starts[rows, None] + np.arange(rank)]


def _coordinates_at(manifest: Manifest, row: int) -> VectorTuple:
    return tuple(manifest.coordinates[manifest.starts[row] : manifest.starts[row + 1]].tolist())


def _order(coordinates: Columns) -> Columns | None:
    """The places of int64[n, d] coordinates in order, of equal ones the last; None where they are so already."""
    count, rank = coordinates.shape
    starts = np.arange(count + 1) * rank
    order = _kernel.order_references(np.zeros(count, np.uint32), starts, np.ascontiguousarray(coordinates).reshape(-1))
    return None if order is None else np.frombuffer(memoryview(order), np.int64)


def _bare_manifest(coordinates: Columns) -> Manifest:
    """Coordinates of node 0 as a manifest that can be indexed, and has nothing else."""
    nothing, none = np.zeros(0, np.uint8), np.zeros(0, np.int64)
    return node_manifest(0, coordinates, nothing, np.zeros((0, ID_BYTES), np.uint8), none, none)


def _check_rank(found: int, rank: int) -> None:
    if found != rank:
        raise InvalidInputError(f"a chunk of this array has {rank} coordinates, not {found}")


# --- comparison -------------------------------------------------------------------------------------------------------------------------


def same_references(left: Manifest, left_rows: Columns, right: Manifest, right_rows: Columns) -> Booleans:
    """bool[k]: whether row left_rows[i] of one manifest says the same as row right_rows[i] of another: the same bytes inline, the same span of the same chunk object, or
    of the same location. Coordinates and nodes are not compared."""
    kinds = left.kinds[left_rows]
    same: Booleans = (kinds == right.kinds[right_rows]) & (left.lengths[left_rows] == right.lengths[right_rows])
    inline = kinds == INLINE
    same &= inline | (left.offsets[left_rows] == right.offsets[right_rows])
    if (check := np.flatnonzero(same & (kinds == NATIVE))).size:
        same[check] = (left.ids[left_rows[check]] == right.ids[right_rows[check]]).all(axis=1)
    if (check := np.flatnonzero(same & inline)).size:
        ours, theirs = left_rows[check], right_rows[check]
        same[check] = _same_spans(
            left.inline, left.offsets[ours], right.inline, right.offsets[theirs], left.lengths[ours]
        )
    if (check := np.flatnonzero(same & (kinds == VIRTUAL))).size:
        pairs = np.stack([left.locations[left_rows[check]], right.locations[right_rows[check]]], axis=1)
        same[check] = _same_locations(left, right, pairs.astype(np.int64))
    return same


def _same_locations(left: Manifest, right: Manifest, pairs: Columns) -> Booleans:
    """bool[k]: whether the locations with these numbers, int64[k, 2], are one text, and mean one state of the file."""
    folded = pairs[:, 0] * max(right.location_starts.size, 1) + pairs[:, 1]
    _, first, back = np.unique(folded, return_index=True, return_inverse=True)
    ours, theirs = pairs[first].T
    if left.flags != right.flags:
        one, other = _states(left, ours), _states(right, theirs)
        equal: Booleans = np.fromiter(map(eq, one, other), np.bool_, len(one))[back]
        return equal
    begin, other = left.location_starts[ours], right.location_starts[theirs]
    lengths = left.location_starts[ours + 1] - begin
    same: Booleans = lengths == right.location_starts[theirs + 1] - other
    check = np.flatnonzero(same)
    same[check] = _same_spans(left.location_text, begin[check], right.location_text, other[check], lengths[check])
    of_pairs: Booleans = same[back]
    return of_pairs


def _states(manifest: Manifest, numbers: Columns) -> list[tuple[str, FileCheck | None]]:
    """The file at each location, and the state that it is to have."""
    checks = read_checks(manifest.flags)
    texts = map(manifest.location, numbers.tolist())
    return [(plain_location(text), checks.get(text)) for text in texts]


def _same_spans(left: Octets, left_starts: Columns, right: Octets, right_starts: Columns, lengths: Columns) -> Booleans:
    """bool[k]: whether left[left_starts[i]:][:lengths[i]] are the bytes of right[right_starts[i]:][:lengths[i]]."""
    same = np.ones(lengths.size, np.bool_)
    ends = np.cumsum(lengths)
    first = 0
    while first < lengths.size:
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + _BATCH, "right")), first + 1)
        if last == first + 1:
            size, ours, theirs = int(lengths[first]), int(left_starts[first]), int(right_starts[first])
            same[first] = np.array_equal(left[ours : ours + size], right[theirs : theirs + size])
        else:
            span = lengths[first:last]
            within = np.arange(int(ends[last - 1]) - before) - np.repeat(ends[first:last] - span - before, span)
            differ = left[np.repeat(left_starts[first:last], span) + within]
            differ = differ != right[np.repeat(right_starts[first:last], span) + within]
            same[first + np.repeat(np.arange(last - first), span)[differ]] = False
        first = last
    return same


# --- boxes ------------------------------------------------------------------------------------------------------------------------------


class Extents(Record):
    """The inclusive box of the coordinates that an array has in a manifest, and how many there are."""

    first: VectorTuple
    last: VectorTuple
    count: int  # type: ignore[assignment]  # a tuple's own method is not missed

    def has(self, coordinates: VectorTuple) -> bool:
        """Whether a chunk lies in the box."""
        for low, high, coordinate in zip(self.first, self.last, coordinates, strict=True):
            if not low <= coordinate <= high:
                return False
        return True


def box_of(coordinates: Columns) -> tuple[VectorTuple, VectorTuple]:
    """The lowest and the highest of int64[n, d] coordinates, both inclusive. Raises InvalidInputError for none."""
    if not len(coordinates):
        raise InvalidInputError("no coordinates have no box")
    if len(coordinates) == 1:
        only = tuple(coordinates[0].tolist())
        return only, only
    return tuple(coordinates.min(axis=0).tolist()), tuple(coordinates.max(axis=0).tolist())


def make_extents(coordinates: Columns) -> tuple[VectorTuple, VectorTuple, VectorTuple]:
    """What stands beside a manifest in a snapshot, of the coordinates (int64[n, d], all different, at least one) that an array has in it."""
    return *box_of(coordinates), (len(coordinates),)


def read_extents(extents: Sequence[Sequence[int]], rank: int) -> Extents | None:
    """What make_extents wrote for an array of this rank; None for anything else."""
    if len(extents) != 3:
        return None
    first, last, counts = extents
    if len(first) != rank or len(last) != rank or len(counts) != 1:
        return None
    room = 1
    for low, high in zip(first, last, strict=True):
        if not 0 <= low <= high:
            return None
        room *= high - low + 1
    return Extents(tuple(first), tuple(last), counts[0]) if 1 <= counts[0] <= room else None
