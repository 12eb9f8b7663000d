"""Replacing and erasing chunks of shards in a store without losing chunks of other writers: each shard is replaced under its version, and again
if another writer was faster.

Reading is in shard_reader.py, the layout of new shards in shard_builder.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from frazil.base.late import LateModule
from frazil.base.record import Record
from frazil.codecs.sharding.shard import Level, StackedIndex
from frazil.stores.array_storage.chunk_storage import fetch_spans
from frazil.stores.store import Store
from frazil.stores.transfer.append import append_many
from frazil.stores.transfer.composed_values import picked
from frazil.stores.transfer.content import read_values
from frazil.stores.transfer.retry import WRITES, attempts, outrun
from frazil.stores.transformer.shard_builder import Carried, Chunks, appended, rebuilt, table_after
from frazil.stores.transformer.shard_keys import ChunkRows
from frazil.stores.transformer.shard_reader import Opened, in_batches, open_shards
from frazil.stores.values import (
    ABSENT,
    ANY,
    FOUND,
    MISSING,
    STALE,
    Changed,
    Columns,
    Pieces,
    Sources,
    Version,
    pieces_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil._kernel import Buffer
    from frazil.codecs.sharding import whole_shard
else:
    whole_shard = LateModule("frazil.codecs.sharding.whole_shard")

_LITTLE: Final = 2**16  # unused bytes of a shard for which it is not rebuilt

Flags: TypeAlias = "NDArray[np.bool_]"
Answer = Version | Changed | None


class Values(Record):
    """The new values of some chunks: their bytes, and how many; -1: erased, and -2: left unchanged, both without pieces."""

    pieces: Pieces
    length: Columns


class ChunkChanges(Protocol):
    """The changes that a call makes to its chunks, which are numbered as in the call."""

    replaces_all: bool  # whether the old chunks are not needed

    def reads(self, row: int, size: int) -> bool:
        """Whether an old chunk of `size` bytes has to be read."""

    def values(self, rows: Columns, old: Sequence[tuple[int, bytes | None]]) -> Values:
        """old: bytes of each old chunk (-1: none), and the chunk, if it was requested. May raise: then nothing was written."""


class NewChunks:
    """New chunks that do not depend on the old ones."""

    replaces_all = True

    def __init__(self, pieces: Pieces) -> None:
        ends = np.concatenate(([0], np.cumsum(pieces.rows[:, 2])))
        self._pieces, self._length = pieces, ends[pieces.offsets[1:]] - ends[pieces.offsets[:-1]]

    def reads(self, row: int, size: int) -> bool:
        return False

    def values(self, rows: Columns, old: Sequence[tuple[int, bytes | None]]) -> Values:
        return Values(picked(self._pieces, rows), self._length[rows])


class ErasedChunks:
    """Chunks to erase."""

    replaces_all = True

    def reads(self, row: int, size: int) -> bool:
        return False

    def values(self, rows: Columns, old: Sequence[tuple[int, bytes | None]]) -> Values:
        none = Pieces(Sources(None, ()), np.zeros((0, 3), np.int64), np.zeros(len(rows) + 1, np.int64))
        return Values(none, np.full(len(rows), -1))


class ModifiedChunks:
    """Chunks made from the old ones. make: gets the number of a chunk in the call, the bytes of the old one (-1: none), and the old one, if `reads`
    requests it; returns None for a chunk that stays."""

    replaces_all = False

    def __init__(
        self, make: Callable[[int, int, bytes | None], Buffer | None], reads: Callable[[int, int], bool]
    ) -> None:
        self._make, self._reads = make, reads

    def reads(self, row: int, size: int) -> bool:
        return self._reads(row, size)

    def values(self, rows: Columns, old: Sequence[tuple[int, bytes | None]]) -> Values:
        made_values = [self._make(row, *replaces_all) for row, replaces_all in zip(rows.tolist(), old, strict=True)]
        pieces = pieces_of([b"" if value is None else value for value in made_values])
        length = np.where([value is None for value in made_values], -2, pieces.rows[:, 2]).astype(np.int64)
        counts = (length >= 0).astype(np.int64)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        return Values(Pieces(pieces.sources, np.ascontiguousarray(pieces.rows[counts > 0]), offsets), length)


class _Batch(Record):
    """Some shards, and the chunks of the call that change in them.

    names, tables, there, versions, sizes   of each shard: its key, its index (-1: no chunk), whether it exists, its version, its bytes
    opened               the shards that were read: all except those that are replaced completely; which: their rows in `names`
    rows, group, number  of each chunk: its number in the call, its row in `names`, its number in the index
    """

    names: Sequence[str]
    tables: Columns
    there: Flags
    versions: list[Version | None]
    sizes: Columns
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


class _Kept(Record):
    """The parts of old shards that are kept. carried: chunks that the call does not touch; rows: int64[n, 3], in the same sources, the old chunk of each chunk
    that it changes, MISSING if there is none or it is not needed; values: of these."""

    carried: Carried
    rows: Columns
    values: list[bytes | None]


class ShardWriter(Record):
    """How shards are written. append: chunks are appended if the store can, as long as the unused bytes are few, or not more than the part
    `unused` of the shard."""

    inner: Store
    level: Level
    append: bool
    unused: float

    def change(self, chunk_rows: ChunkRows, expect: Sequence[Version | None], changes: ChunkChanges) -> list[Answer]:
        """Changes chunks. Returns for each its new version (None: it was erased, or left unchanged), or the change of another writer."""
        answers: list[Answer] = [None] * len(expect)
        published: dict[int, Version] = {}
        pending = np.arange(len(expect))
        for _ in attempts(WRITES):
            shards = np.unique(chunk_rows.group[pending])
            again = [np.zeros(0, np.int64)]
            batches = list(in_batches(self.level, len(shards)))
            for batch in batches:
                part = pending if len(batches) == 1 else pending[np.isin(chunk_rows.group[pending], shards[batch])]
                again.append(self._attempt(chunk_rows, part, expect, changes, answers, published))
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
        expect: Sequence[Version | None],
        changes: ChunkChanges,
        answers: list[Answer],
        published: dict[int, Version],
    ) -> Columns:
        """One attempt, for some chunks of the call. Returns the chunks to be tried again."""
        batch = self._with_expected(self._open_shards(chunk_rows, part, expect, changes), expect, answers)
        appends = self._which_append(batch)
        kept_parts = self._fetch_kept(batch, appends, changes)
        if kept_parts is None:
            return batch.rows
        old = zip(batch.entries()[:, 1].tolist(), kept_parts.values, strict=True)
        values = changes.values(batch.rows, list(old))
        unset = values.length == -2
        carried = kept_parts.carried
        if unset.any():
            stays = unset & (batch.entries()[:, 0] >= 0) & ~appends[batch.group]
            carried = Carried(
                np.concatenate((carried.shard, batch.group[stays])),
                np.concatenate((carried.number, batch.number[stays])),
                carried.sources,
                np.concatenate((carried.rows, kept_parts.rows[stays])),
            )
            batch = batch.only(~unset)
            values = Values(picked(values.pieces, np.flatnonzero(~unset)), values.length[~unset])
        outcome = self._publish(batch, Chunks(batch.group, batch.number, *values), carried, appends)
        again = [isinstance(outcome[group], Changed) for group in batch.group.tolist()]
        for row, group, length in zip(batch.rows.tolist(), batch.group.tolist(), values.length.tolist(), strict=True):
            answer = outcome[group]
            answers[row] = answer if length >= 0 else None
            if isinstance(answer, bytes):
                published[int(chunk_rows.group[row])] = answer
        return batch.rows[again]

    def _open_shards(
        self, chunk_rows: ChunkRows, part: Columns, expect: Sequence[Version | None], changes: ChunkChanges
    ) -> _Batch:
        """The shards of some chunks. Shards whose chunks are all given, under any version, are not read."""
        shards, group = np.unique(chunk_rows.group[part], return_inverse=True)
        free = np.array([expect[row] is ANY for row in part.tolist()], np.bool_)
        is_whole = np.bincount(group[free], minlength=len(shards)) == self.level.total
        replaces_all = changes.replaces_all
        if (
            isinstance(changes, ErasedChunks) and not self.inner.capabilities.erasable
        ):  # whether a shard exists decides whether it is replaced
            replaces_all = False
        which = np.flatnonzero(~(is_whole & replaces_all))
        names = [chunk_rows.shards[row] for row in shards.tolist()]
        opened = open_shards(self.inner, self.level, [names[row] for row in which.tolist()])
        tables = np.full((len(shards), self.level.total, 2), -1, np.int64)
        tables[which] = opened.tables
        exists = np.ones(len(shards), np.bool_)
        exists[which] = [state == FOUND for state in opened.fetched.status]
        versions: list[Version | None] = [ANY] * len(shards)
        sizes = np.zeros(len(shards), np.int64)
        if len(which):
            sizes[which] = opened.fetched.sizes
        if self.inner.capabilities.expects:
            for row, version in zip(which.tolist(), opened.fetched.versions, strict=True):
                versions[row] = version or ABSENT
        return _Batch(names, tables, exists, versions, sizes, opened, which, part, group, chunk_rows.number[part])

    def _with_expected(self, batch: _Batch, expect: Sequence[Version | None], answers: list[Answer]) -> _Batch:
        """The chunks with the expected version; the others get their answer."""
        fits = np.ones(len(batch.rows), np.bool_)
        stored = batch.entries()[:, 0] >= 0
        for position, (row, group) in enumerate(zip(batch.rows.tolist(), batch.group.tolist(), strict=True)):
            if expect[row] is not ANY:
                present = (batch.versions[group] or ABSENT) if stored[position] else ABSENT
                if present != expect[row]:
                    answers[row], fits[position] = Changed(present), False
        return batch if fits.all() else batch.only(fits)

    def _which_append(self, batch: _Batch) -> Flags:
        """Which shards are appended to."""
        opened = np.zeros(len(batch.names), np.bool_)
        if self.append and self.inner.capabilities.appendable:
            opened[batch.which] = True
            tables = batch.tables.copy()
            tables[batch.group, batch.number] = -1
            live = np.maximum(tables[:, :, 1], 0).sum(axis=1)
            most = np.maximum(self.unused * batch.sizes, _LITTLE)
            opened &= batch.there & (batch.sizes - live <= most)
        return opened

    def _fetch_kept(self, batch: _Batch, appends: Flags, changes: ChunkChanges) -> _Kept | None:
        """Fetches the parts that are kept, in one fetch; None if a shard was replaced meanwhile."""
        entries = batch.entries()
        sizes = entries[:, 1].tolist()
        reads = np.array(
            [size >= 0 and changes.reads(row, size) for row, size in zip(batch.rows.tolist(), sizes, strict=True)],
            np.bool_,
        )
        group, number = StackedIndex(batch.tables, np.arange(len(batch.tables))).others(batch.group, batch.number)
        rebuilt = np.zeros(len(batch.tables), np.bool_)
        rebuilt[batch.group] = True
        carried = (rebuilt & ~appends)[group]
        group, number = group[carried], number[carried]
        spans = np.empty((int(reads.sum()) + len(group), 3), np.int64)
        position = np.zeros(len(batch.names), np.int64)
        position[batch.which] = np.arange(len(batch.which))
        spans[:, 0] = position[np.concatenate((batch.group[reads], group))]
        spans[:, 1:] = np.concatenate((entries[reads], batch.tables[group, number]))
        rows = np.full((len(reads), 3), (MISSING, 0, 0), np.int64)
        values: list[bytes | None] = [None] * len(reads)
        if not len(spans):
            return _Kept(Carried(group, number, Sources(None, ()), spans), rows, values)
        fetched = fetch_spans(self.inner, batch.opened.names, spans, continue_from=batch.opened.fetched)
        if STALE in fetched.status or (fetched.rows[:, 0] == MISSING).any():
            return None
        count = int(reads.sum())
        rows[reads] = fetched.rows[:count]
        found = read_values(fetched._replace(rows=fetched.rows[:count]), batch.opened.names, spans[:count])
        for row, value in zip(np.flatnonzero(reads).tolist(), found, strict=True):
            values[row] = value
        return _Kept(Carried(group, number, fetched.sources, fetched.rows[count:]), rows, values)

    def _publish(self, batch: _Batch, new: Chunks, carried: Carried, appends: Flags) -> dict[int, Answer]:
        """The result for each shard that has new chunks."""
        after = table_after(batch.tables, new)
        full = (after[:, :, 0] >= 0).any(axis=1)
        touched = np.zeros(len(after), np.bool_)
        touched[new.shard] = True
        outcome: dict[int, Answer] = dict.fromkeys(np.flatnonzero(touched).tolist())
        changes = np.zeros(len(after), np.bool_)  # erasing a missing chunk changes nothing
        changes[new.shard[(new.length >= 0) | (batch.tables[new.shard, new.number, 0] >= 0)]] = True
        is_whole = np.ones(len(after), np.bool_)
        is_whole[batch.which] = False
        actions = (
            (full & changes & ~appends, self._rebuild),
            (full & changes & appends, self._append),
            (~full & batch.there & (changes | is_whole), self._erase),
        )
        for chosen, act in actions:
            chosen &= touched
            groups = np.flatnonzero(chosen)
            if len(groups):
                answers = act(batch, groups, *_of_groups(new, carried, chosen))
                outcome.update(zip(groups.tolist(), answers, strict=True))
        return outcome

    def _rebuild(self, batch: _Batch, groups: Columns, new: Chunks, carried: Carried) -> Sequence[Answer]:
        pieces = rebuilt(self.level, batch.tables[groups], new, carried)
        return self.inner.put_many(*_named(batch, groups, pieces))

    def _append(self, batch: _Batch, groups: Columns, new: Chunks, carried: Carried) -> Sequence[Answer]:
        pieces = appended(self.level, batch.tables[groups], batch.sizes[groups], new)
        return append_many(self.inner, *_named(batch, groups, pieces))

    def _erase(self, batch: _Batch, groups: Columns, new: Chunks, carried: Carried) -> Sequence[Answer]:
        names = [batch.names[row] for row in groups.tolist()]
        versions = [batch.versions[row] for row in groups.tolist()]
        can = self.inner.capabilities
        if not can.erasable or (can.expects and not can.conditional_erase):
            return self.inner.put_many(names, pieces_of([whole_shard.empty_shard(self.level)] * len(names)), versions)
        return self.inner.erase_many(names, versions)


def _named(batch: _Batch, groups: Columns, pieces: Pieces) -> tuple[list[str], Pieces, list[Version | None]]:
    rows = groups.tolist()
    return [batch.names[row] for row in rows], pieces, [batch.versions[row] for row in rows]


def _of_groups(new: Chunks, carried: Carried, chosen: Flags) -> tuple[Chunks, Carried]:
    """The chunks of some shards, renumbered to these shards."""
    if chosen.all():
        return new, carried
    position = np.cumsum(chosen) - 1
    which, carried_rows = np.flatnonzero(chosen[new.shard]), chosen[carried.shard]
    return (
        Chunks(position[new.shard[which]], new.number[which], picked(new.pieces, which), new.length[which]),
        Carried(
            position[carried.shard[carried_rows]],
            carried.number[carried_rows],
            carried.sources,
            carried.rows[carried_rows],
        ),
    )
