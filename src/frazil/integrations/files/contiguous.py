"""Arrays that are one run of bytes in a file, cut into chunks, so that a part is cheap to read, and each chunk is a run, too. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from frazil.base.record import Record
from frazil.integrations.files.scanned import ChunkColumns, no_chunks

_CHUNK_BYTES: Final = 2**20  # target size of a chunk
_MANY: Final = 2**16  # if an array would have more chunks, they become larger
_SMALLEST, _LARGEST = 1 / 32, 4  # limits, as multiples of that, for even chunks; beyond them an array is cut unevenly
_MOST_COPIED_BYTES: Final = 2**24  # of chunks that are passed on as bytes because they are not whole in the file


class Layout(Record):
    """The place of an array in a file. Along the first dimension of a record variable, elements are `stride` bytes apart; all the rest is one run, in C
    order."""

    shape: tuple[int, ...]
    itemsize: int
    begin: int  # first byte
    stride: int | None = None  # None: the first dimension is part of the run

    @property
    def row(self) -> int:
        """Bytes of one element of the first dimension."""
        return math.prod(self.shape[1:]) * self.itemsize

    @property
    def size(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.itemsize

    @property
    def end(self) -> int:
        """The position behind the last byte; `begin` if there are no bytes."""
        if 0 in self.shape:
            return self.begin
        if self.stride is None:
            return self.begin + self.size
        return self.begin + (self.shape[0] - 1) * self.stride + self.row


def split_contiguous(shape: Sequence[int], itemsize: int, *, uneven: bool = True) -> tuple[int, ...]:
    """The shape of chunks of a run of bytes: (1, ..., 1, k, whole, ..., whole), of about a megabyte.

    k divides its dimension if that gives chunks of a sensible size, because each chunk has to be whole. Otherwise the last one is not whole (uneven; see
    padded_tails), or chunks are larger."""
    whole = tuple([max(extent, 1) for extent in shape])
    total = math.prod(whole) * itemsize
    target = _CHUNK_BYTES
    if 0 in shape and total > target:  # any chunks will do
        return tuple([min(extent, _CHUNK_BYTES) for extent in whole])
    while total > target * _MANY:
        target *= 2
    if total <= target:
        return whole
    if itemsize > target:
        return (1,) * len(whole)
    inner = [math.prod(whole[axis + 1 :]) * itemsize for axis in range(len(whole))]
    axis = next(axis for axis, size in enumerate(inner) if size <= target)
    extent, size = whole[axis], inner[axis]

    def cut(count: int) -> tuple[int, ...]:
        return (*[1] * axis, count, *whole[axis + 1 :])

    counts = np.arange(1, min(extent, _LARGEST * target // size) + 1)
    counts = counts[extent % counts == 0]
    best = int(counts[np.abs(np.log2(counts * (size / target))).argmin()])
    if best * size >= target * _SMALLEST:
        return cut(best)
    count = target // size
    if uneven and math.prod(whole[:axis]) * count * size <= _MOST_COPIED_BYTES:
        return cut(count)
    return cut(extent)


def contiguous_chunks(layout: Layout, chunk_shape: Sequence[int]) -> tuple[ChunkColumns, ChunkColumns]:
    """The places of the chunks of `layout`: those that are whole, and those that the array's end cuts, with their shorter lengths. Chunks of record variables
    have one record."""
    rank = len(layout.shape)
    if 0 in layout.shape:
        return no_chunks(rank), no_chunks(rank)
    grid = [-(-extent // chunk) for extent, chunk in zip(layout.shape, chunk_shape, strict=True)]
    steps = [math.prod(layout.shape[axis + 1 :]) * layout.itemsize for axis in range(rank)]
    if layout.stride is not None:
        steps[0] = layout.stride
    coordinates = np.indices(grid, np.int64).reshape(rank, -1).T if rank else np.zeros((1, 0), np.int64)
    first = coordinates * np.array(chunk_shape, np.int64)
    offsets = layout.begin + first @ np.array(steps, np.int64)
    inner_lengths = np.minimum(np.array(layout.shape, np.int64) - first, np.array(chunk_shape, np.int64))
    lengths = inner_lengths.prod(axis=1) * layout.itemsize
    is_whole = lengths == math.prod(chunk_shape) * layout.itemsize
    return tuple(  # type: ignore[return-value]
        [
            ChunkColumns(np.ascontiguousarray(coordinates[rows]), offsets[rows], lengths[rows])
            for rows in (is_whole, ~is_whole)
        ]
    )


def padded_tails(
    tails: ChunkColumns, size: int, fill: bytes, read: Callable[[int, int], bytes]
) -> tuple[tuple[tuple[int, ...], bytes], ...]:
    """The bytes of chunks that the array's end cuts, completed: the result of `read` (offset, length), followed by the fill value up to `size` bytes."""
    return tuple(
        [
            (tuple(coordinates), read(offset, length) + fill * ((size - length) // len(fill)))
            for coordinates, offset, length in zip(
                tails.coordinates.tolist(), tails.offsets.tolist(), tails.lengths.tolist(), strict=True
            )
        ]
    )
