"""The Python part of an inner chunk: the codecs that the kernel does not have, chunk by chunk, between the kernel's work before and after.

Only here does Python run per inner chunk, on threads. Chains of the kernel's codecs never come here (compilation.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Columns
from frazil.base.record import Record
from frazil.base.threads import Threads
from frazil.codecs.chain.compiled_chain import Encoded
from frazil.codecs.chain.python_chain import PythonChain
from frazil.codecs.codec import Array, NativeCodec, Refusal
from frazil.errors import ChecksumError, FormatError, FrazilError

if TYPE_CHECKING:
    from frazil.metadata.types.heap import Heap

Item = TypeVar("Item")
_REFUSED = (FrazilError, MemoryError)  # each belongs to one chunk
Result = TypeVar("Result")
_CODES: dict[type[Exception], int] = {
    ChecksumError: _kernel.FAILED_CHECKSUM,
    FormatError: _kernel.FAILED_RANGE,
}  # the kind of failure for each class of errors of codecs


class PythonStage(Record):
    """The codecs of an inner chunk with a Python codec among them.

    order   for each dimension of the first codec's input its dimension in the array
    chain   the codecs up to the last one in Python
    native  the codecs behind it, which the kernel runs"""

    order: tuple[int, ...]
    chain: PythonChain
    native: tuple[NativeCodec, ...]

    def decode(
        self, files: _kernel.Files | None, buffers: Sequence[object], rows: Columns, threads: int
    ) -> tuple[list[Array], Columns, _kernel.Failures]:
        """Each row decoded to an array in memory, in C order of the array's dimensions: the buffers, rows over them for the
        inner_chunk's own program (MISSING stays MISSING), and the failures of the kernel and of codecs."""
        lengths = np.empty(len(rows), np.int64)
        limits = np.full(len(rows), self.chain.nbytes, np.int64)
        segments, failures = _kernel.decode_bytes(self.native, files, buffers, rows, limits, lengths, threads)  # type: ignore[arg-type]
        if failures:
            return [], rows, failures
        present = np.flatnonzero(lengths >= 0)
        results = _on_threads(lambda i: _result_of(self._decode_one, bytes(segments[i])), present.tolist(), threads)
        failures = [
            (int(i), _CODES.get(type(result), _kernel.FAILED_DECODE), Refusal(result))
            for i, result in zip(present, results, strict=True)
            if isinstance(result, _REFUSED)
        ]
        arrays = [result for result in results if not isinstance(result, _REFUSED)]
        decoded = np.zeros((len(rows), 3), np.int64)
        decoded[:, 0] = _kernel.MISSING
        if not failures:
            decoded[present, 0] = -1 - np.arange(len(present))
            decoded[present, 2] = [array.nbytes for array in arrays]
        return arrays, decoded, failures

    def with_heap(self, heap: Heap) -> PythonStage:
        """The same for one read or write of variable-length elements."""
        return self._replace(chain=self.chain.with_heap(heap))

    def encode(self, segments: Sequence[_kernel.Segment], rows: Columns, threads: int) -> Encoded:
        """Encodes the raw chunks that the inner chunk's own program gathered, each where its row gives it in `segments`; length -1 stays."""
        stored = np.flatnonzero(rows[:, 2] >= 0)
        views = [memoryview(segments[-1 - blob])[at : at + size] for blob, at, size in rows[stored].tolist()]
        encoded, failures = self._encode(views, threads)
        if failures:
            return Encoded((), rows[:0], [(int(stored[i]), code, text) for i, code, text in failures])
        rows[stored, 0], rows[stored, 1] = -1 - np.arange(len(stored)), 0
        rows[stored, 2] = [len(data) for data in encoded]
        return Encoded(encoded, rows, [])

    def _encode(self, chunks: list[memoryview], threads: int) -> tuple[list[bytes], _kernel.Failures]:
        """Encoded chunks, and failures of codecs with the number of the chunk."""
        results = _on_threads(lambda chunk: _result_of(self._encode_one, chunk), chunks, threads)
        failures = [
            (i, _kernel.FAILED_ENCODE, Refusal(result))
            for i, result in enumerate(results)
            if isinstance(result, _REFUSED)
        ]
        values = [result for result in results if not isinstance(result, _REFUSED)]
        if failures or not self.native:
            return values, list(failures)
        try:
            return [bytes(segment) for segment in _kernel.encode_bytes(self.native, values, threads)], []
        except ValueError as error:
            return [], [(0, _kernel.FAILED_ENCODE, str(error))]

    def _decode_one(self, data: bytes) -> Array:
        return np.ascontiguousarray(self.chain.decode(data).transpose(np.argsort(self.order)))

    def _encode_one(self, chunk: memoryview) -> bytes:
        first = self.chain.specs[0]
        shape = [0] * len(self.order)
        for extent, axis in zip(first.shape, self.order, strict=True):
            shape[axis] = extent
        return self.chain.encode(np.frombuffer(chunk, first.dtype).reshape(shape).transpose(self.order))


def _result_of(work: Callable[[Item], Result], item: Item) -> Result | FrazilError | MemoryError:
    try:
        return work(item)
    except _REFUSED as error:
        return error


def _on_threads(work: Callable[[Item], Result], items: list[Item], threads: int) -> list[Result]:
    if threads < 2 or len(items) < 2:
        return [work(item) for item in items]
    with Threads(min(threads, len(items)), "frazil codecs") as pool:
        return pool.map(work, items)
