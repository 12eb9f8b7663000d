"""The bytes of a shard: its index, and how a shard is put together (sharding codec 1.0, Binary shard format).

Functions over the stacked index table of many shards, which the kernel reads and writes. Chunks are not encoded here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Columns, Octets
from frazil.base.record import Record
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.codec import BytesToBytes, ChunkSpec, Refusal
from frazil.errors import ChecksumError, FormatError, FrazilError, InvalidInputError

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.codecs.chain.python_chain import PythonChain


def index_spec(counts: Sequence[int]) -> ChunkSpec:
    """A shard index before its codecs: offset and nbytes of counts inner chunks, uint64."""
    return ChunkSpec((*counts, 2), np.dtype(np.uint64), ((0, 8, 1),), b"\xff" * 8)


class Level(Record):
    """One level of sharding. Shapes and strides are by dimension of the array, also if transpositions come before it.

    inner    extent of an inner chunk
    counts   inner chunks of a shard
    strides  what one step along each dimension adds to the number of an inner chunk in the shard index
    total    inner chunks in all
    index_codecs  of the shard index;  at_end: whether it is at the end of the shard, or at the beginning
    after    bytes-to-bytes codecs around the whole shard; with any of them the level is not addressable
    bound    the most bytes of such a shard, encoded; a larger one is refused
    kernel_index  the same index in the form of the kernel
    """

    inner: tuple[int, ...]
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    total: int
    index_codecs: PythonChain
    at_end: bool
    after: tuple[BytesToBytes, ...]
    bound: int
    kernel_index: _kernel.ShardIndex

    @property
    def addressable(self) -> bool:
        return not self.after

    @property
    def index_span(self) -> tuple[int, int]:
        """Start (from the end, where negative) and length of the index in a shard."""
        return (-self.index_codecs.nbytes if self.at_end else 0), self.index_codecs.nbytes


def make_kernel_index(
    codecs: PythonChain, counts: Sequence[int], strides: Sequence[int], *, at_end: bool
) -> _kernel.ShardIndex:
    """An index in the form of the kernel. If its codecs are others than `bytes` and checksums, the kernel only checks tables that were decoded here."""
    swapped = isinstance(codecs.serializer, Bytes) and bool(codecs.serializer.swaps(codecs.specs[-1]))
    return _kernel.shard_index(
        counts, strides, at_end, codecs.nbytes, swapped, len(codecs.after) if codecs.plain else None
    )


def read_indexes(
    level: Level,
    files: _kernel.Files | None,
    buffers: Sequence[Buffer],
    rows: Columns,
    sizes: Columns,
    threads: int,
) -> tuple[Columns, _kernel.Failures]:
    """The stacked table of g shards, checked: int64[g, total, 2], start (from the shard's first byte) and length of each inner chunk, -1 where it is empty; and
    the failures.

    rows   int64[g, 3], the bytes of each index; MISSING: the shard does not exist, so all its chunks are empty
    sizes  int64[g], bytes of each shard"""
    nbytes, present = level.index_codecs.nbytes, rows[:, 0] != _kernel.MISSING
    short = np.flatnonzero(present & (sizes < nbytes))
    if len(short):  # before tables are allocated: a document may declare more inner chunks than memory holds
        text = f"a shard of {sizes[short[0]]} bytes is too short for its index of {nbytes} bytes"
        return np.empty((0, level.total, 2), np.int64), [(int(short[0]), _kernel.FAILED_INDEX, text)]
    tables = np.empty((len(rows), level.total, 2), np.int64)
    flat = tables.reshape(-1, 2)
    if level.index_codecs.plain:
        return tables, _kernel.read_indexes(level.kernel_index, files, buffers, rows, sizes, flat, threads)
    tables.fill(-1)
    existing = np.flatnonzero(present)
    of_there = np.ascontiguousarray(sizes[existing])
    data, offsets = np.empty((len(existing), nbytes), np.uint8), np.arange(len(existing) + 1, dtype=np.int64) * nbytes
    failures = _kernel.read_rows(files, buffers, np.ascontiguousarray(rows[existing]), data, offsets, threads)
    if not failures:
        for i, index in zip(existing.tolist(), data, strict=True):
            try:
                table = level.index_codecs.decode(index.tobytes())
                tables[i] = np.ascontiguousarray(table).view(np.int64).reshape(level.total, 2)
            except (FrazilError, MemoryError) as error:
                return tables, [(i, _kernel.FAILED_INDEX, Refusal(error))]
        failures = _kernel.check_indexes(level.kernel_index, of_there, tables[existing].reshape(-1, 2))
    return tables, [(int(existing[i]), code, text) for i, code, text in failures]


def read_index(level: Level, data: bytes, size: int) -> Columns:
    """The table of one shard of `size` bytes, int64[total, 2], from the bytes of its index. Raises FormatError, ChecksumError."""
    rows, sizes = np.array([(-1, 0, len(data))], np.int64), np.array([size], np.int64)
    tables, failures = read_indexes(level, None, [data], rows, sizes, 1)
    for _, code, text in failures:
        raise index_error(code, text)
    table: Columns = tables[0]
    return table


def index_error(code: int, text: str, key: str | None = None) -> FrazilError:
    """The error for a failure of an index. Raises the MemoryError of a codec."""
    if isinstance(text, Refusal):
        if isinstance(text.error, MemoryError):
            raise text.error
        text.error.key = key
        return text.error
    kind = ChecksumError if code == _kernel.FAILED_INDEX_CHECKSUM else FormatError
    return kind(text, key=key, hint="the shard is damaged or was cut short, or its metadata is of another array")


def encode_indexes(level: Level, tables: Columns, name: Callable[[FrazilError, int], None] | None = None) -> Octets:
    """Undoes read_indexes: uint8[g, nbytes]. Raises InvalidInputError for a user's codec; name(error, i) may add to it which shard it was."""
    codecs = level.index_codecs
    data = np.empty((len(tables), codecs.nbytes), np.uint8)
    if codecs.plain:
        _kernel.write_indexes(level.kernel_index, np.ascontiguousarray(tables).reshape(-1, 2), data)
        return data
    for i, table in enumerate(tables):
        try:
            index = codecs.encode(table.view(np.uint64).reshape(codecs.specs[0].shape))
            if len(index) != codecs.nbytes:
                raise InvalidInputError(
                    f"the codecs made a shard index of {len(index)} bytes instead of the {codecs.nbytes} that they declared"
                )
            data[i] = np.frombuffer(index, np.uint8)
        except FrazilError as error:
            if name is not None:
                name(error, i)
            raise
    return data


class StackedIndex(Record):
    """The stacked table of the indexes of g shards.

    tables  int64[p, total, 2], as read_indexes returns them
    slot    int64[g], for each shard its table; -1: none, so that all its inner chunks are missing"""

    tables: Columns
    slot: Columns

    def entries(self, shard: Columns, number: Columns) -> Columns:
        """int64[n, 2]: start and length of inner chunks, -1 where they are missing."""
        slot = self.slot[shard]
        if not len(self.tables):
            return np.full((len(shard), 2), -1, np.int64)
        entries = self.tables[slot, number]
        entries[slot < 0] = -1
        return entries

    def others(self, shard: Columns, number: Columns) -> tuple[Columns, Columns]:
        """Shard and number of each stored inner chunk that is not one of the given, by shard."""
        if not len(self.tables):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        existing = np.flatnonzero(self.slot >= 0)
        stored = (self.tables[:, :, 0] >= 0)[self.slot[existing]]
        row = np.where(self.slot >= 0, np.cumsum(self.slot >= 0) - 1, -1)[shard]
        stored[row[row >= 0], number[row >= 0]] = False
        rows, numbers = np.nonzero(stored)
        return existing[rows], numbers


class InnerChunks(Record):
    """Encoded inner chunks to assemble shards from, in any order.

    shard   int64[n]
    number  int64[n], in the index of the shard, each at most once; -1: bytes that the index does not name
    rows    int64[p, 3], their bytes; a chunk with a row of negative length is left out
    first   int64[n + 1]: the bytes of chunk i are rows[first[i]:first[i + 1]]; None: rows[i]
    keys    int64[n], the sort keys of the chunks of a shard, -1 being last (equal keys keep the given order); None: in the given order"""

    shard: Columns
    number: Columns
    rows: Columns
    first: Columns | None = None
    keys: Columns | None = None


class Assembled(Record):
    """Assembled shards: shard i is rows[offsets[i]:offsets[i + 1]]; indexes: the buffer of their indexes."""

    rows: Columns
    offsets: Columns
    indexes: Octets


def assemble(
    level: Level,
    chunks: InnerChunks,
    tables: Columns,
    blob: int,
    *,
    starts: Columns | None = None,
    empty: bool = True,
    name: Callable[[FrazilError, int], None] | None = None,
) -> Assembled:
    """Lays out inner chunks in shards, one after the other, with the index before or behind them.

    tables  int64[g, total, 2], C order; the entries of `chunks` are set in it, the others stay
    blob    the blob number that the buffer of the indexes gets
    starts  int64[g], the position of the first chunk in each shard; None: at its beginning, behind an index at the start
    empty   whether a shard without chunks has an index; if not, it has no rows
    Raises InvalidInputError for a user's index codec; name(error, i) may add to it which shard it was."""
    count = len(tables)
    if starts is None:
        starts = np.full(count, 0 if level.at_end else level.index_codecs.nbytes, np.int64)
    rows, offsets = np.empty((len(chunks.rows) + count, 3), np.int64), np.empty(count + 1, np.int64)
    shard, number, of_chunks = map(np.ascontiguousarray, chunks[:3])
    first, keys = (None if column is None else np.ascontiguousarray(column) for column in chunks[3:])
    used = _kernel.assemble_shards(
        level.kernel_index, shard, number, of_chunks, first, keys, starts, blob, empty, tables.reshape(-1, 2), rows, offsets
    )  # fmt: skip
    present = np.flatnonzero(offsets[1:] > offsets[:-1])
    indexes = encode_indexes(
        level,
        tables if len(present) == count else tables[present],
        None if name is None else lambda error, i: name(error, int(present[i])),
    )
    return Assembled(rows[:used], offsets, indexes.reshape(-1))
