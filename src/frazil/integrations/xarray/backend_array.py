"""An array for xarray's lazy indexing: each kind of selection is passed on to the engine unchanged."""

from __future__ import annotations

import asyncio

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from frazil.array.array import Array
from frazil.base.arrays import Values


class FrazilBackendArray(BackendArray):
    """Reads when it is indexed. Safe to use from many threads; can be pickled."""

    __slots__ = ("_array", "dtype", "shape")

    def __init__(self, array: Array) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Values:
        if isinstance(key, indexing.BasicIndexer):
            read = self._read_basic
        elif isinstance(key, indexing.OuterIndexer):
            read = self._read_outer
        else:
            read = self._read_points
            if isinstance(key, indexing.VectorizedIndexer) and any(isinstance(part, slice) for part in key.tuple):
                key = indexing._arrayize_vectorized_indexer(key, self.shape)
        values: Values = indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.VECTORIZED, read)
        return values

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Values:
        """The same as one call on another thread."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _read_basic(self, key: tuple[object, ...]) -> Values:
        return np.asarray(self._array[key], self.dtype)

    def _read_outer(self, key: tuple[object, ...]) -> Values:
        # a NumPy array keeps its dimension, also one without dimensions, which Variable.isel produces
        parts = tuple([np.atleast_1d(part) if isinstance(part, np.ndarray) else part for part in key])
        return np.asarray(self._array.oindex[parts], self.dtype)

    def _read_points(self, key: tuple[object, ...]) -> Values:
        return np.asarray(self._array.vindex[key], self.dtype)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return self._array.__dask_tokenize__()
