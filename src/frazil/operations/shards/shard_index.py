"""Reads the shard indexes of stored objects through the store, as keys and ranges of bytes, for operations that look at shards one by one. No chunk is decoded,
except shards inside codecs.

Not here: parsing of indexes (codecs/sharding/shard.py), and reading of elements (array/io/)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from frazil.array.array import Array
from frazil.base.record import Record
from frazil.base.retry import READS, attempts
from frazil.codecs.codec import run_decode
from frazil.codecs.sharding.shard import Level, read_index
from frazil.errors import DataError, FrazilError, StoreError
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.stores.local.appended_shards import was_restored
from frazil.stores.store import Store
from frazil.stores.transfer.content import read_values
from frazil.stores.values import FOUND, Columns

Path = tuple[int, ...]
_BATCH = 256  # shards of one request to the store


class Blob(Record):
    """The source of the bytes of a shard. base: the position of its first byte there; size: of the shard; read: from several (start, length) to their bytes"""

    base: int
    size: int
    read: Callable[[Sequence[tuple[int, int]]], list[bytes]]


class ShardTable(Record):
    """The index of one shard, or its error.

    size   bytes of the stored object; -1 if it is missing
    table  int64[total, 2], start (from the first byte of the shard) and length of each inner chunk, -1 where it is empty; None if there is an error, or no
           object
    blob   the bytes in which the starts count: the object, or its decoded content"""

    size: int
    table: Columns | None = None
    blob: Blob | None = None
    error: FrazilError | None = None


def levels_of(array: Array) -> tuple[Level, ...]:
    """The shardings of an array, the outermost first; empty if it has no shards, or only unreadable ones."""
    return array._compiled.chain.levels if isinstance(array.metadata.chunk_grid, RegularGrid) else ()


def grid_extents(array: Array) -> tuple[int, ...]:
    """Elements of a stored object along each dimension: of a shard, or of a chunk."""
    return array.shards or array._outer


def chunk_store(array: Array) -> Store:
    """The store with the array's chunks under their keys: that of the hierarchy, or storage transformers over it."""
    store: Store = getattr(array._storage, "store", array.store) if array._location.nodes is None else array.store
    return store


def chunk_keys(array: Array, coords: Columns) -> list[str]:
    """The keys of stored objects, int64[n, d]."""
    encoding = array.metadata.chunk_key_encoding
    return list(encoding.encode_all(coords, array._location.layout.data_prefix(array.path)))


def read_tables(array: Array, keys: Sequence[str], max_bytes: int, *, restore: bool = True) -> Iterator[ShardTable]:
    """The outermost index of each shard, in the order of the keys. Does not raise errors of single shards; they are in the result.

    max_bytes  of encoded indexes at once
    restore    a shard with an unreadable index is restored if an append to it was interrupted, and read again"""
    store = chunk_store(array)
    for key, found in zip(keys, _tables(array, keys, max_bytes), strict=True):
        for _ in attempts(READS) if restore and isinstance(found.error, DataError) else ():
            if not was_restored(store, [key]):
                break
            (found,) = _tables(array, [key], max_bytes)
            if not isinstance(found.error, DataError):
                break
        yield found


def _tables(array: Array, keys: Sequence[str], max_bytes: int) -> Iterator[ShardTable]:
    level, store = levels_of(array)[0], chunk_store(array)
    if not level.addressable:
        for key in keys:
            yield _decoded_table(store, key, level)
        return
    page = max(1, min(_BATCH, max_bytes // (level.index_codecs.nbytes + 16 * level.total)))
    for low in range(0, len(keys), page):
        part = keys[low : low + page]
        try:
            yield from _fetched_tables(store, part, level)
        except StoreError:
            for key in part:  # to find which one it is
                try:
                    yield from _fetched_tables(store, [key], level)
                except StoreError as error:
                    yield ShardTable(-1, error=_with_key(error, key))


def _fetched_tables(store: Store, keys: Sequence[str], level: Level) -> Iterator[ShardTable]:
    spans = np.empty((len(keys), 3), np.int64)
    spans[:, 0] = np.arange(len(keys))
    spans[:, 1:] = level.index_span
    fetched = store.fetch(keys, spans)
    values = read_values(fetched, keys, spans)
    sizes = fetched.sizes.tolist()
    for key, status, size, value in zip(keys, fetched.status, sizes, values, strict=True):
        if status != FOUND or value is None:
            yield ShardTable(-1)
            continue
        blob = Blob(0, size, _reader(store, key))
        yield _parsed(level, value, size, blob, key)


def _reader(store: Store, key: str) -> Callable[[Sequence[tuple[int, int]]], list[bytes]]:
    def read(spans: Sequence[tuple[int, int]]) -> list[bytes]:
        values = store.get_partial_values([(key, span) for span in spans])
        return [b"" if value is None else value for value in values]

    return read


def _decoded_table(store: Store, key: str, level: Level) -> ShardTable:
    try:
        data = store.get(key)
    except StoreError as error:
        return ShardTable(-1, error=_with_key(error, key))
    return ShardTable(-1) if data is None else _decoded(level, data, key)


def _decoded(level: Level, data: bytes, key: str) -> ShardTable:
    """The index of a shard inside codecs."""
    size = len(data)
    try:
        for codec in reversed(level.after):
            data = run_decode(codec, data, level.bound)
    except DataError as error:
        return ShardTable(size, error=_with_key(error, key))
    start, length = level.index_span
    index = data[start:] if start < 0 else data[:length]
    blob = Blob(0, len(data), lambda spans: [data[start : start + length] for start, length in spans])
    return _parsed(level, index, len(data), blob, key)._replace(size=size)


def _parsed(level: Level, data: bytes, size: int, blob: Blob, key: str) -> ShardTable:
    try:
        return ShardTable(size, read_index(level, data, size), blob)
    except FrazilError as error:
        return ShardTable(size, None, blob, _with_key(error, key))


def _with_key(error: FrazilError, key: str) -> FrazilError:
    error.key = error.key or key
    return error


def tables_below(array: Array, shard: ShardTable, key: str) -> Iterator[tuple[Path, ShardTable]]:
    """The indexes of the shards inside a shard, each with the numbers of the shards that contain it. Empty if there are no such levels."""
    pending: list[tuple[Path, ShardTable]] = [((), shard)]
    levels = levels_of(array)
    while pending:
        path, outer = pending.pop(0)
        if outer.table is None or outer.blob is None or len(path) + 1 >= len(levels):
            continue
        level, numbers = levels[len(path) + 1], np.flatnonzero(outer.table[:, 0] >= 0)
        spans = [(outer.blob.base + start, length) for start, length in outer.table[numbers].tolist()]
        for number, found in zip(numbers.tolist(), _inner_tables(level, outer.blob, spans, key), strict=True):
            yield (*path, number), found
            pending.append(((*path, number), found))


def _inner_tables(level: Level, blob: Blob, spans: list[tuple[int, int]], key: str) -> list[ShardTable]:
    """The table of each span. If reading fails, all have the error."""
    nbytes = level.index_codecs.nbytes
    cut = [min(length, nbytes) for _, length in spans]
    ends = [length - short if level.at_end else 0 for (_, length), short in zip(spans, cut, strict=True)]
    index_spans = [(start + end, short) for (start, _), end, short in zip(spans, ends, cut, strict=True)]
    try:
        parts = blob.read(index_spans if level.addressable else spans)
    except StoreError as error:
        return [ShardTable(-1, error=_with_key(error, key))] * len(spans)
    if not level.addressable:
        return [_decoded(level, data, key) for data in parts]
    return [
        _parsed(level, data, length, Blob(start, length, blob.read), key)
        for (start, length), data in zip(spans, parts, strict=True)
    ]
