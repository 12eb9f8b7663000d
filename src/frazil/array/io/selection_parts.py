"""Parts of a selection of variable-length elements, which are read one after the other where files are read.

Views and heap of one part are memory that the next part uses again, so that a large read holds little beside its result. Elsewhere all
requests are made at once. Pure."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from frazil.indexing import AxisSelection, BoxSelection

if TYPE_CHECKING:
    from frazil.array.access import Access

__all__ = ["parts_of"]

_ELEMENTS: Final = 2**20  # of a part, or one row of chunks where this has more


def parts_of(access: Access, selection: BoxSelection) -> list[BoxSelection]:
    """Boxes along the first dimension, which follow each other in selection.out_view. None divides a chunk. One, where it is small or cannot be divided."""
    levels, chunk = access.chain.levels, access.chain.leaf.shape
    sizes = [axis.size for axis in selection.axes]
    divisible = access.storage.direct and chunk and all(level.addressable for level in levels)
    if not divisible or prod(sizes) < 2 * _ELEMENTS or selection.axes[0].indices is not None:
        return [selection]
    first, *others = [AxisSelection(axis.start, axis.step, axis.size, indices=axis.indices) for axis in selection.axes]
    rows = max(_ELEMENTS // prod(sizes[1:]), 1) * first.step  # elements of the first dimension
    rows = -(-rows // chunk[0]) * chunk[0]
    parts, begin = [], 0
    while begin < first.size:
        at = first.start + begin * first.step
        behind = (at // rows + 1) * rows
        end = min(-(-(behind - first.start) // first.step), first.size)
        part = AxisSelection(at, first.step, end - begin)
        parts.append(BoxSelection(selection.shape, (part, *others)))
        begin = end
    return parts
