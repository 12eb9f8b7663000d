"""The codec `zarrs.morton`: the elements of a chunk in one dimension, in Morton order."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final

import numpy as np

from frazil.base.arrays import Columns
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec
from frazil.codecs.sharding.inner_order import morton_keys

_CACHED: Final = 2**20  # elements of the largest chunk whose order is kept


class Morton(ArrayToArray):
    """The bits of coordinates are compared from the highest to the lowest, and among those of one weight in the order of the dimensions."""

    name = "zarrs.morton"

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return spec._replace(shape=(prod(spec.shape),))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        return array.reshape(-1)[_order(spec.shape)]

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        decoded = np.empty(array.size, array.dtype)
        decoded[_order(spec.shape)] = array.reshape(-1)
        return decoded.reshape(spec.shape)


def _order(shape: tuple[int, ...]) -> Columns:
    """int64[n]: for each element in Morton order, its position in C order."""
    return _kept_order(shape) if prod(shape) <= _CACHED else _made_order(shape)


def _made_order(shape: tuple[int, ...]) -> Columns:
    axes = np.ogrid[tuple([slice(extent) for extent in shape])]
    return np.argsort(np.broadcast_to(morton_keys(axes[::-1], shape[::-1]), shape or (1,)).reshape(-1))


_kept_order = lru_cache(maxsize=4)(_made_order)
