"""The walk from objects through the levels of sharding to the spans of inner chunks: one vectorised round a level.

Shard indexes are read here (through regions), checked, and remembered in the array's cache. Chunks are not decoded here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from errno import EISDIR
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.array.access import Access, Table, failure
from frazil.array.io.chunk_regions import MemoryRegion, Region, StoredRegion
from frazil.codecs.codec import run_decode
from frazil.codecs.shard import Level, parse_index, parse_indexes
from frazil.errors import FrazilError, StoreError
from frazil.indexing import BoxBatch, BoxUnits, PointBatch, PointUnits
from frazil.record import Record
from frazil.stores.array_storage.chunk_storage import Located
from frazil.stores.store import NO_SPANS
from frazil.stores.values import FOLDER, Columns, Fetched, Sources, Version

if TYPE_CHECKING:
    from numpy.typing import NDArray

Key = Callable[[int], tuple[str | None, tuple[int, ...]]]  # group -> (key of its object, coordinates of a chunk in it)


Units = BoxUnits | PointUnits
Batch = BoxBatch | PointBatch
Known: TypeAlias = "Mapping[str, tuple[Version, Table]]"
NOTHING_KNOWN: Known = {}


class Part(Record):
    """Shards that are read together: `rows` of a batch. known: by label, indexes that were fetched ahead, each with the version of its shard."""

    batch: Batch
    rows: Columns
    known: Known = NOTHING_KNOWN


class Keyed(Protocol):
    """Chunks by rows, so far as errors name them; a Located is one."""

    def key(self, row: int) -> str | None:
        """The key of a chunk's object; None where it has none."""


class Stacked:
    """The indexes of many groups as one array. slot: int64[g], which of values, int64[p, total, 2], is that of each group; -1 where there is none."""

    __slots__ = ("slot", "values")

    def __init__(self, slot: Columns, values: Columns) -> None:
        self.slot, self.values = slot, values

    def __len__(self) -> int:
        return len(self.slot)

    def __getitem__(self, group: int) -> Table | None:
        slot = self.slot[group]
        return None if slot < 0 else self.values[slot]

    def __iter__(self) -> Iterator[Table | None]:
        return (self[group] for group in range(len(self)))


Tables: TypeAlias = "Sequence[Table | None] | Stacked"


class Step(Record):
    """One level of the walk. A group is a shard of this level; an object here is a chunk of the storage, a row of its Located.

    group    int64[n], the group of each unit
    number   int64[n], the number of each unit's inner chunk in its group's index
    region   where the groups lie;  spans: int64[g, 3], (object, start, length) of each group, start < 0 where it is not there
    tables   for each group its index, starts counted from the group's first byte, or None; Stacked below the outermost level
    parent   int64[g, 2], (group of the step before, number in it) of each group; the outermost level has none
    origin   int64[g], the object that each group lies in
    """

    group: Columns
    number: Columns
    region: Region
    spans: Columns
    tables: Tables
    parent: Columns
    origin: Columns

    def child_spans(self) -> Columns:
        """int64[n, 3]: for each unit the span of its inner chunk, start < 0 where it is not there."""
        spans = np.full((len(self.group), 3), -1, np.int64)
        if isinstance(self.tables, Stacked):
            there = np.flatnonzero(self.tables.slot[self.group] >= 0)
            group = self.group[there]
            spans[there] = found_spans(self, group, self.tables.values[self.tables.slot[group], self.number[there]])
            return spans
        for one, members in members_of(self.group, len(self.tables)):
            table = self.tables[one]
            if table is not None:
                spans[members] = found_spans(self, one, table[self.number[members]])
        return spans


def found_spans(step: Step, group: Columns | int, entries: Columns) -> Columns:
    """Entries of the indexes of groups, int64[n, 2], as spans in the step's region."""
    spans = np.empty((len(entries), 3), np.int64)
    spans[:, 0] = step.spans[group, 0]
    spans[:, 1] = entries[:, 0] + np.where(entries[:, 0] < 0, 0, step.spans[group, 1])
    spans[:, 2] = entries[:, 1]
    return spans


def members_of(group: Columns, count: int) -> list[tuple[int, slice | NDArray[np.intp]]]:
    """For each group that has any, its units."""
    if (group[1:] >= group[:-1]).all():
        bounds = np.searchsorted(group, np.arange(count + 1)).tolist()
        return [(i, slice(bounds[i], bounds[i + 1])) for i in range(count) if bounds[i] < bounds[i + 1]]
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(count + 1)).tolist()
    return [(i, order[bounds[i] : bounds[i + 1]]) for i in range(count) if bounds[i] < bounds[i + 1]]


class Opened(Record):
    """Shards of the outermost level with their indexes. spans: int64[m, 3], (object, start, length) in `region`, start < 0 where the object is
    not there; tables: the index of each, None there; versions: of the objects; young: versions that must not be remembered."""

    region: Region
    spans: Columns
    tables: Sequence[Table | None]
    versions: Sequence[Version | None]
    young: Sequence[bool] | None

    def remember(self, access: Access, located: Located) -> None:
        """Puts the indexes into the array's cache, so far as it would be used and safe."""
        if len(access.chain.levels) > 1 or not access.chain.levels[0].addressable:
            return
        labels = located.labels()
        for i, (table, version) in enumerate(zip(self.tables, self.versions, strict=True)):
            if labels[i] and table is not None and version is not None and not (self.young and self.young[i]):
                table.flags.writeable = False
                access.tables.put(labels[i], (version, table), table.nbytes)


def fetch_indexes(access: Access, located: Located) -> Fetched:
    """The indexes of shards, in one request a shard; the whole shard, where it has codecs around it."""
    level, count = access.chain.levels[0], len(located.kind)
    asked = np.empty((count, 3), np.int64)
    asked[:, 0] = np.arange(count)
    asked[:, 1:] = level.index_span if level.addressable else (0, -1)
    return access.storage.fetch(located, asked)


def replaced_since(access: Access, located: Located, fetched: Fetched) -> bool:
    """Whether an object is another one by now than the one that was fetched: then what is wrong with that one is no news."""
    return list(fetched.versions) != list(access.storage.fetch(located, NO_SPANS).versions)


def open_shards(access: Access, located: Located, coords: Columns, fetched: Fetched) -> Opened:
    """Checks the indexes of shards that fetch_indexes brought."""
    level, count = access.chain.levels[0], len(coords)
    if FOLDER in fetched.status:
        i = list(fetched.status).index(FOLDER)
        raise StoreError(
            "a shard could not be read: a folder lies in its place",
            errno=EISDIR,
            key=located.key(i),
            path=access.path or "/",
            chunk=tuple(coords[i].tolist()),
        )
    region: Region = StoredRegion(access.storage, located, fetched.versions, fetched)
    there = fetched.rows[:, 0] != _kernel.MISSING
    spans = np.stack((np.arange(count), np.where(there, 0, -1), np.where(there, fetched.sizes, -1)), axis=1)

    def key(i: int) -> tuple[str | None, tuple[int, ...]]:
        return located.key(i), tuple(coords[i].tolist())

    tables: list[Table | None] = [None] * count
    if not level.addressable:
        region, spans = decode_whole(access, level, fetched.sources, fetched.rows, key)
        stacked = read_tables(access, level, region, spans, key)
        tables = list(stacked)
    else:
        present = np.flatnonzero(there)
        for i, data in zip(present.tolist(), _index_bytes(access, level, fetched, present, key), strict=True):
            tables[i] = parse(access, level, data, int(fetched.sizes[i]), key(i))
    return Opened(region, spans, tables, fetched.versions, fetched.young)


def _index_bytes(access: Access, level: Level, fetched: Fetched, present: NDArray[np.intp], key: Key) -> list[bytes]:
    """The bytes of each index that was fetched; none where the object is too short to have one."""
    rows = np.ascontiguousarray(fetched.rows[present])
    nbytes = level.index_codecs.nbytes
    rows[fetched.sizes[present] < nbytes, 2] = 0
    offsets = np.concatenate(([0], np.cumsum(rows[:, 2])))
    data = np.empty(int(offsets[-1]), np.uint8)
    sources = fetched.sources
    failures = _kernel.read_rows(sources.files, sources.buffers, rows, data, offsets, access.runtime.threads)
    for unit, code, text in failures:
        raise failure(access, code, text, *key(int(present[unit])))
    return [data[low:high].tobytes() for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def first_step(
    access: Access, units: Units, region: Region, spans: Columns, tables: Sequence[Table | None], origin: Columns
) -> Step:
    """The outermost level's step; a group for each row of spans, in the order of the units' shards."""
    none = np.zeros((0, 2), np.int64)
    return Step(units.shard_rows(), level_numbers(access, units, 0), region, spans, tables, none, origin)


def level_numbers(access: Access, units: Units, depth: int) -> Columns:
    """int64[n]: the number of each unit's inner chunk in the shard index of level `depth`."""
    levels = access.chain.levels
    divide = [1] * len(access.chain.leaf.shape)
    for level in levels[depth + 1 :]:
        divide = [a * b for a, b in zip(divide, level.counts, strict=True)]
    return units.numbers(divide, levels[depth].counts, levels[depth].strides)


def walk(access: Access, units: Units, keyed: Keyed, first: Step) -> tuple[list[Step], Columns]:
    """From the outermost level's step to the innermost: the steps, and for each unit the span of its leaf chunk in the last step's region."""
    steps = [first]
    for depth in range(1, len(access.chain.levels)):
        steps.append(_descend(access, units, keyed, steps[-1], depth))
    return steps, steps[-1].child_spans()


def _descend(access: Access, units: Units, keyed: Keyed, above: Step, depth: int) -> Step:
    level = access.chain.levels[depth]
    spans = above.child_spans()
    keys = above.group * access.chain.levels[depth - 1].total + above.number
    distinct, firsts, group = np.unique(keys, return_index=True, return_inverse=True)
    parent = np.stack(np.divmod(distinct, access.chain.levels[depth - 1].total), axis=1)
    spans = spans[firsts]
    number = level_numbers(access, units, depth)
    first_units = units.chunks(firsts)
    origin = above.origin[parent[:, 0]]

    def key(i: int) -> tuple[str | None, tuple[int, ...]]:
        return keyed.key(int(origin[i])), tuple(first_units[i].tolist())

    region, spans, tables = tables_below(access, level, above.region, spans, key)
    return Step(group.reshape(-1), number, region, spans, tables, parent, origin)


def tables_below(
    access: Access, level: Level, region: Region, spans: Columns, key: Key
) -> tuple[Region, Columns, Stacked]:
    """The region and the spans of shards that lie in shards, decoded where they have codecs around them, and their indexes."""
    if not level.addressable:
        region, spans = decode_whole(access, level, *region.rows(spans), key)
    return region, spans, read_tables(access, level, region, spans, key)


def decode_whole(
    access: Access, level: Level, sources: Sources, rows: Columns, key: Key
) -> tuple[MemoryRegion, Columns]:
    """Shards with codecs around them, a row each, decoded into memory whole: the region that they then lie in, and their spans there."""
    native = [codec.native() for codec in level.after]
    count = len(rows)
    lengths = np.empty(count, np.int64)
    last = len(native) - next((i for i, form in enumerate(reversed(native)) if form is None), len(native))
    segments, failures = _kernel.decode_bytes(
        [form for form in native[last:] if form is not None],
        sources.files,
        sources.buffers,
        rows,
        np.full(count, level.bound, np.int64),
        lengths,
        access.runtime.threads,
    )
    if failures:
        unit, code, text = failures[0]
        raise failure(access, code, text, *key(unit))
    buffers: list[bytes | _kernel.Segment] = list(segments)
    for i in np.flatnonzero(lengths >= 0).tolist() if last else ():
        try:
            for codec in reversed(level.after[:last]):
                buffers[i] = run_decode(codec, bytes(buffers[i]), level.bound)
        except FrazilError as error:
            error.key, error.chunk, error.path = *key(i), access.path or "/"
            raise
    decoded = np.zeros((count, 3), np.int64)
    decoded[:, 0] = np.arange(count)
    decoded[:, 2] = [len(buffer) for buffer in buffers]
    decoded[lengths < 0, 1:] = -1
    return MemoryRegion(buffers), decoded


def read_tables(access: Access, level: Level, region: Region, spans: Columns, key: Key) -> Stacked:
    """The indexes of shards whose spans are known."""
    nbytes = level.index_codecs.nbytes
    wanted = spans.copy()
    there = spans[:, 1] >= 0
    if level.at_end:
        wanted[there, 1] += spans[there, 2] - nbytes
    wanted[there, 2] = nbytes
    wanted[there & (spans[:, 2] < nbytes)] = -1
    data = read_spans(access, region, wanted, nbytes, key)
    present = np.flatnonzero(there)
    tables, refused = parse_indexes(level, data if there.all() else data[present], spans[present, 2])
    if refused is not None:
        i, error = refused
        error.key, error.chunk, error.path = *key(int(present[i])), access.path or "/"
        raise error
    return Stacked(np.where(there, np.cumsum(there) - 1, -1), tables)


def read_spans(access: Access, region: Region, spans: Columns, nbytes: int, key: Key) -> NDArray[np.uint8]:
    """uint8[n, nbytes]: the bytes of spans that are all nbytes long or not there."""
    sources, rows = region.rows(spans)
    data = np.zeros((len(spans), nbytes), np.uint8)
    there = np.flatnonzero(rows[:, 0] != _kernel.MISSING)
    out = data if len(there) == len(spans) else np.empty((len(there), nbytes), np.uint8)
    offsets = np.arange(len(there) + 1, dtype=np.int64) * nbytes
    rows = np.ascontiguousarray(rows[there])
    failures = _kernel.read_rows(sources.files, sources.buffers, rows, out, offsets, access.runtime.threads)
    if failures:
        unit, code, text = failures[0]
        raise failure(access, code, text, *key(int(there[unit])))
    if out is not data:
        data[there] = out
    return data


def parse(access: Access, level: Level, data: bytes, size: int, where: tuple[str | None, tuple[int, ...]]) -> Table:
    """parse_index, with what is known of the place in its errors."""
    try:
        return parse_index(level, data, size)
    except FrazilError as error:
        error.key, error.chunk, error.path = *where, access.path or "/"
        raise
