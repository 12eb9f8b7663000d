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
        """Each row is decoded to an array in C order of the array's dimensions."""
        lengths = np.empty(len(rows), np.int64)
        limits = np.full(len(rows), self.chain.nbytes, np.int64)
        segments, failures = _kernel.decode_bytes(self.native, files, buffers, rows, limits, lengths, threads)  # type: ignore[arg-type]
        if failures:
            return [], rows, failures
        present = np.flatnonzero(lengths >= 0)
        arrays, refused = _run(lambda i: self._decode_one(bytes(segments[i])), present.tolist(), threads)
        decoded = np.zeros((len(rows), 3), np.int64)
        decoded[:, 0] = _kernel.MISSING
        if not refused:
            decoded[present, 0] = -1 - np.arange(len(present))
            decoded[present, 2] = [array.nbytes for array in arrays]
        codes = [_CODES.get(type(error), _kernel.FAILED_DECODE) for _, error in refused]
        failures = [(int(present[i]), code, Refusal(error)) for (i, error), code in zip(refused, codes, strict=True)]
        return arrays, decoded, failures

    def with_heap(self, heap: Heap) -> PythonStage:
        return self._replace(chain=self.chain.with_heap(heap))

    def encode(self, segments: Sequence[_kernel.Segment], rows: Columns, threads: int) -> Encoded:
        stored = np.flatnonzero(rows[:, 2] >= 0)
        views = [memoryview(segments[-1 - blob])[at : at + size] for blob, at, size in rows[stored].tolist()]
        encoded, refused = _run(self._encode_one, views, threads)
        failures: _kernel.Failures = [(int(stored[i]), _kernel.FAILED_ENCODE, Refusal(error)) for i, error in refused]
        if not failures and self.native:
            try:
                encoded = [bytes(segment) for segment in _kernel.encode_bytes(self.native, encoded, threads)]
            except ValueError as error:
                failures = [(int(stored[0]), _kernel.FAILED_ENCODE, str(error))]
        if failures:
            return Encoded((), rows[:0], failures)
        rows[stored, 0], rows[stored, 1] = -1 - np.arange(len(stored)), 0
        rows[stored, 2] = [len(data) for data in encoded]
        return Encoded(encoded, rows, [])

    def _decode_one(self, data: bytes) -> Array:
        return np.ascontiguousarray(self.chain.decode(data).transpose(np.argsort(self.order)))

    def _encode_one(self, chunk: memoryview) -> bytes:
        first = self.chain.specs[0]
        shape = [0] * len(self.order)
        for extent, axis in zip(first.shape, self.order, strict=True):
            shape[axis] = extent
        return self.chain.encode(np.frombuffer(chunk, first.dtype).reshape(shape).transpose(self.order))


def _run(
    work: Callable[[Item], Result], items: list[Item], threads: int
) -> tuple[list[Result], list[tuple[int, FrazilError | MemoryError]]]:
    """The results of the work on threads, and for each item that was refused its number and the error."""

    def result_of(item: Item) -> Result | FrazilError | MemoryError:
        try:
            return work(item)
        except _REFUSED as error:
            return error

    if threads < 2 or len(items) < 2:
        results = [result_of(item) for item in items]
    else:
        with Threads(min(threads, len(items)), "frazil codecs") as pool:
            results = pool.map(result_of, items)
    refused = [(i, result) for i, result in enumerate(results) if isinstance(result, _REFUSED)]
    return [result for result in results if not isinstance(result, _REFUSED)], refused
