"""Finds inner chunks: from objects through the levels of sharding to spans, one vectorised round for each level. Shard indexes are read, checked, and
remembered here. Only shards inside codecs are decoded."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from errno import EISDIR, ESTALE

import numpy as np

from frazil import _kernel
from frazil.array.access import Access, codec_error, failure, index_memory_error
from frazil.array.shards import shard_append
from frazil.array.shards.shard_indexes import IndexTables, file_versions
from frazil.array.shards.shard_objects import MemoryObjects, Objects, StoredObjects
from frazil.base.arrays import Columns
from frazil.base.record import Record
from frazil.codecs.codec import run_decode
from frazil.codecs.sharding.shard import Level, StackedIndex, read_indexes
from frazil.errors import DataError, FrazilError, StoreError
from frazil.indexing.points import Chunks
from frazil.stores.array_storage.chunk_storage import Located
from frazil.stores.values import FOLDER, NO_SPANS, Fetched, Sources, Versions

Key = Callable[[int], tuple[str | None, tuple[int, ...]]]  # group -> (key of its object, coordinates of a chunk in it)
KeyOf = Callable[[int], "str | None"]  # row -> the key of its object, which errors need; None where it has none


class Shards(Record):
    """Shards of one level with their indexes.

    objects  the objects or buffers that contain them
    spans    int64[g, 3], (object, start, length) of each shard in `objects`; start < 0: it is missing
    indexes  of the shards; starts are counted from the first byte of the shard"""

    objects: Objects
    spans: Columns
    indexes: StackedIndex

    def chunk_spans(self, shard: Columns | int, entries: Columns) -> Columns:
        """Entries of the indexes of shards, int64[n, 2], as spans in the objects."""
        spans = np.empty((len(entries), 3), np.int64)
        spans[:, 0] = self.spans[shard, 0]
        spans[:, 1] = entries[:, 0] + np.where(entries[:, 0] < 0, 0, self.spans[shard, 1])
        spans[:, 2] = entries[:, 1]
        return spans


class Step(Record):
    """One level of the walk.

    shard    int64[n], the shard of this level that contains each inner chunk of the plan
    number   int64[n], its number in the index of that shard, or the number of the shard of the next level that contains it
    shards   the shards
    parent   int64[g, 2], (shard of the level above, number in it) of each shard; empty at the outermost level
    origin   int64[g], the object that contains each shard: a row of the Located
    """

    shard: Columns
    number: Columns
    shards: Shards
    parent: Columns
    origin: Columns

    def chunk_spans(self) -> Columns:
        """int64[n, 3]: the spans of the inner chunks; start < 0 where one is missing."""
        if not len(self.shards.indexes.tables):
            return np.full((len(self.number), 3), -1, np.int64)
        return self.shards.chunk_spans(self.shard, self.shards.indexes.entries(self.shard, self.number))


class Opened(Record):
    """Shards of the outermost level. versions: of the objects; may_repeat: versions that later content might also have, and that are not remembered."""

    shards: Shards
    versions: Versions
    may_repeat: Sequence[bool] | None

    def remember(self, access: Access, names: Sequence[Hashable]) -> None:
        """Remembers the indexes for the array, if they are useful and their versions cannot repeat."""
        stacked, of_shard = self.shards.indexes
        remembered = [
            i
            for i, (slot, version) in enumerate(zip(of_shard.tolist(), self.versions, strict=True))
            if slot >= 0 and version is not None and names[i] != "" and not (self.may_repeat and self.may_repeat[i])
        ]
        if access.indexes is None or not remembered:
            return
        tables = stacked if len(remembered) == len(stacked) else stacked[of_shard[remembered]]
        versions = [self.versions[i] or b"" for i in remembered]
        columns = file_versions(versions)
        access.indexes.put(
            [names[i] for i in remembered], IndexTables(tables, versions if columns is None else columns)
        )


def index_names(access: Access, coords: Columns, located: Located) -> Sequence[Hashable]:
    """The names of shards in RememberedIndexes; "" for a shard whose index is not remembered."""
    if access.indexes is not None and access.indexes.by_coordinates:
        return list(map(tuple, coords.tolist()))
    return located.labels()


def fetch_indexes(access: Access, located: Located) -> Fetched:
    """The indexes of shards, in one request for each; the whole shard, where it is inside codecs."""
    level, count = access.chain.levels[0], len(located.kind)
    index_spans = np.empty((count, 3), np.int64)
    index_spans[:, 0] = np.arange(count)
    index_spans[:, 1:] = level.index_span if level.addressable else (0, -1)
    return access.storage.fetch(located, index_spans)


def replaced_since(access: Access, located: Located, fetched: Fetched, error: DataError | StoreError) -> bool:
    """Whether an object has been replaced since it was fetched, or was being changed in place: then an error in it does not count. Other errors of stores than
    that of NFS for a file that another machine replaced (ESTALE) do."""
    if isinstance(error, StoreError) and error.errno != ESTALE:
        return False
    # in this order: a writer in place finishes the file before it releases it
    return shard_append.restore_shards(access, located.names) or list(fetched.versions) != list(
        access.storage.fetch(located, NO_SPANS).versions
    )


def open_shards(access: Access, located: Located, coords: Columns, fetched: Fetched) -> Opened:
    """Checks the indexes of shards that fetch_indexes returned."""
    level, count = access.chain.levels[0], len(coords)
    if FOLDER in fetched.status:
        i = list(fetched.status).index(FOLDER)
        raise failure(access, _kernel.FAILED_IO, str(EISDIR), located.key(i), tuple(coords[i].tolist()))
    objects: Objects = StoredObjects(access.storage, located, fetched.versions, fetched)
    exists = fetched.rows[:, 0] != _kernel.MISSING
    spans = np.stack((np.arange(count), np.where(exists, 0, -1), np.where(exists, fetched.sizes, -1)), axis=1)

    def key(i: int) -> tuple[str | None, tuple[int, ...]]:
        return located.key(i), tuple(coords[i].tolist())

    if not level.addressable:
        objects, spans = decode_whole(access, level, fetched.sources, fetched.rows, key)
        index = _read_indexes(access, level, objects, spans, key)
    else:
        index = _parsed(access, level, fetched.sources, fetched.rows, fetched.sizes, key)
    return Opened(Shards(objects, spans, index), fetched.versions, fetched.version_may_repeat)


def _parsed(access: Access, level: Level, sources: Sources, rows: Columns, sizes: Columns, key: Key) -> StackedIndex:
    """The indexes at rows (MISSING: there is no shard) of shards of these sizes."""
    exists = rows[:, 0] != _kernel.MISSING
    present = np.flatnonzero(exists)
    slot = np.where(exists, np.cumsum(exists) - 1, -1)
    rows, sizes = np.ascontiguousarray(rows[present]), np.ascontiguousarray(sizes[present])
    try:
        tables, failures = read_indexes(level, *sources, rows, sizes, access.runtime.threads)
    except MemoryError as error:
        raise index_memory_error(access, level, *key(int(present[0]))) from error
    for i, code, text in failures:
        raise shard_append.explained(access, failure(access, code, text, *key(int(present[i]))))
    return StackedIndex(tables, slot)


def first_step(access: Access, chunks: Chunks, shards: Shards, origin: Columns) -> Step:
    """The step of the outermost level; shards in the order of the shards of `chunks`."""
    none = np.zeros((0, 2), np.int64)
    return Step(chunks.shard_rows(), level_numbers(access, chunks, 0), shards, none, origin)


def level_numbers(access: Access, chunks: Chunks, depth: int) -> Columns:
    """int64[n]: the number of each inner chunk, or of the shard of a deeper level that contains it, in the shard index of level `depth`."""
    levels = access.chain.levels
    divide = [1] * len(access.chain.inner_chunk.shape)
    for level in levels[depth + 1 :]:
        divide = [a * b for a, b in zip(divide, level.counts, strict=True)]
    return chunks.numbers(divide, levels[depth].counts, levels[depth].strides)


def walk(access: Access, chunks: Chunks, key_of: KeyOf, first: Step) -> tuple[list[Step], Columns]:
    """From the outermost level's step to the innermost: the steps, and for each inner chunk its span in the last step's objects."""
    steps = [first]
    for depth in range(1, len(access.chain.levels)):
        steps.append(_descend(access, chunks, key_of, steps[-1], depth))
    return steps, steps[-1].chunk_spans()


def _descend(access: Access, chunks: Chunks, key_of: KeyOf, above: Step, depth: int) -> Step:
    level = access.chain.levels[depth]
    spans = above.chunk_spans()
    keys = above.shard * access.chain.levels[depth - 1].total + above.number
    distinct, firsts, shard = np.unique(keys, return_index=True, return_inverse=True)
    parent = np.stack(np.divmod(distinct, access.chain.levels[depth - 1].total), axis=1)
    spans = spans[firsts]
    number = level_numbers(access, chunks, depth)
    first_chunks = chunks.coordinates(firsts)
    origin = above.origin[parent[:, 0]]

    def key(i: int) -> tuple[str | None, tuple[int, ...]]:
        return key_of(int(origin[i])), tuple(first_chunks[i].tolist())

    return Step(
        shard.reshape(-1), number, shards_below(access, level, above.shards.objects, spans, key), parent, origin
    )


def shards_below(access: Access, level: Level, objects: Objects, spans: Columns, key: Key) -> Shards:
    """Shards inside shards, decoded where they are inside codecs."""
    if not level.addressable:
        objects, spans = decode_whole(access, level, *objects.rows(spans), key)
    return Shards(objects, spans, _read_indexes(access, level, objects, spans, key))


def decode_whole(
    access: Access, level: Level, sources: Sources, rows: Columns, key: Key
) -> tuple[MemoryObjects, Columns]:
    """Decodes whole shards that are inside codecs, a row each, into memory: the objects that then contain them, and their spans there."""
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
        i, code, text = failures[0]
        raise failure(access, code, text, *key(i))
    buffers: list[bytes | _kernel.Segment] = list(segments)
    for i in np.flatnonzero(lengths >= 0).tolist() if last else ():
        try:
            for codec in reversed(level.after[:last]):
                buffers[i] = run_decode(codec, bytes(buffers[i]), level.bound)
        except (FrazilError, MemoryError) as error:
            codec_error(access, error, *key(i))
            raise
    decoded = np.zeros((count, 3), np.int64)
    decoded[:, 0] = np.arange(count)
    decoded[:, 2] = [len(buffer) for buffer in buffers]
    decoded[lengths < 0, 1:] = -1
    return MemoryObjects(buffers), decoded


def _read_indexes(access: Access, level: Level, objects: Objects, spans: Columns, key: Key) -> StackedIndex:
    """The indexes of shards whose spans are known."""
    nbytes = level.index_codecs.nbytes
    there = spans[:, 1] >= 0
    index_spans = spans.copy()  # of a shard that is too short, which read_indexes refuses, all bytes
    index_spans[there, 2] = np.minimum(spans[there, 2], nbytes)
    if level.at_end:
        index_spans[there, 1] += spans[there, 2] - index_spans[there, 2]
    sources, rows = objects.rows(index_spans)
    return _parsed(access, level, sources, rows, spans[:, 2], key)
