"""The order in which inner chunks lie in a shard: C, F, Morton, or none of these. Pure."""

from __future__ import annotations

from typing import Literal

import numpy as np

from frazil.codecs.shard import Level
from frazil.stores.values import Columns

__all__ = ["Order", "grid_coordinates", "morton_keys", "order_of"]

Order = Literal["C", "F", "morton", "written"]


def order_of(level: Level, numbers: Columns) -> Order | None:
    """The order of inner chunks, int64[n], their numbers in the index in the order of their bytes: the first of C, F and Morton that fits, else "written" (as they were
    written). None for fewer than two, which have no order."""
    if len(numbers) < 2:
        return None
    coords, counts = grid_coordinates(level, numbers), level.counts
    for name, keys in (
        ("C", _ranks(coords, counts)),
        ("F", _ranks(coords[:, ::-1], counts[::-1])),
        ("morton", morton_keys(coords, counts)),
        ("morton", morton_keys(coords[:, ::-1], counts[::-1])),
    ):
        if (keys[1:] > keys[:-1]).all():
            return name  # type: ignore[return-value] # one of them
    return "written"


def grid_coordinates(level: Level, numbers: Columns) -> Columns:
    """int64[n, d]: places in the grid of a shard, by dimension of the array."""
    strides, counts = np.array(level.strides, np.int64), np.array(level.counts, np.int64)
    return np.asarray(numbers[:, None] // strides % counts, np.int64)


def _ranks(coords: Columns, counts: tuple[int, ...]) -> Columns:
    """int64[n]: places in C order."""
    ranks = np.zeros(len(coords), np.int64)
    for axis, count in enumerate(counts):
        ranks = ranks * count + coords[:, axis]
    return ranks


def morton_keys(coords: Columns, counts: tuple[int, ...]) -> Columns:
    """int64[n]: places in Morton order: the bits of the coordinates in turn, those of the first dimension lowest; a dimension has as many bits as its count needs."""
    keys, at = np.zeros(len(coords), np.int64), 0
    bits = [(count - 1).bit_length() for count in counts]
    for bit in range(max(bits, default=0)):
        for axis, most in enumerate(bits):
            if bit < most:
                keys |= (coords[:, axis] >> bit & 1) << at
                at += 1
    return keys
