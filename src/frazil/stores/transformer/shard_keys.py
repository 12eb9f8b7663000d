"""Which keys are chunks of shards: chunk key to shard key and back, prefixes too (sharding storage transformer, Key & value transformation).

Pure functions over keys and coordinates. The content of a shard is in codecs/sharding/shard.py, its use in sharding_store.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

import numpy as np

from frazil.base.record import Record
from frazil.metadata.grids.chunk_keys import SeparatedKeys
from frazil.stores.array_storage.chunk_storage import ChunkKeys
from frazil.stores.values import Columns

_INT64_MAX: Final = 2**63 - 1


class ChunkRows(Record):
    """The places of chunks: the key of each shard, once; for each chunk the row of its shard, and its number in the shard index."""

    shards: list[str]
    group: Columns
    number: Columns


class ShardKeys:
    """The chunk keys below `prefix`, with as many dimensions as `counts`, the chunks of a shard along each. grid: extent of the chunk grid, if known."""

    __slots__ = ("counts", "grid", "keys", "prefix", "strides")

    def __init__(self, prefix: str, keys: ChunkKeys, counts: tuple[int, ...], grid: tuple[int, ...] | None) -> None:
        self.prefix, self.keys, self.counts, self.grid = prefix, keys, counts, grid
        self.strides = tuple(prod(counts[axis + 1 :]) for axis in range(len(counts)))

    def coordinates(self, key: str) -> tuple[int, ...] | None:
        """Coordinates of the chunk (in the store below: of the shard) with this key; None if it is not a chunk key."""
        return self.keys.decode(key[len(self.prefix) :], len(self.counts)) if key.startswith(self.prefix) else None

    def chunk_rows(self, keys: Sequence[str], coordinates: Sequence[tuple[int, ...]]) -> ChunkRows:
        if not self.counts:  # the chunk's own key is the shard's; the draft has two such keys
            shards: Sequence[str] = keys
            number = np.zeros(len(keys), np.int64)
        else:
            at = np.array(coordinates, np.int64).reshape(len(keys), len(self.counts))
            shards = self.keys.encode_all(at // self.counts, self.prefix)
            number = (at % self.counts) @ np.array(self.strides, np.int64)
        distinct = {key: row for row, key in enumerate(dict.fromkeys(shards))}
        group = np.fromiter((distinct[key] for key in shards), np.int64, len(shards))
        return ChunkRows(list(distinct), group, number)

    def shards(self, keys: Iterable[str]) -> tuple[list[str], Columns, list[str]]:
        """Splits keys of the store below: those of shards, their coordinates int64[m, d], and the other keys."""
        names: list[str] = []
        found: list[tuple[int, ...]] = []
        others: list[str] = []
        for key in keys:
            at = self.coordinates(key)
            if at is None:
                others.append(key)
            # otherwise it has no chunk
            elif all(i <= _INT64_MAX // count for i, count in zip(at, self.counts, strict=True)):
                names.append(key)
                found.append(at)
        return names, np.array(found, np.int64).reshape(len(found), len(self.counts)), others

    def chunks(
        self, names: Sequence[str], shards: Columns, exists: Columns, leading: tuple[int, ...] = ()
    ) -> tuple[list[str], Columns]:
        """The keys and coordinates of the chunks with these leading coordinates. Coordinates beyond 2^63 - 1, in the last shard, are left out, as they have
        no key. names, shards: keys and coordinates of shards; exists:
        int64[n, 2], (row of shards, number) of each chunk."""
        if not self.counts:
            return [names[row] for row in exists[:, 0].tolist()], np.zeros((len(exists), 0), np.int64)
        inside = exists[:, 1:] // np.array(self.strides, np.int64) % np.array(self.counts, np.int64)
        found = shards[exists[:, 0]] * self.counts + inside  # wraps around beyond 2^63 - 1
        found = found[(found >= 0).all(axis=1)]
        if leading:
            found = found[(found[:, : len(leading)] == leading).all(axis=1)]
        return self.keys.encode_all(found, self.prefix), found

    # --- prefixes --------------------------------------------------------------------------------------------------------------------

    @property
    def nested(self) -> bool | None:
        """Whether the keys of one chunk may be below a prefix of the grid; None if the encoding does not define how its keys are built."""
        if not isinstance(self.keys, SeparatedKeys):
            return None
        return self.keys.separator == "/" and bool(self.counts)

    def leading(self, prefix: str) -> tuple[int, ...] | None:
        """The leading coordinates that a prefix below the data prefix fixes ("c5/" fixes one, "c/" of a `default` encoding none); None if it is no
        part of the chunk grid. Only for nested keys."""
        remainder = prefix[len(self.prefix) :]
        ndim = len(self.counts)
        for free in range(1, ndim + 1):
            found = self.keys.decode(remainder + "/".join(["0"] * free), ndim)
            if found is not None:
                return found[: ndim - free]
        return None

    def head(self, leading: tuple[int, ...]) -> str:
        """The beginning of the keys with these leading coordinates; for nested keys, if some coordinates are left, a prefix, the inverse of `leading`. The keys
        of two such heads are in the order of the heads, as a separator comes before every digit. Not for an encoding that does not define how its keys are
        built."""
        zeros = ["0"] * (len(self.counts) - len(leading))
        key = self.keys.encode_one((*leading, *(0 for _ in zeros)), self.prefix)
        return key[: len(key) - sum(map(len, zeros)) - max(len(zeros) - 1, 0)]

    def of_shards(self, leading: tuple[int, ...]) -> tuple[int, ...]:
        """The leading shard coordinates of chunks with these leading coordinates."""
        return tuple(i // count for i, count in zip(leading, self.counts, strict=False))

    def expanded(self, leading: tuple[int, ...], shard: int) -> range:
        """The coordinates along the next dimension of the chunks that a shard with this coordinate may have, below these leading coordinates of chunks; inside
        the grid, if that is known."""
        axis = len(leading)
        first = shard * self.counts[axis]
        last = min(first + self.counts[axis], _INT64_MAX + 1)
        if self.grid is not None:
            inside = all(i < extent for i, extent in zip(leading, self.grid, strict=False))
            last = min(last, self.grid[axis]) if inside else first
        return range(first, last)

    def covers_shards(self, leading: tuple[int, ...]) -> bool:
        """Whether the chunks with these leading coordinates are all chunks of their shards."""
        return all(count == 1 for _, count in zip(leading, self.counts, strict=False))
