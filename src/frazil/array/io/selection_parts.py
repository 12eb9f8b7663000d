"""Divides a selection of variable-length elements into parts. Pure; read.py reads the parts, one after the other if the chunks are files.

Parts reuse the memory for views and heap of earlier parts, so that a large read needs little memory beside its result. For other stores all requests are
made at once."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from frazil.array.access import Access
from frazil.indexing.selection import AxisSelection, BoxSelection

_ELEMENTS: Final = 2**20  # of a part; at least one row of chunks


def is_divided(access: Access, selection: BoxSelection) -> bool:
    """Whether a selection is read in parts: a small or indivisible one is not."""
    levels, chunk = access.chain.levels, access.chain.inner_chunk.shape
    divisible = access.storage.direct and chunk and all(level.addressable for level in levels)
    count = prod([axis.size for axis in selection.axes])
    return bool(divisible) and count >= 2 * _ELEMENTS and selection.axes[0].indices is None


def parts_of(access: Access, selection: BoxSelection) -> Iterator[BoxSelection]:
    """Boxes along the first dimension, in the order of selection.out_view. None of them divides a chunk."""
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
