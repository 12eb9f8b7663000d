"""A view of an array that composes selections without reading: `a.lazy[10:20, ::-2]`. It is read and written through `a.oindex`."""

from __future__ import annotations

from math import prod
from typing import Protocol, TypeAlias

import numpy as np

from frazil.array.interface.indexer import Indexer, truth
from frazil.base.arrays import ArrayLike, Columns, DTypeLike, Values
from frazil.errors import InvalidInputError, SelectionError, one_line, shown
from frazil.indexing.selection import index_item

# The selected part of a dimension: one element, elements at equal distances, or any.
Axis: TypeAlias = "int | range | Columns"


class Source(Protocol):
    """The array that a view is of."""

    @property
    def path(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    @property
    def oindex(self) -> Indexer: ...


class LazyView:
    """A selection of an array that is not read yet.

    Brackets take integers, slices with any step, Ellipsis, and for each dimension a list of integers or a mask, independent of each other; the result is
    another view. np.asarray(view) reads it, and `view[...] = values` writes it. Its shape is fixed when it is made: if the array becomes smaller, reading and
    writing raise SelectionError. Safe to use from many threads."""

    __slots__ = ("_array", "_axes")

    def __init__(self, array: Source, axes: tuple[Axis, ...]) -> None:
        self._array, self._axes = array, axes

    @classmethod
    def of(cls, array: Source) -> LazyView:
        """A view of a whole array."""
        return cls(array, tuple(map(range, array.shape)))

    @property
    def array(self) -> Source:
        """The array that the view is of."""
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([len(axis) for axis in self._axes if not isinstance(axis, int)])

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self._array.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def __len__(self) -> int:
        if not self.ndim:
            raise SelectionError("a view without dimensions has no length", path=self._array.path or "/")
        return self.shape[0]

    def __bool__(self) -> bool:
        """As for arrays."""
        return truth(self.dtype, self.shape, self._array.path or "/")

    def __getitem__(self, selection: object) -> LazyView:
        """A view of a part. Nothing is read. Raises SelectionError."""
        try:
            items = iter(_items(selection, self.ndim))
            axes = tuple([axis if isinstance(axis, int) else _part(axis, next(items)) for axis in self._axes])
        except SelectionError as error:
            error.path = self._array.path or "/"
            raise
        return LazyView(self._array, axes)

    def __setitem__(self, selection: object, value: ArrayLike) -> None:
        """Writes a part into the array. Raises the errors of an assignment to the array."""
        view = self[selection]
        self._array.oindex[view._selection()] = np.asarray(value) if isinstance(value, LazyView) else value

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Values:
        """Reads the view. Raises SelectionError, DataError, StoreError."""
        if copy is False:
            raise InvalidInputError(
                "an array in a store cannot be converted without a copy", path=self._array.path or "/"
            )
        values = self._array.oindex.read(self._selection())
        return values if dtype is None else values.astype(dtype, copy=False)

    def _selection(self) -> tuple[object, ...]:
        for axis, extent in zip(self._axes, self._array.shape, strict=True):
            last = _last(axis)
            if last >= extent:
                raise SelectionError(
                    f"the view reaches element {last}; the array has {extent} there now", path=self._array.path or "/"
                )
        return tuple([_as_slice(axis) if isinstance(axis, range) else axis for axis in self._axes])

    def __repr__(self) -> str:
        return one_line(f"<frazil.LazyView {self.dtype} {self.shape} of {self._array!r}>")


def _last(axis: Axis) -> int:
    """The highest element; -1 where there is none."""
    if isinstance(axis, range):
        return max(axis[0], axis[-1]) if axis else -1
    return int(np.max(axis, initial=-1))


def _as_slice(axis: range) -> slice:
    if not axis:
        return slice(0, 0)
    end = axis[-1] + (1 if axis.step > 0 else -1)
    return slice(axis[0], None if end < 0 else end, axis.step)


def _items(selection: object, ndim: int) -> list[object]:
    """The items between brackets, one for each dimension. Raises SelectionError."""
    items = list(selection) if isinstance(selection, tuple) else [selection]
    gaps = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(gaps) > 1 or any(item is None for item in items):
        raise SelectionError(
            f"a view cannot be indexed by {shown(selection)}",
            hint="integers, slices, one Ellipsis, lists of integers and masks",
        )
    at = gaps[0] if gaps else len(items)
    missing = ndim - len(items) + len(gaps)
    if missing < 0:
        raise SelectionError(f"{len(items) - len(gaps)} indices for a view of {ndim} dimensions")
    return [*items[:at], *[slice(None)] * missing, *items[at + len(gaps) :]]


def _part(axis: range | Columns, item: object) -> Axis:
    extent, part = len(axis), index_item(item)
    if isinstance(part, slice):
        try:
            return axis[part]
        except (TypeError, ValueError) as error:
            raise SelectionError(f"{shown(item)} is not a slice: {error}") from error
    if isinstance(part, int):
        if not -extent <= part < extent:
            raise SelectionError(f"index {shown(item)} is out of bounds for an extent of {extent}")
        return int(axis[part])
    if not isinstance(part, np.ndarray) or part.ndim != 1 or (part.dtype == np.bool_ and len(part) != extent):
        raise SelectionError(
            f"{shown(item)} cannot select elements of a dimension of length {extent}",
            hint="a list of integers, or a mask of the dimension's extent",
        )
    positions = np.flatnonzero(part) if part.dtype == np.bool_ else part.astype(np.int64)
    if ((positions < -extent) | (positions >= extent)).any():
        raise SelectionError(f"an index of {shown(item)} is out of bounds for an extent of {extent}")
    positions = np.where(positions < 0, positions + extent, positions)
    return axis.start + axis.step * positions if isinstance(axis, range) else axis[positions]
