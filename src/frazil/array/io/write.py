"""Writes values from memory of the caller; every chunk or shard is published as a whole.

A chunk or shard that a write covers whole is never read. Otherwise inner chunks that the write does not touch are copied as encoded bytes. The replacement
names the version that was read; if another writer was faster, the work is repeated.

A write covers a chunk at the end of the array whole only as long as the array does not grow, and this handle may not know its present length. So the version of
the chunk is read first, then the document; then the chunk is published if it still has that version (docs/design/024-handles.md).

Other processes may also make the array smaller. So each task compares the document before it publishes. If that takes a request, it runs in parallel with the
requests for chunks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import prod
from typing import Final

import numpy as np

from frazil.array.access import Access, check_index_memory, failure
from frazil.array.hierarchy.stored_document import Confirmation
from frazil.array.io.read import chunk_of
from frazil.array.io.scheduler import Scheduler, Task
from frazil.array.io.task_costs import (
    OPEN_OBJECTS,
    index_bytes,
    inner_chunk_bytes,
    publish_cost,
    shards_per_task,
    write_chunks_cost,
    write_cost,
)
from frazil.array.shards import shard_append
from frazil.array.shards.shard_assembly import Call, Kept, assembled, keep, outer_values, touched
from frazil.array.shards.shard_lookup import (
    KeyOf,
    Opened,
    Shards,
    Step,
    fetch_indexes,
    first_step,
    index_names,
    open_shards,
    replaced_since,
    walk,
)
from frazil.array.shards.shard_objects import BlobTable, MemoryObjects
from frazil.base.arrays import Values
from frazil.base.record import Record
from frazil.base.retry import WRITES, attempts
from frazil.codecs.chain.compiled_chain import encode_chunks
from frazil.codecs.sharding import whole_shard
from frazil.codecs.sharding.shard import StackedIndex
from frazil.errors import ConflictError, DataError, StoreError
from frazil.indexing.points import Batch, Chunks, Plan, PointPlan
from frazil.stores.array_storage.chunk_storage import Located
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    ANY,
    NO_SPANS,
    Changed,
    Columns,
    Pieces,
    Sources,
    Version,
    Versions,
    pieces_of,
    whole_spans,
)

_NO_VALUES: Final[Values] = np.empty(0, np.uint8)

# adds inner chunks that are already encoded, and are written whole, to the blobs: int64[n, 3], their rows there, length -1 where all fill value; and int64[n],
# ascending in the order in which they were written
EncodedSource = Callable[[Chunks, BlobTable], tuple[Columns, Columns]]
Attempt = Generator[int, None, list[int]]  # yields its cost from then on; returns the rows that another writer replaced


def write(
    access: Access,
    plan: Plan,
    values: Values,
    confirm: Callable[[], None],
    *,
    confirmed: bool = False,
    in_part: bool = False,
    keep_fill: bool = False,
) -> None:
    """Writes `values` (d dimensions for a box, one for points; the array's dtype) to what `plan` selects.

    confirm    StoredDocument.confirm with its arguments
    confirmed  the array's document has just been read, or written: the first task need not compare it
    keep_fill  chunks that are all fill value are stored like others
    in_part    no chunk counts as covered whole: each is read, and replaced only if it still has the version that was read

    Raises StoreError, DataError if a chunk cannot be decoded whose other elements are kept, ConflictError, also where another array has taken the location or
    the array has become smaller, NotFoundError where the array was removed. Then this task and later ones are not written."""
    scheduler = Scheduler(access.runtime, direct=access.storage.direct)
    source = Source(values, scheduler.kernel, confirm, keep_fill=keep_fill)
    if not confirmed and not plan.chunk_count:
        confirm()
    try:
        scheduler.run(_tasks(access, plan, source, scheduler.task_bytes, confirmed=confirmed, in_part=in_part))
    except (DataError, StoreError):
        confirm()  # if the chunks belong to another array, this raises that error instead
        raise


def publish_encoded(
    access: Access,
    plan: PointPlan,
    encoded: EncodedSource,
    confirm: Callable[[], None],
    *,
    whole: bool,
    shape: tuple[int, ...] | None,
) -> None:
    """Replaces one shard by encoded inner chunks and those that are kept.

    plan     an element of each inner chunk that is written, all in one shard
    confirm  as Source.confirm
    whole    whether all inner chunks that begin inside the array are written;  shape: as in Part
    Raises as `write`."""
    (batch,) = plan.batches(plan.chunk_count)
    part = Part(access, Source(_NO_VALUES, nullcontext(), confirm, encoded), batch, whole, shape)
    try:
        for _ in part.stages(np.zeros(1, np.int64)):
            pass
    except (DataError, StoreError):
        confirm()  # as in `write`
        raise


def _tasks(
    access: Access, plan: Plan, source: Source, nbytes: int, *, confirmed: bool, in_part: bool
) -> Iterator[Task]:
    """nbytes: of a task; other arguments as in `write`."""
    inner, sharded = prod(access.chain.inner_chunk_counts), bool(access.chain.levels)
    most = max(nbytes // inner_chunk_bytes(access), inner)
    first = shards_per_task(access, nbytes, carried=True) if sharded else OPEN_OBJECTS
    for batch in plan.batches(most):
        for part, rows in _parts(Part(access, source, batch), plan.shape, in_part):
            looked_up = not part.whole or part.shape is not None
            step = first if looked_up else max(len(rows), 1)
            for low in range(0, len(rows), step):
                some = rows[low : low + step]
                if sharded and not part.whole:
                    cost = index_bytes(access) * len(some)
                else:
                    cost = write_chunks_cost(access, min(len(some) * inner, batch.chunk_count), merges=not part.whole)
                yield Task(some, cost, partial(part.stages, confirmed=confirmed))
                confirmed = False


def _parts(undivided: Part, shape: tuple[int, ...], in_part: bool) -> Iterator[tuple[Part, Columns]]:
    """The parts of a batch, with their rows. undivided: all of it;  shape: of the array;  in_part: as in `write`."""
    chain, shards = undivided.access.chain, undivided.batch.shards
    whole = undivided.batch.whole_shards() & (not in_part)
    if not whole.any():  # as in most writes of few elements
        yield undivided, np.arange(len(whole))
        return
    outer = [extent * count for extent, count in zip(chain.inner_chunk.shape, chain.inner_chunk_counts, strict=True)]
    filled = [length // extent for length, extent in zip(shape, outer, strict=True)]  # chunks that end inside the array
    inside = (shards < filled).all(axis=1)
    yield undivided._replace(whole=True, shape=shape), np.flatnonzero(whole & ~inside)
    yield undivided._replace(whole=True), np.flatnonzero(whole & inside)
    yield undivided, np.flatnonzero(~whole)


class Source(Record):
    """The source of the values of a write.

    kernel   Scheduler.kernel
    confirm  called when versions are read, before anything is published; it raises where the stored document forbids the write. None: it was just read, or
             written
    encoded  instead of values;  keep_fill: as in `write`"""

    values: Values
    kernel: AbstractContextManager[object]
    confirm: Callable[[], None] | None
    encoded: EncodedSource | None = None
    keep_fill: bool = False


class Part(Record):
    """Chunks or shards of a batch that are written in the same way.

    whole  whether each is written whole, as far as it is inside the array
    shape  if they reach beyond the array's end: the lengths that the array must have for `whole`; None: they end at its end, or before"""

    access: Access
    source: Source
    batch: Batch
    whole: bool = False
    shape: tuple[int, ...] | None = None

    def stages(self, rows: Columns, *, confirmed: bool = False) -> Iterator[int]:
        """Replaces chunks or shards. Retries run one at a time for this array; their bytes are not counted.

        confirmed: the first attempt need not compare the document"""
        access = self.access
        if access.chain.levels:
            check_index_memory(access, len(rows), lambda: access.key(self.batch.shards[rows[:1]]))
        changed = yield from (self._with_confirm(None) if confirmed else self)._attempt(rows)
        if not changed:
            return
        with access.retry_lock.lock:
            for _ in attempts(WRITES):
                rows = rows[changed]
                # the chunks may have been replaced by another array
                changed = _run_attempt(self._attempt(rows))
                if not changed:
                    return
        located = access.storage.locate(self.batch.shards[rows[changed]])
        raise ConflictError(
            f"a chunk was replaced by others {WRITES.attempts} times while it was being written",
            key=located.key(0),
            path=access.path or "/",
            hint="write it again when the other writers are done",
        )

    def _with_confirm(self, confirm: Callable[[], None] | None) -> Part:
        return self._replace(source=self.source._replace(confirm=confirm))

    def _confirm(self) -> None:
        if self.source.confirm is not None:
            self.source.confirm()

    def _attempt(self, rows: Columns) -> Attempt:
        """If comparing the document takes a request, it runs in parallel with the others."""
        confirm = self.source.confirm
        if confirm is None or not self.access.document.takes_request(self.access.storage.direct):
            return (yield from self._replaced(rows))
        confirmation = Confirmation(confirm)
        try:
            return (yield from self._with_confirm(confirmation.await_answer)._replaced(rows))
        finally:
            confirmation.end()

    def _replaced(self, rows: Columns) -> Attempt:
        expect: Versions | None = None
        if self.shape is not None:
            expect = whole_versions(self.access, self.access.storage.locate(self.batch.shards[rows]), self.shape)
        elif self.whole:
            expect = [ANY] * len(rows)
        if not self.access.chain.levels:
            return (yield from self._publish_chunks(rows, expect))
        if expect is not None:
            return (yield from self._publish_shards(rows, expect))
        return (yield from self._change_shards(rows))

    def _publish_chunks(self, rows: Columns, versions: Versions | None, *, keep_fill: bool = False) -> Attempt:
        """Publishes chunks that are objects of their own. Returns those of `rows` that another writer replaced meanwhile.

        versions   the versions that whole chunks replace; None: a part of each chunk is kept
        keep_fill  chunks that are all fill value are written; else they are erased if possible"""
        access, coords, chunks = self.access, self.batch.shards[rows], self.batch.chunks(rows)
        blobs, old, held = BlobTable(), None, None
        expect = versions
        if expect is None:
            located = access.storage.locate(coords)
            fetched = access.storage.fetch(located, whole_spans(len(rows)))
            held = (located, fetched)
            old = blobs.add(fetched.sources, fetched.rows)
            expect = expected(fetched.versions, fetched.status)
        # without conditional erase a chunk is kept, even if it is all fill value
        conditional = not access.storage.conditional_erase and any(version is not ANY for version in expect)
        groups = np.array([0, chunks.count], np.int64)
        try:
            values = self._encode(
                chunks, blobs, old, groups, partial(access.key, coords), keep_fill or access.stores_fill or conditional
            )
        except StoreError as error:
            if held is None or not replaced_since(access, *held, error):
                raise
            return list(range(len(rows)))
        stored, empty = np.flatnonzero(values[:, 2] >= 0), np.flatnonzero(values[:, 2] < 0)
        pieces = Pieces(blobs.sources, np.ascontiguousarray(values[stored]), np.arange(len(stored) + 1, dtype=np.int64))
        yield publish_cost(access, blobs, pieces)
        self._confirm()
        if not len(empty) or access.storage.erasable:
            return self._put(coords, pieces, stored, empty, expect)
        changed = self._put(coords, pieces, stored, empty[:0], expect)
        existing = empty[access.storage.sizes(coords[empty]) >= 0]
        if len(existing):
            replaced = None if versions is None else [versions[i] for i in existing.tolist()]
            again = yield from self._publish_chunks(rows[existing], replaced, keep_fill=True)
            changed = sorted([*changed, *existing[again].tolist()])
        return changed

    def _publish_shards(self, rows: Columns, expect: Versions) -> Attempt:
        """Publishes shards that are written whole, as _publish_chunks."""
        access, coords = self.access, self.batch.shards[rows]
        nowhere = np.full((len(rows), 3), -1, np.int64)
        none = np.empty((0, access.chain.levels[0].total, 2), np.int64)
        shards = Shards(MemoryObjects(()), nowhere, StackedIndex(none, nowhere[:, 0]))
        changed = yield from self._replace_shards(rows, partial(access.key, coords), shards, expect)
        if access.indexes is not None and access.indexes.by_coordinates:
            access.indexes.drop(map(tuple, coords.tolist()))
        return changed

    def _change_shards(self, rows: Columns, *, whole: bool = False) -> Attempt:
        """Writes shards of which a part is kept. whole: they are replaced, not changed in place."""
        access, coords = self.access, self.batch.shards[rows]
        located = access.storage.locate(coords)
        if not whole and self.source.encoded is None and access.options.shard_writes == "append":
            chunks = self.batch.chunks(rows)
            yield write_chunks_cost(access, chunks.count)
            encoded = partial(self._encode, chunks, old=None, groups=chunks.offsets, key_of=located.key)
            answers = shard_append.append_remembered(access, chunks, coords, located.names, encoded, self._confirm)
            if answers is not None:
                return (yield from self._replace_others(rows, *answers))
        fetched = fetch_indexes(access, located)
        try:
            opened = open_shards(access, located, coords, fetched)
            yield write_cost(access, opened, self.batch.chunks(rows).count)
            if not whole and access.options.shard_writes != "rewrite":
                return (yield from self._change_in_place(rows, located, opened))
            expect = [
                version if slot >= 0 else ABSENT
                for version, slot in zip(opened.versions, opened.shards.indexes.slot.tolist(), strict=True)
            ]
            changed = yield from self._replace_shards(rows, located.key, opened.shards, expect)
            if access.indexes is not None:  # a stale index would cost the next read a request
                access.indexes.drop(index_names(access, coords, located))
            return changed
        except (DataError, StoreError) as error:
            if not replaced_since(access, located, fetched, error):
                raise
            return list(range(len(rows)))

    def _change_in_place(self, rows: Columns, located: Located, opened: Opened) -> Attempt:
        """Changes shards in place where possible; as _change_shards."""
        access = self.access
        chunks, steps, spans = self._walk(rows, located.key, opened.shards)
        sizes, (stacked, slot) = opened.shards.spans[:, 2], opened.shards.indexes
        group, number = touched(steps, 0)
        worth = shard_append.is_worth_appending(access, sizes, opened.versions, stacked, slot, group, number)
        if not worth.all():  # shards not worth it are replaced; the others are looked up again
            changed: list[int] = []
            for some, whole in ((np.flatnonzero(worth), False), (np.flatnonzero(~worth), True)):
                if len(some):
                    again = yield from self._change_shards(rows[some], whole=whole)
                    changed += some[again].tolist()
            return sorted(changed)
        made = self._encode_inner(
            chunks, steps, spans, located.key, keep_fill=access.options.shard_writes == "in_place"
        )
        if made is None:
            return list(range(len(rows)))
        values = outer_values(*made)
        self._confirm()
        shards = shard_append.Shards(self.batch.shards[rows], located.names, sizes, opened.versions, stacked[slot])
        answers = shard_append.change_chunks(access, shards, group, number, values, made[0].blobs.buffers)
        return (yield from self._replace_others(rows, *answers))

    def _replace_others(self, rows: Columns, changed: list[int], others: list[int]) -> Attempt:
        """Replaces whole the shards that could not be changed in place. changed, others: as returned by shard_append.change_chunks"""
        if others:
            again = yield from self._change_shards(rows[others], whole=True)
            changed += [others[i] for i in again]
        return sorted(changed)

    def _replace_shards(self, rows: Columns, key_of: KeyOf, shards: Shards, expect: Versions) -> Attempt:
        chunks, steps, spans = self._walk(rows, key_of, shards)
        made = self._encode_inner(chunks, steps, spans, key_of)
        if made is None:
            return list(range(len(rows)))
        there, pieces = assembled(*made)
        yield publish_cost(self.access, made[0].blobs, pieces)
        self._confirm()
        return self._put(self.batch.shards[rows], pieces, np.flatnonzero(there), np.flatnonzero(~there), expect)

    def _walk(self, rows: Columns, key_of: KeyOf, shards: Shards) -> tuple[Chunks, list[Step], Columns]:
        """The inner chunks that are written in shards, and where the old ones are, as from `walk`."""
        chunks = self.batch.chunks(rows)
        first = first_step(self.access, chunks, shards, np.arange(len(rows)))
        return chunks, *walk(self.access, chunks, key_of, first)

    def _encode_inner(
        self, chunks: Chunks, steps: list[Step], spans: Columns, key_of: KeyOf, *, keep_fill: bool = False
    ) -> tuple[Call, Columns, Kept] | None:
        """The new inner chunks and those that are kept, as `assembled` takes them; None where an object has another version by now, so that the kept ones
        would be of that."""
        encoded = self.source.encoded
        spans[chunks.whole() if encoded is None else slice(None)] = -1
        blobs, order = BlobTable(), None
        kept = keep(steps, spans, blobs)
        if steps[0].shards.objects.stale:
            return None
        if encoded is None:
            values = self._encode(chunks, blobs, kept.old, chunks.offsets, key_of, keep_fill)
        else:
            values, order = encoded(chunks, blobs)
        return Call(self.access, steps, chunks, key_of, blobs, order), values, kept

    def _encode(
        self,
        chunks: Chunks,
        blobs: BlobTable,
        old: Columns | None,
        groups: Columns,
        key_of: KeyOf,
        keep_fill: bool = False,
    ) -> Columns:
        """Encodes chunks into buffers of `blobs`: int64[n, 3], the rows of their bytes, length -1 for a chunk that is all fill value.

        old: rows in `blobs` of the old chunks of which a part is kept (MISSING: there is none), or None."""
        access, source, inner_chunk = self.access, self.source, self.access.chain.inner_chunk
        before, keep_fill = None if old is None else (*blobs.sources, old), keep_fill or source.keep_fill
        with source.kernel:
            mark = 0 if inner_chunk.heap is None else inner_chunk.heap.mark()
            encoded = encode_chunks(
                inner_chunk, source.values, chunks, before, groups, access.runtime.threads, keep_fill=keep_fill
            )
            if inner_chunk.heap is not None:
                inner_chunk.heap.cut(mark)  # the bytes of old chunks
        for i, code, text in encoded.failures:
            raise failure(access, code, text, key_of(int(chunks.shard_rows()[i])), chunk_of(chunks, i))
        return blobs.add(Sources(None, encoded.buffers), encoded.rows)

    def _put(self, coords: Columns, pieces: Pieces, stored: Columns, empty: Columns, expect: Versions) -> list[int]:
        """Publishes the objects `stored` and erases the existing ones of `empty`. Returns those that were not as expected.

        Shards are replaced by shards without inner chunks instead of erased if the store cannot erase, or not on condition: otherwise a shard that another
        writer puts there meanwhile would be lost."""
        storage, changed = self.access.storage, list[int]()
        if len(stored):
            results = storage.publish(coords[stored], pieces, [expect[i] for i in stored.tolist()])
            changed += [i for i, result in zip(stored.tolist(), results, strict=True) if isinstance(result, Changed)]
        to_erase = [i for i in empty.tolist() if expect[i] != ABSENT]
        if to_erase and not storage.conditional_erase:
            emptied = [i for i in to_erase if expect[i] is not ANY]
            to_erase = [i for i in to_erase if expect[i] is ANY]
            if to_erase and not storage.erasable:
                exists = storage.sizes(coords[to_erase]) >= 0
                emptied, to_erase = sorted([*emptied, *np.array(to_erase, np.int64)[exists].tolist()]), []
            if emptied:
                values = pieces_of([whole_shard.empty_shard(self.access.chain.levels[0])] * len(emptied))
                results = storage.publish(coords[emptied], values, [expect[i] for i in emptied])
                changed += [i for i, result in zip(emptied, results, strict=True) if isinstance(result, Changed)]
        if to_erase:
            erased = storage.erase(coords[to_erase], [expect[i] for i in to_erase])
            changed += [i for i, outcome in zip(to_erase, erased, strict=True) if isinstance(outcome, Changed)]
        return sorted(changed)


def _run_attempt(attempt: Attempt) -> list[int]:
    while True:
        try:
            next(attempt)
        except StopIteration as end:
            changed: list[int] = end.value
            return changed


def whole_versions(access: Access, located: Located, shape: tuple[int, ...]) -> list[Version | None] | None:
    """The versions to expect in a write of whole chunks that reach beyond the end of an array with the lengths `shape`; None where its lengths have changed, so
    that a part of the chunks must be kept."""
    versions = located.versions
    if versions is None:
        fetched = access.storage.fetch(located, NO_SPANS)
        expect = expected(fetched.versions, fetched.status)
    else:
        expect = [ABSENT if version is None else version for version in versions]
    replaces = any(version != ABSENT for version in expect)
    return None if replaces and not access.document.has_shape(shape) else expect


def expected(versions: Versions, status: Sequence[int]) -> list[Version | None]:
    """The versions that a replacement of fetched objects expects."""
    return [ABSENT if state == ABSENT_KEY else version for version, state in zip(versions, status, strict=True)]
