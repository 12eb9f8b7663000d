"""Reading shards from a store: their indexes, then their chunks, both of one version.

The content of an index is checked in codecs/sharding/shard.py. Writing is in shard_writer.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from frazil.base.record import Record
from frazil.codecs.sharding.shard import Level, index_error, read_indexes
from frazil.stores.array_storage.chunk_storage import NOWHERE, STORED, Located
from frazil.stores.array_storage.shared_objects import fetch_located
from frazil.stores.store import Store
from frazil.stores.transfer.content import as_buffers, read_values
from frazil.stores.transformer.shard_keys import ChunkRows
from frazil.stores.values import MISSING, NO_SPANS, Columns, Fetched, Sources, Versions, expecting

_BATCH: Final = 128  # shards that are open together
_INDEX_BYTES: Final = 2**26  # for the indexes in memory together, if they belong to several shards


class Opened(Record):
    """Objects with the indexes of those that are shards.

    names    the objects: shards, then others
    fetched  the answer of the store, to be held
    tables   int64[g, total, 2], start and length of each chunk of the shards, -1 for a missing chunk
    """

    names: Sequence[str]
    fetched: Fetched
    tables: Columns


class ReadShards(Record):
    """`resume` of an answer about chunks: their places in the objects, and the answer in that form."""

    located: Located
    fetched: Fetched


def in_batches(level: Level, count: int) -> Iterator[slice]:
    """`count` shards, in parts of those that are open together."""
    step = max(1, min(_BATCH, _INDEX_BYTES // level.index_codecs.nbytes))
    for low in range(0, count, step):
        yield slice(low, low + step)


def open_shards(inner: Store, level: Level, shards: Sequence[str], others: Sequence[str] = ()) -> Opened:
    """Reads the indexes of shards, in one fetch; `others` are only looked up. A missing shard has no chunks.

    Raises ChecksumError, FormatError with the shard's key."""
    names = [*shards, *others]
    if not names:
        none = np.zeros(0, np.int64)
        return Opened(
            names, Fetched(Sources(None, ()), (), (), none, NO_SPANS), np.zeros((0, level.total, 2), np.int64)
        )
    spans = np.empty((len(shards), 3), np.int64)
    spans[:, 0] = np.arange(len(shards))
    spans[:, 1:] = level.index_span
    fetched = inner.fetch(names, spans)
    values = read_values(fetched, names, spans)  # a wrapped store may return fewer bytes than it should
    rows = np.array([(-1 - i, 0, len(value or b"")) for i, value in enumerate(values)], np.int64).reshape(-1, 3)
    rows[[value is None for value in values], 0] = MISSING
    sizes = np.ascontiguousarray(fetched.sizes[: len(shards)])
    tables, failures = read_indexes(level, None, [value or b"" for value in values], rows, sizes, 1)
    for row, code, text in failures:
        # in no variable: the traceback of the error holds this frame, and so the open files
        raise index_error(code, text, names[row])
    return Opened(names, fetched, tables)


def locate_chunks(opened: Opened, rows: Sequence[int], chunk_rows: ChunkRows, count: int) -> Located:
    """The places of `count` names: names[rows[i]] is the chunk of row i of chunk_rows, the others are objects of their own, in order."""
    kind = np.full(count, STORED, np.uint8)
    position = np.empty(count, np.int64)
    base, length = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    other = np.ones(count, np.bool_)
    other[rows] = False
    position[other] = len(opened.tables) + np.arange(count - len(rows))
    entries = opened.tables[chunk_rows.group, chunk_rows.number]
    kind[rows] = np.where(entries[:, 0] < 0, NOWHERE, STORED)
    position[rows] = chunk_rows.group
    base[rows], length[rows] = entries[:, 0], np.maximum(entries[:, 1], 0)
    return Located(opened.names, kind, position, base, length)


def fetch_chunks(
    inner: Store,
    names: Sequence[str],
    located: Located,
    spans: Columns,
    before: Fetched,
    expect: Versions | None,
) -> Fetched:
    """Store.fetch for names that were located: one fetch for all `spans`, none if there are no spans. before: of the objects, or an earlier answer for the
    chunks. A name whose object was replaced since is STALE."""
    fetched = fetch_located(inner, located, spans, continue_from=before)
    # the numbers of files are not those of our names
    answer = fetched if fetched.sources.files is None else as_buffers(fetched, names, spans)
    return expecting(answer._replace(resume=ReadShards(located, fetched)), spans, expect)
