"""Reads a whole array in slabs: boxes of whole blocks of a given grid, one after the other, within a limit of bytes, so that each chunk is read as few times as
the limit allows. The caller gives the blocks (those of a checksum, or the shards of another array), and processes the slabs.

Not here: walks through selections (window.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import lcm, log, prod
from threading import Event
from typing import Final

import numpy as np

from frazil.array.array import Array
from frazil.base.arrays import Values, boxes_of
from frazil.base.record import Record
from frazil.base.threads import Threads

_PIECE: Final = 2**24  # decoded bytes that a second thread reads at once; at least one row of chunks
_TEXT_PIECE: Final = 2**20  # planned bytes of text that are read at once; at least one row of chunks
_SAMPLED: Final = 1000  # elements of a chunk whose length is looked at
_ARENA: Final = 1.25  # memory of NumPy's strings for each byte of text
_OF_SHARDS: Final = 0.25  # the weight of opening a shard again, relative to reading a chunk again


class SlabPlan(Record):
    """The order in which an array is read: in columns, which are boxes as long as the array along one axis, and each column slab by slab along this axis.

    shape   of the array;  blocks: extents of a block
    axis    of consecutive slabs; 0 for an array without dimensions
    column  extents of a column: multiples of blocks, or the whole length; along `axis` any number, of rows that are read at once
    nbytes  of the buffer that all slabs of a column share; of text about, from the length of some"""

    shape: tuple[int, ...]
    blocks: tuple[int, ...]
    axis: int
    column: tuple[int, ...]
    nbytes: int

    def reads(self, chunks: Sequence[int]) -> float:
        """How often a chunk of these extents is read, on average over all chunks; 1.0 where each is read once."""
        return prod(
            _cuts(length, step, chunk) / -(-length // chunk)
            for length, step, chunk in zip(self.shape, self.column, chunks, strict=True)
            if length
        )

    @property
    def slab_count(self) -> int:
        """Number of slabs."""
        if not self.shape or not prod(self.shape):
            return prod(self.shape)
        across = [
            -(-n // extent) for a, (n, extent) in enumerate(zip(self.shape, self.column, strict=True)) if a != self.axis
        ]
        return prod(across) * self.column_slabs

    @property
    def column_slabs(self) -> int:
        """Number of slabs of a column: those of `_slab_starts`."""
        step = self.column[self.axis]
        reads = -(-self.shape[self.axis] // step)
        return min(reads, (reads - 1) * step // self.blocks[self.axis] + 1)

    def columns(self) -> Iterator[tuple[slice, ...]]:
        """The columns, in C order."""
        extents = [*self.column[: self.axis], max(1, self.shape[self.axis]), *self.column[self.axis + 1 :]]
        yield from boxes_of(self.shape, extents)


class Slab(Record):
    """values: of the box of the array, which consists of whole blocks; valid until the next slab is requested. number: counted from 0.
    last: False if the next slab has the same number: text that is longer than planned is given in several parts"""

    number: int
    box: tuple[slice, ...]
    values: Values
    last: bool = True


def plan_slabs(
    shape: Sequence[int],
    itemsize: int,
    blocks: Sequence[int],
    chunks: Sequence[int],
    max_bytes: int,
    shards: Sequence[int] | None = None,
    *,
    axis: int | None = None,
) -> SlabPlan:
    """The plan that reads chunks the fewest times with a buffer of max_bytes, or of one block, if that is larger. Pure.

    itemsize  bytes of an element, including its text; blocks: extents of a block, which a slab never cuts;  chunks: extents that are decoded whole;  shards:
              extents of shards, None: there are none
    axis    of consecutive slabs; None: the best one"""
    lengths = tuple(shape)
    blocks = tuple(max(1, min(block, length)) for block, length in zip(blocks, lengths, strict=True))
    if not prod(lengths) or not lengths:
        return SlabPlan(lengths, blocks, 0, blocks, itemsize * prod(lengths))
    grids = [(tuple(chunks), 1.0), *([(tuple(shards), _OF_SHARDS)] if shards is not None else [])]
    axes = range(len(lengths)) if axis is None else (axis,)
    plans = [_grown(lengths, itemsize, blocks, along, grids, max_bytes) for along in axes]
    return min(plans, key=lambda plan: (plan.nbytes > max_bytes, round(_cost(plan.shape, plan.column, grids), 9)))


def element_nbytes(array: Array) -> int:
    """Bytes of an element in memory. Of text and bytes of any length it is the mean of some elements of three chunks, the largest of the three. Raises
    DataError, StoreError."""
    itemsize = array.dtype.itemsize
    if array._access.variable is None or not prod(array.shape):
        return itemsize
    most = 0.0
    for number in range(3):  # the first, the middle and the last chunk
        starts = [
            (-(-length // chunk) - 1) * number // 2 * chunk
            for length, chunk in zip(array.shape, array.chunks, strict=True)
        ]
        box = [
            slice(start, min(start + chunk, length))
            for start, chunk, length in zip(starts, array.chunks, array.shape, strict=True)
        ]
        found = np.asarray(array.read(tuple(box))).reshape(-1)
        some = found[:: max(found.size // _SAMPLED, 1)]
        most = max(most, text_nbytes(some) / some.size)
    return itemsize + int(most)


def text_nbytes(values: Values) -> int:
    """Memory of the text and bytes of elements of any length, about."""
    return int(
        _ARENA
        * sum([len(text.encode() if isinstance(text, str) else text or b"") for text in values.reshape(-1).tolist()])
    )


_Grids = list[tuple[tuple[int, ...], float]]


def _grown(
    shape: tuple[int, ...], itemsize: int, blocks: tuple[int, ...], axis: int, grids: _Grids, max_bytes: int
) -> SlabPlan:
    """The plan along one axis: starting from a column of one block, the extent grows that saves most reads for its bytes, as long as the column fits."""
    column = blocks
    nbytes = _buffer_bytes(shape, itemsize, blocks, axis, column)
    extents = [_extents(a, shape, blocks, grids, free=a == axis) for a in range(len(shape))]
    while True:
        before = _cost(shape, column, grids)
        best: tuple[float, int, tuple[int, ...], int] | None = None
        for a, candidates in enumerate(extents):
            for extent in candidates:
                if extent <= column[a]:
                    continue
                grown = (*column[:a], extent, *column[a + 1 :])
                size = _buffer_bytes(shape, itemsize, blocks, axis, grown)
                if size > max_bytes:
                    continue
                # without savings the last dimension grows first, for fewer and longer runs of elements
                gain = (before - _cost(shape, grown, grids)) / (log(size / nbytes) if size > nbytes else 1e-9)
                if best is None or (gain, a) > best[:2]:
                    best = gain, a, grown, size
        if best is None or best[0] < -1e-12:
            return SlabPlan(shape, blocks, axis, column, nbytes)
        column, nbytes = best[2], best[3]


def _extents(axis: int, shape: tuple[int, ...], blocks: tuple[int, ...], grids: _Grids, *, free: bool) -> list[int]:
    """Candidates for the extent of a column along an axis; free: they may cut blocks."""
    length, block = shape[axis], blocks[axis]
    bases = {block, *(lcm(block, grid[axis]) for grid, _ in grids), *(grid[axis] for grid, _ in grids if free)}
    found = {length}
    for base in bases:
        while base < length:
            found.add(base)
            base *= 2
    return sorted(found)


def _buffer_bytes(
    shape: tuple[int, ...], itemsize: int, blocks: tuple[int, ...], axis: int, column: tuple[int, ...]
) -> int:
    """Bytes of the buffer: rows that are read at once, and less than a block of rows kept from before."""
    rows = column[axis] if column[axis] % blocks[axis] == 0 else column[axis] + blocks[axis]
    return itemsize * prod(min(rows, shape[axis]) if a == axis else extent for a, extent in enumerate(column))


def _cost(shape: tuple[int, ...], column: tuple[int, ...], grids: _Grids) -> float:
    """The logarithm of how often a chunk is read."""
    return sum(
        weight * log(_cuts(length, step, extent) / -(-length // extent))
        for grid, weight in grids
        for length, step, extent in zip(shape, column, grid, strict=True)
    )


def _cuts(length: int, first: int, second: int) -> int:
    """The number of pieces into which two regular grids together cut a length."""
    return -(-length // first) + -(-length // second) - 1 - (length - 1) // lcm(first, second)


def read_slabs(
    array: Array, plan: SlabPlan, skip: int = 0, *, prefetch: bool = False, ended: Event | None = None
) -> Iterator[Slab]:
    """All elements, slab by slab in the order of the plan. skip: the number of first slabs that are not read. prefetch: another thread reads the next slab
    while the caller has one, into a second buffer, in pieces: a caller that stops early waits for one piece. ended: set when the caller stops early, if another
    thread reads.
    Raises DataError, StoreError."""
    if not prod(plan.shape):
        return
    if not plan.shape:
        if not skip:
            yield Slab(0, (), array.read())
        return
    size = _buffer_bytes(plan.shape, 1, plan.blocks, plan.axis, plan.column)  # in elements
    memory = [np.empty(size, array.dtype) for _ in range(1 + prefetch)]  # for all columns
    if not prefetch:
        yield from _read_columns(array, plan, skip, memory, None)
        return
    ended = ended or Event()
    yield from _prefetched(_read_columns(array, plan, skip, memory, ended), ended)


def _read_columns(
    array: Array, plan: SlabPlan, skip: int, memory: Sequence[Values], ended: Event | None
) -> Iterator[Slab]:
    number = 0
    for column in plan.columns():
        first, number = number, number + plan.column_slabs
        if number > skip:
            starts = islice(_slab_starts(plan), max(0, skip - first), None)
            yield from _read_column(array, plan, column, starts, max(first, skip), memory, ended)


def _prefetched(slabs: Iterator[Slab], ended: Event) -> Iterator[Slab]:
    """The same slabs, each read by another thread while the caller has the one before. ended: set when the caller needs no more."""
    with Threads(1, "frazil slab") as thread:
        try:
            coming = thread.submit(next, slabs, None)
            while (slab := coming.result()) is not None:
                coming = thread.submit(next, slabs, None)
                yield slab
        except BaseException:
            ended.set()
            raise


def _slab_starts(plan: SlabPlan) -> Iterator[int]:
    """The first rows of the slabs of a column, and its length: each slab ends with the last whole block that was read."""
    length, step, block = plan.shape[plan.axis], plan.column[plan.axis], plan.blocks[plan.axis]
    yield 0
    last = 0
    for end in range(step, length + step, step):
        start = length if end >= length else end // block * block
        if start > last:
            yield start
            last = start


def _read_column(
    array: Array,
    plan: SlabPlan,
    column: tuple[slice, ...],
    starts: Iterator[int],
    number: int,
    memory: Sequence[Values],
    ended: Event | None,
) -> Iterator[Slab]:
    """The slabs of a column from the first row of `starts` on. memory: buffers that slabs use in turns, each for the rows that are read at once, and rows kept
    from before. ended: a second thread reads until this is set"""
    axis, step, length = plan.axis, plan.column[plan.axis], plan.shape[plan.axis]
    whole = [part.stop - part.start for part in column]
    rows = min(length, step if step % plan.blocks[axis] == 0 else step + plan.blocks[axis])
    extents = (*whole[:axis], rows, *whole[axis + 1 :])
    buffers = [buffer[: prod(extents)].reshape(extents) for buffer in memory]
    along = (slice(None),) * axis
    # a second thread does not receive Ctrl-C: it checks `ended` between pieces
    row = array.dtype.itemsize * max(prod(extents) // rows, 1)
    piece = length if ended is None else max(_PIECE // (row * array.chunks[axis]), 1) * array.chunks[axis]
    is_text, nbytes = array.dtype.kind in "OT", 0
    if is_text:  # its length is known after it was read: by whole chunks, few at once
        least = max(plan.blocks[axis], array.chunks[axis])
        piece = least * max(min(_TEXT_PIECE, plan.nbytes // 16) * rows // (plan.nbytes * least), 1)
    base = read = next(starts)
    turn = number
    for at, end in enumerate(starts, number):
        buffer = buffers[turn % len(buffers)]
        while read < end:
            if ended is not None and ended.is_set():
                return
            stop = min(length, (read // step + 1) * step, (read // piece + 1) * piece)
            part = buffer[(*along, slice(read - base, stop - base))]
            array.read((*column[:axis], slice(read, stop), *column[axis + 1 :]), out=part)
            read = stop
            nbytes += text_nbytes(part) if is_text else 0
            blocks_end = read // plan.blocks[axis] * plan.blocks[axis]
            if nbytes > plan.nbytes and base < blocks_end < end:
                values = buffer[(*along, slice(0, blocks_end - base))]
                yield Slab(at, (*column[:axis], slice(base, blocks_end), *column[axis + 1 :]), values, last=False)
                turn, nbytes = turn + 1, 0
                buffer = buffers[turn % len(buffers)]
                buffer[...] = buffer.dtype.type()  # frees its text
                base = read = blocks_end  # rows behind the last whole block are read again
        values = buffer[(*along, slice(0, end - base))]
        yield Slab(at, (*column[:axis], slice(base, end), *column[axis + 1 :]), values)
        turn += 1
        unread = buffer[(*along, slice(end - base, read - base))]
        if unread.size:
            buffers[turn % len(buffers)][(*along, slice(0, read - end))] = unread.copy()
        nbytes = text_nbytes(unread) if is_text else 0
        base = end
