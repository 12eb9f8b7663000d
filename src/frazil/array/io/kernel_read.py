"""Reads batches with one kernel call each: chunks in files on a local disk, with codecs that the kernel has. The kernel opens shards, reads and checks indexes
that are not remembered, and finds, decodes and scatters the inner chunks.

Python only looks up the remembered index of each shard. read.py reads other stores and codecs."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from functools import partial
from itertools import product

import numpy as np

from frazil import _kernel
from frazil.array.access import Access, failure, shard_replaced
from frazil.array.shards import shard_append
from frazil.array.shards.shard_indexes import IndexTables, Slot
from frazil.base.arrays import Columns, Values
from frazil.base.retry import FREE_FILES, READS, attempts, when_files_are_free
from frazil.errors import DataError, StoreError
from frazil.indexing.box import BoxBatch
from frazil.indexing.points import Batch
from frazil.stores.array_storage.chunk_storage import KernelFiles, missing_object
from frazil.stores.local.kernel_results import are_recent, is_recent
from frazil.stores.values import NO_SPANS

_NO_TABLES: Columns = np.empty((0, 2), np.int64)


def read_with_kernel(access: Access, batch: Batch, out: Values) -> bool:
    """Reads a batch of a plan into `out`, as read.read, for an array whose codecs the kernel has. The number of shards of one call is limited by the memory for
    their indexes.

    False where the kernel cannot read all chunks by itself; then some may have been read."""
    levels = access.chain.levels
    most = max(1, access.runtime.bytes_in_flight // (16 * levels[0].total)) if levels else batch.shard_count
    if batch.shard_count <= most:
        return _read_rows(access, batch, None, out)
    rows = np.arange(batch.shard_count)
    return all(_read_rows(access, batch, rows[low : low + most], out) for low in range(0, len(rows), most))


def _read_rows(access: Access, batch: Batch, rows: Columns | None, out: Values) -> bool:
    """Reads rows of batch.shards (None: all). Shards that were replaced meanwhile are read again."""
    for _ in attempts(READS):
        rows = when_files_are_free(partial(_read_once, access, batch, rows, out), FREE_FILES)
        if rows is None or not len(rows):
            return rows is not None
    raise shard_replaced(access, access.key(_coordinates(batch, rows)))


def _read_once(access: Access, batch: Batch, rows: Columns | None, out: Values) -> Columns | None:
    """One call of the kernel; more only where shards were being changed in place. Returns the rows to read again; None where the kernel cannot read them."""
    for attempt in attempts(READS):
        files = access.storage.kernel_files(lambda: _coordinates(batch, rows))
        if files is None:
            return None
        call = _Call(access, batch, rows, files)
        if not call.has_room():
            return None  # the general path raises the error, or reads the chunks
        failures, (fresh, missing, stale) = call.run(out)
        if failures:
            error = call.error(*failures[0])
            if isinstance(error, DataError) and attempt + 1 < READS.attempts and call.was_changing(failures):
                continue
            raise error
        if missing and files.located is not None and files.located.must_exist:
            call.refuse_missing()
        if fresh:
            call.remember()
        return call.stale_rows() if stale else _NO_ROWS
    return None


class _Call:
    """The arguments of one call of the kernel, and its answer for each shard."""

    __slots__ = ("_access", "_batch", "_files", "_found", "_fresh", "_names", "_rows", "_states")

    def __init__(self, access: Access, batch: Batch, rows: Columns | None, files: KernelFiles) -> None:
        self._access, self._batch, self._rows, self._files = access, batch, rows, files
        count = batch.shard_count if rows is None else len(rows)
        self._states = np.empty((count, 4), np.int64)
        self._fresh = _NO_TABLES
        self._names: Sequence[Hashable] = ()
        self._found: list[Slot | None] | None = None
        if access.indexes is not None:
            self._names = _shard_names(batch, rows) if files.located is None else files.located.labels()
            self._found = access.indexes.find(self._names)

    def has_room(self) -> bool:
        """Makes room for the indexes that are not remembered. False where there is not enough memory: a document may claim indexes of any size."""
        levels = self._access.chain.levels
        count = len(self._states) if self._found is None else self._found.count(None)
        try:
            self._fresh = np.empty((count, levels[0].total if levels else 0, 2), np.int64)
        except MemoryError:
            return False
        return True

    def run(self, out: Values) -> tuple[list[tuple[int, int, str, list[int]]], tuple[int, int, int]]:
        access, batch, files = self._access, self._batch, self._files
        levels = [level.kernel_index for level in access.chain.levels]
        remembered, slots = _cached_tables(self._found)
        fresh = self._fresh.reshape(-1, 2)
        names, objects, states = files.names, files.objects, self._states
        program, threads = access.chain.inner_chunk.program, access.runtime.threads
        return _kernel.read_shards(
            program, levels, names, files.files, files.buffers, objects, batch.kernel_columns(self._rows),
            remembered, slots, fresh, states, out, threads,
        )  # fmt: skip

    def stale_rows(self) -> Columns:
        """Rows to read again, as other writers replaced them; their remembered indexes are dropped."""
        stale = np.flatnonzero(self._states[:, 0] == _kernel.SHARD_STALE)
        if self._access.indexes is not None:
            self._access.indexes.drop([self._names[i] for i in stale.tolist()])
        return stale if self._rows is None else self._rows[stale]

    def remember(self) -> None:
        """Remembers the indexes that were read, except those whose version a later file might also have, as time stamps are coarse."""
        indexes, names = self._access.indexes, self._names
        if indexes is None or not indexes.memory.limit:
            return
        states, tables = self._states, self._fresh
        if self._found is not None:
            new = [i for i, slot in enumerate(self._found) if slot is None]
            states, names = states[new], [names[i] for i in new]
        located = self._files.located
        remembered = _may_be_remembered(states, None if located is None else names)
        if len(remembered) < len(names):
            if not remembered:
                return
            tables, states, names = tables[remembered], states[remembered], [names[i] for i in remembered]
        versions = states[:, 1:]
        indexes.put(names, IndexTables(tables, np.ascontiguousarray(versions) if located is None else None))

    def refuse_missing(self) -> None:
        """Raises StoreError where a reference points to a missing object."""
        located = self._files.located
        assert located is not None
        for row in np.flatnonzero(self._states[:, 0] == _kernel.SHARD_MISSING).tolist():
            key = located.key(row)
            if key is not None:
                raise missing_object(key)

    def was_changing(self, failures: Sequence[tuple[int, int, str, list[int]]]) -> bool:
        """Whether shards that could not be read were being changed in place: when this returns, they are restored, or their writer has finished."""
        if not self._access.chain.levels or self._files.names is None:
            return False
        shards = np.array(sorted({shard for shard, *_ in failures}), np.int64)
        located = self._access.storage.locate(np.ascontiguousarray(_coordinates(self._batch, self._rows)[shards]))
        if shard_append.restore_shards(self._access, located.names):
            return True
        now = self._access.storage.fetch(located, NO_SPANS).versions
        read_versions = self._states[shards, 1:].astype("<i8")
        return any(version != then.tobytes() for version, then in zip(now, read_versions, strict=True))

    def error(self, shard: int, code: int, text: str, chunk: Sequence[int]) -> StoreError | Exception:
        """The error for a shard that the kernel could not read."""
        located = self._files.located
        coords = _coordinates(self._batch, self._rows)
        key = self._access.key(coords, shard) if located is None else located.key(shard)
        error = failure(self._access, code, text, key, tuple(chunk))
        indexed = code in (_kernel.FAILED_INDEX, _kernel.FAILED_INDEX_CHECKSUM)
        return shard_append.explained(self._access, error) if indexed else error


_NO_ROWS: Columns = np.empty(0, np.int64)


def _may_be_remembered(states: Columns, labels: Sequence[Hashable] | None) -> Sequence[int]:
    """Rows of `states` whose index was read and may be remembered: shards that have a label, where there are labels; else those whose file is not too
    recent."""
    if labels is not None:
        allowed = (states[:, 0] == _kernel.SHARD_FRESH) & np.array([label != "" for label in labels], np.bool_)
    elif len(states) == 1:  # without NumPy's functions, which are most of the cost here
        status, _, _, changed = states[0].tolist()
        return [0] if status == _kernel.SHARD_FRESH and not is_recent(changed, time.time_ns()) else []
    else:
        allowed = (states[:, 0] == _kernel.SHARD_FRESH) & ~are_recent(states[:, 3], time.time_ns())
    rows: list[int] = np.flatnonzero(allowed).tolist()
    return rows


def _cached_tables(
    found: list[Slot | None] | None,
) -> tuple[list[tuple[Columns, Columns | None]], Columns | None]:
    """The remembered tables, each with its versions, and int64[m, 2], the table of each shard and the row in it; -1 where the index must be read."""
    if found is None:
        return [], None
    numbers: dict[int, int] = {}
    tables: list[tuple[Columns, Columns | None]] = []
    slots: list[tuple[int, int]] = []
    for slot in found:
        if slot is None:
            slots.append((-1, 0))
            continue
        number = numbers.setdefault(id(slot[0]), len(tables))
        if number == len(tables):
            tables.append((slot[0].tables, slot[0].file_versions))
        slots.append((number, slot[1]))
    return tables, np.array(slots, np.int64)


def _shard_names(batch: Batch, rows: Columns | None) -> Sequence[Hashable]:
    if isinstance(batch, BoxBatch):
        names: list[Hashable] = list(
            product(*[along if isinstance(along, range) else along.tolist() for along in batch.shards_along])
        )
        return names if rows is None else [names[i] for i in rows.tolist()]
    return list(map(tuple, _coordinates(batch, rows).tolist()))


def _coordinates(batch: Batch, rows: Columns | None) -> Columns:
    return batch.shards if rows is None else batch.shards[rows]
