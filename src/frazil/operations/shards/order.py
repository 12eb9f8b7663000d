"""The order of inner chunks in a shard: C, F, Morton, or none of these. Pure."""

from __future__ import annotations

from frazil.codecs.sharding.inner_order import Order, grid_coordinates, morton_keys, ranks
from frazil.codecs.sharding.shard import Level
from frazil.stores.values import Columns


def order_of(level: Level, numbers: Columns) -> Order | None:
    """The order of inner chunks: the first of C, F and Morton that fits, else "written" (as they were written). None for fewer than two. numbers: int64[n], the
    numbers in the index, in the order of the bytes."""
    if len(numbers) < 2:
        return None
    coords, counts = grid_coordinates(level, numbers), level.counts
    for name, keys in (
        ("C", ranks(coords, counts)),
        ("F", ranks(coords[:, ::-1], counts[::-1])),
        ("morton", morton_keys(coords, counts)),
        ("morton", morton_keys(coords[:, ::-1], counts[::-1])),
    ):
        if (keys[1:] > keys[:-1]).all():
            return name  # type: ignore[return-value] # one of them
    return "written"
