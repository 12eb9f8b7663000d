"""The writer of one shard: it takes inner chunks in any order, from many threads, and publishes the whole shard at the end (docs/design/043-shard-writer.md).

encoded_chunks.py holds encoded inner chunks; io/write.py assembles and publishes the shard."""

from __future__ import annotations

from _thread import LockType, RLock, allocate_lock  # as in threading, without the module
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Final, Self

import numpy as np

from frazil.array.access import Access, failure
from frazil.array.io.encoded_chunks import EncodedChunks
from frazil.array.io.read import chunk_of
from frazil.array.io.task_costs import inner_chunk_bytes
from frazil.array.io.write import publish_encoded
from frazil.array.shards.shard_objects import BlobTable
from frazil.base.arrays import ArrayLike, Columns, Values
from frazil.codecs.chain.compiled_chain import encode_chunks
from frazil.errors import ConflictError, FrazilError, InvalidInputError, SelectionError, StoreError, shown
from frazil.indexing.box import box_plan
from frazil.indexing.points import Chunks, point_plan
from frazil.indexing.selection import BoxSelection, basic, vectorised
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store
from frazil.stores.values import Sources

_LITTLE: Final = 2**20  # fewer bytes stay in memory


class ShardWriter:
    """Array.shard_writer returns it. `w[i, j] = values` writes the inner chunk (i, j), counted from the first of the shard; slices and an ellipsis select boxes
    of inner chunks.

    To be used inside `with`. Safe to use from many threads, each of which holds one encoded inner chunk. At the end the whole shard is published: elements that
    were not written keep their values. After an exception nothing is published."""

    __slots__ = (
        "_access",
        "_convert",
        "_counts",
        "_encoded",
        "_lengths",
        "_lock",
        "_open",
        "_report",
        "_shard",
        "_store",
        "_unfinished",
    )

    def __init__(
        self,
        access: Access,
        shard: object,
        lengths: tuple[int, ...],
        store: Store,
        convert: Callable[[ArrayLike], Values],
        report: Callable[[FrazilError], None],
    ) -> None:
        """shard: coordinates in the grid of shards;  lengths: of the array;  convert: values as an array of the array's dtype;  report: adds the array's name
        to an error."""
        self._access, self._lengths, self._store = access, lengths, store
        self._convert, self._report = convert, report
        self._shard = _checked_shard(access, shard, lengths)
        self._counts = _counts_inside(access, self._shard, lengths)
        self._encoded: EncodedChunks | None = None
        self._open = False
        # locks of assignments, each of which holds its own while it runs, and leaves it here if it fails
        self._unfinished: set[LockType] = set()
        self._lock = RLock()

    @property
    def shape(self) -> tuple[int, ...]:
        """Inner chunks along each dimension that `w[...]` may select: those that begin inside the array."""
        return self._counts

    def __repr__(self) -> str:
        return f"<frazil.ShardWriter of shard {self._shard} of {self._access.path or '/'}>"

    def __enter__(self) -> Self:
        with self._lock:
            if self._open or self._encoded is not None:
                raise InvalidInputError("the shard writer was used already", path=self._access.path or "/")
            folder = self._store.path if isinstance(self._store, LocalStore) else None
            as_written = self._access.options.inner_order == "written"
            limit = _LITTLE if as_written else max(_LITTLE, self._access.runtime.bytes_in_flight)
            self._encoded, self._open = EncodedChunks(limit, folder), True
        return self

    def __setitem__(self, index: object, value: ArrayLike) -> None:
        """Encodes the values of inner chunks, without elements beyond the end of the array; the value may be anything that broadcasts.

        Raises SelectionError, InvalidInputError (also outside of `with`), StoreError."""
        assignment = allocate_lock()
        try:
            box, values = self._box(index, value)
            with assignment:  # not by a Condition, or a number of those that run: an interrupt could leave it as it is
                self._encode(self._begin(assignment), box, values)
                self._unfinished.discard(assignment)
        except FrazilError as error:
            self._report(error)
            raise

    def _begin(self, assignment: LockType) -> EncodedChunks:
        """Registers an assignment, which the end must await."""
        with self._lock:
            encoded = self._encoded
            if not self._open or encoded is None:
                raise InvalidInputError(
                    "the shard writer is not open", hint="use it as: with array.shard_writer(shard) as writer: ..."
                )
            self._unfinished.add(assignment)
            return encoded

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._lock:
            self._open = False
        for assignment in tuple(self._unfinished):
            with assignment:  # it has ended
                pass
        encoded = self._encoded
        assert encoded is not None, "__enter__ made it"
        try:
            if kind is None:
                self._publish(encoded)
        except FrazilError as refused:
            self._report(refused)
            raise
        finally:
            encoded.close()

    # --- encoding ------------------------------------------------------------------------------------------------------------------

    def _box(self, index: object, value: ArrayLike) -> tuple[tuple[slice, ...], Values]:
        """The elements of the array that are assigned, and their values."""
        selection = basic(index, self._counts)
        if not isinstance(selection, BoxSelection) or any(
            axis.indices is not None or axis.step != 1 or axis.flipped for axis in selection.axes
        ):
            raise SelectionError(
                f"{shown(index)} selects no box of inner chunks", hint="use integers and slices with step 1"
            )
        extents, within = self._access.chain.inner_chunk.shape, self._access.chain.inner_chunk_counts
        low, whole, box = [], [], []
        for axis, extent, count, at, length in zip(
            selection.axes, extents, within, self._shard, self._lengths, strict=True
        ):
            start = (at * count + axis.start) * extent
            low.append(start)
            whole.append(axis.size * extent)
            box.append(slice(start, min(start + axis.size * extent, length)))
        shape = tuple(part.stop - part.start for part in box)
        values = self._convert(value)
        if values.shape == tuple(whole):
            values = values[tuple(slice(0, extent) for extent in shape)]
        return tuple(box), basic(tuple(box), self._lengths).source_view(values)

    def _encode(self, encoded: EncodedChunks, box: tuple[slice, ...], values: Values) -> None:
        access, elements = self._access.elements_of(values)
        inner_chunk, counts = access.chain.inner_chunk, access.chain.inner_chunk_counts
        selection = basic(box, self._lengths)
        assert isinstance(selection, BoxSelection), "slices"
        plan = box_plan(selection, inner_chunk.shape, counts)
        limit = access.runtime.bytes_in_flight
        for batch in plan.batches(limit // inner_chunk_bytes(access)):
            chunks = batch.chunks()
            threads = 1 if chunks.count == 1 else access.runtime.threads
            result = encode_chunks(inner_chunk, elements, chunks, None, chunks.offsets, threads)
            for i, code, text in result.failures:
                key = access.key(np.array([self._shard], np.int64))
                raise failure(access, code, text, key, chunk_of(chunks, i))
            encoded.add(_numbers(access, chunks).tolist(), result.rows, result.buffers)

    # --- publishing ----------------------------------------------------------------------------------------------------------------

    def _publish(self, encoded: EncodedChunks) -> None:
        if self._unfinished:
            raise StoreError(
                "an assignment to the shard writer failed, so nothing was published",
                hint="its own exception says why; write the shard again",
            )
        numbers = encoded.numbers()
        if not len(numbers):
            return
        access, counts = self._access, self._access.chain.inner_chunk_counts
        positions = np.stack(np.unravel_index(numbers, counts), axis=1)
        chunks = positions + np.array(self._shard, np.int64) * counts
        first = chunks * access.chain.inner_chunk.shape
        ends = np.minimum(first + access.chain.inner_chunk.shape, self._lengths).max(axis=0).tolist()
        cut = bool((first + access.chain.inner_chunk.shape > self._lengths).any())
        plan = point_plan(vectorised(tuple(first.T), self._lengths), access.chain.inner_chunk.shape, counts)

        def confirm() -> None:
            access.document.confirm(self._lengths, lambda: tuple(ends))
            if cut and not access.document.has_shape(self._lengths):
                raise ConflictError(
                    "the array was resized, and a written inner chunk ended at its former end",
                    hint="call refresh(), and write the shard again",
                )

        whole = len(numbers) == prod(self._counts)
        shape = self._lengths if whole and cut else None
        publish_encoded(access, plan, partial(_rows, access, encoded), confirm, whole=whole, shape=shape)


def _rows(access: Access, encoded: EncodedChunks, chunks: Chunks, blobs: BlobTable) -> tuple[Columns, Columns]:
    """As write.EncodedSource."""
    rows, order, buffers = encoded.columns(_numbers(access, chunks))
    return blobs.add(Sources(None, buffers), rows), order


def _numbers(access: Access, chunks: Chunks) -> Columns:
    """int64[n]: the number of each inner chunk in its shard, in C order of the innermost chunks."""
    counts = access.chain.inner_chunk_counts
    strides = [prod(counts[axis + 1 :]) for axis in range(len(counts))]
    return chunks.numbers([1] * len(counts), counts, strides)


def _checked_shard(access: Access, shard: object, lengths: tuple[int, ...]) -> tuple[int, ...]:
    if not access.chain.levels or not lengths:
        raise InvalidInputError(
            "the array has no shards that could be written inner chunk by inner chunk",
            path=access.path or "/",
            hint="assign to the array itself, or create it with shards=",
        )
    extents = [
        n * count for n, count in zip(access.chain.inner_chunk.shape, access.chain.inner_chunk_counts, strict=True)
    ]
    grid = [-(-length // extent) for length, extent in zip(lengths, extents, strict=True)]
    items: Sequence[object] = shard if isinstance(shard, tuple | list) else (shard,)
    if len(items) != len(grid) or any(isinstance(at, bool) or not isinstance(at, int | np.integer) for at in items):
        raise SelectionError(
            f"{shown(shard)} is not a shard: there have to be {len(grid)} whole numbers", path=access.path or "/"
        )
    position = [int(at) for at in items]  # type: ignore[call-overload] # whole numbers
    if any(not 0 <= at < count for at, count in zip(position, grid, strict=True)):
        raise SelectionError(
            f"the shard {tuple(position)} is outside the array, which has {tuple(grid)}", path=access.path or "/"
        )
    return tuple(position)


def _counts_inside(access: Access, shard: tuple[int, ...], lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Inner chunks of the shard that begin inside the array, along each dimension."""
    chain = access.chain
    return tuple(
        min(count, -(-length // extent) - at * count)
        for at, count, extent, length in zip(
            shard, chain.inner_chunk_counts, chain.inner_chunk.shape, lengths, strict=True
        )
    )
