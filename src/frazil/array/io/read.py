"""Reading: from a plan to values in a caller's memory. What is not stored is the fill value; what cannot be read is an error.

Which chunks and where they go is settled by the plan (indexing); how shards are walked is in shard_lookup.py."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.array.access import MOST_CHUNKS, MOST_OBJECTS, Access, failure, in_parts, most_objects
from frazil.array.io.chunk_regions import StoredRegion
from frazil.array.io.kernel_read import read_with_kernel
from frazil.array.io.overlap import in_lanes, lanes_for
from frazil.array.io.shard_indexes import Slot
from frazil.array.io.shard_lookup import (
    Batch,
    Part,
    Step,
    Units,
    fetch_indexes,
    first_step,
    index_names,
    open_shards,
    replaced_since,
    walk,
)
from frazil.codecs.leaf import decode_units
from frazil.errors import ConflictError, DataError
from frazil.indexing import BoxBatch, BoxPlan, PointPlan
from frazil.late import LateModule
from frazil.record import Record
from frazil.stores.array_storage.chunk_storage import Located
from frazil.stores.retry import FREE_FILES, READS, attempts, when_files_are_free
from frazil.stores.values import Columns, Sources, Version

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.array.io import index_prefetch
else:
    index_prefetch = LateModule("frazil.array.io.index_prefetch")

Out: TypeAlias = "NDArray[np.generic]"

_ALONE = nullcontext()


class Target(Record):
    """What a read fills. out: the caller's memory, of the array's dtype, any strides; fill: what is not stored; turn: held while the kernel decodes
    (overlap.py), None where nothing else runs at the same time."""

    out: Out
    fill: np.generic
    turn: AbstractContextManager[object] | None = None


def read(access: Access, plan: BoxPlan | PointPlan, out: Out, fill: np.generic) -> None:
    """Reads what `plan` selects into `out`: of d dimensions for a box, one for points; itemsize of the array's dtype, any strides.

    Raises DataError, StoreError; ConflictError when a shard is replaced again and again while it is read."""
    if read_with_kernel(access, plan, out):
        return
    leaf, runtime = access.chain.leaf, access.runtime
    direct, sharded = access.storage.direct, bool(access.chain.levels)
    seen = len(access.chain.levels) == 1 and access.chain.levels[0].addressable
    lanes = lanes_for(runtime, direct, leaf.nbytes if seen else leaf.nbytes * prod(access.chain.leaf_counts))
    target = Target(out, fill, lanes.turn)
    batches = plan.batches(leaf.nbytes, lanes.nbytes, MOST_CHUNKS)
    if not sharded:
        in_lanes(batches, partial(_read_chunks, access, target), lanes.number)
        return
    parts = _parts(batches, max(1, most_objects(access) // lanes.number))
    if seen and not direct:
        parts = index_prefetch.with_indexes(access, parts, partial(_fill, target))
    in_lanes(parts, partial(_read_part, access, target), lanes.number)


def _parts(batches: Iterator[Batch], most: int) -> Iterator[Part]:
    for batch in batches:
        for low in range(0, batch.shard_count, most):
            yield Part(batch, np.arange(low, min(low + most, batch.shard_count)))


def _read_part(access: Access, target: Target, part: Part) -> None:
    in_parts(part.rows, partial(_read_shards, access, target, part))


def _read_chunks(access: Access, target: Target, batch: Batch) -> None:
    """Chunks without inner ones: each is opened, read and decoded by the kernel, or is the fill value. Objects that chunks share are open while all are read,
    so no more than so many at a time."""
    located = access.storage.locate(batch.shards)
    if located.plain or len(located.names) <= MOST_OBJECTS:
        when_files_are_free(partial(_decode_chunks, access, target, located, batch.units()), FREE_FILES)
        return
    for part in located.parts(MOST_OBJECTS):
        in_parts(part, lambda rows: _decode_chunks(access, target, located.take(rows), batch.units(rows)))


def _decode_chunks(access: Access, target: Target, located: Located, units: Units) -> None:
    """A unit for each row of `located`."""
    spans = np.zeros((units.count, 3), np.int64)
    spans[:, 0], spans[:, 2] = np.arange(units.count), -1
    fetched = access.storage.fetch(located, spans, once=True)
    for unit, code, text in decode(access, target, fetched.sources, fetched.rows, None, units):
        raise failure(access, code, text, located.key(unit), chunk_of(units, unit))


def _fill(target: Target, batch: Batch, rows: Columns) -> None:
    """Fills what lies in shards that are not there."""
    for i in range(len(rows)):
        place = batch.place(int(rows[i])) if isinstance(batch, BoxBatch) else batch.places(rows[i : i + 1])
        target.out[place] = target.fill


def _read_shards(access: Access, target: Target, part: Part, rows: Columns) -> None:
    """Shards, in rounds: those whose index is known, then the rest; what was replaced meanwhile is planned again."""
    batch, fetched = part.batch, part.known
    for _ in attempts(READS):
        located = access.storage.locate(batch.shards[rows])
        names, found = _known(access, batch.shards[rows], located, fetched)
        fetched = {}
        known = [i for i, slot in enumerate(found) if slot is not None]
        stale: list[int] = []
        if not known:
            stale += rows[_read_fresh(access, target, batch, rows, located)].tolist()
        else:
            some, slots = np.array(known, np.int64), [slot for slot in found if slot is not None]
            again = _read_known(access, target, batch, rows[some], _taken(located, some), slots)
            if access.indexes is not None:
                access.indexes.drop(names[known[i]] for i in again)
            stale += rows[some[again]].tolist()
            fresh = np.array([i for i, slot in enumerate(found) if slot is None], np.int64)
            if len(fresh):
                stale += rows[fresh[_read_fresh(access, target, batch, rows[fresh], located.take(fresh))]].tolist()
        if not stale:
            return
        rows = np.array(sorted(stale), np.int64)
    raise ConflictError(
        f"a shard was replaced {READS.attempts} times while it was read",
        key=access.storage.locate(batch.shards[rows[:1]]).key(0),
        path=access.path or "/",
        hint="read again when its writer is done",
    )


def _known(
    access: Access, coords: Columns, located: Located, fetched: Mapping[Hashable, Slot]
) -> tuple[Sequence[Hashable], Sequence[Slot | None]]:
    """The names under which the indexes of shards are remembered, and those that are: fetched ahead, or in the array's memory."""
    if access.indexes is None:
        return (), [None] * len(coords)
    names = index_names(access, coords, located)
    found = access.indexes.find(names) or [None] * len(names)
    return names, [fetched.get(name, slot) for name, slot in zip(names, found, strict=True)] if fetched else found


def _taken(located: Located, rows: Columns) -> Located:
    return located if len(rows) == len(located.kind) else located.take(rows)


def _read_known(
    access: Access,
    target: Target,
    batch: Batch,
    rows: Columns,
    located: Located,
    slots: Sequence[Slot],
) -> list[int]:
    """Shards whose indexes are remembered, in one fetch. Answers which of `rows` turned out to be of another version."""
    expect = [tables.version(row) for tables, row in slots]
    units = batch.units(rows)
    region = StoredRegion(access.storage, located, expect, None)
    spans = np.zeros((len(rows), 3), np.int64)
    spans[:, 0] = np.arange(len(rows))
    if len(slots) == 1:
        stacked = slots[0][0].tables[slots[0][1]][None]
    else:
        stacked = np.stack([tables.tables[row] for tables, row in slots])
    first = first_step(access, units, region, spans, stacked, spans[:, 0], spans[:, 0])
    return _read_units(access, target, units, located, first, expect)


def _read_fresh(access: Access, target: Target, batch: Batch, rows: Columns, located: Located) -> list[int]:
    """Shards whose indexes are to be fetched; those that are not there are filled. Answers which of `rows` changed while they were read."""
    fetched = fetch_indexes(access, located)
    try:
        opened = open_shards(access, located, batch.shards[rows], fetched)
        present = np.flatnonzero(opened.spans[:, 1] >= 0)
        _fill(target, batch, rows[opened.spans[:, 1] < 0])
        if not len(present):
            return []
        if access.indexes is not None:
            opened.remember(access, index_names(access, batch.shards[rows], located))
        units = batch.units(rows[present])
        slot = opened.slot[present]
        first = first_step(access, units, opened.region, opened.spans[present], opened.tables, slot, present)
        return _read_units(access, target, units, located, first, opened.versions)
    except DataError:
        if not replaced_since(access, located, fetched):
            raise
        return list(range(len(rows)))


def _read_units(
    access: Access,
    target: Target,
    units: Units,
    located: Located,
    first: Step,
    expect: Sequence[Version | None],
) -> list[int]:
    """Fetches and decodes the leaf chunks of units. Answers the objects that changed while they were read."""
    steps, spans = walk(access, units, located, first)
    sources, rows = steps[-1].region.rows(spans)
    watched = None if sources.files is None else located.expected_objects(expect)
    failures = decode(access, target, sources, rows, watched, units)
    changed = set(first.region.stale)
    changed |= {int(first.origin[first.group[unit]]) for unit, code, _ in failures if code == _kernel.FAILED_STALE}
    for unit, code, text in failures:
        place = int(first.origin[first.group[unit]])
        if place not in changed:
            raise failure(access, code, text, located.key(place), chunk_of(units, unit))
    return sorted(changed)


def decode(
    access: Access,
    target: Target,
    sources: Sources,
    rows: Columns,
    expect: Sequence[Version | None] | None,
    units: Units,
) -> _kernel.Failures:
    """Decodes the encoded bytes of units, int64[n, 3], into the target; what was refused. expect: versions of the files."""
    files, buffers = sources
    with target.turn or _ALONE:
        return decode_units(access.chain.leaf, files, buffers, rows, expect, units, target.out, access.runtime.threads)


def chunk_of(units: Units, unit: int) -> tuple[int, ...]:
    """Coordinates of a unit's leaf chunk in the array's grid of them."""
    return tuple(units.chunks(np.array([unit], np.int64))[0].tolist())
