"""Listing the chunks of shards: the existing shards, their chunks, and prefixes of the chunk grid (sharding storage transformer 1.0, list_prefix
and list_dir).

The meaning of a prefix is in shard_keys.py."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from frazil.base.arrays import distinct
from frazil.base.record import Record
from frazil.codecs.sharding.shard import Level
from frazil.stores.keys.listing import first_level
from frazil.stores.store import Store
from frazil.stores.transformer.shard_chunks import in_batches, open_shards
from frazil.stores.transformer.shard_keys import ShardKeys
from frazil.stores.values import Columns


class _Scope(Record):
    """Shards that may have chunks below a prefix, and the other keys below it. leading: the coordinates that the prefix fixes."""

    leading: tuple[int, ...]
    names: Sequence[str]
    shards: Columns
    plain: list[str]


class ShardListing(Record):
    """The content of `inner`, seen through shards."""

    inner: Store
    keys: ShardKeys
    level: Level

    def keys_after(self, prefix: str, start_after: str, limit: int | None) -> Iterable[str]:
        """The keys that begin with a prefix and come after a text, sorted. Indexes of shards are read only until there are `limit` keys."""
        scope = self._scope(prefix)
        if scope is None:
            return _keys_below(self.inner, prefix, start_after)
        found: list[str] = []
        cut = False
        for keys in self._groups(scope, start_after, limit is not None):
            if limit is not None and len(found) >= limit:
                cut = True
                break
            found += [key for key in keys if key > start_after and key.startswith(prefix)]
        last = max(found, default="") if cut else None
        plain = scope.plain[bisect_right(scope.plain, start_after) :]
        found += plain if last is None else [key for key in plain if key < last]
        return sorted(found)[:limit]

    def rows_below(self, prefix: str) -> Iterable[str]:
        """The rows directly below a prefix, sorted. Prefixes are those below which a shard may have chunks; that is not checked. They are inside the grid if it
        is known. Keys are those of existing chunks."""
        keys = self.keys
        if keys.nested is None and prefix.startswith(keys.prefix):
            return first_level(self.keys_after(prefix, "", None), prefix)
        leading = self._leading(prefix)
        if leading is None:
            return [row for page in self.inner.list_pages(prefix, delimited=True) for row in page.keys]
        below = keys.head(keys.of_shards(leading)) if leading else prefix
        found, prefixes = self.inner.list_dir(below)
        names, shards, plain = keys.shards(found)
        partial = [keys.leading(at) for at in prefixes] if keys.nested else []
        if below != prefix:
            found, prefixes = self.inner.list_dir(prefix)
            plain = keys.shards(found)[2]
        others = [at for at in prefixes if not keys.nested or not keys.leading(at)]
        expanded = [keys.head((*leading, i)) for shard in partial if shard for i in keys.expanded(leading, shard[-1])]
        chunks, _ = self._chunks(names, shards, leading)
        return sorted({*chunks, *plain, *expanded, *others})

    def _leading(self, prefix: str) -> tuple[int, ...] | None:
        """The coordinates that a prefix fixes; None if it is above or outside the chunk grid."""
        keys = self.keys
        if prefix == keys.prefix:
            return ()
        return keys.leading(prefix) if keys.nested and prefix.startswith(keys.prefix) else None

    def _scope(self, prefix: str) -> _Scope | None:
        """None if nothing below the prefix is a chunk."""
        keys = self.keys
        leading: tuple[int, ...] = ()
        below = prefix
        if not keys.prefix.startswith(prefix):
            if not prefix.startswith(keys.prefix):
                return None
            if keys.nested is None:
                below = keys.prefix
            else:
                fixed = self._leading(prefix)
                if fixed is None:
                    return None
                if fixed:
                    leading, below = fixed, keys.head(keys.of_shards(fixed))
        names, shards, plain = keys.shards(_keys_below(self.inner, below))
        if below != prefix:
            plain = keys.shards(_keys_below(self.inner, prefix))[2]
        return _Scope(leading, names, shards, plain)

    def _groups(self, scope: _Scope, start_after: str, lazily: bool) -> Iterator[list[str]]:
        """The keys of chunks, in groups that are sorted among each other by the text of the first coordinate that is not fixed. Each shard is read once, when
        its first group is reached."""
        keys, axis = self.keys, len(scope.leading)
        if not lazily or not keys.counts or keys.nested is None:
            yield self._chunks(scope.names, scope.shards, scope.leading)[0]
            return
        rows = scope.shards[:, axis]
        heads = {
            keys.head((*scope.leading, i)): (row, i)
            for row in distinct(rows).tolist()
            for i in range(row * keys.counts[axis], (row + 1) * keys.counts[axis])
        }
        read: dict[int, dict[int, list[str]]] = {}
        for head in sorted(heads):
            if head < start_after and not start_after.startswith(head):
                continue
            row, i = heads[head]
            if row not in read:
                of_row = np.flatnonzero(rows == row)
                found, at = self._chunks(
                    [scope.names[row] for row in of_row.tolist()], scope.shards[of_row], scope.leading
                )
                read[row] = {}
                for key, j in zip(found, at[:, axis].tolist(), strict=True):
                    read[row].setdefault(j, []).append(key)
            yield read[row].pop(i, [])

    def _chunks(self, names: Sequence[str], shards: Columns, leading: tuple[int, ...]) -> tuple[list[str], Columns]:
        """The keys and coordinates of the chunks in these shards that have these leading coordinates."""
        found: list[str] = []
        coordinates = [np.zeros((0, len(self.keys.counts)), np.int64)]
        for batch in in_batches(self.level, len(names)):
            tables = open_shards(self.inner, self.level, names[batch]).tables
            keys, at = self.keys.chunks(names[batch], shards[batch], np.argwhere(tables[:, :, 0] >= 0), leading)
            found += keys
            coordinates.append(at)
        return found, np.concatenate(coordinates)


def _keys_below(store: Store, prefix: str, after: str = "") -> Iterator[str]:
    for page in store.list_pages(prefix, after):
        yield from page.keys
