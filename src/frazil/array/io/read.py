"""Reads a plan into memory of the caller. Missing chunks give the fill value; unreadable chunks are an error.

indexing/ makes plans, shards/shard_lookup.py finds inner chunks, scheduler.py admits tasks."""

from __future__ import annotations

from _thread import allocate_lock  # threading's Lock, without the module
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.array.access import Access, failure, result_memory, shard_replaced
from frazil.array.io.kernel_read import read_with_kernel
from frazil.array.io.scheduler import Scheduler, Task
from frazil.array.io.task_costs import (
    INNER_CHUNK_BYTES,
    OPEN_OBJECTS,
    index_bytes,
    inner_chunk_bytes,
    read_chunks_cost,
    read_cost,
    shard_bytes,
    shards_per_task,
)
from frazil.array.shards.shard_indexes import IndexTables, Slot
from frazil.array.shards.shard_lookup import (
    Shards,
    Step,
    fetch_indexes,
    first_step,
    index_names,
    open_shards,
    replaced_since,
    walk,
)
from frazil.array.shards.shard_objects import StoredObjects, missing_rows
from frazil.base import threads
from frazil.base.arrays import Columns, Values
from frazil.base.record import Record
from frazil.base.retry import READS, attempts, when_files_are_free
from frazil.codecs.chain.compiled_chain import decode_chunks
from frazil.codecs.sharding.shard import StackedIndex
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.indexing.box import box_plan
from frazil.indexing.points import Batch, Chunks, Plan, point_plan
from frazil.indexing.selection import AxisSelection, BoxSelection, Selection
from frazil.stores.array_storage.chunk_storage import Located
from frazil.stores.values import Fetched, Sources, Versions, whole_spans

if TYPE_CHECKING:
    from frazil.metadata.types.core import DataType
    from frazil.metadata.types.heap import Heap


_PART_ELEMENTS: Final = 2**20  # of a part of a selection of variable-length elements; at least one row of chunks


class Target(Record):
    """The target of a read. out: the caller's memory, of the array's dtype, any strides; kernel: Scheduler.kernel."""

    out: Values
    kernel: AbstractContextManager[object]


class SharedIndex:
    """The index of a shard that several tasks read: the first task fetches it, while the others wait. slot: None until it is fetched; missing: the shard does
    not exist."""

    __slots__ = ("lock", "missing", "slot")

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.slot: Slot | None = None
        self.missing = False


class Found(Record):
    """Shards whose indexes are in memory. rows: int64[m], of the batch; names: for RememberedIndexes; located: their objects; chunks, first: of the existing
    shards; expect: a version for each row; fetched: the answer with the indexes, None where they were remembered."""

    rows: Columns
    names: Sequence[Hashable]
    located: Located
    chunks: Chunks
    first: Step
    expect: Versions
    fetched: Fetched | None


FoundRows: TypeAlias = tuple[list[Found], Columns, list[int]]  # existing shards; rows of missing, and of changed ones
_NO_ROWS: Columns = np.empty(0, np.int64)

Plans: TypeAlias = "Callable[[Selection, Access], Iterable[tuple[Access, Plan]]]"


def plan_of(selection: Selection, inner_chunk: tuple[int, ...], counts: tuple[int, ...] | None) -> Plan:
    """The plan for chunks of one shape. counts: inner chunks in a shard, None: there are no shards."""
    if isinstance(selection, BoxSelection):
        return box_plan(selection, inner_chunk, counts)
    return point_plan(selection, inner_chunk, counts)


def read_selection(
    access: Access,
    plans: Plans,
    selection: Selection,
    dtype: np.dtype[np.generic],
    out: Values | None,
) -> Values:
    """The values of a selection; in `out`, where it is given.

    plans: of a selection, one for each shape of chunks, each with the access to these chunks. Raises InvalidInputError for an unsuitable `out`; as `read`."""
    shape, path = selection.result_shape, access.path or "/"
    if out is not None:
        check_out(out, shape, dtype, path)
    if access.variable is None:
        values = _empty(shape, dtype, path) if out is None else out
        _read_to(access, plans, selection, values)
        return values
    data_type = access.variable.data_type
    if isinstance(selection, BoxSelection) and _is_divided(access, selection):
        values = _empty(shape, dtype, path) if out is None else out
        _read_parts(access, plans, selection, data_type, selection.out_view(values))
        return values
    elements, heap = _read_elements(access, plans, selection)
    if out is None:
        return data_type.values_of(elements, heap)
    data_type.put_values(elements, heap, out)
    return out


def _read_parts(access: Access, plans: Plans, selection: BoxSelection, data_type: DataType, out: Values) -> None:
    """Reads elements of variable length part by part into `out`, which has the order of selection.out_view. Parts reuse the memory for views and heap of
    earlier parts, so that a large read needs little memory beside its result.

    Another thread puts the values of a part into `out` while the next part is read: NumPy's allocator of strings is used by one thread at a time, so this is
    the only way to use other cores meanwhile."""
    begin, putting = 0, None
    with threads.Threads(0 if access.runtime.checked().threads == 1 else 1, "frazil strings") as other:
        for part in _parts_of(access, selection):
            put, end = partial(data_type.put_values, *_read_elements(access, plans, part)), begin + part.axes[0].size
            if putting is not None:
                putting.result()  # one part waits at most
            putting, begin = other.submit(put, out[begin:end]), end
        if putting is not None:
            putting.result()


def _is_divided(access: Access, selection: BoxSelection) -> bool:
    """Whether a selection is read in parts: a small or indivisible one is not; nor is one of other stores, where all requests are made at once."""
    levels, chunk = access.chain.levels, access.chain.inner_chunk.shape
    divisible = access.storage.direct and chunk and all(level.addressable for level in levels)
    count = prod([axis.size for axis in selection.axes])
    return bool(divisible) and count >= 2 * _PART_ELEMENTS and selection.axes[0].indices is None


def _parts_of(access: Access, selection: BoxSelection) -> Iterator[BoxSelection]:
    """Boxes along the first dimension, in the order of selection.out_view. None of them divides a chunk."""
    first, *others = [AxisSelection(axis.start, axis.step, axis.size, indices=axis.indices) for axis in selection.axes]
    chunk = access.chain.inner_chunk.shape[0]
    # elements of the first dimension
    rows = max(_PART_ELEMENTS // prod([axis.size for axis in others]), 1) * first.step
    rows = -(-rows // chunk) * chunk
    begin = 0
    while begin < first.size:
        at = first.start + begin * first.step
        behind = (at // rows + 1) * rows
        end = min(-(-(behind - first.start) // first.step), first.size)
        yield BoxSelection(selection.shape, (AxisSelection(at, first.step, end - begin), *others))
        begin = end


def _read_elements(access: Access, plans: Plans, selection: Selection) -> tuple[Values, Heap]:
    """Reads the views of elements of variable length, and the heap that they point into."""
    variable = access.variable
    assert variable is not None, "others are read where they belong"
    # zero, as a heap compacts the values that its views point to
    elements = _empty(selection.result_shape, variable.data_type.element, access.path or "/", np.zeros)
    bound = access.with_heap(elements)
    heap = bound.chain.inner_chunk.heap
    assert heap is not None, "with_heap"
    _read_to(bound, plans, selection, elements)
    return elements, heap


def _empty(
    shape: tuple[int, ...], dtype: np.dtype[np.generic], path: str, make: Callable[..., Values] = result_memory
) -> Values:
    """Memory for a result, from result_memory or np.zeros. Raises InvalidInputError where there is not enough, as the caller must select less; the cause is
    NumPy's error."""
    try:
        return make(shape, dtype)
    except (ValueError, MemoryError) as error:
        raise InvalidInputError(
            f"the result, of shape {shape} and {dtype}, does not fit into memory",
            path=path,
            hint="select less, and read the array part by part",
        ) from error


def check_out(out: Values, shape: tuple[int, ...], dtype: np.dtype[np.generic], path: str) -> None:
    """Raises InvalidInputError for memory that a result of this shape and dtype cannot be written to."""
    if not isinstance(out, np.ndarray):
        raise InvalidInputError(f"out is a {type(out).__name__}; it must be a NumPy array", path=path)
    if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
        raise InvalidInputError(
            f"out is {out.dtype} {out.shape}{'' if out.flags.writeable else ', read only'}; it must be {dtype} {shape}, writable",
            path=path,
        )
    # NumPy gives memory without elements strides of 0
    if out.size and any(stride == 0 and extent > 1 for stride, extent in zip(out.strides, shape, strict=True)):
        raise InvalidInputError(
            "elements of out overlap in memory: it has a stride of 0",
            path=path,
            hint="give an array whose elements do not overlap",
        )


def _read_to(access: Access, plans: Plans, selection: Selection, out: Values) -> None:
    view = selection.out_view(out)
    target = _empty(out.shape, out.dtype, access.path or "/").reshape(-1) if view is None else view
    for shaped, plan in plans(selection, access):
        read(shaped, plan, target)
    if view is None:
        out[...] = target.reshape(out.shape)


def read(access: Access, plan: Plan, out: Values) -> None:
    """Reads what `plan` selects into `out`: of d dimensions for a box, one for points; itemsize of the array's dtype, any strides.

    Raises DataError, StoreError; ConflictError when a shard is replaced again and again while it is read."""
    scheduler = Scheduler(access.runtime, direct=access.storage.direct)
    scheduler.run(_tasks(access, plan, Target(out, scheduler.kernel), scheduler.task_bytes))


def _tasks(access: Access, plan: Plan, target: Target, nbytes: int) -> Iterator[Task]:
    """The tasks of a read. Batches of files on a local disk that the kernel can read by itself are read here, with one call each, as their turn comes."""
    levels, shared = access.chain.levels, None
    by_kernel = access.storage.direct and access.chain.native and bool(access.chain.inner_chunk.shape)
    if levels and not levels[0].addressable:  # each part would decode the whole shard
        nbytes = max(nbytes, shard_bytes(access))
    for batch in plan.batches(nbytes // inner_chunk_bytes(access)):
        if not batch.part:
            shared = SharedIndex() if batch.parts > 1 else None
        if not (by_kernel and read_with_kernel(access, batch, target.out)):
            yield from _general_tasks(access, target, batch, shared, nbytes)


def _general_tasks(
    access: Access, target: Target, batch: Batch, shared: SharedIndex | None, nbytes: int
) -> Iterator[Task]:
    if not access.chain.levels:
        cost = read_chunks_cost(access, batch.chunk_count)
        yield Task(np.arange(batch.shard_count), cost, partial(_read_chunks, access, target, batch))
        return
    most, index = shards_per_task(access, nbytes), index_bytes(access)
    for low in range(0, batch.shard_count, most):
        rows = np.arange(low, min(low + most, batch.shard_count))
        cost = 0 if batch.part else index * len(rows)
        yield Task(rows, cost, partial(_read_shards, access, target, batch, shared))


def _read_chunks(access: Access, target: Target, batch: Batch, rows: Columns) -> Iterator[int]:
    """Reads chunks of an array without shards: the kernel opens, reads and decodes each; a missing chunk gives the fill value. Objects that chunks share stay
    open while all are read, so their number is limited."""
    located = access.storage.locate(batch.shards[rows])
    chunks = batch.chunks(rows)
    if located.plain or len(located.names) <= OPEN_OBJECTS:
        when_files_are_free(partial(_decode_chunks, access, target, located, chunks))
    else:
        for part in located.parts(OPEN_OBJECTS):
            _decode_chunks(access, target, located.take(part), batch.chunks(rows[part]))
    return iter(())


def _decode_chunks(access: Access, target: Target, located: Located, chunks: Chunks) -> None:
    """Decodes one inner chunk for each row of `located`; again where another machine replaces one meanwhile, on a network file system."""
    failures: _kernel.Failures = []
    for _ in attempts(READS):
        fetched = access.storage.fetch(located, whole_spans(chunks.count), single_read=True)
        failures = decode(access, target, fetched.sources, fetched.rows, None, chunks)
        if not failures:
            return
        if any(code != _kernel.FAILED_STALE for _, code, _ in failures):
            break
    i, code, text = min(failures, key=lambda row: row[1] == _kernel.FAILED_STALE)
    raise failure(access, code, text, located.key(i), chunk_of(chunks, i))


def _read_shards(
    access: Access, target: Target, batch: Batch, shared: SharedIndex | None, rows: Columns
) -> Iterator[int]:
    """Reads shards: first the indexes that are not remembered, then the selected inner chunks of all; shards that were replaced meanwhile are planned again."""
    for _ in attempts(READS):
        found, missing, stale = _find(access, batch, shared, rows)
        filled = batch.chunks(missing) if len(missing) else None
        if found or filled is not None:
            columns = 0 if filled is None else filled.count * INNER_CHUNK_BYTES
            yield columns + sum([read_cost(access, one.first, one.chunks) for one in found])
        if filled is not None:  # the selected elements in missing shards
            for i, code, text in decode(access, target, Sources(None, ()), missing_rows(filled.count), None, filled):
                raise failure(access, code, text, None, chunk_of(filled, i))
        for one in found:
            stale += _read_found(access, target, one)
        if not stale:
            return
        rows, shared = np.array(sorted(stale), np.int64), None
        del found, filled
    raise shard_replaced(access, access.key(batch.shards[rows[:1]]))


def _find(access: Access, batch: Batch, shared: SharedIndex | None, rows: Columns) -> FoundRows:
    """The existing shards, with their indexes; the rows of missing ones; and the rows that changed while indexes were read."""
    located = access.storage.locate(batch.shards[rows])
    if shared is None:
        return _find_all(access, batch, rows, located)
    with shared.lock:
        if shared.missing:
            return [], rows, []
        if shared.slot is not None:
            return [_remembered(access, batch, rows, located, [shared.slot])], _NO_ROWS, []
        found, missing, stale = _find_all(access, batch, rows, located)
        shared.missing = len(missing) > 0
        if found:
            first, (version,), fetched = found[0].first, found[0].expect, found[0].fetched
            if version is not None and (fetched is None or fetched.version_may_repeat is None):
                shared.slot = IndexTables(first.shards.indexes.tables, [version]), 0
        return found, missing, stale


def _find_all(access: Access, batch: Batch, rows: Columns, located: Located) -> FoundRows:
    slots = None
    if access.indexes is not None:
        slots = access.indexes.find(index_names(access, batch.shards[rows], located))
    if slots is None:
        return _fetch(access, batch, rows, located)
    remembered, is_cached = [slot for slot in slots if slot is not None], np.array(list(map(bool, slots)))
    if len(remembered) == len(rows):
        return [_remembered(access, batch, rows, located, remembered)], _NO_ROWS, []
    cached, fresh = np.flatnonzero(is_cached), np.flatnonzero(~is_cached)
    found, missing, stale = _fetch(access, batch, rows[fresh], located.take(fresh))
    return [_remembered(access, batch, rows[cached], located.take(cached), remembered), *found], missing, stale


def _remembered(access: Access, batch: Batch, rows: Columns, located: Located, slots: Sequence[Slot]) -> Found:
    """Shards whose indexes are remembered, one slot for each."""
    expect = [tables.version(row) for tables, row in slots]
    chunks, names = batch.chunks(rows), index_names(access, batch.shards[rows], located)
    objects = StoredObjects(access.storage, located, expect, None)
    spans = np.zeros((len(rows), 3), np.int64)
    spans[:, 0] = np.arange(len(rows))
    stacked = np.stack([tables.tables[row] for tables, row in slots])
    first = first_step(access, chunks, Shards(objects, spans, StackedIndex(stacked, spans[:, 0])), spans[:, 0])
    return Found(rows, names, located, chunks, first, expect, None)


def _fetch(access: Access, batch: Batch, rows: Columns, located: Located) -> FoundRows:
    """Fetches the indexes of shards; returns as _find."""
    fetched = fetch_indexes(access, located)
    try:
        opened = open_shards(access, located, batch.shards[rows], fetched)
    except (DataError, StoreError) as error:
        if not replaced_since(access, located, fetched, error):
            raise
        return [], _NO_ROWS, rows.tolist()
    objects, spans, (tables, slot) = opened.shards
    there = spans[:, 1] >= 0
    present = np.flatnonzero(there)
    if not len(present):
        return [], rows, []
    names = index_names(access, batch.shards[rows], located)
    opened.remember(access, names)
    chunks = batch.chunks(rows[present])
    first = first_step(access, chunks, Shards(objects, spans[present], StackedIndex(tables, slot[present])), present)
    return [Found(rows, names, located, chunks, first, opened.versions, fetched)], rows[~there], []


def _read_found(access: Access, target: Target, found: Found) -> list[int]:
    """Reads inner chunks of shards. Returns the rows that changed while they were read; their remembered indexes are dropped."""
    try:
        changed = _read_inner_chunks(access, target, found)
    except (DataError, StoreError) as error:
        if found.fetched is None or not replaced_since(access, found.located, found.fetched, error):
            raise
        changed = list(range(len(found.rows)))
    if changed and access.indexes is not None:
        access.indexes.drop(found.names[i] for i in changed)
    rows: list[int] = found.rows[changed].tolist()
    return rows


def _read_inner_chunks(access: Access, target: Target, found: Found) -> list[int]:
    """Fetches and decodes the inner chunks of shards. Returns the objects that changed while they were read."""
    _, _, located, chunks, first, expect, _ = found
    steps, spans = walk(access, chunks, located.key, first)
    sources, rows = steps[-1].shards.objects.rows(spans)
    compares = sources.files is not None and access.storage.answers_files
    watched = located.expected_objects(expect) if compares else None
    failures = decode(access, target, sources, rows, watched, chunks)
    changed = set(first.shards.objects.stale)
    changed |= {int(first.origin[first.shard[i]]) for i, code, _ in failures if code == _kernel.FAILED_STALE}
    for i, code, text in failures:
        row = int(first.origin[first.shard[i]])
        if row not in changed:
            raise failure(access, code, text, located.key(row), chunk_of(chunks, i))
    return sorted(changed)


def decode(
    access: Access,
    target: Target,
    sources: Sources,
    rows: Columns,
    expect: Versions | None,
    chunks: Chunks,
) -> _kernel.Failures:
    """Decodes the encoded bytes of chunks, int64[n, 3], into the target; returns the failures. expect: versions of the files."""
    (files, buffers), inner_chunk = sources, access.chain.inner_chunk
    with target.kernel:
        if inner_chunk.heap is not None:
            inner_chunk.heap.compact()
        return decode_chunks(inner_chunk, files, buffers, rows, expect, chunks, target.out, access.runtime.threads)


def chunk_of(chunks: Chunks, number: int) -> tuple[int, ...]:
    """Coordinates of one of the chunks in the array's grid of inner chunks."""
    return tuple(chunks.coordinates(np.array([number], np.int64))[0].tolist())
