"""A compiled chain, and running its leaf: many chunks decoded or encoded in one call of the kernel, with the Python codecs among them.

Here lives what one call does with bytes at hand. How a chain is compiled is in chain.py, where bytes come from is the array engine's business."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.codecs.codec import Array
from frazil.codecs.shard import Level
from frazil.indexing import BoxUnits, PointUnits
from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil._kernel import Buffer
    from frazil.codecs.python_stage import Middle

Columns: TypeAlias = "NDArray[np.int64]"
Units = BoxUnits | PointUnits
Old = tuple[
    "_kernel.Files | None", "Sequence[Buffer]", Columns
]  # chunks that are kept in part: files, buffers, a row a unit


class Leaf(Record):
    """How an inner chunk (a chunk, where there are no shards) is decoded.

    shape    its extent along each dimension of the array
    program  the kernel's; without codecs of its own where a Python codec stands in the chain
    middle   the Python part, or None: then the program does all
    bound    the most bytes of an encoded chunk
    """

    shape: tuple[int, ...]
    program: _kernel.Program
    middle: Middle | None
    bound: int
    nbytes: int


class Chain(Record):
    """A compiled chain: levels from the outermost shard inwards, and the leaf."""

    levels: tuple[Level, ...]
    leaf: Leaf

    @property
    def native(self) -> bool:
        """Whether the kernel can read chunks by itself, from the outermost index to the leaf."""
        return self.leaf.middle is None and all(level.addressable and level.index_codecs.plain for level in self.levels)

    @property
    def bound(self) -> int:
        """The most bytes of an encoded chunk of the array's grid."""
        return self.levels[0].bound if self.levels else self.leaf.bound

    @property
    def leaf_counts(self) -> tuple[int, ...]:
        """Leaf chunks in one chunk of the array's grid, along each dimension."""
        counts = [1] * len(self.leaf.shape)
        for level in self.levels:
            counts = [a * b for a, b in zip(counts, level.counts, strict=True)]
        return tuple(counts)


class Encoded(Record):
    """Encoded units: rows, int64[n, 3], of each in the buffers, length -1 where it is all fill value; or what was refused."""

    buffers: Sequence[_kernel.Segment | bytes]
    rows: Columns
    failures: _kernel.Failures


def decode_units(
    leaf: Leaf,
    files: _kernel.Files | None,
    buffers: Sequence[Buffer],
    rows: Columns,
    expect: Sequence[bytes | None] | None,
    units: Units,
    out: Array,
    threads: int,
) -> _kernel.Failures:
    """Decodes the encoded bytes of units, a row a unit (MISSING is the fill value), into `out`; what was refused. expect: versions of the files."""
    if leaf.middle is not None:
        buffers, rows, failures = leaf.middle.decode(files, buffers, rows, threads)
        if failures:
            return failures
        files = None
    if files is None:
        expect = None
    if isinstance(units, BoxUnits):
        return _kernel.decode_chunks(
            leaf.program, files, buffers, rows, expect, units.index, units.entries, units.runs, out, threads
        )
    return _kernel.decode_points(leaf.program, files, buffers, rows, expect, units.first, units.points, out, threads)


def encode_units(
    leaf: Leaf,
    source: Array,
    units: Units,
    old: Old | None,
    groups: Columns,
    threads: int,
    *,
    keep_fill: bool = False,
) -> Encoded:
    """Encodes units from `source`. What they do not cover comes from `old`; groups and keep_fill as in the kernel's encode_chunks."""
    if old is not None and leaf.middle is not None:
        arrays, decoded, failures = leaf.middle.decode(*old, threads)
        if failures:
            return Encoded((), decoded[:0], failures)
        old = (None, arrays, decoded)
    lengths = np.empty(units.count, np.int64)
    if isinstance(units, BoxUnits):
        segments, table, failures = _kernel.encode_chunks(
            leaf.program, source, units.index, units.entries, units.runs, old, groups, keep_fill, threads, lengths
        )
    else:
        segments, table, failures = _kernel.encode_points(
            leaf.program, source, units.first, units.points, old, groups, keep_fill, threads, lengths
        )
    if failures:
        return Encoded((), lengths[:0].reshape(0, 3), failures)
    rows = _segment_rows(lengths, table)
    if leaf.middle is None:
        return Encoded(segments, rows, [])
    kept = np.flatnonzero(lengths >= 0)
    views = [memoryview(segments[-1 - blob])[at : at + size] for blob, at, size in rows[kept].tolist()]
    encoded, failures = leaf.middle.encode(views, threads)
    if failures:
        return Encoded((), rows[:0], [(int(kept[i]), code, text) for i, code, text in failures])
    rows[kept, 0], rows[kept, 1], rows[kept, 2] = -1 - np.arange(len(kept)), 0, [len(data) for data in encoded]
    return Encoded(encoded, rows, [])


def _segment_rows(lengths: Columns, table: Sequence[int]) -> Columns:
    """Where each unit lies in the segments of an encoding: int64[n, 3], segment k being buffer k."""
    bounds = np.asarray(table, np.int64)
    segment = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    ends = np.concatenate(([0], np.cumsum(np.maximum(lengths, 0))))
    rows = np.empty((len(lengths), 3), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2] = -1 - segment, ends[:-1] - ends[bounds[:-1]][segment], lengths
    return rows
