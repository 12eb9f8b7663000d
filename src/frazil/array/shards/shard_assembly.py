"""Assembles new shards, from the innermost level outwards: new inner chunks, inner chunks copied from the old shard, and the index.

All functions work on columns over encoded bytes. codecs/sharding/shard.py assembles the shards of one level; io/write.py publishes the outermost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frazil import _kernel
from frazil.array.access import Access, failure, index_memory_error
from frazil.array.shards.shard_lookup import KeyOf, Step
from frazil.array.shards.shard_objects import BlobTable, Objects
from frazil.base.arrays import Columns, Flags, Octets, offsets_of
from frazil.base.record import Record
from frazil.codecs.codec import BytesToBytes, run_encode
from frazil.codecs.sharding.inner_order import inner_ranks
from frazil.codecs.sharding.shard import Assembled, InnerChunks, assemble
from frazil.errors import FrazilError, InvalidInputError
from frazil.indexing.points import Chunks
from frazil.stores.values import Pieces

_NEW = 2**62  # sorts behind every offset in an old shard


class Carried(Record):
    """Inner chunks that a write does not change: the shard of each, its number in the index, and the row of its bytes."""

    shard: Columns
    number: Columns
    rows: Columns


class Kept(Record):
    """Encoded bytes that a write keeps.

    old      a row for each chunk of which a part is kept (MISSING: it does not exist); None where none exists
    carried  for each step
    """

    old: Columns | None
    carried: list[Carried]


def keep(steps: list[Step], spans: Columns, blobs: BlobTable) -> Kept:
    """Fetches the bytes that a write keeps, in one round for all levels in the same objects. spans: int64[n, 3], the old chunks of which a part is kept, in the
    last step's objects, start < 0 for none."""
    requests = [(steps[-1].shards.objects, spans)]
    numbers = []
    for depth, step in enumerate(steps):
        index = step.shards.indexes
        shard, number = index.others(*touched(steps, depth))
        numbers.append((shard, number))
        requests.append((step.shards.objects, step.shards.chunk_spans(shard, index.entries(shard, number))))
    rows = _fetched(requests, blobs)
    carried = [Carried(*which, locations) for which, locations in zip(numbers, rows[1:], strict=True)]
    return Kept(rows[0] if (spans[:, 1] >= 0).any() else None, carried)


def touched(steps: list[Step], depth: int) -> tuple[Columns, Columns]:
    """Shard and number of each inner chunk of a level that a write replaces."""
    if depth + 1 == len(steps):
        return steps[depth].shard, steps[depth].number
    parent = steps[depth + 1].parent
    return parent[:, 0], parent[:, 1]


def _fetched(requests: list[tuple[Objects, Columns]], blobs: BlobTable) -> list[Columns]:
    """Rows in `blobs` of each part, with one fetch from each object."""
    rows = [np.zeros((0, 3), np.int64)] * len(requests)
    distinct = {id(objects): objects for objects, _ in requests}
    for identity, objects in distinct.items():
        parts = [i for i, (other, _) in enumerate(requests) if id(other) == identity]
        if any((requests[i][1][:, 1] >= 0).any() for i in parts):
            spans = np.concatenate([requests[i][1] for i in parts])
            fetched = blobs.add(*objects.rows(spans))
            ends = np.cumsum([len(requests[i][1]) for i in parts])[:-1]
            for i, part in zip(parts, np.split(fetched, ends), strict=True):
                rows[i] = part
    return rows


class Call(Record):
    """State that the functions below share. chunks, key_of: for errors, of the write and of its shards. order: int64[n], ascending in the order in which the
    chunks were written; None: they are in this order."""

    access: Access
    steps: list[Step]
    chunks: Chunks
    key_of: KeyOf
    blobs: BlobTable
    order: Columns | None = None

    def location(self, depth: int, shard: int) -> tuple[str | None, tuple[int, ...]]:
        """The key of the object with a shard, and coordinates of a chunk in the shard (of the shard itself, if it is the outermost)."""
        owner = self.steps[-1].shard
        for step in reversed(self.steps[depth + 1 :]):
            owner = step.parent[owner, 0]
        chunk = self.chunks.coordinates(np.flatnonzero(owner == shard)[:1])[0].tolist()
        if depth == 0:
            chunk = [at // count for at, count in zip(chunk, self.access.chain.inner_chunk_counts, strict=True)]
        return self.key_of(int(self.steps[depth].origin[shard])), tuple(chunk)

    def name(self, error: FrazilError, depth: int, shard: int) -> None:
        """Adds the shard's location to an error."""
        (error.key, error.chunk), error.path = self.location(depth, shard), self.access.path or "/"


def outer_values(call: Call, values: Columns, retained: Kept) -> Columns:
    """int64[n, 3], the new entries of the outermost shards: the inner chunks themselves, or the shards that contain them. values: as in `assembled`."""
    for depth in reversed(range(1, len(call.access.chain.levels))):
        values = _joined(call, depth, _assemble_level(call, depth, values, retained.carried[depth]))
    return values


def assembled(call: Call, values: Columns, retained: Kept) -> tuple[Flags, Pieces]:
    """The shards of the outermost level: bool[m], which of them have inner chunks; and the pieces of those. values: int64[n, 3], the inner chunks as rows of
    the call's blobs, length -1 for an empty one."""
    level = call.access.chain.levels[0]
    shards = _assemble_level(call, 0, outer_values(call, values, retained), retained.carried[0])
    present = np.diff(shards.offsets) > 0
    if level.addressable:
        offsets = shards.offsets[np.concatenate(([True], present))]
        return present, Pieces(call.blobs.sources, np.ascontiguousarray(shards.rows), offsets)
    rows = np.ascontiguousarray(_joined(call, 0, shards)[present])
    return present, Pieces(call.blobs.sources, rows, np.arange(len(rows) + 1, dtype=np.int64))


def _assemble_level(call: Call, depth: int, values: Columns, carried: Carried) -> Assembled:
    """The shards of a level; one without inner chunks has no rows."""
    levels, index = call.access.chain.levels, call.steps[depth].shards.indexes
    shard, number = touched(call.steps, depth)
    keys = None if call.order is None or depth + 1 < len(levels) else call.order + _NEW
    if len(index.tables):  # existing inner chunks keep their positions
        shard, number = np.concatenate((carried.shard, shard)), np.concatenate((carried.number, number))
        values, before = np.concatenate((carried.rows, values)), index.entries(shard, number)[:, 0]
        keys = before if keys is None else np.concatenate((before[: len(carried.rows)], keys))
    if call.access.options.inner_order != "written":
        level = levels[depth]
        keys = inner_ranks(level.total, level.strides, level.counts, call.access.options.inner_order)[number]
    try:
        tables: Columns = np.full((len(index.slot), levels[depth].total, 2), -1, np.int64)
    except MemoryError as error:
        raise index_memory_error(call.access, levels[depth], *call.location(depth, 0)) from error
    assembled_level = assemble(
        levels[depth],
        InnerChunks(shard, number, values, None, keys),
        tables,
        -1 - len(call.blobs.buffers),
        empty=False,
        name=lambda error, i: call.name(error, depth, i),
    )
    call.blobs.add_buffer(assembled_level.indexes)
    return assembled_level


def _joined(call: Call, depth: int, shards: Assembled) -> Columns:
    """Shards one after the other in one buffer, or encoded by the codecs around them: int64[m, 3] rows, length -1 where there is none."""
    level, blobs, threads = call.access.chain.levels[depth], call.blobs, call.access.runtime.threads
    ends = offsets_of(shards.rows[:, 2])
    data = np.empty(int(ends[-1]), np.uint8)
    files, buffers = blobs.sources
    for _, code, text in _kernel.read_rows(files, buffers, shards.rows, data, ends, threads):
        raise failure(call.access, code, text, None, None)
    bounds = ends[shards.offsets]
    present = shards.offsets[1:] > shards.offsets[:-1]
    joined = np.full((len(present), 3), -1, np.int64)
    if not level.after:
        joined[:, 0], joined[:, 1] = blobs.add_buffer(data), bounds[:-1]
        joined[present, 2] = np.diff(bounds)[present]
        return joined
    numbers = np.flatnonzero(present).tolist()
    parts = [data[bounds[i] : bounds[i + 1]] for i in numbers]
    for i, value in zip(numbers, _encoded(call, depth, numbers, parts), strict=True):
        joined[i] = blobs.add_buffer(value), 0, len(value)
    return joined


def _encoded(call: Call, depth: int, numbers: list[int], shards: Sequence[Octets]) -> Sequence[bytes | _kernel.Segment]:
    """Shards encoded by the codecs around them: first by codecs in Python, one after the other, then by those of the kernel for all shards at once."""
    after = call.access.chain.levels[depth].after
    forms = [codec.native() for codec in after]
    last = len(forms) - next((i for i, form in enumerate(reversed(forms)) if form is None), len(forms))
    values: Sequence[bytes | Octets] = shards
    if last:
        values = [
            _encode_shard(call, after[:last], shard.tobytes(), depth, number)
            for number, shard in zip(numbers, shards, strict=True)
        ]
    native = [form for form in forms[last:] if form is not None]
    try:
        return _kernel.encode_bytes(native, values, call.access.runtime.threads)
    except ValueError as error:
        raise InvalidInputError(f"a shard could not be encoded: {error}", path=call.access.path or "/") from error


def _encode_shard(call: Call, codecs: Sequence[BytesToBytes], data: bytes, depth: int, number: int) -> bytes:
    try:
        for codec in codecs:
            data = run_encode(codec, data)
    except FrazilError as error:
        call.name(error, depth, number)
        raise
    return data
