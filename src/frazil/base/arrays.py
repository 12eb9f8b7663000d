"""The kinds of NumPy arrays in annotations, and sums of sizes. At run time the kinds are only names: numpy.typing takes a millisecond to import, and only type
checkers need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray
else:
    ArrayLike = DTypeLike = object

__all__ = ["ArrayLike", "Columns", "DTypeLike", "Flags", "Octets", "Values", "offsets_of"]

Columns: TypeAlias = "NDArray[np.int64]"
Flags: TypeAlias = "NDArray[np.bool_]"
Octets: TypeAlias = "NDArray[np.uint8]"
Values: TypeAlias = "NDArray[np.generic]"


def offsets_of(sizes: Columns) -> Columns:
    """Where each of n parts begins, one after the other, and where the last ends: int64[n + 1]."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    sizes.cumsum(out=offsets[1:])
    return offsets
