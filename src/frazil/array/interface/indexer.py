"""The indexers a.oindex, a.vindex and a.blocks, checks of assigned values, and the truth of arrays. array.py reads and writes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TypeAlias, overload

import numpy as np

from frazil.base.arrays import ArrayLike, Values
from frazil.errors import FrazilError, InvalidInputError, SelectionError
from frazil.indexing.selection import Selection
from frazil.metadata.types import datetimes

# what type checkers recognise as a selection of several elements, whose result is an array and never a scalar
Several: TypeAlias = "_Part | tuple[_Part, *tuple[object, ...]] | tuple[*tuple[object, ...], _Part]"
_Part: TypeAlias = "slice | list[int] | None"


class Indexer:
    """Brackets. select: makes a selection from the content of the brackets; write: takes this content

    read: takes a selection, the array for the result, or None, and whether a result without dimensions is a scalar"""

    __slots__ = ("_read", "_select", "_write")

    def __init__(
        self,
        select: Callable[[object], Selection],
        read: Callable[[Selection, Values | None, bool], Values | np.generic],
        write: Callable[[object, ArrayLike], None],
    ) -> None:
        self._select, self._read, self._write = select, read, write

    @overload
    def __getitem__(self, selection: Several) -> Values: ...
    @overload
    def __getitem__(self, selection: object) -> Values | np.generic: ...
    def __getitem__(self, selection: object) -> Values | np.generic:
        return self._read(self._select(selection), None, True)

    def read(self, selection: object = ..., *, out: Values | None = None) -> Values:
        """As Array.read."""
        values = self._read(self._select(selection), out, False)
        assert isinstance(values, np.ndarray)
        return values

    def __setitem__(self, selection: object, value: ArrayLike) -> None:
        self._write(selection, value)


def truth(dtype: np.dtype[np.generic], shape: tuple[int, ...], path: str) -> bool:
    """The answer to `if array`: True, whatever the array holds, as in zarr-python. Raises SelectionError for a single bool: NumPy takes the answer for its
    value, as in `flags[0] = array`."""
    if dtype.kind == "b" and not shape:
        raise SelectionError(
            "the truth of an array of one bool is ambiguous",
            path=path,
            hint="array[()] is its value; `array is not None` is whether there is one",
        )
    return True


def as_values(value: ArrayLike, dtype: np.dtype[np.generic], path: str, *, scalar: bool = False) -> Values:
    """The assigned value as an array of the dtype. Raises InvalidInputError.

    scalar: whether a single element is assigned. An object array takes any value as one element then, a list too, as in NumPy"""
    try:
        if type(value) is not np.ndarray:
            value = without_mask(value, path)
        if scalar and dtype.kind == "O" and not (hasattr(value, "__array__") and getattr(value, "ndim", None) == 0):
            element = np.empty((), dtype)
            element[()] = value
            return element
        if dtype.kind == "T" and not hasattr(dtype, "na_object"):
            value = _only_text(value, path)
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            if array.dtype == dtype:  # NumPy copies between any two StringDType arrays, each of which owns its strings
                return array
            if dtype.kind in "mM" and array.dtype.kind == dtype.kind:
                return datetimes.in_unit(array, dtype, path)
            # NumPy refuses the scalar 300 for int8, and casts arrays of it
            if isinstance(value, np.generic) and dtype.kind not in "OmM":
                array = np.empty((), dtype)
                array[()] = value
                return array
            if dtype.kind not in "mM" or array.dtype.kind not in "OUST":
                return array.astype(dtype, copy=False)
        if dtype.kind in "mM" and (times := _times(value, dtype.kind)) is not None:
            return datetimes.in_unit(times, dtype, path)
        array = np.asanyarray(value, dtype)
        return array if type(array) is np.ndarray else np.asarray(without_mask(array, path))
    except FrazilError:  # from an array of Frazil as value; some of them are ValueErrors
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # RuntimeError: times as shorter text
        raise InvalidInputError(f"the value cannot be turned into {dtype}: {error}", path=path) from error


def without_mask(value: ArrayLike, path: str) -> ArrayLike:
    """The value, without a mask if it is a masked array or a dask array of such. Raises InvalidInputError for masked elements, also in a list of arrays: a
    chunk has no mask, and would get what is below it. Nothing has a mask before numpy.ma was imported, which takes 15 ms and files that may be lacking."""
    masked: type[np.ma.MaskedArray[tuple[int, ...], np.dtype[np.generic]]] | None
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is None:
        return value
    if isinstance(getattr(value, "_meta", None), masked):
        value = value.compute()  # type: ignore[union-attr] # of dask, whose conversion to NumPy drops the mask
    is_list = isinstance(value, list | tuple) and len(value) > 0 and isinstance(value[0], np.ndarray)
    for part in value if is_list else (value,):  # type: ignore[union-attr] # a list
        if isinstance(part, masked):
            mask = np.ma.getmask(part)
            if np.any(mask if mask.dtype.names is None else np.ma.flatten_mask(mask)):
                raise InvalidInputError(
                    "the value has masked elements, and chunks have no masks",
                    path=path,
                    hint="fill them: value.filled(array.fill_value)",
                )
    return np.asarray(value) if isinstance(value, masked) else value


def _times(value: ArrayLike, kind: str) -> Values | None:
    """Text and objects in the unit that NumPy finds for them; None for other values, such as numbers, which count the unit of the array."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy 2.5 warns of NaT without a unit
            return np.asarray(value, f"{kind}8")
    except (TypeError, ValueError, OverflowError):
        return None


def _only_text(value: ArrayLike, path: str) -> ArrayLike:
    """The value, if all of its elements are text: NumPy would write None as "None". Raises InvalidInputError, ValueError."""
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind == "O":
        return np.asarray(value, np.dtypes.StringDType(coerce=False))
    if hasattr(value.dtype, "na_object"):
        missing = value.dtype.na_object
        if any(element is missing for element in np.asarray(value).flat):
            raise InvalidInputError(
                f"the value cannot be turned into StringDType(): an element is missing ({missing!r})", path=path
            )
    return value
