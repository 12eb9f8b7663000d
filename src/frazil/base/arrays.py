"""The kinds of NumPy arrays in annotations, sums of sizes, sorted arrays as sets, and boxes of a grid.

At run time the kinds are only names: numpy.typing takes a millisecond to import, and only type checkers need it. NumPy's own functions on sets import numpy.ma
when they are first called: that takes 10 milliseconds, and a child that is forked meanwhile hangs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray
else:
    ArrayLike = DTypeLike = object

__all__ = [
    "ArrayLike",
    "Columns",
    "DTypeLike",
    "Dtype",
    "Flags",
    "Octets",
    "Values",
    "among",
    "boxes_of",
    "distinct",
    "offsets_of",
]

Columns: TypeAlias = "NDArray[np.int64]"
Dtype: TypeAlias = "np.dtype[np.generic]"
Flags: TypeAlias = "NDArray[np.bool_]"
Octets: TypeAlias = "NDArray[np.uint8]"
Values: TypeAlias = "NDArray[np.generic]"

Item = TypeVar("Item", bound=np.generic)


def distinct(values: NDArray[Item]) -> NDArray[Item]:
    """Sorted and distinct, in one dimension. NaN is not expected."""
    values = np.sort(values, axis=None)
    is_first = np.ones(len(values), np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    return values if is_first.all() else values[is_first]


def among(values: NDArray[Item], others: NDArray[Item]) -> Flags:
    """bool[n]: which values are in a sorted array."""
    if not len(others):
        return np.zeros(len(values), np.bool_)
    found: Flags = others[np.minimum(others.searchsorted(values), len(others) - 1)] == values
    return found


def offsets_of(sizes: Columns) -> Columns:
    """Where each of n parts begins, one after the other, and where the last ends: int64[n + 1]."""
    if len(sizes) == 1:  # as in small commits
        return np.array((0, sizes.item(0)), np.int64)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    sizes.cumsum(out=offsets[1:])
    return offsets


def boxes_of(shape: Sequence[int], extents: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """The boxes of these extents, cut at the ends of the shape, in C order. Not from lists of the cuts: an array of few stored chunks may have more cuts than
    memory holds."""
    counts = [-(-length // extent) for length, extent in zip(shape, extents, strict=True)]
    axes = tuple(zip(shape, extents, counts, strict=True))[::-1]
    for number in range(prod(counts)):
        box: list[slice] = []
        rest = number
        for length, extent, count in axes:
            rest, at = divmod(rest, count)
            box.append(slice(at * extent, min((at + 1) * extent, length)))
        yield tuple(box[::-1])
