"""The kinds of NumPy arrays in annotations. At run time they are only names: numpy.typing takes a millisecond to import, and only type checkers need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike, NDArray
else:
    ArrayLike = DTypeLike = object

__all__ = ["ArrayLike", "Columns", "DTypeLike", "Flags", "Octets", "Values"]

Columns: TypeAlias = "NDArray[np.int64]"
Flags: TypeAlias = "NDArray[np.bool_]"
Octets: TypeAlias = "NDArray[np.uint8]"
Values: TypeAlias = "NDArray[np.generic]"
