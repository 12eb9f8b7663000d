"""Reduces a large 2-d selection: each element of an overview represents a square of elements. Reads piece by piece, in bounded memory.

picture.py makes a picture of the overview."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from frazil.base.arrays import Values
from frazil.base.record import Record
from frazil.errors import InvalidInputError, SelectionError
from frazil.operations.view.picture import distinct
from frazil.operations.window import Window

Method = Literal["auto", "mean", "nearest"]
Report = Callable[[int], None]  # bytes of elements that were read since the last call

MOST_PIXELS = 4096  # along a side of an overview
_FEWEST_CODES, _MOST_CODES = 3, 16  # from 3 to 16 distinct whole numbers count as codes, which have no mean
_SQUARES = 64  # at least so many squares for each of them


class Overview(Record):
    """values: float64[height, width], NaN where there is nothing to show; factor: elements along each side for one value."""

    values: NDArray[np.float64]
    factor: int


def overview(
    window: Window,
    size: int,
    *,
    method: Method = "auto",
    hide: np.generic | None = None,
    max_bytes: int = 2**25,
    report: Report = lambda _: None,
) -> Overview:
    """A 2-d window reduced so that its longer side has at most `size` values.

    method     mean: of every square of elements, without those that are NaN, infinite or equal to `hide`; nearest: the element in its middle; auto: the mean,
               or the element in the middle if these are many whole numbers with 3 to 16 distinct values, such as codes
    max_bytes  of elements held at once, beside size x size x 16 bytes of sums
    Raises SelectionError for an empty window or another number of dimensions, InvalidInputError for types without an order, DataError, StoreError."""
    if len(window.shape) != 2 or not all(window.shape):
        raise SelectionError(
            f"a picture needs two dimensions that are not empty, the selection has shape {window.shape}",
            path=window.array.path or "/",
            hint=_remedy(window),
        )
    if window.dtype.kind not in "biufc":
        raise InvalidInputError(
            f"elements of type {window.array.metadata.data_type.label if window.source is None else window.dtype} cannot be drawn, only numbers",
            path=window.array.path or "/",
            hint="`frazil get` prints them",
        )
    if not 1 <= size <= MOST_PIXELS:
        raise InvalidInputError(f"the size of a picture is {size}; it must be 1 to {MOST_PIXELS}")
    factor = -(-max(window.shape) // size)
    if method == "nearest" or factor == 1:
        return Overview(_nearest(window, factor, hide, max_bytes, report), factor)
    return Overview(_means(window, factor, hide, max_bytes, report, codes=method == "auto"), factor)


def _remedy(window: Window) -> str:
    if window.array.ndim < 2:
        return "the array has too few dimensions to be drawn; `frazil get` prints it"
    return f'give integers for all dimensions but two: "{", ".join(["0"] * (window.array.ndim - 2) + [":", ":"])}"'


def _nearest(
    window: Window, factor: int, hide: np.generic | None, max_bytes: int, report: Report
) -> NDArray[np.float64]:
    for axis, length in enumerate(window.shape):
        window = window.pick(axis, slice(min(factor // 2, (length - 1) // 2), None, factor))
    values = np.empty(window.shape)
    rows = max(1, max_bytes // (8 * window.shape[1]))
    for top in range(0, len(values), rows):
        piece = window.cut(0, top, top + rows)
        values[top : top + rows] = _shown(piece.read(), hide)
        report(piece.nbytes)
    return values


def _means(
    window: Window, factor: int, hide: np.generic | None, max_bytes: int, report: Report, *, codes: bool
) -> NDArray[np.float64]:
    shape = tuple(-(-length // factor) for length in window.shape)
    sums, counts = np.zeros(shape), np.zeros(shape)
    exact = window.dtype.kind in "biu" and hide is None  # these are not copied as float64
    centres = _CentreElements(window.shape, factor) if codes and window.dtype.kind in "iu" else None
    for (row, column), tile in window.tiles(max_bytes if exact else max_bytes * window.dtype.itemsize // 16):
        values = tile.read()
        _add(values, row, column, factor, hide, sums, counts)
        if centres is not None:
            centres.take(values, row, column, hide)
        report(tile.nbytes)
    found = None if centres is None else distinct(centres.values, _MOST_CODES)
    if centres is not None and found is not None and _FEWEST_CODES <= len(found) <= centres.values.size // _SQUARES:
        return centres.values
    with np.errstate(invalid="ignore"):
        return np.divide(sums, counts, out=sums)


class _CentreElements:
    """The element in the middle of each square, collected from tiles. values: float64, NaN where there is nothing to show"""

    __slots__ = ("_positions", "values")

    def __init__(self, shape: tuple[int, ...], factor: int) -> None:
        self._positions = [
            np.minimum(np.arange(0, length, factor) + factor // 2, length - 1) for length in shape
        ]  # ascending, along each axis
        self.values = np.full([len(positions) for positions in self._positions], np.nan)

    def take(self, values: Values, row: int, column: int, hide: np.generic | None) -> None:
        """Takes the elements of a tile whose first element is at (row, column) of the window."""
        rows, columns = (
            slice(*np.searchsorted(positions, (start, start + length)).tolist())
            for positions, start, length in zip(self._positions, (row, column), values.shape, strict=True)
        )
        picked = values[np.ix_(self._positions[0][rows] - row, self._positions[1][columns] - column)]
        self.values[rows, columns] = _shown(picked, hide)


def _add(
    values: Values,
    row: int,
    column: int,
    factor: int,
    hide: np.generic | None,
    sums: NDArray[np.float64],
    counts: NDArray[np.float64],
) -> None:
    """Adds elements, with the first at (row, column) of the window, to the sums and counts of their squares."""
    columns = np.arange(column // factor * factor, column + values.shape[1], factor)
    first = np.maximum(columns - column, 0)
    across = slice(column // factor, column // factor + len(columns))
    exact = values.dtype.kind in "biu" and hide is None
    start = 0
    while start < len(values):
        stop = min(len(values), ((row + start) // factor + 1) * factor - row)
        part = values[start:stop]
        square = (row + start) // factor
        if exact:
            down = np.add.reduce(part, axis=0, dtype=np.float64)
            counts[square, across] += (stop - start) * np.diff(first, append=values.shape[1])
        else:
            shown = _shown(part, hide)
            finite = np.isfinite(shown)
            down = np.add.reduce(shown, axis=0, where=finite)
            counts[square, across] += np.add.reduceat(np.add.reduce(finite, axis=0, dtype=np.float64), first)
        sums[square, across] += np.add.reduceat(down, first)
        start = stop


def _shown(values: Values, hide: np.generic | None) -> NDArray[np.float64]:
    """Values as float64, complex ones by their magnitude; NaN for hidden ones."""
    numbers = np.abs(values) if values.dtype.kind == "c" else values
    shown = numbers.astype(np.float64)
    if hide is not None:
        shown[values == hide] = np.nan
    return shown
