"""Merging spans of one object that are near each other, which saves requests to stores that need one for each span; and pieces of a value that continue
each other.

Pure functions over columns. The capabilities of a store say whether it needs this; the fetch itself is in stores/array_storage/chunk_storage.py."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from frazil.base.arrays import Flags
from frazil.base.record import Record
from frazil.stores.values import MISSING, Columns, Pieces

GAP: Final = 2**17  # bytes that are read and dropped rather than skipped by another request
SHORT: Final = 2**12  # bytes of a piece below which it is copied (large_buffers.py)
MULTIPART: Final = 2**25  # bytes of a value from which object stores send it in parts
IN_PARTS: Final = 2**26  # the most bytes of it that are copied at a time
LARGEST: Final = 2**24  # about the most bytes of a merged span: larger ones are faster in several parallel requests


class Merged(Record):
    """spans: int64[k, 3], the spans to request; part: int64[n], for each wanted span the merged one that contains it; lead: int64[n], its first byte there;
    length: int64[n], its bytes, -1 if it was not merged."""

    spans: Columns
    part: Columns
    lead: Columns
    length: Columns

    def cut(self, rows: Columns) -> Columns:
        """The rows of the wanted spans (int64[n, 3]), from those that were fetched (int64[k, 3])."""
        part_rows = rows[self.part]
        inside = (self.length >= 0) & (part_rows[:, 0] != MISSING)
        part_rows[inside, 1] += self.lead[inside]
        part_rows[inside, 2] = self.length[inside]
        return part_rows


def merge_spans(spans: Columns, gap: int = GAP, largest: int = LARGEST) -> Merged | None:
    """Merges spans, int64[n, 3] of (object, start, length), that overlap, touch or are at most `gap` bytes apart; None if there are none.
    Suffixes and spans up to the end are not merged."""
    if len(spans) < 2:
        return None
    own = (spans[:, 1] < 0) | (spans[:, 2] < 0)
    name, start, length = spans.T
    order: Columns | None = None
    if own.any() or (name[1:] < name[:-1]).any() or ((name[1:] == name[:-1]) & (start[1:] < start[:-1])).any():
        order = np.lexsort((start, name, own))
        name, start, length, own = name[order], start[order], length[order], own[order]
    of_one = (name[1:] == name[:-1]) & ~own[1:]
    end = _ends(start + length, of_one)
    joins = of_one & (start[1:] - gap <= end[:-1]) & (start[1:] // largest == start[:-1] // largest)
    if not joins.any():
        return None
    first = np.flatnonzero(np.concatenate(([True], ~joins)))
    last = np.concatenate((first[1:], [len(spans)])) - 1
    part = np.repeat(np.arange(len(first)), last - first + 1)
    merged = np.stack((name[first], start[first], end[last] - start[first]), axis=1)
    merged[own[first], 2] = length[first[own[first]]]
    lead, inner = start - start[first][part], np.where(own, -1, length)
    if order is None:
        return Merged(merged, part, lead, inner)
    columns = np.empty((3, len(spans)), np.int64)
    columns[:, order] = part, lead, inner
    return Merged(merged, columns[0], columns[1], columns[2])


def _ends(end: Columns, of_one: Flags) -> Columns:
    """For each span of an object the largest end so far, as one may be inside of another."""
    if (end[1:] >= end[:-1])[of_one].all():
        return end
    bounds = [0, *(np.flatnonzero(~of_one) + 1).tolist(), len(end)]
    return np.concatenate([np.maximum.accumulate(end[low:high]) for low, high in pairwise(bounds)])


def short_bytes(pieces: Pieces) -> int:
    """Bytes of the pieces that large_buffers.value_buffers copies, if all are in memory."""
    lengths = merged_rows(pieces.rows, pieces.offsets[1:-1])[:, 2]
    return int(lengths[lengths < SHORT].sum())


def merged_rows(rows: Columns, bounds: Columns | None = None) -> Columns:
    """Rows of which none continues the one before. bounds: rows that begin another value, and are not merged with the one before."""
    if len(rows) < 2:
        return rows
    follows = (rows[1:, 0] == rows[:-1, 0]) & (rows[1:, 1] == rows[:-1, 1] + rows[:-1, 2])
    if bounds is not None:
        follows[bounds[(bounds > 0) & (bounds < len(rows))] - 1] = False
    first = np.concatenate(([0], np.flatnonzero(~follows) + 1))
    merged = rows[first]
    merged[:, 2] = np.add.reduceat(rows[:, 2], first)
    return merged
