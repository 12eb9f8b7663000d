"""Writes values from memory of the caller; every chunk or shard is published as a whole.

A chunk or shard that a write covers whole is never read. Otherwise inner chunks that the write does not touch are copied as encoded bytes. The replacement
names the version that was read; if another writer was faster, the work is repeated.

A write covers a chunk at the end of the array whole only as long as the array does not grow, and this handle may not know its present length. So the version of
the chunk is read first, then the document; then the chunk is published if it still has that version (docs/design/024-handles.md).

Other processes may also make the array smaller. So each task compares the document before it publishes. If that takes a request, it runs in parallel with the
requests for chunks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final

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
from frazil.array.io.write_parts import EncodedSource, Part, Source, parts_of
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
from frazil.base.late import LateModule
from frazil.base.retry import WRITES, attempts
from frazil.codecs.chain.compiled_chain import encode_chunks
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

if TYPE_CHECKING:
    from frazil.array.shards import shard_append
    from frazil.codecs.sharding import whole_shard
else:
    shard_append = LateModule("frazil.array.shards.shard_append")
    whole_shard = LateModule("frazil.codecs.sharding.whole_shard")

_NO_VALUES: Final[Values] = np.empty(0, np.uint8)


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
    source = Source(_NO_VALUES, nullcontext(), confirm, encoded)
    try:
        for _ in _write_shards(access, source, Part(batch, whole, shape), np.zeros(1, np.int64)):
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
        for part, rows in parts_of(access, plan.shape, batch, in_part):
            looked_up = not part.whole or part.shape is not None
            step = first if looked_up else max(len(rows), 1)
            for low in range(0, len(rows), step):
                some = rows[low : low + step]
                if sharded and not part.whole:
                    cost = index_bytes(access) * len(some)
                else:
                    cost = write_chunks_cost(access, min(len(some) * inner, batch.chunk_count), merges=not part.whole)
                yield Task(some, cost, partial(_write_shards, access, source, part._replace(confirmed=confirmed)))
                confirmed = False


def _write_shards(access: Access, source: Source, part: Part, rows: Columns) -> Iterator[int]:
    """Replaces chunks or shards. Retries run one at a time for this array; their bytes are not counted."""
    first = rows[:1]
    if access.chain.levels:
        check_index_memory(access, len(rows), lambda: access.key(part.batch.shards[first]))
    changed = yield from _attempt(access, part, rows, source._replace(confirm=None) if part.confirmed else source)
    if not changed:
        return
    with access.retry_lock.lock:
        for _ in attempts(WRITES):
            rows = rows[changed]
            # the chunks may have been replaced by another array
            changed = _run_attempt(_attempt(access, part, rows, source))
            if not changed:
                return
    located = access.storage.locate(part.batch.shards[rows[changed]])
    raise ConflictError(
        f"a chunk was replaced by others {WRITES.attempts} times while it was being written",
        key=located.key(0),
        path=access.path or "/",
        hint="write it again when the other writers are done",
    )


Attempt = Generator[int, None, list[int]]  # yields its cost from then on; returns the rows that another writer replaced


def _run_attempt(attempt: Attempt) -> list[int]:
    while True:
        try:
            next(attempt)
        except StopIteration as end:
            changed: list[int] = end.value
            return changed


def _attempt(access: Access, part: Part, rows: Columns, source: Source) -> Attempt:
    """If comparing the document takes a request, it runs in parallel with the others."""
    if source.confirm is None or not access.document.takes_request(access.storage.direct):
        return (yield from _replaced(access, part, rows, source))
    confirmation = Confirmation(source.confirm)
    try:
        return (yield from _replaced(access, part, rows, source._replace(confirm=confirmation.await_answer)))
    finally:
        confirmation.end()


def _replaced(access: Access, part: Part, rows: Columns, source: Source) -> Attempt:
    expect: Versions | None = None
    if part.shape is not None:
        expect = whole_versions(access, access.storage.locate(part.batch.shards[rows]), part.shape)
    elif part.whole:
        expect = [ANY] * len(rows)
    if not access.chain.levels:
        return (yield from _publish_chunks(access, part.batch, rows, expect, source))
    if expect is not None:
        return (yield from _publish_shards(access, part.batch, rows, expect, source))
    return (yield from _change_shards(access, part.batch, rows, source))


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


def _publish_chunks(
    access: Access,
    batch: Batch,
    rows: Columns,
    versions: Versions | None,
    source: Source,
    *,
    keep_fill: bool = False,
) -> Attempt:
    """Publishes chunks that are objects of their own. Returns those of `rows` that another writer replaced meanwhile.

    versions   the versions that whole chunks replace; None: a part of each chunk is kept
    keep_fill  chunks that are all fill value are written; else they are erased if possible"""
    coords = batch.shards[rows]
    chunks = batch.chunks(rows)
    blobs, old, held = BlobTable(), None, None
    expect, key_of = versions, partial(access.key, coords)
    if expect is None:
        located = access.storage.locate(coords)
        fetched = access.storage.fetch(located, whole_spans(len(rows)))
        held = (located, fetched)
        old = blobs.add(fetched.sources, fetched.rows)
        expect = expected(fetched.versions, fetched.status)
    # without conditional erase a chunk is kept, even if it is all fill value
    keep_fill = keep_fill or access.stores_fill
    keep_fill = keep_fill or (not access.storage.conditional_erase and any(version is not ANY for version in expect))
    groups = np.array([0, chunks.count], np.int64)
    try:
        values = encode(access, chunks, source, blobs, old, groups, key_of, keep_fill=keep_fill)
    except StoreError as error:
        if held is None or not replaced_since(access, *held, error):
            raise
        return list(range(len(rows)))
    stored, empty = np.flatnonzero(values[:, 2] >= 0), np.flatnonzero(values[:, 2] < 0)
    pieces = Pieces(blobs.sources, np.ascontiguousarray(values[stored]), np.arange(len(stored) + 1, dtype=np.int64))
    yield publish_cost(access, blobs, pieces)
    if source.confirm is not None:
        source.confirm()
    if not len(empty) or access.storage.erasable:
        return replace(access, coords, pieces, stored, empty, expect)
    changed = replace(access, coords, pieces, stored, empty[:0], expect)
    existing = empty[access.storage.sizes(coords[empty]) >= 0]
    if len(existing):
        replaced = None if versions is None else [versions[i] for i in existing.tolist()]
        again = yield from _publish_chunks(access, batch, rows[existing], replaced, source, keep_fill=True)
        changed = sorted([*changed, *existing[again].tolist()])
    return changed


def _publish_shards(access: Access, batch: Batch, rows: Columns, expect: Versions, source: Source) -> Attempt:
    """Publishes shards that are written whole, as _publish_chunks."""
    coords = batch.shards[rows]
    nowhere = np.full((len(rows), 3), -1, np.int64)
    none = np.empty((0, access.chain.levels[0].total, 2), np.int64)
    shards = Shards(MemoryObjects(()), nowhere, StackedIndex(none, nowhere[:, 0]))
    changed = yield from _replace_shards(access, batch, rows, partial(access.key, coords), shards, expect, source)
    if access.indexes is not None and access.indexes.by_coordinates:
        access.indexes.drop(map(tuple, coords.tolist()))
    return changed


def _change_shards(access: Access, batch: Batch, rows: Columns, source: Source, *, whole: bool = False) -> Attempt:
    """Writes shards of which a part is kept. whole: they are replaced, not changed in place."""
    coords = batch.shards[rows]
    located = access.storage.locate(coords)
    if not whole and source.encoded is None and access.options.shard_writes == "append":
        chunks = batch.chunks(rows)
        yield write_chunks_cost(access, chunks.count)
        encoded = partial(encode, access, chunks, source, old=None, groups=chunks.offsets, key_of=located.key)
        answers = shard_append.append_remembered(access, chunks, coords, located.names, encoded, source.confirm)
        if answers is not None:
            return (yield from _replace_others(access, batch, rows, source, *answers))
    fetched = fetch_indexes(access, located)
    try:
        opened = open_shards(access, located, coords, fetched)
        yield write_cost(access, opened, batch.chunks(rows).count)
        expect = [
            version if slot >= 0 else ABSENT
            for version, slot in zip(opened.versions, opened.shards.indexes.slot.tolist(), strict=True)
        ]
        if whole or access.options.shard_writes == "rewrite":
            changed = yield from _replace_shards(access, batch, rows, located.key, opened.shards, expect, source)
        else:
            return (yield from _change_in_place(access, batch, rows, located, opened, source))
        if access.indexes is not None:  # a stale index would cost the next read a request
            access.indexes.drop(index_names(access, coords, located))
        return changed
    except (DataError, StoreError) as error:
        if not replaced_since(access, located, fetched, error):
            raise
        return list(range(len(rows)))


def _change_in_place(
    access: Access, batch: Batch, rows: Columns, located: Located, opened: Opened, source: Source
) -> Attempt:
    """Changes shards in place where possible; as _change_shards."""
    chunks, (steps, spans) = _walk_to(access, batch, rows, located.key, opened.shards)
    sizes, (stacked, slot) = opened.shards.spans[:, 2], opened.shards.indexes
    group, number = touched(steps, 0)
    worth = shard_append.is_worth_appending(access, sizes, opened.versions, stacked, slot, group, number)
    if not worth.all():  # shards not worth it are replaced; the others are looked up again
        changed: list[int] = []
        for some, whole in ((np.flatnonzero(worth), False), (np.flatnonzero(~worth), True)):
            if len(some):
                again = yield from _change_shards(access, batch, rows[some], source, whole=whole)
                changed += some[again].tolist()
        return sorted(changed)
    made = _encode_inner(
        access, chunks, steps, spans, located.key, source, keep_fill=access.options.shard_writes == "in_place"
    )
    if made is None:
        return list(range(len(rows)))
    values = outer_values(*made)
    if source.confirm is not None:
        source.confirm()
    shards = shard_append.Shards(batch.shards[rows], located.names, sizes, opened.versions, stacked[slot])
    answers = shard_append.change_chunks(access, shards, group, number, values, made[0].blobs.buffers)
    return (yield from _replace_others(access, batch, rows, source, *answers))


def _replace_others(
    access: Access, batch: Batch, rows: Columns, source: Source, changed: list[int], others: list[int]
) -> Attempt:
    """Replaces whole the shards that could not be changed in place. changed, others: as returned by shard_append.change_chunks"""
    if others:
        again = yield from _change_shards(access, batch, rows[others], source, whole=True)
        changed += [others[i] for i in again]
    return sorted(changed)


def _replace_shards(
    access: Access,
    batch: Batch,
    rows: Columns,
    key_of: KeyOf,
    shards: Shards,
    expect: Versions,
    source: Source,
) -> Attempt:
    chunks, (steps, spans) = _walk_to(access, batch, rows, key_of, shards)
    made = _encode_inner(access, chunks, steps, spans, key_of, source)
    if made is None:
        return list(range(len(rows)))
    there, pieces = assembled(*made)
    present, empty = np.flatnonzero(there), np.flatnonzero(~there)
    yield publish_cost(access, made[0].blobs, pieces)
    if source.confirm is not None:
        source.confirm()
    return replace(access, batch.shards[rows], pieces, present, empty, expect)


def _walk_to(
    access: Access, batch: Batch, rows: Columns, key_of: KeyOf, shards: Shards
) -> tuple[Chunks, tuple[list[Step], Columns]]:
    """The inner chunks that are written in shards, and where the old ones are, as from `walk`."""
    chunks = batch.chunks(rows)
    return chunks, walk(access, chunks, key_of, first_step(access, chunks, shards, np.arange(len(rows))))


def _encode_inner(
    access: Access,
    chunks: Chunks,
    steps: list[Step],
    spans: Columns,
    key_of: KeyOf,
    source: Source,
    *,
    keep_fill: bool = False,
) -> tuple[Call, Columns, Kept] | None:
    """The new inner chunks and those that are kept, as `assembled` takes them; None where an object has another version by now, so that the kept ones would be
    of that."""
    spans[chunks.whole() if source.encoded is None else slice(None)] = -1
    blobs, order = BlobTable(), None
    kept = keep(steps, spans, blobs)
    if steps[0].shards.objects.stale:
        return None
    if source.encoded is None:
        values = encode(access, chunks, source, blobs, kept.old, chunks.offsets, key_of, keep_fill=keep_fill)
    else:
        values, order = source.encoded(chunks, blobs)
    return Call(access, steps, chunks, key_of, blobs, order), values, kept


def expected(versions: Versions, status: Sequence[int]) -> list[Version | None]:
    """The versions that a replacement of fetched objects expects."""
    return [ABSENT if state == ABSENT_KEY else version for version, state in zip(versions, status, strict=True)]


def replace(
    access: Access, coords: Columns, pieces: Pieces, stored: Columns, empty: Columns, expect: Versions
) -> list[int]:
    """Publishes the objects `stored` and erases the existing ones of `empty`. Returns those that were not as expected.

    Shards are replaced by shards without inner chunks instead of erased if the store cannot erase, or not on condition: otherwise a shard that another writer
    puts there meanwhile would be lost."""
    changed: list[int] = []
    if len(stored):
        results = access.storage.publish(coords[stored], pieces, [expect[i] for i in stored.tolist()])
        changed += [i for i, result in zip(stored.tolist(), results, strict=True) if isinstance(result, Changed)]
    to_erase = [i for i in empty.tolist() if expect[i] != ABSENT]
    if to_erase and not access.storage.conditional_erase:
        emptied = [i for i in to_erase if expect[i] is not ANY]
        to_erase = [i for i in to_erase if expect[i] is ANY]
        if to_erase and not access.storage.erasable:
            exists = access.storage.sizes(coords[to_erase]) >= 0
            emptied, to_erase = sorted([*emptied, *np.array(to_erase, np.int64)[exists].tolist()]), []
        if emptied:
            values = pieces_of([whole_shard.empty_shard(access.chain.levels[0])] * len(emptied))
            results = access.storage.publish(coords[emptied], values, [expect[i] for i in emptied])
            changed += [i for i, result in zip(emptied, results, strict=True) if isinstance(result, Changed)]
    if to_erase:
        erased = access.storage.erase(coords[to_erase], [expect[i] for i in to_erase])
        changed += [i for i, outcome in zip(to_erase, erased, strict=True) if isinstance(outcome, Changed)]
    return sorted(changed)


def encode(
    access: Access,
    chunks: Chunks,
    source: Source,
    blobs: BlobTable,
    old: Columns | None,
    groups: Columns,
    key_of: KeyOf,
    *,
    keep_fill: bool = False,
) -> Columns:
    """Encodes chunks into buffers of `blobs`: int64[n, 3], the rows of their bytes, length -1 for a chunk that is all fill value.

    old: rows in `blobs` of the old chunks of which a part is kept (MISSING: there is none), or None."""
    before, inner_chunk = None if old is None else (*blobs.sources, old), access.chain.inner_chunk
    with source.kernel:
        mark = 0 if inner_chunk.heap is None else inner_chunk.heap.mark()
        encoded = encode_chunks(
            inner_chunk,
            source.values,
            chunks,
            before,
            groups,
            access.runtime.threads,
            keep_fill=keep_fill or source.keep_fill,
        )
        if inner_chunk.heap is not None:
            inner_chunk.heap.cut(mark)  # the bytes of old chunks
    for i, code, text in encoded.failures:
        raise failure(access, code, text, key_of(int(chunks.shard_rows()[i])), chunk_of(chunks, i))
    return blobs.add(Sources(None, encoded.buffers), encoded.rows)
