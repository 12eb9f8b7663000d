"""One whole shard in memory, encoded and decoded: for shards behind a codec whose effect on positions the plan does not know.

Pure, level by level: the kernel does the chunks of the innermost one in one call. Shards that a plan can address are not handled here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import mul

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Columns, boxes_of
from frazil.codecs.chain.compiled_chain import Chain, InnerChunk, decode_chunks, encode_chunks
from frazil.codecs.codec import Array, ChunkSpec, caused, decode_error, run_decode, run_encode
from frazil.codecs.sharding.shard import InnerChunks, Level, assemble, read_index
from frazil.errors import InvalidInputError
from frazil.indexing.box import BoxChunks, box_plan
from frazil.indexing.selection import BoxSelection, basic


class WholeShard:
    """Shards of one kind, as an array-to-bytes codec that runs. chain: compiled for the shard's own dimensions, with at least one level."""

    __slots__ = ("chain", "name")

    def __init__(self, name: str, chain: Chain) -> None:
        self.name, self.chain = name, chain

    @property
    def bound(self) -> int:
        return self.chain.levels[0].bound

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        """The shard of an array of spec.shape; only its index if all elements are the fill value."""
        levels = self.chain.levels
        shard = _encode(levels, self._inner_chunk(spec), array)
        return empty_shard(levels[0]) if shard is None else shard

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        """The array. Raises DataError."""
        return _decode(self.chain.levels, self._inner_chunk(spec), data, spec)

    def _inner_chunk(self, spec: ChunkSpec) -> InnerChunk:
        return self.chain.inner_chunk if spec.heap is None else self.chain.inner_chunk.with_heap(spec.heap)


def empty_shard(level: Level) -> bytes:
    return _shard(level, np.zeros(0, np.int64), [])


def _encode(levels: Sequence[Level], inner_chunk: InnerChunk, array: Array) -> bytes | None:
    """None if all elements are the fill value."""
    level = levels[0]
    if len(levels) > 1:
        boxes = _boxes(level)
        values = [_encode(levels[1:], inner_chunk, array[box]) for box, _ in boxes]
        numbers = np.array([number for _, number in boxes], np.int64)
    else:
        chunks = _inner_chunks(array.shape, inner_chunk, level)
        groups = np.array([0, chunks.count], np.int64)
        buffers, rows, failures = encode_chunks(inner_chunk, array, chunks, None, groups, 1)
        if failures:
            raise caused(InvalidInputError(f"a chunk could not be encoded: {failures[0][2]}"), failures[0][2])
        views = [memoryview(buffer) for buffer in buffers]
        values = [bytes(views[-1 - blob][at : at + n]) if n >= 0 else None for blob, at, n in rows.tolist()]
        numbers = chunks.numbers([1] * array.ndim, level.counts, level.strides)
    return None if all(value is None for value in values) else _shard(level, numbers, values)


def _shard(level: Level, numbers: Columns, values: Sequence[bytes | None]) -> bytes:
    """Inner chunks assembled, in the given order."""
    rows = np.array([(-1 - i, 0, -1 if value is None else len(value)) for i, value in enumerate(values)], np.int64)
    chunks = InnerChunks(np.zeros(len(values), np.int64), numbers, rows.reshape(-1, 3))
    shard = assemble(level, chunks, np.full((1, level.total, 2), -1, np.int64), -1 - len(values))
    buffers = [*values, shard.indexes.tobytes()]
    data = b"".join(buffers[-1 - blob] or b"" for blob in shard.rows[:, 0].tolist())
    for codec in level.after:
        data = run_encode(codec, data)
    return data


def _decode(levels: Sequence[Level], inner_chunk: InnerChunk, data: bytes, spec: ChunkSpec) -> Array:
    level = levels[0]
    for codec in reversed(level.after):
        data = run_decode(codec, data, level.bound)
    nbytes = level.index_codecs.nbytes
    table = read_index(level, data[max(len(data) - nbytes, 0) :] if level.at_end else data[:nbytes], len(data))
    out = np.empty(spec.shape, spec.dtype)
    if len(levels) > 1:
        fill = np.frombuffer(spec.fill, spec.dtype).reshape(())
        for box, number in _boxes(level):
            start, length = table[number].tolist()
            inner = spec._replace(shape=level.inner)
            out[box] = fill if start < 0 else _decode(levels[1:], inner_chunk, data[start : start + length], inner)
        return out
    chunks = _inner_chunks(spec.shape, inner_chunk, level)
    numbers = chunks.numbers([1] * out.ndim, level.counts, level.strides)
    rows = np.empty((chunks.count, 3), np.int64)
    rows[:, 0] = np.where(table[numbers, 0] < 0, _kernel.MISSING, -1)
    rows[:, 1:] = np.maximum(table[numbers], 0)
    for i, code, text in decode_chunks(inner_chunk, None, [data], rows, None, chunks, out, 1):
        raise caused(decode_error(code)(f"inner chunk {numbers[i]} of a shard: {text}"), text)
    return out


def _inner_chunks(shape: tuple[int, ...], inner_chunk: InnerChunk, level: Level) -> BoxChunks:
    selection = basic(..., shape)
    assert isinstance(selection, BoxSelection)
    plan = box_plan(selection, inner_chunk.shape, level.counts)
    (batch,) = plan.batches(plan.chunk_count)
    return batch.chunks()


def _boxes(level: Level) -> list[tuple[tuple[slice, ...], int]]:
    """The box of each inner chunk of a shard, and its number in the index."""
    shape = [count * extent for count, extent in zip(level.counts, level.inner, strict=True)]
    numbers = [sum(map(mul, position, level.strides)) for position in product(*map(range, level.counts))]
    return list(zip(boxes_of(shape, level.inner), numbers, strict=True))
