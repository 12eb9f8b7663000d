"""The chunks of shards in a store: read by the indexes of their shards, both of one version; and replaced or erased without losing chunks of other writers:
each shard is replaced under its version, and again if another writer was faster.

The content of an index is checked in codecs/sharding/shard.py, which also assembles shards, as it does those of the array engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from frazil.base.arrays import Flags, among, distinct
from frazil.base.record import Record
from frazil.base.retry import WRITES, attempts, outrun
from frazil.codecs.sharding import whole_shard
from frazil.codecs.sharding.shard import InnerChunks, Level, StackedIndex, assemble, index_error, read_indexes
from frazil.stores.array_storage.chunk_storage import NOWHERE, STORED, Located, fetch_spans
from frazil.stores.array_storage.shared_objects import fetch_located
from frazil.stores.store import Store
from frazil.stores.transfer.composed_values import composed, joined_sources, picked
from frazil.stores.transfer.content import as_buffers, read_values
from frazil.stores.transformer.shard_keys import ChunkRows
from frazil.stores.values import (
    ABSENT,
    ANY,
    FOUND,
    MISSING,
    NO_SPANS,
    STALE,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Sources,
    Version,
    Versions,
    expecting,
    pieces_of,
)

Answer = Version | Changed | None
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


# --- replacing and erasing ----------------------------------------------------------------------------------------------------------------


class _Carried(Record):
    """Chunks that stay: their shards, their numbers in the index, and the places of their bytes."""

    shard: Columns
    number: Columns
    sources: Sources
    rows: Columns


class _Batch(Record):
    """Some shards, and the chunks of the call that change in them.

    names, tables, there, versions  of each shard: its key, its index (-1: no chunk), whether it exists, its version
    opened               the shards that were read: all except those that are replaced completely; which: their rows in `names`
    rows, group, number  of each chunk: its number in the call, its row in `names`, its number in the index
    """

    names: Sequence[str]
    tables: Columns
    there: Flags
    versions: list[Version | None]
    opened: Opened
    which: Columns
    rows: Columns
    group: Columns
    number: Columns

    def entries(self) -> Columns:
        """int64[n, 2]: the entry of each chunk in the old index."""
        return self.tables[self.group, self.number]

    def only(self, chosen: Flags) -> _Batch:
        return self._replace(rows=self.rows[chosen], group=self.group[chosen], number=self.number[chosen])


class ShardWriter(Record):
    """Replaces chunks in the shards of a store."""

    inner: Store
    level: Level

    def change(self, chunk_rows: ChunkRows, expect: Versions, values: Pieces | None) -> list[Answer]:
        """Puts chunks, or erases them (values is None). Returns for each its new version (None: it was erased), or the change of another writer."""
        answers: list[Answer] = [None] * len(expect)
        published: dict[int, Version] = {}
        pending = np.arange(len(expect))
        for _ in attempts(WRITES):
            shards = distinct(chunk_rows.group[pending])
            again = [np.zeros(0, np.int64)]
            batches = list(in_batches(self.level, len(shards)))
            for batch in batches:
                part = pending if len(batches) == 1 else pending[among(chunk_rows.group[pending], shards[batch])]
                again.append(self._attempt(chunk_rows, part, expect, values, answers, published))
            pending = np.concatenate(again)
            if not len(pending):
                for row, answer in enumerate(answers):
                    if isinstance(answer, Changed) and answer.version != ABSENT:
                        answers[row] = Changed(published.get(int(chunk_rows.group[row]), answer.version))
                return answers
        raise outrun("the shard", chunk_rows.shards[chunk_rows.group[pending[0]]], WRITES)

    def _attempt(
        self,
        chunk_rows: ChunkRows,
        part: Columns,
        expect: Versions,
        values: Pieces | None,
        answers: list[Answer],
        published: dict[int, Version],
    ) -> Columns:
        """One attempt, for some chunks of the call. Returns the chunks to be tried again."""
        batch = self._with_expected(self._opened(chunk_rows, part, expect, values is None), expect, answers)
        carried = self._carried(batch)
        if carried is None:
            return batch.rows
        outcome = self._published(batch, None if values is None else picked(values, batch.rows), carried)
        again = [isinstance(outcome[group], Changed) for group in batch.group.tolist()]
        for row, group in zip(batch.rows.tolist(), batch.group.tolist(), strict=True):
            answer = outcome[group]
            answers[row] = None if values is None else answer
            if isinstance(answer, bytes):
                published[int(chunk_rows.group[row])] = answer
        return batch.rows[again]

    def _opened(self, chunk_rows: ChunkRows, part: Columns, expect: Versions, erases: bool) -> _Batch:
        """The shards of some chunks. Shards whose chunks are all given, under any version, are not read."""
        shards, group = np.unique(chunk_rows.group[part], return_inverse=True)
        free = np.array([expect[row] is ANY for row in part.tolist()], np.bool_)
        is_whole = np.bincount(group[free], minlength=len(shards)) == self.level.total
        if erases and not self.inner.capabilities.erasable:
            is_whole[:] = False  # whether a shard exists decides whether it is replaced
        which = np.flatnonzero(~is_whole)
        names = [chunk_rows.shards[row] for row in shards.tolist()]
        opened = open_shards(self.inner, self.level, [names[row] for row in which.tolist()])
        tables = np.full((len(shards), self.level.total, 2), -1, np.int64)
        tables[which] = opened.tables
        exists = np.ones(len(shards), np.bool_)
        exists[which] = [state == FOUND for state in opened.fetched.status]
        versions: list[Version | None] = [ANY] * len(shards)
        if self.inner.capabilities.expects:
            for row, version in zip(which.tolist(), opened.fetched.versions, strict=True):
                versions[row] = version or ABSENT
        return _Batch(names, tables, exists, versions, opened, which, part, group, chunk_rows.number[part])

    def _with_expected(self, batch: _Batch, expect: Versions, answers: list[Answer]) -> _Batch:
        """The chunks with the expected version; the others get their answer."""
        fits = np.ones(len(batch.rows), np.bool_)
        stored = batch.entries()[:, 0] >= 0
        for position, (row, group) in enumerate(zip(batch.rows.tolist(), batch.group.tolist(), strict=True)):
            if expect[row] is not ANY:
                present = (batch.versions[group] or ABSENT) if stored[position] else ABSENT
                if present != expect[row]:
                    answers[row], fits[position] = Changed(present), False
        return batch if fits.all() else batch.only(fits)

    def _carried(self, batch: _Batch) -> _Carried | None:
        """Fetches the chunks that stay in rebuilt shards, in one fetch; None if a shard was replaced meanwhile."""
        group, number = StackedIndex(batch.tables, np.arange(len(batch.tables))).others(batch.group, batch.number)
        rebuilt = np.zeros(len(batch.tables), np.bool_)
        rebuilt[batch.group] = True
        group, number = group[rebuilt[group]], number[rebuilt[group]]
        if not len(group):
            return _Carried(group, number, Sources(None, ()), NO_SPANS)
        position = np.zeros(len(batch.names), np.int64)
        position[batch.which] = np.arange(len(batch.which))
        spans = np.column_stack((position[group], batch.tables[group, number]))
        fetched = fetch_spans(self.inner, batch.opened.names, spans, continue_from=batch.opened.fetched)
        if STALE in fetched.status or (fetched.rows[:, 0] == MISSING).any():
            return None
        return _Carried(group, number, fetched.sources, fetched.rows)

    def _published(self, batch: _Batch, new: Pieces | None, carried: _Carried) -> dict[int, Answer]:
        """The result for each shard that has new chunks. new: of the chunks of the batch"""
        put = np.full(len(batch.group), new is not None)
        touched, changes, full, opened = np.zeros((4, len(batch.names)), np.bool_)
        touched[batch.group] = True
        changes[batch.group[put | (batch.entries()[:, 0] >= 0)]] = True  # erasing a missing chunk changes nothing
        full[np.concatenate((carried.shard, batch.group[put]))] = True
        opened[batch.which] = True
        outcome: dict[int, Answer] = dict.fromkeys(np.flatnonzero(touched).tolist())
        rebuilds = full & changes
        for chosen in (rebuilds, touched & ~full & batch.there & (changes | ~opened)):
            groups = np.flatnonzero(chosen)
            if len(groups):
                names = [batch.names[row] for row in groups.tolist()]
                versions = [batch.versions[row] for row in groups.tolist()]
                if chosen is rebuilds:
                    pieces = picked(self._rebuilt(batch.only(put), new or pieces_of([]), carried), groups)
                    answers: Sequence[Answer] = self.inner.put_many(names, pieces, versions)
                else:
                    answers = self._erased(names, versions)
                outcome.update(zip(groups.tolist(), answers, strict=True))
        return outcome

    def _rebuilt(self, batch: _Batch, new: Pieces, carried: _Carried) -> Pieces:
        """The shards of a batch of new chunks without unused space: an old chunk keeps its position among the others, new ones come last. A shard without
        chunks has no bytes."""
        sources, rows = joined_sources(new.sources, carried.sources, carried.rows)
        shard = np.concatenate((batch.group, carried.shard))
        number = np.concatenate((batch.number, carried.number))
        chunks = InnerChunks(
            shard,
            number,
            np.concatenate((new.rows, rows)),
            np.concatenate((new.offsets, new.offsets[-1] + 1 + np.arange(len(rows)))),
            batch.tables[shard, number, 0],
        )
        made = assemble(self.level, chunks, np.full_like(batch.tables, -1), -1 - len(sources.buffers), empty=False)
        return composed(Sources(sources.files, [*sources.buffers, made.indexes]), made.rows, made.offsets)

    def _erased(self, names: Sequence[str], versions: Versions) -> Sequence[Answer]:
        can = self.inner.capabilities
        if not can.erasable or (can.expects and not can.conditional_erase):
            return self.inner.put_many(names, pieces_of([whole_shard.empty_shard(self.level)] * len(names)), versions)
        return self.inner.erase_many(names, versions)
