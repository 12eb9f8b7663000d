"""a.oindex, a.vindex, a.blocks: brackets with rules of their own; and what is assigned to any brackets, as values. What is read and written then is the array's affair (array.py)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil.errors import InvalidInputError
from frazil.indexing import BoxSelection, PointSelection

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Values = NDArray[np.generic]


Selection: TypeAlias = BoxSelection | PointSelection


class Indexer:
    """Brackets. select: makes a selection of what is written between them; read: takes a selection; write: takes what is between them"""

    __slots__ = ("_read", "_select", "_write")

    def __init__(
        self,
        select: Callable[[object], Selection],
        read: Callable[[Selection], Values | np.generic],
        write: Callable[[object, ArrayLike], None],
    ) -> None:
        self._select, self._read, self._write = select, read, write

    def __getitem__(self, selection: object) -> Values | np.generic:
        return self._read(self._select(selection))

    def __setitem__(self, selection: object, value: ArrayLike) -> None:
        self._write(selection, value)


def as_values(value: ArrayLike, dtype: np.dtype[np.generic], path: str) -> Values:
    """What is assigned, as an array of the dtype. Raises InvalidInputError."""
    try:
        if isinstance(value, np.ndarray | np.generic):
            return np.asarray(value).astype(dtype, copy=False)
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"the value cannot be turned into {dtype}: {error}", path=path) from error


def empty_values(shape: tuple[int, ...], dtype: np.dtype[np.generic], path: str) -> Values:
    """Memory for a result. Raises InvalidInputError where there is not enough, as the caller has to ask for less; its cause is what NumPy raised."""
    try:
        return np.empty(shape, dtype)
    except (ValueError, MemoryError) as error:
        raise InvalidInputError(
            f"the result of {prod(shape)} elements of {dtype} is more than memory can hold",
            path=path,
            hint="select less, and read the array part by part",
        ) from error


def check_out(out: Values, shape: tuple[int, ...], dtype: np.dtype[np.generic], path: str) -> None:
    """Raises InvalidInputError for memory that a result of this shape and dtype cannot be written to."""
    if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
        raise InvalidInputError(
            f"out is {out.dtype} {out.shape}{'' if out.flags.writeable else ', read only'}; it must be {dtype} {shape}, writable",
            path=path,
        )
    if any(stride == 0 and extent > 1 for stride, extent in zip(out.strides, shape, strict=True)):
        raise InvalidInputError(
            "elements of out lie on top of each other: it has a stride of 0", path=path, hint="give memory of its own"
        )
