"""Orders of inner chunks, against explicit walks through grids."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import frazil
from frazil.codecs.sharding.inner_order import Order, grid_coordinates, morton_keys, order_of
from frazil.codecs.sharding.shard import Level
from frazil.operations.shards.shard_index import levels_of
from frazil.stores import MemoryStore


def level_of(*counts: int, order: list[int] | None = None) -> Level:
    before = [] if order is None else [frazil.codecs.Transpose(order)]
    sharding = frazil.codecs.ShardingIndexed([1] * len(counts), [frazil.codecs.Bytes()], None)
    array = frazil.create_array(MemoryStore(), shape=counts, dtype="u1", chunks=counts, codecs=[*before, sharding])
    return levels_of(array)[0]


def numbers(level: Level, places: list[tuple[int, ...]]) -> np.ndarray:
    return np.array([sum(a * b for a, b in zip(place, level.strides, strict=True)) for place in places], np.int64)


def order_in(level: Level, places: list[tuple[int, ...]]) -> Order | None:
    return order_of(grid_coordinates(numbers(level, places), level.strides, level.counts), level.counts)


C = list(product(range(3), range(4)))
F = sorted(C, key=lambda place: place[::-1])
MORTON = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 2), (2, 3)]


@pytest.mark.parametrize("order", [None, [1, 0]])
def test_orders(order: list[int] | None) -> None:
    level = level_of(3, 4, order=order)
    assert order_in(level, C) == "C"
    assert order_in(level, F) == "F"
    assert order_in(level, MORTON) == "morton"
    assert order_in(level, [*C[1:], C[0]]) == "written"
    assert order_in(level, C[:1]) is None
    assert order_in(level, []) is None
    assert order_in(level, F[3:9:2]) == "F"


def test_morton_order_of_a_cube_and_of_a_bar() -> None:
    """As in zarr-python and Neuroglancer: a dimension has as many bits as its count needs."""
    places = np.array(list(product(range(4), range(4), range(4))), np.int64)
    keys = morton_keys(places.T, (4, 4, 4))
    assert sorted(keys.tolist()) == list(range(64))
    by_key = places[np.argsort(keys)]
    assert by_key[:9].tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [1, 1, 0],
        [0, 0, 1],
        [1, 0, 1],
        [0, 1, 1],
        [1, 1, 1],
        [2, 0, 0],
    ]
    bar = np.array([[0, i] for i in range(10)], np.int64)
    assert morton_keys(bar.T, (1, 10)).tolist() == list(range(10))
