"""The sharding storage transformer as a store over a store: the store below has shards, this one their chunks (sharding storage transformer 1.0).

Which keys are chunks is in shard_keys.py, how they are read and replaced in shard_chunks.py, and the layout of a shard in codecs/sharding/shard.py. The array
engine does not use this: it plans the same shards itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import index
from typing import Final

import numpy as np

from frazil.base.arrays import among, distinct
from frazil.base.record import Record
from frazil.base.retry import READS, attempts, replaced
from frazil.codecs import Bytes, ShardingIndexed
from frazil.codecs.chain.compilation import compile_chain
from frazil.codecs.codec import ChunkSpec
from frazil.codecs.sharding.shard import Level
from frazil.errors import InvalidInputError, MetadataError
from frazil.stores.array_storage.chunk_storage import ChunkKeys
from frazil.stores.array_storage.shared_objects import NOT_FETCHED
from frazil.stores.keys.listing import first_level, page_of, with_details
from frazil.stores.keys.names import check_prefix, is_prefix
from frazil.stores.store import Store
from frazil.stores.transfer.composed_values import picked
from frazil.stores.transfer.fetch_pages import fetch_in_pages, pages_of
from frazil.stores.transformer.shard_chunks import (
    ReadShards,
    ShardWriter,
    fetch_chunks,
    in_batches,
    locate_chunks,
    open_shards,
)
from frazil.stores.transformer.shard_keys import ChunkRows, ShardKeys
from frazil.stores.values import (
    OPEN_AT_ONCE,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Page,
    Pieces,
    Version,
    Versions,
    replaced_between_requests,
)
from frazil.stores.wrappers import WrappedStore


class ShardingStore(WrappedStore):
    """A store whose keys below `prefix` that are chunk keys are chunks in shards of `inner`; every other key is one of `inner`.

    prefix            of the array's chunks: "" or ending in "/"
    keys              the chunk key encoding; shards are named by it too
    chunks_per_shard  chunks of a shard along each dimension; () without dimensions, or [1] if `grid_shape` is ()
    grid_shape        extent of the chunk grid, if known: list_dir then leaves out prefixes beyond it

    Chunks can be erased even if `inner` cannot erase; other keys cannot. A shard has its index at its end, without a checksum. The version of a chunk is that
    of its shard: it changes with every other chunk of the shard. So a conditional write may fail without need, but none is lost. Writers of one shard, here and
    in the array engine, wait for each other.
    Raises InvalidInputError for arguments that do not fit; FormatError, with the shard's key, for an invalid index."""

    __slots__ = ("_keys", "_writer")

    def __init__(
        self,
        inner: Store,
        prefix: str,
        keys: ChunkKeys,
        chunks_per_shard: Sequence[int],
        *,
        grid_shape: Sequence[int] | None = None,
    ) -> None:
        super().__init__(inner)
        check_prefix(prefix)
        counts = _extents(chunks_per_shard, "chunks_per_shard", 1)
        grid = None if grid_shape is None else _extents(grid_shape, "grid_shape", 0)
        if grid == () and counts == (1,):
            counts = ()
        if grid is not None and len(grid) != len(counts):
            raise InvalidInputError(f"chunks_per_shard has {len(counts)} dimensions, the chunk grid has {len(grid)}")
        try:
            # the index is at the end: offset and nbytes as little-endian uint64, without a checksum (Binary shard format)
            sharding = ShardingIndexed([1] * len(counts), [Bytes()], [Bytes("little")])
            level = compile_chain([sharding], ChunkSpec(counts, np.dtype(np.uint8), (), b"\0")).levels[0]
        except MetadataError as error:
            raise InvalidInputError(f"chunks_per_shard: {error.message}") from error
        self._keys: Final = ShardKeys(prefix, keys, counts, grid)
        self._writer: Final = ShardWriter(inner, level)

    def __repr__(self) -> str:
        return f"ShardingStore({self.inner!r}, {self._keys.prefix!r}, chunks_per_shard={list(self._keys.counts)})"

    def __reduce__(self) -> tuple[object, ...]:
        keys = self._keys
        return partial(ShardingStore, grid_shape=keys.grid), (self.inner, keys.prefix, keys.keys, keys.counts)

    @property
    def capabilities(self) -> Capabilities:
        can = self.inner.capabilities
        return can._replace(erasable=can.writable, streams=False, erases_prefixes=True)

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """As the port says. Chunks take two fetches of `inner`: the indexes of all their shards, then the chunks; with `continue_from` one. A
        range of a chunk is clipped to it."""
        if continue_from is not None and isinstance(before := continue_from.resume, ReadShards):
            return fetch_chunks(self.inner, names, before.located, spans, before.fetched, expect)
        rows, chunk_rows = self._chunk_rows(names)
        if continue_from is not None or not rows:
            return self.inner.fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)
        if not single_read or len(chunk_rows.shards) + len(names) - len(rows) <= OPEN_AT_ONCE:
            return self._fetch(names, spans, expect, (rows, chunk_rows))
        plain = np.delete(np.arange(len(names)), rows)
        chunks = np.array(rows, np.int64)
        pages = [chunks[among(chunk_rows.group, page)] for page in pages_of(len(chunk_rows.shards))]
        return fetch_in_pages(
            self._fetch, names, spans, expect, [*pages, *(plain[page] for page in pages_of(len(plain)))]
        )

    def _fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        expect: Versions | None,
        found: tuple[list[int], ChunkRows] | None = None,
    ) -> Fetched:
        rows, chunk_rows = self._chunk_rows(names) if found is None else found
        others = sorted(set(range(len(names))) - set(rows))
        for _ in attempts(READS):
            opened = open_shards(self.inner, self._writer.level, chunk_rows.shards, [names[row] for row in others])
            located = locate_chunks(opened, rows, chunk_rows, len(names))
            before = NOT_FETCHED._replace(resume=opened.fetched)
            fetched = fetch_chunks(self.inner, names, located, spans, before, expect)
            if not replaced_between_requests(fetched, expect):
                return fetched
        raise replaced("the shard was", chunk_rows.shards[0])

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        """As the port says. A shard whose chunks are all given, with ANY, is not read; of others the index is read, and the parts that are kept."""
        return self._changed(names, pieces, expect)  # type: ignore[return-value] # every given chunk then has a version

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        """As the port says. A shard without any chunk left is erased; another one is written without the erased chunks. If `inner` cannot erase, a shard
        without any chunk left is written too, with an index that marks all of them missing; other keys are then a StoreError, before anything is changed. A
        prefix that has whole shards below it is passed to `inner`."""
        if is_prefix(names):
            self._erase_below(names[0])
            return [None]
        if not self.inner.capabilities.erasable and any(self._keys.coordinates(name) is None for name in names):
            self.inner.require("erasable")
        return self._changed(names, None, expect)  # type: ignore[return-value] # an erased chunk has no version

    def _changed(self, names: Sequence[str], pieces: Pieces | None, expect: Versions) -> list[Version | Changed | None]:
        """The result for each name, of chunks and of other keys. Without pieces they are erased."""
        rows, chunk_rows = self._chunk_rows(names)
        answers: list[Version | Changed | None] = [None] * len(names)
        chunks, others = np.array(rows, np.int64), np.delete(np.arange(len(names)), rows)
        for part in (chunks, others):
            if not len(part):
                continue
            values = None if pieces is None else picked(pieces, part)
            keys, versions = [names[row] for row in part.tolist()], [expect[row] for row in part.tolist()]
            found: Sequence[Version | Changed | None]
            if part is chunks:
                found = self._writer.change(chunk_rows, versions, values)
            elif values is None:
                found = self.inner.erase_many(keys, versions)
            else:
                found = self.inner.put_many(keys, values, versions)
            for row, answer in zip(part.tolist(), found, strict=True):
                answers[row] = answer
        return answers

    def _erase_below(self, prefix: str) -> None:
        """Erases the chunks of shards that have chunks elsewhere too one by one; so for all shards if `inner` cannot erase."""
        self.require("writable")
        self.require("listable")
        if not self.inner.capabilities.erasable:
            self.erase_values(self.list_prefix(prefix))
            return
        keys = self._keys
        if prefix.startswith(keys.prefix) and prefix != keys.prefix:
            leading = keys.leading(prefix) if keys.nested else None
            if keys.nested is None or (leading is not None and not keys.covers_shards(leading)):
                self.erase_values(self.list_prefix(prefix))
                return
        self.inner.erase_prefix(prefix)

    # --- listing ---------------------------------------------------------------------------------------------------------------------

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        """As the port says: the index of each shard is read, and the keys are those of existing chunks. Prefixes in the chunk grid are those below which a
        shard may have chunks, inside the grid if it is known; whether there are any is not checked."""
        listing = _Listing(self.inner, self._keys, self._writer.level)
        page = page_of(
            listing.rows_below(prefix) if delimited else listing.keys_after(prefix, after, limit), after, limit
        )
        return with_details(page, self.fetch) if details else page

    # --- the keys that are chunks ----------------------------------------------------------------------------------------------------

    def _chunk_rows(self, names: Sequence[str]) -> tuple[list[int], ChunkRows]:
        """Which of the names are chunks, and their places."""
        coordinates = self._keys.coordinates
        found = [(row, at) for row, name in enumerate(names) if (at := coordinates(name)) is not None]
        rows = [row for row, _ in found]
        return rows, self._keys.chunk_rows([names[row] for row in rows], [at for _, at in found])


def _extents(values: Sequence[int], label: str, least: int) -> tuple[int, ...]:
    try:
        extents = tuple(index(value) for value in values)
    except TypeError:
        extents = (-1,)
    if isinstance(values, str | bytes) or any(not least <= extent < 2**63 for extent in extents):
        raise InvalidInputError(f"{label} is {values!r}; it must be a list of whole numbers, each {least} or more")
    return extents


class _Scope(Record):
    """Shards that may have chunks below a prefix, and the other keys below it. leading: the coordinates that the prefix fixes."""

    leading: tuple[int, ...]
    names: Sequence[str]
    shards: Columns
    plain: list[str]


class _Listing(Record):
    """The content of `inner`, seen through shards (list_prefix and list_dir of the sharding storage transformer 1.0)."""

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
