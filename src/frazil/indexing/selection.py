"""Selections between brackets, checked against a shape and normalised. Not here: chunks (axes.py, points.py)."""

from __future__ import annotations

import math
from operator import index
from types import EllipsisType
from typing import TypeAlias

import numpy as np

from frazil.base.arrays import Columns, Values
from frazil.base.record import Record
from frazil.errors import FrazilError, SelectionError, shown

# arrays are int64 or bool; only bool may have 0 dimensions
IndexItem: TypeAlias = "int | slice | EllipsisType | Values | None"

_WHOLE = slice(None)
_DESCENDING = slice(None, None, -1)


class AxisSelection(Record):
    """The selection along one dimension of the array, ascending if it is regular.

    indices None: `size` elements start, start + step, ... (step >= 1); else int64[size], the elements in the order of the result, within bounds. flipped: the
    result has them in descending order. dropped: an integer; the result lacks this dimension."""

    start: int
    step: int
    size: int
    flipped: bool = False
    dropped: bool = False
    indices: Columns | None = None


class BoxSelection:
    """A product of axes. shape: the array's; axes: one AxisSelection for each of its dimensions; result_shape: as the user sees it."""

    __slots__ = ("_key", "axes", "result_shape", "shape")

    def __init__(self, shape: tuple[int, ...], axes: tuple[AxisSelection, ...], newaxes: tuple[int, ...] = ()) -> None:
        """newaxes: for each new axis the dimension of the array that follows it, ascending."""
        self.shape = shape
        self.axes = axes
        result: list[int] = []
        key: list[int | slice | None] = []
        plain = not newaxes
        for dimension, axis in enumerate(axes):
            for _ in range(newaxes.count(dimension) if newaxes else 0):
                result.append(1)
                key.append(0)
            if axis.dropped:
                key.append(None)
                plain = False
            else:
                result.append(axis.size)
                key.append(_DESCENDING if axis.flipped else _WHOLE)
                plain = plain and not axis.flipped
        for _ in range(newaxes.count(len(axes)) if newaxes else 0):
            result.append(1)
            key.append(0)
        self.result_shape = tuple(result)
        # with the Ellipsis, an index of integers gives a view, not a scalar
        self._key = None if plain else (*key, Ellipsis)

    def ends(self) -> tuple[int, ...]:
        """The end of the selection along each axis of the array; zeros where nothing is selected."""
        if not all(axis.size for axis in self.axes):
            return (0,) * len(self.axes)
        return tuple(
            axis.start + (axis.size - 1) * axis.step + 1 if axis.indices is None else int(axis.indices.max()) + 1
            for axis in self.axes
        )

    def out_view(self, out: Values) -> Values:
        """A view of `out` (of result_shape, any strides) with the array's dimensions in their order, each ascending; never a copy."""
        return out if self._key is None else out[self._key]

    def source_view(self, values: Values) -> Values:
        """`values` broadcast to result_shape as NumPy's assignment does, then viewed as by out_view (read only where broadcast).
        SelectionError where they do not broadcast."""
        return self.out_view(_broadcast(values, self.result_shape))


class PointSelection(Record):
    """Single elements. shape: the array's; coordinates: for each of its dimensions int64[count], within bounds; result_shape: as the user sees it, with the
    points in C order."""

    shape: tuple[int, ...]
    coordinates: tuple[Columns, ...]
    count: int  # type: ignore[assignment] # replaces a method of tuple that is not used
    result_shape: tuple[int, ...]

    def ends(self) -> tuple[int, ...]:
        return tuple(int(column.max(initial=-1)) + 1 for column in self.coordinates)

    def out_view(self, out: Values) -> Values | None:
        """A one-dimensional view of `out` (of result_shape) in C order, or None if its strides do not allow one (then read into a new buffer and copy)."""
        view = out.reshape(-1)
        return view if np.may_share_memory(view, out) or not out.size else None

    def source_view(self, values: Values) -> Values:
        """`values` broadcast to result_shape, as one dimension (a copy only if necessary; a scalar keeps stride 0). SelectionError where they do not
        broadcast."""
        if values.size == 1 and values.ndim <= len(self.result_shape):
            return np.broadcast_to(values.reshape(1), (self.count,))
        return _broadcast(values, self.result_shape).reshape(-1)


Selection: TypeAlias = BoxSelection | PointSelection


def basic(selection: object, shape: tuple[int, ...]) -> Selection:
    """a[selection]: integers, slices of any step, Ellipsis, newaxis; beside them one 1-d integer array, list or mask; or only integer arrays and integers, one
    for each dimension, or one mask of the array's shape (points); or a 1-d array or mask for each dimension, one mask at least (orthogonal). Other selections
    that NumPy and orthogonal indexing interpret differently are refused."""
    items = _items(selection)
    arrays = [item for item in items if isinstance(item, np.ndarray)]
    if not arrays:
        return _box(items, shape)
    masks = any(array.dtype == np.bool_ for array in arrays)
    indices_only = len(items) == len(shape) and all(isinstance(item, int | np.ndarray) for item in items)
    if len(arrays) == 1 and arrays[0].ndim == 1:  # orthogonal, where kinds of indexing differ
        return _box(items, shape)
    if (masks and len(items) == 1) or (indices_only and not masks):
        return _points(items, shape)
    if len(arrays) == 1 or (indices_only and len(arrays) == len(items)):
        return _box(items, shape)
    raise SelectionError(
        f"a selection of {len(arrays)} arrays beside other indices is ambiguous",
        hint="use a.oindex[...] (each dimension separately) or a.vindex[...] (point by point)",
    )


def orthogonal(selection: object, shape: tuple[int, ...]) -> BoxSelection:
    """a.oindex[selection]: for each dimension an integer, a slice, a 1-d integer array or a 1-d mask; Ellipsis."""
    items = _items(selection)
    if any(item is None for item in items):
        raise SelectionError("an orthogonal selection cannot have newaxis", hint="index the result with it")
    return _box(items, shape)


def vectorised(selection: object, shape: tuple[int, ...]) -> PointSelection:
    """a.vindex[selection]: integer arrays that broadcast together, one for each dimension, or a mask of the array's shape."""
    return _points(_items(selection), shape)


def blocks(selection: object, shape: tuple[int, ...], extents: tuple[int, ...]) -> BoxSelection:
    """a.blocks[selection]: integers (which keep their dimension) and slices of step 1 that count blocks of `extents` elements."""
    grid = tuple(-(-length // extent) for length, extent in zip(shape, extents, strict=True))
    items = _items(selection)
    for item in items:
        if item is None or isinstance(item, np.ndarray) or (isinstance(item, slice) and item.step not in (None, 1)):
            raise SelectionError(
                f"blocks can be selected only by integers and slices of step 1, not by {_part_text(item)}"
            )
    axes = []
    for axis, length, extent in zip(_box(items, grid).axes, shape, extents, strict=True):
        start = axis.start * extent
        axes.append(AxisSelection(start, 1, max(0, min(start + axis.size * extent, length) - start)))
    return BoxSelection(shape, tuple(axes))


def _items(selection: object) -> list[IndexItem]:
    return [index_item(part) for part in (selection if isinstance(selection, tuple) else (selection,))]


def index_item(part: object) -> IndexItem:
    """One item between brackets, normalised: int, slice, Ellipsis, None, or an array of int64 or of bools. Raises SelectionError for anything else."""
    kind = type(part)
    if kind is int or kind is slice or part is None or part is Ellipsis:
        return part  # type: ignore[return-value]
    if not isinstance(part, bool | np.bool_ | str | bytes):
        if isinstance(part, list | tuple | range) or (hasattr(part, "__array__") and not isinstance(part, np.generic)):
            return _array(part)
        try:
            return index(part)  # type: ignore[arg-type]
        except TypeError:
            pass
    raise SelectionError(
        f"{_part_text(part)} is not an index",
        hint="integers, slices, Ellipsis, newaxis, integer arrays and boolean masks are",
    )


def _array(part: object) -> int | Values:
    try:
        array = np.asarray(part)
    except FrazilError:  # from an array of Frazil; some of them are ValueErrors
        raise
    except ValueError as error:
        raise SelectionError(f"{_part_text(part)} is not an index: {error}") from None
    if array.dtype == np.bool_:
        return array
    if array.size == 0 and not isinstance(part, np.ndarray):
        array = array.astype(np.int64)  # NumPy makes floats of an empty list
    if array.dtype.kind not in "iu":
        raise SelectionError(f"an index array of type {array.dtype} has neither integers nor booleans")
    if array.ndim == 0:
        return int(array)
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size and int(array.max()) > 2**63 - 1:
        raise SelectionError(f"index {int(array.max())} is out of bounds for every axis")
    return array.astype(np.int64, copy=False)


def _part_text(part: object) -> str:
    if isinstance(part, np.ndarray):
        return f"an array of type {part.dtype} and shape {part.shape}"
    return shown(part)


def _out_of_bounds(index: int, axis: int, length: int) -> SelectionError:
    return SelectionError(f"index {shown(index)} is out of bounds for axis {axis} with length {length}")


def _box(items: list[IndexItem], shape: tuple[int, ...]) -> BoxSelection:
    """The product of the items, each along its dimension."""
    ellipses = sum([item is Ellipsis for item in items])
    index_count = len(items) - ellipses - sum([item is None for item in items])
    if ellipses > 1:
        raise SelectionError("a selection can have only one Ellipsis")
    if index_count > len(shape):
        raise SelectionError(f"{index_count} indices for an array of {len(shape)} dimensions")
    axes: list[AxisSelection] = []
    newaxes: list[int] = []
    for item in items:
        if item is None:
            newaxes.append(len(axes))
        elif isinstance(item, EllipsisType):
            axes += [AxisSelection(0, 1, length) for length in shape[len(axes) : len(axes) + len(shape) - index_count]]
        else:
            axes.append(_along(item, len(axes), shape[len(axes)]))
    axes += [AxisSelection(0, 1, length) for length in shape[len(axes) :]]
    return BoxSelection(shape, tuple(axes), tuple(newaxes))


def _along(item: int | slice | Values, axis: int, length: int) -> AxisSelection:
    if isinstance(item, int):
        if not -length <= item < length:
            raise _out_of_bounds(item, axis, length)
        return AxisSelection(item if item >= 0 else item + length, 1, 1, False, True)
    if isinstance(item, slice):
        return _along_slice(item, axis, length)
    if item.ndim != 1:
        raise SelectionError(
            f"{_part_text(item)} along axis {axis} with length {length}: an index array for one axis must have one dimension",
            hint="a.vindex takes integer arrays of any shape for all dimensions, or a mask of the array's shape",
        )
    if item.dtype == np.bool_:
        if item.shape != (length,):
            raise SelectionError(f"a mask of length {item.size} does not fit axis {axis} with length {length}")
        return _regular_or_not(np.flatnonzero(item).astype(np.int64, copy=False))
    return _regular_or_not(_wrapped(item, axis, length))


def _along_slice(item: slice, axis: int, length: int) -> AxisSelection:
    try:
        start, stop, step = item.indices(length)
    except TypeError:
        raise SelectionError(f"{item} for axis {axis}: the parts of a slice must be integers or None") from None
    except ValueError:
        raise SelectionError(f"{item} for axis {axis}: the step of a slice must not be zero") from None
    count = len(range(start, stop, step))
    if count <= 1:
        return AxisSelection(start if count else 0, 1, count)
    if step < 0:
        return AxisSelection(start + (count - 1) * step, -step, count, True)
    return AxisSelection(start, step, count)


def _regular_or_not(indices: Columns) -> AxisSelection:
    """Equally spaced indices become a slice, which needs no column."""
    count = indices.size
    if count <= 1:
        return AxisSelection(int(indices[0]) if count else 0, 1, count)
    first, step = int(indices[0]), int(indices[1]) - int(indices[0])
    last = first + (count - 1) * step
    if step and last == int(indices[-1]) and bool((indices[1:] - indices[:-1] == step).all()):
        return AxisSelection(first, step, count) if step > 0 else AxisSelection(last, -step, count, True)
    return AxisSelection(0, 1, count, indices=indices)


def _wrapped(indices: Values, axis: int, length: int) -> Columns:
    """Indices checked against the bounds; negative ones count from the end."""
    columns: Columns = indices.astype(np.int64, copy=False)
    if not columns.size:
        return columns
    low, high = int(columns.min()), int(columns.max())
    if low < -length or high >= length:
        raise _out_of_bounds(low if low < -length else high, axis, length)
    return columns if low >= 0 else np.where(columns < 0, columns + length, columns)


def _points(items: list[IndexItem], shape: tuple[int, ...]) -> PointSelection:
    if len(items) == 1 and isinstance(mask := items[0], np.ndarray) and mask.dtype == np.bool_:
        if mask.shape != shape:
            raise SelectionError(f"a mask of shape {mask.shape} does not fit an array of shape {shape}")
        if not shape:
            return PointSelection(shape, (), int(mask), (int(mask),))
        found = tuple(column.astype(np.int64, copy=False) for column in np.nonzero(mask))
        return PointSelection(shape, found, found[0].size, (found[0].size,))
    arrays: list[Values] = []
    for item in items:
        if not isinstance(item, int | np.ndarray) or (isinstance(item, np.ndarray) and item.dtype == np.bool_):
            raise SelectionError(
                f"{_part_text(item)} cannot be in a selection of points",
                hint="give an integer array for each dimension, or one mask of the array's shape; a.oindex takes slices too",
            )
        # an integer beyond int64 is out of bounds in any case
        arrays.append(np.asarray(max(-(2**63), min(item, 2**63 - 1))) if isinstance(item, int) else item)
    if len(arrays) != len(shape):
        raise SelectionError(
            f"{len(arrays)} index arrays for an array of {len(shape)} dimensions: points need one for each"
        )
    try:
        result_shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise SelectionError(f"index arrays of shapes {shapes} do not broadcast together") from None
    coordinates = tuple(
        np.broadcast_to(_wrapped(array, axis, length), result_shape).reshape(-1)
        for axis, (array, length) in enumerate(zip(arrays, shape, strict=True))
    )
    return PointSelection(shape, coordinates, math.prod(result_shape), result_shape)


def _broadcast(values: Values, shape: tuple[int, ...]) -> Values:
    extra = values.ndim - len(shape)
    if extra > 0 and values.shape[:extra] == (1,) * extra:
        values = values.reshape(values.shape[extra:])
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise SelectionError(f"values of shape {values.shape} do not fit a selection of shape {shape}") from None
