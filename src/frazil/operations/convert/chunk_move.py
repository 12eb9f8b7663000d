"""Moves chunks from one hierarchy to another: as unchanged bytes, as shards with another index, or decoded and encoded again. It works in batches to bound
memory; from file to file the system copies. plan.py plans the moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from operator import add
from typing import Final

import numpy as np

from frazil.array.array import Array
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.array.io.task_costs import OPEN_OBJECTS
from frazil.base.arrays import Flags, Octets, Values
from frazil.base.record import Record
from frazil.base.retry import lacks_files
from frazil.codecs.registry import Registry
from frazil.errors import AlreadyExistsError, StoreError
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.types.fill_values import FillValue
from frazil.operations.convert.hierarchy_keys import Hierarchy
from frazil.operations.convert.key_sweep import Chunks
from frazil.operations.convert.plan import ArrayPlan
from frazil.operations.convert.shard_forms import Composed, Objects, ShardForms, compose, shard_forms
from frazil.operations.copy.digests import StoredObject, have_same_digest, md5_of
from frazil.operations.copy.plan import digest_of
from frazil.runtime import Runtime
from frazil.stores.local.appended_shards import restore_all
from frazil.stores.local.mtimes import changed_at, written_at
from frazil.stores.store import Store
from frazil.stores.transfer.composed_values import picked
from frazil.stores.transfer.content import join_pieces, read_values, taken
from frazil.stores.values import ANY, FOLDER, FOUND, NO_SPANS, Columns, Fetched, Pieces, Sources, whole_spans

_AT_FIRST = 32  # objects of the first batch of an array, to learn the sizes of its objects
# bytes of a batch from disk to disk, so that progress is reported; the kernel gives each thread 16 objects at a time
_BATCH = 2**30
_LOOKED_UP: Final = 256  # keys of one look-up, which opens the existing ones
_MARGIN_NS: Final = 2_500_000_000  # some disks round time stamps of files to even seconds


class Route(Record):
    """Source and destination of a conversion. again: an earlier run may have moved a part; report: receives the bytes of finished chunks."""

    store: Store
    source: Hierarchy
    to_store: Store
    target: Hierarchy
    registry: Registry
    runtime: Runtime
    in_place: bool
    again: bool
    report: Callable[[int], object]


class Moved(Record):
    """objects, nbytes: of the source; found: objects that an earlier run had moved; empty: new chunks that are not stored, as they have only the fill value."""

    objects: int
    nbytes: int
    found: int = 0
    empty: int = 0

    @staticmethod
    def of(sizes: Columns, found: int = 0) -> Moved:
        """sizes: int64[n], -1 for a missing object."""
        return Moved(int((sizes >= 0).sum()), int(np.maximum(sizes, 0).sum()), found)

    def plus(self, other: Moved) -> Moved:
        return Moved(*map(add, self, other))


def move_chunks(route: Route, array: ArrayPlan, chunks: Chunks) -> Moved:
    """Writes the chunks under their new keys; chunks that were removed meanwhile are skipped. Raises StoreError, DataError."""
    targets = array.target.chunk_key_encoding.encode_all(chunks.coords, route.target.data_prefix(array.path))
    restore_all(route.store, chunks.keys)
    if array.way == "recoded":
        return _recode(route, array, chunks, targets)
    forms = _forms(route, array)
    most = _most(route, forms)
    links = forms is None and route.in_place
    # if bytes will be held in memory, their number must be known
    direct = route.store.capabilities.direct and route.to_store.capabilities.direct
    sizes = None if direct else chunks.sizes_in(route.store)
    moved, first, count = Moved(0, 0), 0, min(_AT_FIRST, most)
    while first < len(targets):
        if sizes is not None:
            count = _fitting(sizes[first : first + most], route.runtime.bytes_in_flight)
        names, new = chunks.keys[first : first + count], targets[first : first + count]
        copy = partial(_copy, route, array, forms, chunks)
        done = _link(route.store, names, new) if links else _halved(copy, names, new)
        route.report(done.nbytes)
        moved, first = moved.plus(done), first + count
        count = max(1, min(most, _BATCH // max(moved.nbytes // max(moved.objects, 1), 1)))
    return moved


def check_chunks(route: Route, array: ArrayPlan, chunks: Chunks) -> None:
    """Reads the shard indexes that will change. In place it also looks for folders at the locations of chunks. Writes nothing. Raises StoreError, DataError."""
    forms = _forms(route, array)
    folders = route.in_place and route.store.capabilities.direct  # listings do not show empty folders
    if forms is None and not folders:
        return
    restore_all(route.store, chunks.keys)
    targets = array.target.chunk_key_encoding.encode_all(chunks.coords, route.target.data_prefix(array.path))
    most = _most(route, forms)
    for first in range(0, len(targets), most):
        part = slice(first, first + most)
        if folders:
            check_folders(route.store, targets[part])
        if forms is not None:
            _halved(partial(_check, route, forms), chunks.keys[part], targets[part])


def check_folders(store: Store, keys: Sequence[str]) -> None:
    """Raises AlreadyExistsError for a key that is a folder."""
    for first in range(0, len(keys), _LOOKED_UP):
        names = keys[first : first + _LOOKED_UP]
        status = store.fetch(names, NO_SPANS).status
        if FOLDER in status:
            raise AlreadyExistsError(
                "there is a folder where the new dialect needs a file",
                key=names[list(status).index(FOLDER)],
                hint="remove it, or convert to another location",
            )


def _most(route: Route, forms: ShardForms | None) -> int:
    """The most objects of a batch."""
    if forms is None:
        return OPEN_OBJECTS
    return max(1, min(OPEN_OBJECTS, route.runtime.bytes_in_flight // max(forms.index_bytes, 1)))


def _forms(route: Route, array: ArrayPlan) -> ShardForms | None:
    if array.way != "shard index":
        return None
    grid = array.source.chunk_grid
    assert isinstance(grid, RegularGrid)
    return shard_forms(array.source, array.target, route.registry, grid.chunk_shape)


def _fitting(sizes: Columns, limit: int) -> int:
    """How many of the first objects have at most `limit` bytes together; one, if the first alone has more."""
    return max(1, int(np.searchsorted(np.cumsum(np.maximum(sizes, 0)), limit, side="right")))


def _link(store: Store, names: Sequence[str], targets: Sequence[str]) -> Moved:
    sizes = store.sizes(names)
    store.copy_in(targets, store, names, shares=True)
    return Moved.of(sizes)


def _halved(
    act: Callable[[Sequence[str], Sequence[str]], Moved], names: Sequence[str], targets: Sequence[str]
) -> Moved:
    """Calls `act`, in smaller parts if too many files are open for all at once."""
    try:
        return act(names, targets)
    except StoreError as error:
        if not lacks_files(error) or len(names) < 2:
            raise
    half = len(names) // 2
    first = _halved(act, names[:half], targets[:half])
    return first.plus(_halved(act, names[half:], targets[half:]))


def _check(route: Route, forms: ShardForms, names: Sequence[str], _targets: Sequence[str]) -> Moved:
    fetched = route.store.fetch(names, NO_SPANS)
    _compose(route.store, forms, names, np.flatnonzero(np.asarray(fetched.status) == FOUND), fetched)
    return Moved(0, 0)


def _copy(
    route: Route,
    array: ArrayPlan,
    forms: ShardForms | None,
    chunks: Chunks,
    names: Sequence[str],
    targets: Sequence[str],
) -> Moved:
    before = Moved(0, 0)
    if route.again and forms is None:
        there, before = _found_before(route, array, chunks, names, targets)
        names, targets = list(compress(names, ~there)), list(compress(targets, ~there))
    if not names:
        return before
    spans = whole_spans(len(names))
    fetched = route.store.fetch(names, spans if forms is None else NO_SPANS)
    for name, status in zip(names, fetched.status, strict=True):
        if status == FOLDER:
            raise StoreError(
                "there is a folder where a chunk is expected", key=name, hint="find out what it is, and remove it"
            )
    found = np.flatnonzero(np.asarray(fetched.status) == FOUND)
    new = [targets[i] for i in found.tolist()]
    there = np.zeros(len(new), np.bool_)
    if forms is None:
        pieces = Pieces(fetched.sources, fetched.rows[found], np.arange(len(found) + 1))
    else:
        pieces, sizes = _composed(route.store, forms, names, found, fetched)
        if route.again:
            there = _composed_before(route, array, [names[i] for i in found.tolist()], new, pieces, sizes)
            pieces = picked(pieces, np.flatnonzero(~there))
    if not there.all():
        route.to_store.put_many(list(compress(new, ~there)), pieces, [ANY] * int((~there).sum()))
    return before.plus(Moved.of(fetched.sizes[found], int(there.sum())))


def _found_before(
    route: Route, array: ArrayPlan, chunks: Chunks, names: Sequence[str], targets: Sequence[str]
) -> tuple[Flags, Moved]:
    """Which targets have the bytes of the present sources, by times of change or by digests; and what these are. No value is requested."""
    found = route.to_store.fetch(targets, NO_SPANS)
    sizes, versions = found.sizes, found.versions
    if chunks.sizes is None or chunks.versions is None:
        listed = route.store.fetch(names, NO_SPANS)
        own_sizes, own_versions = listed.sizes, listed.versions
    else:
        first = chunks.keys.index(names[0])
        rows = slice(first, first + len(names))
        own_sizes, own_versions = chunks.sizes[rows], chunks.versions[rows]
    there = (sizes == own_sizes) & (sizes >= 0)
    by_time = _moved_before(route, array, names, targets)
    limit = route.runtime.bytes_in_flight
    for row in np.flatnonzero(there & ~by_time).tolist():
        source = StoredObject(route.store, names[row], own_versions[row])
        there[row] = have_same_digest(source, StoredObject(route.to_store, targets[row], versions[row]), limit)
    return there, Moved.of(own_sizes[there], int(there.sum()))


def _composed_before(
    route: Route, array: ArrayPlan, names: Sequence[str], targets: Sequence[str], pieces: Pieces, sizes: Columns
) -> Flags:
    """Which targets have these new values, by times of change or by digests."""
    found = route.to_store.fetch(targets, NO_SPANS)
    there = found.sizes == sizes
    by_time = _moved_before(route, array, names, targets)
    for row in np.flatnonzero(there & ~by_time).tolist():
        digest = digest_of(found.versions[row])
        there[row] = digest is not None and digest == md5_of(join_pieces(taken(pieces, row)))
    return np.asarray(there, np.bool_)


def _composed(
    store: Store, forms: ShardForms, names: Sequence[str], found: Columns, old: Fetched
) -> tuple[Pieces, Columns]:
    """The new form of the shards names[found], and the size of each."""
    composed = _compose(store, forms, names, found, old)
    stored = composed.rows[:, 0] >= 0
    fetched = store.fetch(names, np.ascontiguousarray(composed.rows[stored]), continue_from=old)
    rows = composed.rows.copy()
    rows[~stored, 0] -= len(fetched.sources.buffers)
    rows[stored] = fetched.rows
    sources = Sources(fetched.sources.files, [*fetched.sources.buffers, *composed.buffers])
    return Pieces(sources, rows, composed.offsets), composed.sizes()


def _compose(store: Store, forms: ShardForms, names: Sequence[str], found: Columns, fetched: Fetched) -> Composed:
    """As `compose`. Reads only indexes."""

    def read(spans: Columns) -> Octets:
        values = read_values(store.fetch(names, spans, continue_from=fetched), names, spans)
        lost = next((i for i, value in enumerate(values) if value is None), None)
        if lost is not None:
            raise StoreError(
                "the shard was removed while it was read", key=names[int(spans[lost, 0])], hint="try again"
            )
        return np.frombuffer(b"".join(value or b"" for value in values), np.uint8).reshape(len(spans), -1)

    shards = np.zeros((len(found), 3), np.int64)
    shards[:, 0], shards[:, 2] = found, fetched.sizes[found]
    return compose(forms, shards, Objects(names, read))


def _moved_before(route: Route, array: ArrayPlan, names: Sequence[str], targets: Sequence[str]) -> Flags:
    """Which targets an earlier run made from the present sources: those on a local disk that were written after the last change of their source."""
    # in place, the sources are erased at the end, so no earlier move is trusted
    document = route.source.document_key(array.path, array.source)
    changed = None if route.in_place else changed_at(route.store, [*names, document])
    written = written_at(route.to_store, targets)
    if changed is None or written is None:
        return np.zeros(len(names), np.bool_)
    since = changed[:-1] if array.way == "bytes" else np.maximum(changed[:-1], changed[-1])
    return since < written - _MARGIN_NS


def _recode(route: Route, array: ArrayPlan, chunks: Chunks, targets: Sequence[str]) -> Moved:
    """Decodes and encodes chunk by chunk of the grid, which is the same in both (by whole shards, where there are shards)."""
    source = _open(route.store, route.source, route, array.path, array.source)
    target = _open(route.to_store, route.target, route, array.path, array.target)
    grid = array.target.chunk_grid
    assert isinstance(grid, RegularGrid)
    sizes = chunks.sizes_in(route.store)
    moved_before = (
        _moved_before(route, array, chunks.keys, targets) if route.again else np.zeros(len(targets), np.bool_)
    )
    empty = 0
    for at, done, size in zip(chunks.coords.tolist(), moved_before.tolist(), sizes.tolist(), strict=True):
        if not done:
            box = tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, grid.chunk_shape, strict=True))
            values = source.read(box)
            target[box] = values
            empty += array.whole is not None and _is_empty(values, array.target.fill_value)
        route.report(max(size, 0))
    return Moved.of(sizes, int(moved_before.sum()))._replace(empty=empty)


def _is_empty(values: Values, fill: FillValue) -> bool:
    """Whether a chunk has only the fill value, and so is not stored: compared by bytes, as NaN in a struct is not equal to itself."""
    if fill.dtype.kind in "OT":
        return not np.any(values != fill.scalar)
    octets = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(-1, fill.dtype.itemsize)
    return not np.any(octets != np.frombuffer(fill.data, np.uint8))


def _open(store: Store, hierarchy: Hierarchy, route: Route, path: str, metadata: ArrayMetadata) -> Array:
    location = NodeLocation(store, hierarchy.at(path), route.registry, route.runtime, layout=hierarchy.layout)
    return Array(location, metadata, documented=False)
