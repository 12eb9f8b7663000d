"""Changes the form of the indexes of shards, from their encoded bytes. Only indexes are decoded, and checked.

If only the outermost index changes, a shard keeps its bytes: a checksum behind the index is cut off, or an index in the new form is added behind the old bytes,
as unused space is allowed (sharding codec 1.0, Binary shard format). If inner shards change, too, the shard is assembled again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from frazil.array.compiled_array import chunk_spec
from frazil.base.arrays import Octets, offsets_of
from frazil.base.record import Record
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.chain.compilation import compile_chain
from frazil.codecs.registry import Registry
from frazil.codecs.sharding.shard import InnerChunks, Level, assemble, index_error, read_indexes
from frazil.metadata.model import ArrayMetadata
from frazil.stores.values import Columns


class Objects(Record):
    """Stored objects. names: their keys; read: from int64[n, 3], (row of names, start, length), with equal lengths, to uint8[n, length]."""

    names: Sequence[str]
    read: Callable[[Columns], Octets]


class ShardForms(Record):
    """The old and the new levels of shards, outermost first, down to the last one that changes."""

    levels: tuple[tuple[Level, Level], ...]

    @property
    def index_bytes(self) -> int:
        """Bytes of the indexes of one shard of the outermost level, in memory, which limit a batch."""
        total, shards = 0, 1
        for level, _ in self.levels:
            total += shards * level.total * 32
            shards *= level.total
        return total


class Composed(Record):
    """New objects. Object i is rows[offsets[i]:offsets[i + 1]], one after the other: (name, start, length) of old bytes, or (-1 - buffer, start, length) of new
    bytes."""

    rows: Columns
    offsets: Columns
    buffers: Sequence[Octets]

    def sizes(self) -> Columns:
        ends = offsets_of(self.rows[:, 2])
        return np.diff(ends[self.offsets])


def shard_forms(
    source: ArrayMetadata, target: ArrayMetadata, registry: Registry, chunk_shape: Sequence[int]
) -> ShardForms:
    """The changes between two arrays whose chains only differ in shard indexes. Raises MetadataError, UnknownExtensionError for an invalid chain."""
    spec = chunk_spec(source.data_type, tuple(chunk_shape), source.fill_value)
    old = compile_chain(registry.parse_codecs(source.codecs), spec).levels
    new = compile_chain(registry.parse_codecs(target.codecs), spec).levels
    changed = [_differ(old_level, other) for old_level, other in zip(old, new, strict=True)]
    last = max((i for i, differs in enumerate(changed) if differs), default=-1)
    return ShardForms(tuple(zip(old, new, strict=True))[: last + 1])


def _differ(old: Level, new: Level) -> bool:
    return old.at_end != new.at_end or old.index_codecs.after != new.index_codecs.after or not _same_table(old, new)


def _same_table(old: Level, new: Level) -> bool:
    """Whether both write the table of an index as the same bytes, without the checksums behind it."""
    old_codecs, other = old.index_codecs, new.index_codecs
    return (
        old_codecs.plain
        and other.plain
        and isinstance(old_codecs.serializer, Bytes)
        and isinstance(other.serializer, Bytes)
        and old_codecs.serializer.endian == other.serializer.endian
    )


def compose(forms: ShardForms, shards: Columns, objects: Objects) -> Composed:
    """The new form of shards. shards: int64[n, 3], (row of names, start, length) of each. Raises FormatError, ChecksumError with the key."""
    (old, new), below = forms.levels[0], ShardForms(forms.levels[1:])
    table = _read_index(old, shards, objects)
    if below.levels:
        return _put_together(new, below, shards, table, objects)
    cut = old.index_codecs.nbytes - new.index_codecs.nbytes
    if old.at_end and cut > 0 and _same_table(old, new):
        rows = shards.copy()
        rows[:, 2] -= cut
        if (table.sum(axis=2) <= rows[:, 2:]).all():  # no inner chunk reaches into the part that is cut off
            return Composed(rows, np.arange(len(rows) + 1), ())
    return _with_index(shards, new, table)


def _read_index(level: Level, shards: Columns, objects: Objects) -> Columns:
    """int64[n, total, 2], checked: start and length of each inner chunk, -1 where it is empty."""
    start, nbytes = level.index_span
    long = np.flatnonzero(shards[:, 2] >= nbytes)  # the others are refused for their size
    spans = shards[long]
    spans[:, 1] += spans[:, 2] + start if start < 0 else 0
    spans[:, 2] = nbytes
    rows = np.full((len(shards), 3), (-1, 0, 0), np.int64)
    rows[long, 1], rows[long, 2] = np.arange(len(long)) * nbytes, nbytes
    sizes = np.ascontiguousarray(shards[:, 2])
    data = objects.read(spans).reshape(-1) if len(long) else b""
    tables, failures = read_indexes(level, None, [data], rows, sizes, 1)
    for shard, code, text in failures:
        raise index_error(code, text, objects.names[int(shards[shard, 0])])
    return tables


def _with_index(shards: Columns, level: Level, table: Columns) -> Composed:
    """Each object with a new index behind its bytes."""
    whole = InnerChunks(np.arange(len(shards)), np.full(len(shards), -1, np.int64), shards)
    assembled = assemble(level, whole, table, -1, starts=np.zeros(len(shards), np.int64))
    return Composed(assembled.rows, assembled.offsets, (assembled.indexes,))


def _put_together(new: Level, below: ShardForms, shards: Columns, table: Columns, objects: Objects) -> Composed:
    """Shards whose inner shards change: the inner shards one after the other, in their present order, and a new index."""
    outer, number = np.nonzero(table[:, :, 0] >= 0)
    entries = table[outer, number]
    inner = np.stack((shards[outer, 0], shards[outer, 1] + entries[:, 0], entries[:, 1]), axis=1)
    rows, offsets, buffers = compose(below, inner, objects)
    chunks = InnerChunks(outer, number, rows, offsets, entries[:, 0])
    assembled = assemble(new, chunks, np.full_like(table, -1), -1 - len(buffers))
    return Composed(assembled.rows, assembled.offsets, (*buffers, assembled.indexes))
