"""Counting the innermost chunks that are stored: what is listed, and what the indexes of shards say. Nothing is decoded but shards that have to be."""

from __future__ import annotations

import numpy as np

from frazil.array.access import Access
from frazil.array.io.shard_lookup import Shards, fetch_indexes, open_shards, replaced_since, shards_below
from frazil.array.io.task_costs import shards_per_task
from frazil.errors import DataError
from frazil.stores.retry import READS, attempts, replaced
from frazil.stores.values import Columns


class ChunkCount:
    """Counts the chunks of one array within a shape."""

    __slots__ = ("_access", "_extents", "_shape")

    def __init__(self, access: Access, shape: tuple[int, ...]) -> None:
        leaf, counts = access.chain.leaf.shape, access.chain.leaf_counts
        self._access, self._shape = access, np.array(shape, np.uint64)
        self._extents = np.array([n * count for n, count in zip(leaf, counts, strict=True)], np.int64)

    def count(self, grid: tuple[int, ...]) -> int:
        stored = self._access.storage.stored(grid)
        if not self._access.chain.levels:
            return len(stored)
        most = shards_per_task(self._access, self._access.runtime.bytes_in_flight)
        return sum(self._of_shards(stored[low : low + most]) for low in range(0, len(stored), most))

    def _of_shards(self, coords: Columns) -> int:
        located = self._access.storage.locate(coords)
        for _ in attempts(READS):
            fetched = fetch_indexes(self._access, located)
            try:
                opened = open_shards(self._access, located, coords, fetched)
                return self._of_level(0, opened.shards, coords * self._extents)
            except DataError:
                if not replaced_since(self._access, located, fetched):
                    raise
        raise replaced("a shard was", located.names[0])

    def _of_level(self, depth: int, shards: Shards, corners: Columns) -> int:
        """In shards of a level; corners: int64[m, d], the first element of each."""
        tables, slot = shards.indexes
        level = self._access.chain.levels[depth]
        strides, counts, inner = (np.array(of, np.int64) for of in (level.strides, level.counts, level.inner))
        count = 0
        for shard in np.flatnonzero(slot >= 0).tolist():  # one at a time: of each, all inner chunks are in memory
            table = tables[slot[shard]]
            number = np.flatnonzero(table[:, 0] >= 0)
            within = corners[shard] + number[:, None] // strides % counts * inner
            inside = (within.astype(np.uint64) < self._shape).all(axis=1)  # what lies outside may lie beyond 2**63
            if depth + 1 == len(self._access.chain.levels):
                count += int(inside.sum())
                continue
            below = shards.chunk_spans(shard, table[number[inside]])
            count += self._below(depth + 1, shards, below, within[inside])
        return count

    def _below(self, depth: int, above: Shards, spans: Columns, corners: Columns) -> int:
        level, storage = self._access.chain.levels[depth], self._access.storage

        def key(i: int) -> tuple[str | None, tuple[int, ...]]:
            chunk = corners[i] // np.array(self._access.chain.leaf.shape, np.int64)
            return storage.locate((corners[i] // self._extents)[None]).key(0), tuple(chunk.tolist())

        return self._of_level(depth, shards_below(self._access, level, above.region, spans, key), corners)
