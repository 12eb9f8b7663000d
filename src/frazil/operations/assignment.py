"""Writes a selection of an array, a Window, from values that may be larger than memory, in bounded memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Final

import numpy as np

from frazil.base.arrays import Values
from frazil.errors import InvalidInputError, shown
from frazil.operations.window import Window

_TILE_BYTES: Final = 2**25


def assign(window: Window, values: Values, report: Callable[[int], object]) -> None:
    """Writes values to the elements of a window, shard by shard.

    values  broadcast to the window's shape; may be a mapped file. Floating-point values are rounded to the array's type; other values must be exact in it
    report  called with the bytes that were written since the last call
    Raises InvalidInputError before anything is written, ReadOnlyError, StoreError, DataError, ConflictError."""
    dtype = window.array.dtype
    path = window.array.path or "/"
    try:
        spread = np.broadcast_to(values, window.shape)
    except ValueError:
        raise InvalidInputError(
            f"values of shape {values.shape} do not fit a selection of shape {window.shape}",
            path=path,
            hint="lengths must be equal, or 1 to repeat one value",
        ) from None
    if not _may_round(values.dtype, dtype):
        _check_exact(values, dtype, path)
    extents = window.array.shards or window.array.chunks
    for origin, tile in window.tiles(_TILE_BYTES, extents):
        box = tuple(slice(at, at + length) for at, length in zip(origin, tile.shape, strict=True))
        part = spread[box] if box else spread  # spread[()] is text, not an array
        tile.write(_converted(part, dtype))
        report(tile.nbytes)


def _may_round(source: np.dtype[np.generic], dtype: np.dtype[np.generic]) -> bool:
    if np.can_cast(source, dtype, "safe"):
        return True
    return dtype.kind in "fc" and np.can_cast(source, dtype, "same_kind")


def _check_exact(values: Values, dtype: np.dtype[np.generic], path: str) -> None:
    """Raises InvalidInputError for a value that is not exact in the dtype. Reads a mapped file once."""
    rows = max(1, _TILE_BYTES // max(1, values.nbytes // max(1, len(values)))) if values.ndim else 1
    flat = values[None] if not values.ndim else values
    for low in range(0, len(flat), rows):
        part = flat[low : low + rows]
        try:
            same = _converted(part, dtype) == part
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"values of {values.dtype} cannot be turned into {dtype}: {error}", path=path
            ) from error
        if part.dtype.kind in "mM":
            same |= np.isnat(part)
        if not np.all(same):
            wrong = part[~np.asarray(same, np.bool_)].reshape(-1)[0]
            raise InvalidInputError(
                f"{shown(wrong.item())} has no equal value in {dtype}",
                path=path,
                hint="convert the values to the dtype of the array first",
            )


def _converted(values: Values, dtype: np.dtype[np.generic]) -> Values:
    with np.errstate(invalid="ignore", over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        return values.astype(dtype, copy=False)
