"""The part of an inner chunk that converts chunks of variable-length elements to views, and back: one call of the kernel for all chunks of a batch.

The codecs are in array_to_bytes/vlen.py. If there is a Python codec in the chain, python_stage.py runs instead."""

from __future__ import annotations

from collections.abc import Sequence
from errno import ENOMEM
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Columns, Dtype
from frazil.base.record import Record
from frazil.codecs.chain.compiled_chain import Encoded, segment_rows
from frazil.codecs.codec import Array, NativeCodec
from frazil.metadata.types.core import TEXT_VIEW
from frazil.metadata.types.heap import Heap

if TYPE_CHECKING:
    from frazil._kernel import Buffer


class ElementStage(Record):
    """shape, dtype  of a chunk of views, the input of the codec
    native        the codecs behind it, which the kernel runs
    limit         the most bytes of a chunk before these
    heap          of the current read or write; None in a compiled chain"""

    shape: tuple[int, ...]
    dtype: Dtype
    native: tuple[NativeCodec, ...]
    limit: int
    heap: Heap | None = None

    def with_heap(self, heap: Heap) -> ElementStage:
        return self._replace(heap=heap)

    def decode(
        self, files: _kernel.Files | None, buffers: Sequence[Buffer], rows: Columns, threads: int
    ) -> tuple[Sequence[Array], Columns, _kernel.Failures]:
        """The views of all rows are one array, the only buffer."""
        heap, count = self.heap, prod(self.shape)
        assert heap is not None, "a read has one"
        nbytes = len(rows) * count * self.dtype.itemsize
        try:
            views, lengths = np.empty(len(rows) * count, self.dtype), np.empty(len(rows), np.int64)
        except MemoryError:  # as the kernel reports it
            return [], rows, [(0, _kernel.FAILED_IO, f"{ENOMEM} no memory for {nbytes} bytes")]
        threads = max(threads, 1)
        first = heap.reserve(threads)
        segments, failures = _kernel.decode_elements(
            self.native, (count, self.dtype == TEXT_VIEW, heap.fill), files, buffers, rows, self.limit, first, views, lengths,
            threads,
        )  # fmt: skip
        heap.put(first, segments)
        decoded = np.zeros((len(rows), 3), np.int64)
        decoded[:, 0] = np.where(lengths < 0, _kernel.MISSING, -1)
        decoded[:, 1] = np.arange(len(rows)) * (count * self.dtype.itemsize)
        decoded[:, 2] = np.maximum(lengths, 0)
        return [views], decoded, failures

    def encode(self, buffers: Sequence[Buffer], rows: Columns, threads: int) -> Encoded:
        assert self.heap is not None, "a write has one"
        lengths = np.empty(len(rows), np.int64)
        segments, table, failures = _kernel.encode_elements(
            self.native, self.heap.buffers, buffers, rows, threads, lengths
        )
        if failures:
            return Encoded((), rows[:0], failures)
        return Encoded(segments, segment_rows(lengths, table), [])
