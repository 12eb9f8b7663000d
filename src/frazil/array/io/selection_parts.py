"""Parts of a selection of variable-length elements, which are read one after the other where files are read.

Views and heap of one part are memory that the next part uses again, so that a large read holds little beside its result. Elsewhere all
requests are made at once. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Final

from frazil.indexing import AxisSelection, BoxSelection

if TYPE_CHECKING:
    from frazil.array.access import Access

__all__ = ["is_divided", "parts_of"]

_ELEMENTS: Final = 2**20  # of a part, or one row of chunks where this has more


def is_divided(access: Access, selection: BoxSelection) -> bool:
    """Whether a selection is read in parts: not where it is small, or cannot be divided."""
    levels, chunk = access.chain.levels, access.chain.inner_chunk.shape
    divisible = access.storage.direct and chunk and all(level.addressable for level in levels)
    count = prod([axis.size for axis in selection.axes])
    return bool(divisible) and count >= 2 * _ELEMENTS and selection.axes[0].indices is None


def parts_of(access: Access, selection: BoxSelection) -> Iterator[BoxSelection]:
    """Boxes along the first dimension, which follow each other in selection.out_view. None divides a chunk."""
    first, *others = [AxisSelection(axis.start, axis.step, axis.size, indices=axis.indices) for axis in selection.axes]
    chunk = access.chain.inner_chunk.shape[0]
    rows = max(_ELEMENTS // prod([axis.size for axis in others]), 1) * first.step  # elements of the first dimension
    rows = -(-rows // chunk) * chunk
    begin = 0
    while begin < first.size:
        at = first.start + begin * first.step
        behind = (at // rows + 1) * rows
        end = min(-(-(behind - first.start) // first.step), first.size)
        yield BoxSelection(selection.shape, (AxisSelection(at, first.step, end - begin), *others))
        begin = end
