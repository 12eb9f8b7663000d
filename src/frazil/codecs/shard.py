"""The bytes of a shard: its index, and how a shard is put together (sharding codec 1.0, Binary shard format).

Pure functions over columns. No codec of chunks, no I/O; the codec of that name is in sharding_indexed.py."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.bytes_to_bytes.crc32c import Crc32c
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, BytesToBytes, ChunkSpec, as_bytes, run_decode, run_encode
from frazil.errors import FormatError, FrazilError, InvalidInputError
from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns: TypeAlias = "NDArray[np.int64]"
Flags: TypeAlias = "NDArray[np.bool_]"
EMPTY = np.uint64(2**64 - 1)  # offset and nbytes of an inner chunk that is not there


def index_spec(counts: Sequence[int]) -> ChunkSpec:
    """A shard index before its codecs: offset and nbytes of counts inner chunks, uint64."""
    return ChunkSpec((*counts, 2), np.dtype(np.uint64), ((0, 8, 1),), b"\xff" * 8)


class IndexChain(Record):
    """The codecs of a shard index; specs[i] and sizes[i] are what each array-to-array and bytes-to-bytes codec starts from."""

    before: tuple[ArrayToArray, ...]
    serializer: ArrayToBytes
    after: tuple[BytesToBytes, ...]
    specs: tuple[ChunkSpec, ...]
    sizes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return self.sizes[-1]

    @property
    def plain(self) -> bool:
        """Whether it is `bytes` and checksums: then many indexes are one array."""
        return not self.before and type(self.serializer) is Bytes and all(type(codec) is Crc32c for codec in self.after)

    def decode(self, data: bytes) -> NDArray[np.uint64]:
        """uint64[n, 2]. Raises DataError."""
        for codec, size in zip(reversed(self.after), reversed(self.sizes[:-1]), strict=True):
            data = run_decode(codec, data, size)
        try:
            array = self.serializer.decode(data, self.specs[-1])
            for before, spec in zip(reversed(self.before), reversed(self.specs[:-1]), strict=True):
                array = before.decode(array, spec)
            return np.ascontiguousarray(array).astype(np.uint64, copy=False).reshape(prod(self.specs[0].shape[:-1]), 2)
        except FrazilError:
            raise
        except Exception as error:  # a codec of the user's may raise what it likes
            raise FormatError(f"the shard index: {type(error).__name__}: {error}") from error

    def encode(self, table: NDArray[np.uint64]) -> bytes:
        """Raises InvalidInputError where a codec of the user's makes something else than it said."""
        array: NDArray[np.generic] = table.reshape(self.specs[0].shape)
        try:
            for before, spec in zip(self.before, self.specs[:-1], strict=True):
                array = before.encode(array, spec)
            data = as_bytes(self.serializer.encode(array, self.specs[-1]), self.serializer.name, InvalidInputError)
        except FrazilError:
            raise
        except Exception as error:
            raise InvalidInputError(f"the shard index: {type(error).__name__}: {error}") from error
        for codec in self.after:
            data = run_encode(codec, data)
        if len(data) != self.nbytes:
            raise InvalidInputError(
                f"the codecs made a shard index of {len(data)} bytes where they promised {self.nbytes}"
            )
        return data

    def decode_plain(self, data: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """uint8[g, nbytes], many indexes of a plain chain: uint64[g, n, 2], and bool[g], whether all checksums match."""
        good = np.ones(len(data), np.bool_)
        for low, high in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            good &= (data[:, low:high] == _checksums(data, low)).all(axis=1)
        tables = np.ascontiguousarray(data[:, : self.sizes[0]]).view(np.uint64)
        return self._ordered(tables).reshape(len(data), self.sizes[0] // 16, 2), good

    def encode_plain(self, tables: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Undoes decode_plain."""
        data = np.empty((len(tables), self.nbytes), np.uint8)
        data[:, : self.sizes[0]] = self._ordered(tables).reshape(len(tables), self.sizes[0] // 8).view(np.uint8)
        for low, high in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            data[:, low:high] = _checksums(data, low)
        return data

    def _ordered(self, tables: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """In the byte order of the chain, or back in the machine's."""
        assert isinstance(self.serializer, Bytes)
        return tables.byteswap() if self.serializer.swaps(self.specs[0]) else tables


def _checksums(data: NDArray[np.uint8], nbytes: int) -> NDArray[np.uint8]:
    """uint8[g, 4]: the crc32c of the first nbytes of each row."""
    width, view = data.shape[1], data.reshape(-1).data
    sums = (_kernel.crc32c(view[at : at + nbytes]) for at in range(0, data.size, width))
    return np.fromiter(sums, "<u4", len(data)).view(np.uint8).reshape(-1, 4)


class Level(Record):
    """One sharding. Shapes and strides are by dimension of the array, whatever transpositions stand before it.

    inner    extent of an inner chunk
    counts   inner chunks of a shard
    strides  what one step along each dimension adds to the number of an inner chunk in the shard index
    total    inner chunks in all
    index_codecs  of the shard index;  at_end: whether it is the last thing of the shard, or the first
    after    bytes-to-bytes codecs around the whole shard; with any of them the level is not addressable
    bound    the most bytes of such a shard, encoded; more is refused
    """

    inner: tuple[int, ...]
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    total: int
    index_codecs: IndexChain
    at_end: bool
    after: tuple[BytesToBytes, ...]
    bound: int

    @property
    def addressable(self) -> bool:
        return not self.after

    @property
    def index_span(self) -> tuple[int, int]:
        """Start (from the end, where negative) and length of the index in a shard."""
        return (-self.index_codecs.nbytes if self.at_end else 0), self.index_codecs.nbytes


def parse_index(level: Level, data: bytes, size: int) -> Columns:
    """The index of one shard of `size` bytes: int64[total, 2], start and length of each inner chunk; start -1 where it is empty.

    Raises ChecksumError, FormatError: half an empty entry, an entry that reaches outside the shard or past 64 bits."""
    if len(data) != level.index_codecs.nbytes:
        raise FormatError(
            f"a shard of {size} bytes is too short for its index of {level.index_codecs.nbytes} bytes",
            hint="the shard was cut short, or its metadata is of another array",
        )
    table = level.index_codecs.decode(data)
    half, outside = _wrong(level, table, np.array(size, np.uint64))
    if half.any():
        number = int(np.flatnonzero(half)[0])
        raise FormatError(
            f"entry {number} of the shard index is half empty: offset {table[number, 0]}, nbytes {table[number, 1]}"
        )
    if outside.any():
        number = int(np.flatnonzero(outside)[0])
        raise FormatError(
            f"entry {number} of the shard index reaches outside the shard of {size} bytes, or into the index itself:"
            f" offset {table[number, 0]}, nbytes {table[number, 1]}"
        )
    return table.view(np.int64)  # the empty entry is -1, -1


def _wrong(level: Level, table: NDArray[np.uint64], size: NDArray[np.uint64]) -> tuple[Flags, Flags]:
    """Which entries of uint64[..., 2] are half empty, and which reach out of their shard of `size` bytes, or into its index."""
    starts, lengths = table[..., 0], table[..., 1]
    nbytes = np.uint64(level.index_codecs.nbytes)
    limit = np.maximum(size, nbytes) - nbytes if level.at_end else size
    missing = starts == EMPTY
    outside = (starts > limit) | (lengths > limit - np.minimum(starts, limit))
    if not level.at_end:
        outside |= (starts < nbytes) & (lengths > 0)
    return missing != (lengths == EMPTY), outside & ~missing


def parse_indexes(
    level: Level, data: NDArray[np.uint8], sizes: Columns
) -> tuple[Columns, tuple[int, FrazilError] | None]:
    """parse_index for g shards at once. data: uint8[g, nbytes], meaningless where sizes[g] is less than that.
    Answers int64[g, total, 2], and the first of them that is refused, with its error."""
    nbytes = level.index_codecs.nbytes
    suspects = np.arange(len(data))
    if level.index_codecs.plain:
        tables, good = level.index_codecs.decode_plain(data)
        for wrong in _wrong(level, tables, sizes.astype(np.uint64)[:, None]):
            good &= ~wrong.any(axis=1)
        suspects = np.flatnonzero(~good | (sizes < nbytes))[:1]
    else:
        tables = np.empty((len(data), level.total, 2), np.uint64)
    for i in suspects.tolist():
        size = int(sizes[i])
        try:
            tables[i] = parse_index(level, b"" if size < nbytes else data[i].tobytes(), size).view(np.uint64)
        except FrazilError as error:
            return tables.view(np.int64), (i, error)
    return tables.view(np.int64), None


def build_index(level: Level, table: Columns) -> bytes:
    """The encoded index of int64[total, 2]: start (from the shard's first byte) and length of each inner chunk, -1 where it is empty.

    Raises InvalidInputError."""
    return level.index_codecs.encode(table.view(np.uint64))


class Layout(Record):
    """Shards put together: inner chunks one after the other.

    group   int64[p], the shard of each inner chunk that is there, ascending;  rows: int64[p, 3], where its bytes lie now
    tables  int64[g, total, 2], the index of each shard
    """

    group: Columns
    rows: Columns
    tables: Columns


def lay_out(
    level: Level, count: int, group: Columns, numbers: Columns, rows: Columns, keys: Columns | None = None
) -> Layout:
    """Places inner chunks in `count` shards.

    group    int64[n], their shards
    numbers  int64[n], their numbers in the index, each at most once in a shard
    rows     int64[n, 3], where the encoded bytes of each lie; one with a negative length is left out
    keys     int64[n], what to order those of a shard by (the order given decides between equals); None: as they are given
    """
    kept = rows[:, 2] >= 0
    if not kept.all():
        group, numbers, rows = group[kept], numbers[kept], rows[kept]
        keys = None if keys is None else keys[kept]
    if keys is not None or (group[1:] < group[:-1]).any():
        order = np.argsort(group, kind="stable") if keys is None else np.lexsort((keys, group))
        group, numbers, rows = group[order], numbers[order], rows[order]
    ends = np.concatenate(([0], np.cumsum(rows[:, 2])))
    before = ends[np.searchsorted(group, np.arange(count))]  # bytes of the shards before each
    tables = np.full((count, level.total, 2), -1, np.int64)
    tables[group, numbers, 0] = ends[:-1] - before[group] + (0 if level.at_end else level.index_codecs.nbytes)
    tables[group, numbers, 1] = rows[:, 2]
    return Layout(group, rows, tables)


def merge(rows: Columns, offsets: Columns) -> tuple[Columns, Columns]:
    """Rows whose bytes follow each other in one blob as one row, within each rows[offsets[i]:offsets[i + 1]]; and the offsets of what is left."""
    if rows.shape[0] < 2:
        return rows, offsets
    alone = np.ones(len(rows) + 1, np.bool_)
    alone[1:-1] = (rows[1:, 0] != rows[:-1, 0]) | (rows[1:, 1] != rows[:-1, 1] + rows[:-1, 2])
    alone[offsets] = True
    first = np.flatnonzero(alone[:-1])
    if len(first) == len(rows):
        return rows, offsets
    merged = rows[first]
    merged[:, 2] = np.add.reduceat(rows[:, 2], first)
    return merged, np.searchsorted(first, offsets)
