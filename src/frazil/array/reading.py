"""Reading: from a plan to values in a caller's memory. What is not stored is the fill value; what cannot be read is an error.

Which chunks and where they go is settled by the plan (indexing); how shards are walked is in shards.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.array.access import MOST_CHUNKS, Access, Table, failure, in_parts, most_objects
from frazil.array.regions import StoredRegion
from frazil.array.shards import Step, Units, fetch_indexes, first_step, open_shards, replaced_since, walk
from frazil.codecs.leaf import decode_units
from frazil.errors import ConflictError, DataError
from frazil.indexing import BoxBatch, BoxPlan, PointBatch, PointPlan
from frazil.stores.scarcity import patiently
from frazil.stores.values import Columns, Sources, Version

if TYPE_CHECKING:
    from numpy.typing import NDArray

Out: TypeAlias = "NDArray[np.generic]"
Batch = BoxBatch | PointBatch

_ATTEMPTS = 20  # times that a shard may be replaced under a reader before it gives up


def read(access: Access, plan: BoxPlan | PointPlan, out: Out, fill: np.generic) -> None:
    """Reads what `plan` selects into `out`: of d dimensions for a box, one for points; itemsize of the array's dtype, any strides.

    Raises DataError, StoreError; ConflictError when a shard is replaced again and again while it is read."""
    leaf, limit, most = access.chain.leaf, access.runtime.bytes_in_flight, most_objects(access)
    for batch in plan.batches(leaf.nbytes, limit, MOST_CHUNKS):
        if access.chain.levels:
            for low in range(0, batch.shard_count, most):
                rows = np.arange(low, min(low + most, batch.shard_count))
                in_parts(rows, partial(_read_shards, access, batch, out=out, fill=fill))
        else:
            patiently(partial(_read_chunks, access, batch, out))


def _read_chunks(access: Access, batch: Batch, out: Out) -> None:
    """Chunks that are objects of their own: each is opened, read and decoded by the kernel, or is the fill value."""
    located = access.storage.locate(batch.shards)
    units = batch.units()
    spans = np.zeros((units.count, 3), np.int64)
    spans[:, 0], spans[:, 2] = np.arange(units.count), -1
    fetched = access.storage.fetch(located, spans, once=True)
    for unit, code, text in decode(access, fetched.sources, fetched.rows, None, units, out):
        raise failure(access, code, text, located.names[unit], chunk_of(units, unit))


def _read_shards(access: Access, batch: Batch, rows: Columns, out: Out, fill: np.generic) -> None:
    """Shards, in rounds: those whose index is remembered, then the rest; what was replaced meanwhile is planned again."""
    names: Sequence[str] = ()
    for _ in range(_ATTEMPTS):
        names = access.storage.locate(batch.shards[rows]).names
        cached = [access.tables.get(name) for name in names] if len(access.chain.levels) == 1 else [None] * len(names)
        known = np.array([i for i, found in enumerate(cached) if found is not None], np.int64)
        fresh = np.array([i for i, found in enumerate(cached) if found is None], np.int64)
        stale: list[int] = []
        if len(known):
            found = [entry for entry in cached if entry is not None]
            again = _read_known(access, batch, rows[known], found, out)
            for i in again:
                access.tables.drop(names[known[i]])
            stale += rows[known[again]].tolist()
        if len(fresh):
            stale += rows[fresh[_read_fresh(access, batch, rows[fresh], out, fill)]].tolist()
        if not stale:
            return
        rows = np.array(sorted(stale), np.int64)
    raise ConflictError(
        f"a shard was replaced {_ATTEMPTS} times while it was read",
        key=names[0],
        path=access.path or "/",
        hint="read again when its writer is done",
    )


def _read_known(
    access: Access, batch: Batch, rows: Columns, cached: Sequence[tuple[Version, Table]], out: Out
) -> list[int]:
    """Shards whose indexes are remembered, in one fetch. Answers which of `rows` turned out to be of another version."""
    located = access.storage.locate(batch.shards[rows])
    expect = [version for version, _ in cached]
    units = batch.units(rows)
    region = StoredRegion(access.storage, located, expect, None)
    spans = np.zeros((len(rows), 3), np.int64)
    spans[:, 0] = np.arange(len(rows))
    first = first_step(access, units, region, spans, [table for _, table in cached], spans[:, 0])
    return _read_units(access, units, located.names, first, expect, out)


def _read_fresh(access: Access, batch: Batch, rows: Columns, out: Out, fill: np.generic) -> list[int]:
    """Shards whose indexes are to be fetched; those that are not there are filled. Answers which of `rows` changed while they were read."""
    coords = batch.shards[rows]
    located = access.storage.locate(coords)
    fetched = fetch_indexes(access, located)
    try:
        opened = open_shards(access, located, coords, fetched)
        present = np.flatnonzero(opened.spans[:, 1] >= 0)
        for i in np.flatnonzero(opened.spans[:, 1] < 0).tolist():
            row = rows[i : i + 1]
            out[batch.place(int(rows[i])) if isinstance(batch, BoxBatch) else batch.places(row)] = fill
        if not len(present):
            return []
        opened.remember(access, located.names)
        units = batch.units(rows[present])
        tables = [opened.tables[i] for i in present.tolist()]
        first = first_step(access, units, opened.region, opened.spans[present], tables, present)
        return _read_units(access, units, located.names, first, opened.versions, out)
    except DataError:
        if not replaced_since(access, located, fetched):
            raise
        return list(range(len(rows)))


def _read_units(
    access: Access,
    units: Units,
    names: Sequence[str],
    first: Step,
    expect: Sequence[Version | None],
    out: Out,
) -> list[int]:
    """Fetches and decodes the leaf chunks of units. Answers the objects that changed while they were read."""
    steps, spans = walk(access, units, names, first)
    sources, rows = steps[-1].region.rows(spans)
    failures = decode(access, sources, rows, expect, units, out)
    changed = set(first.region.stale)
    changed |= {int(first.origin[first.group[unit]]) for unit, code, _ in failures if code == _kernel.FAILED_STALE}
    for unit, code, text in failures:
        place = int(first.origin[first.group[unit]])
        if place not in changed:
            raise failure(access, code, text, names[place], chunk_of(units, unit))
    return sorted(changed)


def decode(
    access: Access, sources: Sources, rows: Columns, expect: Sequence[Version | None] | None, units: Units, out: Out
) -> _kernel.Failures:
    """Decodes the encoded bytes of units, int64[n, 3], into `out`; what was refused."""
    files, buffers = sources
    return decode_units(access.chain.leaf, files, buffers, rows, expect, units, out, access.runtime.threads)


def chunk_of(units: Units, unit: int) -> tuple[int, ...]:
    """Coordinates of a unit's leaf chunk in the array's grid of them."""
    return tuple(units.chunks(np.array([unit], np.int64))[0].tolist())
