"""The Python part of an inner chunk: the codecs that the kernel does not have, chunk by chunk, between the kernel's work before and after.

Only here does Python run per inner chunk, on threads. Chains of the kernel's codecs never come here (chain.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np

from frazil import _kernel
from frazil.base.record import Record
from frazil.codecs.codec import (
    Array,
    ArrayToArray,
    BytesToBytes,
    ChunkSpec,
    NativeCodec,
    Refusal,
    as_bytes,
    run_decode,
    run_encode,
)
from frazil.codecs.compiled_chain import Encoded
from frazil.errors import ChecksumError, ChunkDecodeError, FormatError, FrazilError, InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.metadata.types.heap import Heap

Columns: TypeAlias = "NDArray[np.int64]"
Item = TypeVar("Item")
Result = TypeVar("Result")
_CODES: dict[type[FrazilError], int] = {
    ChecksumError: _kernel.FAILED_CHECKSUM,
    FormatError: _kernel.FAILED_RANGE,
}  # the kind of failure for each class of errors of codecs


class Serializer(Protocol):
    """The methods of an array-to-bytes codec that are used here."""

    @property
    def name(self) -> str: ...

    def encode(self, array: Array, spec: ChunkSpec, /) -> bytes: ...

    def decode(self, data: bytes, spec: ChunkSpec, /) -> Array: ...


class PythonStage(Record):
    """The codecs of an inner chunk with a Python codec among them.

    order   for each dimension of the first codec's input its dimension in the array
    before, serializer, after   the chain without the codecs of `native`, which are the kernel's and at its end
    specs   the input of each array-to-array codec, and then of the array-to-bytes codec
    bounds  the most bytes after the array-to-bytes codec, and after each of `after`
    """

    order: tuple[int, ...]
    before: tuple[ArrayToArray, ...]
    serializer: Serializer
    after: tuple[BytesToBytes, ...]
    native: tuple[NativeCodec, ...]
    specs: tuple[ChunkSpec, ...]
    bounds: tuple[int, ...]

    def decode(
        self, files: _kernel.Files | None, buffers: Sequence[object], rows: Columns, threads: int
    ) -> tuple[list[Array], Columns, _kernel.Failures]:
        """Each row decoded to an array in memory, in C order of the array's dimensions: the buffers, rows over them for the
        inner_chunk's own program (MISSING stays MISSING), and the failures of the kernel and of codecs."""
        lengths = np.empty(len(rows), np.int64)
        limits = np.full(len(rows), self.bounds[-1], np.int64)
        segments, failures = _kernel.decode_bytes(self.native, files, buffers, rows, limits, lengths, threads)  # type: ignore[arg-type]
        if failures:
            return [], rows, failures
        present = np.flatnonzero(lengths >= 0)
        results = _on_threads(lambda i: _result_of(self._decode_one, bytes(segments[i])), present.tolist(), threads)
        failures = [
            (int(i), _CODES.get(type(result), _kernel.FAILED_DECODE), Refusal(result))
            for i, result in zip(present, results, strict=True)
            if isinstance(result, FrazilError)
        ]
        arrays = [result for result in results if not isinstance(result, FrazilError)]
        decoded = np.zeros((len(rows), 3), np.int64)
        decoded[:, 0] = _kernel.MISSING
        if not failures:
            decoded[present, 0] = -1 - np.arange(len(present))
            decoded[present, 2] = [array.nbytes for array in arrays]
        return arrays, decoded, failures

    def with_heap(self, heap: Heap) -> PythonStage:
        """The same for one read or write of variable-length elements."""
        return self._replace(specs=tuple([spec._replace(heap=heap) for spec in self.specs]))

    def encode(self, segments: Sequence[_kernel.Segment], rows: Columns, threads: int) -> Encoded:
        """Encodes the raw chunks that the inner chunk's own program gathered, each where its row gives it in `segments`; length -1 stays."""
        kept = np.flatnonzero(rows[:, 2] >= 0)
        views = [memoryview(segments[-1 - blob])[at : at + size] for blob, at, size in rows[kept].tolist()]
        encoded, failures = self._encode(views, threads)
        if failures:
            return Encoded((), rows[:0], [(int(kept[i]), code, text) for i, code, text in failures])
        rows[kept, 0], rows[kept, 1], rows[kept, 2] = -1 - np.arange(len(kept)), 0, [len(data) for data in encoded]
        return Encoded(encoded, rows, [])

    def _encode(self, chunks: list[memoryview], threads: int) -> tuple[list[bytes], _kernel.Failures]:
        """Encoded chunks, and failures of codecs with the number of the chunk."""
        results = _on_threads(lambda chunk: _result_of(self._encode_one, chunk), chunks, threads)
        failures = [
            (i, _kernel.FAILED_ENCODE, Refusal(result))
            for i, result in enumerate(results)
            if isinstance(result, FrazilError)
        ]
        values = [result for result in results if not isinstance(result, FrazilError)]
        if failures or not self.native:
            return values, list(failures)
        try:
            return [bytes(segment) for segment in _kernel.encode_bytes(self.native, values, threads)], []
        except ValueError as error:
            return [], [(0, _kernel.FAILED_ENCODE, str(error))]

    def _decode_one(self, data: bytes) -> Array:
        for codec, limit in zip(reversed(self.after), reversed(self.bounds[:-1]), strict=True):
            data = run_decode(codec, data, limit)
        with _running(self.serializer.name, ChunkDecodeError):
            array = self.serializer.decode(data, self.specs[-1])
            _check(array, self.serializer.name, self.specs[-1], ChunkDecodeError)
        for before, spec in zip(reversed(self.before), reversed(self.specs[:-1]), strict=True):
            with _running(before.name, ChunkDecodeError):
                array = before.decode(array, spec)
                _check(array, before.name, spec, ChunkDecodeError)
        return np.ascontiguousarray(array.transpose(np.argsort(self.order)))

    def _encode_one(self, chunk: memoryview) -> bytes:
        first_spec = self.specs[0]
        shape = [0] * len(self.order)
        for extent, axis in zip(first_spec.shape, self.order, strict=True):
            shape[axis] = extent
        array: Array = np.frombuffer(chunk, first_spec.dtype).reshape(shape).transpose(self.order)
        for before, spec, made in zip(self.before, self.specs[:-1], self.specs[1:], strict=True):
            with _running(before.name, InvalidInputError):
                array = before.encode(array, spec)
                _check(array, before.name, made, InvalidInputError)
        with _running(self.serializer.name, InvalidInputError):
            data = as_bytes(self.serializer.encode(array, self.specs[-1]), self.serializer.name, InvalidInputError)
        for codec in self.after:
            data = run_encode(codec, data)
        return data


@contextmanager
def _running(name: str, refusal: type[FrazilError]) -> Iterator[None]:
    """Runs a codec, which may be the user's and raise any exception."""
    try:
        yield
    except (FrazilError, MemoryError):
        raise
    except Exception as error:
        raise refusal(f"codec {name}: {type(error).__name__}: {error}") from error


def _check(array: object, name: str, spec: ChunkSpec, refusal: type[FrazilError]) -> None:
    if not isinstance(array, np.ndarray):
        raise refusal(f"codec {name} made {type(array).__name__} instead of an array")
    if array.shape != spec.shape or array.dtype != spec.dtype:
        raise refusal(f"codec {name} made {array.dtype} {array.shape} instead of {spec.dtype} {spec.shape}")


def _result_of(work: Callable[[Item], Result], item: Item) -> Result | FrazilError:
    try:
        return work(item)
    except FrazilError as error:
        return error


def _on_threads(work: Callable[[Item], Result], items: list[Item], threads: int) -> list[Result]:
    if threads < 2 or len(items) < 2:
        return [work(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(work, items))
