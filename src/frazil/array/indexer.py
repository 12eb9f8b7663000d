"""The indexers a.oindex, a.vindex and a.blocks, and checks of assigned values and of result memory. array.py reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil.errors import InvalidInputError
from frazil.indexing import BoxPlan, BoxSelection, PointPlan, PointSelection, box_plan, point_plan

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Values = NDArray[np.generic]


Selection: TypeAlias = BoxSelection | PointSelection


def plan_of(selection: Selection, leaf: tuple[int, ...], counts: tuple[int, ...] | None) -> BoxPlan | PointPlan:
    """What is selected of chunks of one shape. counts: inner chunks in a shard, None: there are no shards."""
    if isinstance(selection, BoxSelection):
        return box_plan(selection, leaf, counts)
    return point_plan(selection, leaf, counts)


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
        if dtype.kind == "T" and not hasattr(dtype, "na_object"):
            value = _only_text(value, path)
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            # NumPy copies between any two StringDType arrays, each of which owns its strings
            return array if array.dtype == dtype else array.astype(dtype, copy=False)
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"the value cannot be turned into {dtype}: {error}", path=path) from error


def _only_text(value: ArrayLike, path: str) -> ArrayLike:
    """The value, where nothing in it is missing or no text: NumPy would write None as "None". Raises InvalidInputError, ValueError."""
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind == "O":
        return np.asarray(value, np.dtypes.StringDType(coerce=False))
    if hasattr(value.dtype, "na_object"):
        missing = value.dtype.na_object
        if any(element is missing for element in np.asarray(value).flat):
            raise InvalidInputError(
                f"the value cannot be turned into StringDType(): an element is missing ({missing!r})", path=path
            )
    return value


def empty_values(
    shape: tuple[int, ...], dtype: np.dtype[np.generic], path: str, make: Callable[..., Values] = np.empty
) -> Values:
    """Memory for a result, of np.empty or np.zeros. Raises InvalidInputError where there is not enough, as the caller has to ask for less; its cause is what NumPy raised."""
    try:
        return make(shape, dtype)
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
    # NumPy gives memory without elements strides of 0
    if out.size and any(stride == 0 and extent > 1 for stride, extent in zip(out.strides, shape, strict=True)):
        raise InvalidInputError(
            "elements of out lie on top of each other: it has a stride of 0", path=path, hint="give memory of its own"
        )
