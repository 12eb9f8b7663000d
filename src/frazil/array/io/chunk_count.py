"""Counts stored inner chunks by listings and shard indexes. Only shards that are not addressable are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from frazil.array.access import Access
from frazil.array.io.task_costs import shards_per_task
from frazil.array.shape import rectilinear
from frazil.array.shape.extents import chunk_grid_of
from frazil.array.shards.shard_lookup import Shards, fetch_indexes, open_shards, replaced_since, shards_below
from frazil.base.arrays import Columns
from frazil.base.retry import READS, attempts, replaced
from frazil.errors import DataError, StoreError
from frazil.metadata.grids.chunk_grids import RegularGrid

if TYPE_CHECKING:
    from frazil.array.hierarchy.nodes import NodeLocation
    from frazil.metadata.model import ArrayMetadata


def stored_chunks(access: Access, location: NodeLocation, metadata: ArrayMetadata) -> int:
    """The number of innermost chunks that are stored."""
    stored = access.storage.stored(metadata.grid_shape)
    if not access.chain.levels:
        return len(stored)
    if isinstance(metadata.chunk_grid, RegularGrid):
        return ChunkCount(access, metadata).count(stored)
    groups = rectilinear.shape_groups(metadata, stored)
    return sum(
        ChunkCount(rectilinear.shaped_access(access, location, metadata, shape), metadata).count(coords)
        for shape, coords in groups
    )


class ChunkCount:
    """Counts the inner chunks of shards of one shape, within the shape of their array."""

    __slots__ = ("_access", "_grid", "_shape")

    def __init__(self, access: Access, metadata: ArrayMetadata) -> None:
        self._access, self._grid = access, chunk_grid_of(metadata)
        self._shape = np.array(metadata.shape, np.uint64)

    def count(self, stored: Columns) -> int:
        most = shards_per_task(self._access, self._access.runtime.bytes_in_flight)
        return sum(self._of_shards(stored[low : low + most]) for low in range(0, len(stored), most))

    def _of_shards(self, coords: Columns) -> int:
        located = self._access.storage.locate(coords)
        for _ in attempts(READS):
            fetched = fetch_indexes(self._access, located)
            try:
                opened = open_shards(self._access, located, coords, fetched)
                return self._of_level(0, opened.shards, coords, self._grid.corners(coords))
            except (DataError, StoreError) as error:
                if not replaced_since(self._access, located, fetched, error):
                    raise
        raise replaced("a shard was", located.names[0])

    def _of_level(self, depth: int, shards: Shards, outer: Columns, first: Columns) -> int:
        """In shards of a level. outer: int64[m, d], coordinates of the outermost shard around each; first: the first element of each."""
        tables, slot = shards.indexes
        level = self._access.chain.levels[depth]
        strides, counts, inner = (np.array(of, np.int64) for of in (level.strides, level.counts, level.inner))
        count = 0
        for shard in np.flatnonzero(slot >= 0).tolist():  # one at a time, as all inner chunks of a shard are in memory
            table = tables[slot[shard]]
            number = np.flatnonzero(table[:, 0] >= 0)
            within = first[shard] + number[:, None] // strides % counts * inner
            inside = (within.astype(np.uint64) < self._shape).all(axis=1)  # chunks outside may be beyond 2**63
            if depth + 1 == len(self._access.chain.levels):
                count += int(inside.sum())
                continue
            below = shards.chunk_spans(shard, table[number[inside]])
            around = np.repeat(outer[shard : shard + 1], int(inside.sum()), axis=0)
            count += self._below(depth + 1, shards, below, around, within[inside])
        return count

    def _below(self, depth: int, above: Shards, spans: Columns, outer: Columns, first: Columns) -> int:
        level = self._access.chain.levels[depth]

        def key(i: int) -> tuple[str | None, tuple[int, ...]]:
            chunk = first[i] // np.array(self._access.chain.inner_chunk.shape, np.int64)
            return self._access.key(outer, i), tuple(chunk.tolist())

        return self._of_level(depth, shards_below(self._access, level, above.objects, spans, key), outer, first)
