"""One array with its CF attributes applied, by xarray's own decoding: scale, offset, missing values, times. Nothing is read before it is indexed.

Not here: coordinates and whole datasets, which `xarray.open_dataset(engine="frazil")` has; joining characters to text, which would change the shape."""

from __future__ import annotations

import warnings

import numpy as np
import xarray
from xarray import conventions

from frazil.array.array import Array
from frazil.base.arrays import Columns, Values
from frazil.errors import FrazilError, MetadataError
from frazil.integrations.xarray.variables import variable_of

_TIME_TEXT = np.dtype("U32")  # an ISO time with microseconds has 26 characters, and years may have more than four


class DecodedArray:
    """Has the shape of the array, and another dtype. Times that NumPy does not have (other calendars) are ISO text.

    Raises MetadataError for attributes that cannot be decoded, ImportError if a package is missing that xarray needs for a calendar."""

    __slots__ = ("_path", "_times_as_text", "_variable", "dtype")

    def __init__(self, array: Array) -> None:
        self._path = array.path or "/"
        stored = variable_of(array, dimensions=tuple([f"dim_{i}" for i in range(array.ndim)]))
        try:
            with warnings.catch_warnings():
                # the warning that a later xarray decodes durations only on request
                warnings.simplefilter("ignore", FutureWarning)
                self._variable: xarray.Variable = conventions.decode_cf_variable(
                    self._path, stored, concat_characters=False
                )
        except FrazilError:  # some of these are ValueErrors, too
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise self._refusal(error) from error
        self._times_as_text = self._variable.dtype.kind == "O" and array.dtype.kind in "iuf"
        self.dtype: np.dtype[np.generic] = _TIME_TEXT if self._times_as_text else np.dtype(self._variable.dtype)

    def __getitem__(self, selection: tuple[slice | Columns, ...]) -> Values:
        """The elements, selected along each dimension separately. Raises StoreError, DataError, MetadataError for values that cannot be decoded."""
        try:
            values = np.asarray(self._variable[selection].values)
        except FrazilError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise self._refusal(error) from error
        if self._times_as_text:
            return np.array([_as_text(time) for time in values.flat], _TIME_TEXT).reshape(values.shape)
        return np.asarray(values, self.dtype)

    def _refusal(self, error: Exception) -> MetadataError:
        return MetadataError(
            f"the array cannot be decoded as its attributes say: {error}",
            path=self._path,
            hint="without --decoded the elements are as they are stored",
        )


def _as_text(time: object) -> str:
    """The text of a time of cftime; any other value is a missing time."""
    isoformat = getattr(time, "isoformat", None)
    return "NaT" if isoformat is None else str(isoformat())
