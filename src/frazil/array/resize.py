"""What a shrinking array leaves behind: chunks outside are removed, and what is outside in a chunk at the edge is set to the fill value.

The specification is silent on this; without it old values would come back when the array grows again (docs/design/005-shrink.md). In a store that cannot erase
all that is outside is set to the fill value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frazil.array.access import Access
from frazil.array.io.write import write
from frazil.indexing import BoxSelection, basic, box_plan

_ERASE_AT_ONCE = 1024


def clear_outside(
    access: Access,
    outer: tuple[int, ...],
    leaf: tuple[int, ...],
    counts: tuple[int, ...] | None,
    old: Sequence[int],
    new: Sequence[int],
    fill: np.generic,
) -> None:
    """Clears what is inside the shape `old` and outside of `new`, of stored chunks only. outer: extent of a chunk of the array's grid."""
    grid = tuple(-(-extent // chunk) for extent, chunk in zip(old, outer, strict=True))
    stored = access.storage.stored(grid)
    first = stored * np.array(outer, np.int64).reshape(1, -1)
    lengths = np.array(new, np.int64).reshape(1, -1)
    outside = (first >= lengths).any(axis=1) & access.storage.erasable  # what cannot be erased is filled
    gone = stored[outside]
    for low in range(0, len(gone), _ERASE_AT_ONCE):
        part = np.ascontiguousarray(gone[low : low + _ERASE_AT_ONCE])
        access.storage.erase(part, [None] * len(part))
    ends = first + np.minimum(np.array(outer, np.int64), np.array(old, np.int64) - first)
    edge = ~outside & (ends > lengths).any(axis=1)
    for start, end in zip(first[edge].tolist(), ends[edge].tolist(), strict=True):
        _clear_chunk(access, leaf, counts, old, new, fill, start, end)


def _clear_chunk(
    access: Access,
    leaf: tuple[int, ...],
    counts: tuple[int, ...] | None,
    old: Sequence[int],
    new: Sequence[int],
    fill: np.generic,
    start: list[int],
    end: list[int],
) -> None:
    """The part of one chunk that is outside, as boxes that do not overlap: one for each dimension that was cut."""
    inside = list(zip(start, end, strict=True))
    for axis, length in enumerate(new):
        low, high = inside[axis]
        if high <= length:
            continue
        box = tuple(slice(*((length, high) if d == axis else bounds)) for d, bounds in enumerate(inside))
        selection = basic(box, tuple(old))
        assert isinstance(selection, BoxSelection)
        write(access, box_plan(selection, leaf, counts), selection.source_view(np.asarray(fill)), confirmed=True)
        inside[axis] = (low, length)
