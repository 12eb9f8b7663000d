"""The orders of inner chunks in a shard: C, F and Morton, as ranks of their positions in its grid. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from frazil.base.arrays import Columns

if TYPE_CHECKING:
    from frazil.codecs.sharding.shard import Level

Order = Literal["C", "F", "morton", "written"]


def grid_coordinates(level: Level, numbers: Columns) -> Columns:
    """int64[n, d]: positions in the grid of a shard, by dimension of the array."""
    return _coordinates(numbers, level.strides, level.counts)


def _coordinates(numbers: Columns, strides: tuple[int, ...], counts: tuple[int, ...]) -> Columns:
    return np.asarray(numbers[:, None] // np.array(strides, np.int64) % np.array(counts, np.int64), np.int64)


def ranks(coords: Columns, counts: tuple[int, ...]) -> Columns:
    """int64[n]: positions in C order."""
    found = np.zeros(len(coords), np.int64)
    for axis, count in enumerate(counts):
        found = found * count + coords[:, axis]
    return found


def morton_keys(coords: Columns, counts: tuple[int, ...]) -> Columns:
    """int64[n]: positions in Morton order: the bits of the coordinates interleaved, those of the first dimension lowest; a dimension has as many bits as its
    count needs."""
    keys, at = np.zeros(len(coords), np.int64), 0
    bits = [(count - 1).bit_length() for count in counts]
    for bit in range(max(bits, default=0)):
        for axis, most in enumerate(bits):
            if bit < most:
                keys |= (coords[:, axis] >> bit & 1) << at
                at += 1
    return keys


def inner_ranks(level: Level, order: Order) -> Columns:
    """int64[total]: the sort key of each inner chunk, by its number in the index, for an order other than "written"."""
    return _inner_ranks(level.total, level.strides, level.counts, order)


@lru_cache(maxsize=32)
def _inner_ranks(total: int, strides: tuple[int, ...], counts: tuple[int, ...], order: Order) -> Columns:
    coords = _coordinates(np.arange(total), strides, counts)
    if order == "C":
        return ranks(coords, counts)
    return ranks(coords[:, ::-1], counts[::-1]) if order == "F" else morton_keys(coords, counts)
