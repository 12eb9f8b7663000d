"""The orders of inner chunks in a shard: C, F and Morton, as ranks of their positions in its grid. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from frazil.base.arrays import Columns

Order = Literal["C", "F", "morton", "written"]


def grid_coordinates(numbers: Columns, strides: tuple[int, ...], counts: tuple[int, ...]) -> Columns:
    """int64[n, d]: positions in the grid of a shard, by dimension of the array. strides, counts: of its Level"""
    return np.asarray(numbers[:, None] // np.array(strides, np.int64) % np.array(counts, np.int64), np.int64)


def ranks(coords: Columns, counts: tuple[int, ...]) -> Columns:
    """int64[n]: positions in C order."""
    found = np.zeros(len(coords), np.int64)
    for axis, count in enumerate(counts):
        found = found * count + coords[:, axis]
    return found


def morton_keys(coords: Columns | Sequence[Columns], counts: tuple[int, ...]) -> Columns:
    """Positions in Morton order: the bits of the coordinates interleaved, those of the first dimension lowest; a dimension has as many bits as its count needs.
    coords: for each dimension; arrays that NumPy broadcasts"""
    keys, at = np.zeros((1,) * (coords[0].ndim if len(coords) else 1), np.int64), 0
    bits = [(count - 1).bit_length() for count in counts]
    for bit in range(max(bits, default=0)):
        for axis, most in enumerate(bits):
            if bit < most:
                keys = keys | (coords[axis] >> bit & 1) << at
                at += 1
    return keys


@lru_cache(maxsize=32)
def inner_ranks(total: int, strides: tuple[int, ...], counts: tuple[int, ...], order: Order) -> Columns:
    """int64[total]: the sort key of each inner chunk, by its number in the index, for an order other than "written". Arguments of a Level."""
    coords = grid_coordinates(np.arange(total), strides, counts)
    if order == "C":
        return ranks(coords, counts)
    return ranks(coords[:, ::-1], counts[::-1]) if order == "F" else morton_keys(coords.T, counts)


def order_of(coords: Columns, counts: tuple[int, ...]) -> Order | None:
    """The order of inner chunks: the first of C, F and Morton that fits, else "written" (as they were written). None for fewer than two. coords: int64[n, d],
    their positions, in the order of the bytes"""
    if len(coords) < 2:
        return None
    for name, keys in (
        ("C", ranks(coords, counts)),
        ("F", ranks(coords[:, ::-1], counts[::-1])),
        ("morton", morton_keys(coords.T, counts)),
        ("morton", morton_keys(coords.T[::-1], counts[::-1])),
    ):
        if (keys[1:] > keys[:-1]).all():
            return name  # type: ignore[return-value] # one of them
    return "written"
