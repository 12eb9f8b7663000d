"""A compiled chain, and running it: many chunks decoded or encoded in one call of the kernel, with the Python codecs among them.

compilation.py compiles a chain; the array engine fetches the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Columns, offsets_of
from frazil.base.record import Record
from frazil.codecs.codec import Array
from frazil.codecs.sharding.shard import Level

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.indexing.points import Chunks
    from frazil.metadata.types.heap import Heap

# chunks that are kept in part: files, buffers, one row for each chunk
Old = tuple["_kernel.Files | None", "Sequence[Buffer]", Columns]


class Stage(Protocol):
    """The part of an inner chunk between the encoded bytes and the program of the kernel: python_stage.py, element_stage.py."""

    def with_heap(self, heap: Heap) -> Stage:
        """The same for one read or write of variable-length elements."""

    def decode(
        self, files: _kernel.Files | None, buffers: Sequence[Buffer], rows: Columns, threads: int
    ) -> tuple[Sequence[Array], Columns, _kernel.Failures]:
        """Decodes each row to the input of the program: buffers, rows over them (MISSING stays MISSING), and failures."""

    def encode(self, segments: Sequence[_kernel.Segment], rows: Columns, threads: int) -> Encoded:
        """Encodes the chunks that the program gathered, each where its row gives it in `segments`; length -1 stays."""


class InnerChunk(Record):
    """How an inner chunk (a chunk, where there are no shards) is decoded.

    shape    its extent along each dimension of the array
    program  the kernel's; without bytes-to-bytes codecs if there is a Python codec in the chain
    stage    the part that the program cannot do, or None: the program does everything
    bound    the most bytes of an encoded chunk
    heap     of the current read or write, where elements have no fixed size
    """

    shape: tuple[int, ...]
    program: _kernel.Program
    stage: Stage | None
    bound: int
    nbytes: int
    heap: Heap | None = None

    def with_heap(self, heap: Heap) -> InnerChunk:
        assert self.stage is not None, "no program of the kernel's decodes such elements"
        return self._replace(heap=heap, stage=self.stage.with_heap(heap))


class Chain(Record):
    """A compiled chain: levels from the outermost shard inwards, and the inner chunk. native: whether the kernel alone can read chunks, from the outermost
    index to the inner chunk"""

    levels: tuple[Level, ...]
    inner_chunk: InnerChunk
    native: bool

    @property
    def bound(self) -> int:
        """The most bytes of an encoded chunk of the array's grid."""
        return self.levels[0].bound if self.levels else self.inner_chunk.bound

    @property
    def inner_chunk_counts(self) -> tuple[int, ...]:
        """Inner chunks in one chunk of the array's grid, along each dimension."""
        counts = [1] * len(self.inner_chunk.shape)
        for level in self.levels:
            counts = [a * b for a, b in zip(counts, level.counts, strict=True)]
        return tuple(counts)


class Encoded(Record):
    """Encoded chunks: rows, int64[n, 3], of each in the buffers, length -1 where all elements are the fill value; or failures."""

    buffers: Sequence[_kernel.Segment | bytes]
    rows: Columns
    failures: _kernel.Failures


def decode_chunks(
    inner_chunk: InnerChunk,
    files: _kernel.Files | None,
    buffers: Sequence[Buffer],
    rows: Columns,
    expect: Sequence[bytes | None] | None,
    chunks: Chunks,
    out: Array,
    threads: int,
) -> _kernel.Failures:
    """Decodes the encoded bytes of chunks, a row for each (MISSING is the fill value), into `out`. Returns the failures. expect: versions of the files."""
    if inner_chunk.stage is not None:
        buffers, rows, failures = inner_chunk.stage.decode(files, buffers, rows, threads)
        if failures:
            return failures
        files = None
    if files is None:
        expect = None
    return _kernel.decode_chunks(inner_chunk.program, files, buffers, rows, expect, chunks.elements, out, threads)


def encode_chunks(
    inner_chunk: InnerChunk,
    source: Array,
    chunks: Chunks,
    old: Old | None,
    groups: Columns,
    threads: int,
    *,
    keep_fill: bool = False,
) -> Encoded:
    """Encodes chunks from `source`. Elements outside their boxes come from `old`; groups and keep_fill as in the kernel's encode_chunks."""
    if old is not None and inner_chunk.stage is not None:
        arrays, decoded, failures = inner_chunk.stage.decode(*old, threads)
        if failures:
            return Encoded((), decoded[:0], failures)
        old = (None, arrays, decoded)
    lengths = np.empty(chunks.count, np.int64)
    segments, table, failures = _kernel.encode_chunks(
        inner_chunk.program, source, chunks.elements, old, groups, keep_fill, threads, lengths
    )
    if failures:
        return Encoded((), lengths[:0].reshape(0, 3), failures)
    rows = segment_rows(lengths, table)
    if inner_chunk.stage is None:
        return Encoded(segments, rows, [])
    return inner_chunk.stage.encode(segments, rows, threads)


def segment_rows(lengths: Columns, table: Sequence[int]) -> Columns:
    """Where each chunk is in the segments of an encoding: int64[n, 3], segment k being buffer k."""
    starts = offsets_of(np.maximum(lengths, 0))[:-1]
    rows = np.empty((len(lengths), 3), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2] = -1, starts, lengths
    if len(table) > 2:  # several segments
        bounds = np.array(table, np.int64)
        segment = np.repeat(np.arange(len(table) - 1), bounds[1:] - bounds[:-1])
        rows[:, 0] -= segment
        rows[:, 1] -= starts[bounds[:-1]][segment]
    return rows
