"""The short path for a read or a write within one chunk. It returns at once if the general path (read.py, write.py) is needed.

Both short paths are here because measurements show a benefit. A read of an inner chunk of 8 KiB from a shard on a local disk takes 42 microseconds of CPU
instead of 104. A write of one element of a zstd chunk in memory, which small commits consist of, takes 119 Python calls and 79 microseconds of CPU instead of
486 calls and 580 microseconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from operator import floordiv
from typing import Final

import numpy as np

from frazil import _kernel
from frazil.array.access import Access, failure, result_memory
from frazil.array.hierarchy.stored_document import Confirmation
from frazil.array.io import write
from frazil.base.arrays import Columns, Values
from frazil.indexing.single_chunk import SingleChunk
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    ANY,
    FOUND,
    WHOLE,
    Changed,
    Pieces,
    Sources,
    Version,
)

_FILL_ELEMENTS: Final = 4096  # elements of a chunk for which one value is written out
_ANY: Final[list[Version | None]] = [ANY]
_ONE: Columns = np.array([0, 1], np.int64)
_NO_RUNS: Columns = np.zeros((0, 4), np.int64)
# `index` and `entries` of decode_chunks for one chunk, by the number of dimensions: each axis has one run, in the order of the axes.
_INDEX = tuple(np.arange(rank, dtype=np.int64)[None, :] for rank in range(33))
_ENTRIES = tuple(np.stack((np.arange(rank), np.ones(rank)), axis=1).astype(np.int64) for rank in range(33))


def read_single(access: Access, single: SingleChunk, dtype: np.dtype[np.generic]) -> Values | None:
    """The values, of single.shape; None where the general path is needed."""
    chunk, starts, counts, steps, shape = single
    chain, storage, indexes = access.chain, access.storage, access.indexes
    if chain.inner_chunk.stage is not None or len(chunk) >= len(_INDEX):
        return None
    expect: list[Version | None] | None = None
    if not chain.levels:
        located = storage.locate_one(chunk)
        fetched = storage.fetch(located, WHOLE, single_read=True)
    elif indexes is None:
        return None
    else:
        level = chain.levels[0]
        shard = tuple(map(floordiv, chunk, level.counts))
        elsewhere = None if indexes.by_coordinates else storage.locate_one(shard)
        found = indexes.find((shard,) if elsewhere is None else elsewhere.labels())
        if found is None or (slot := found[0]) is None:
            return None
        tables, row = slot
        if elsewhere is None and chain.native:
            direct = storage.kernel_files(lambda: np.array([chunk], np.int64))
            if direct is not None and direct.names is not None:
                try:
                    out = result_memory(counts, dtype)
                except (ValueError, MemoryError):
                    return None
                read = _kernel.read_inner_chunk(
                    chain.inner_chunk.program, level.kernel_index, direct.names, (chunk, starts, counts, steps),
                    tables.tables, tables.file_versions, row, out,
                )  # fmt: skip
                return out.reshape(shape) if read else None
        located = storage.locate_one(shard) if elsewhere is None else elsewhere
        number = 0
        for at, count, stride in zip(chunk, level.counts, level.strides, strict=True):
            number += at % count * stride
        start, length = tables.tables[row, number].tolist()
        if start < 0:  # the chunk is not stored
            return None
        expect = [tables.version(row)]
        fetched = storage.fetch(located, np.array([(0, start, length)], np.int64), expect=expect)
        if fetched.status[0] != FOUND:
            return None
    try:
        out = result_memory(counts, dtype)
    except (ValueError, MemoryError):  # the general path raises it
        return None
    files, buffers = fetched.sources
    watched = None
    if files is not None and expect is not None and storage.answers_files:
        watched = located.expected_objects(expect)
    failures = _kernel.decode_chunks(
        chain.inner_chunk.program, files, buffers, fetched.rows, watched,
        _elements(single), out, 1,
    )  # fmt: skip
    if failures:
        _, code, text = failures[0]
        if code == _kernel.FAILED_STALE or chain.levels:  # the general path checks for a writer at the shard
            return None
        raise failure(access, code, text, located.key(0), chunk)
    return out.reshape(shape)


def _elements(single: SingleChunk) -> tuple[Columns, Columns, Columns]:
    """The selected elements as the kernel takes them."""
    rank = len(single.chunk)
    runs = [(start, n, step, 0) for start, n, step in zip(single.starts, single.counts, single.steps, strict=True)]
    return _INDEX[rank], _ENTRIES[rank], np.array(runs, np.int64) if rank else _NO_RUNS


def write_single(
    access: Access,
    single: SingleChunk,
    lengths: tuple[int, ...],
    values: Values,
    *,
    confirmed: bool = False,
) -> bool:
    """Writes values of single.shape, or one value for all elements, to a chunk that is an object of its own. False, with nothing written, where the general
    path is needed: also if another writer replaced the chunk first, and for values that the general path refuses. confirmed: as in write."""
    chunk, _, counts, _, shape = single
    inner_chunk, storage, rank = access.chain.inner_chunk, access.storage, len(chunk)
    if access.chain.levels or inner_chunk.stage is not None or rank >= len(_INDEX):
        return False
    if values.shape == shape:
        source = values.reshape(counts)
    elif values.shape == () and prod(counts) <= _FILL_ELEMENTS:
        source = np.full(counts, values)
    else:
        return False
    if confirmed:
        return _replace_single(access, single, lengths, source, None)
    confirm = partial(access.document.confirm, lengths, partial(_ends, single, inner_chunk.shape))
    if not access.document.takes_request(storage.direct):
        return _replace_single(access, single, lengths, source, confirm)
    confirmation = Confirmation(confirm)
    try:
        return _replace_single(access, single, lengths, source, confirmation.await_answer)
    finally:
        confirmation.end()


def _replace_single(
    access: Access,
    single: SingleChunk,
    lengths: tuple[int, ...],
    source: Values,
    confirm: Callable[[], None] | None,
) -> bool:
    """confirm: as in write.Source."""
    chunk, inner_chunk, storage = single.chunk, access.chain.inner_chunk, access.storage
    old, expect = None, _ANY
    whole = _covers(single, inner_chunk.shape, lengths)
    if whole and any(
        at == length // extent for at, extent, length in zip(chunk, inner_chunk.shape, lengths, strict=True)
    ):
        # the chunk reaches beyond the end of the array
        versions = write.whole_versions(access, storage.locate_one(chunk), lengths)
        whole, expect = versions is not None, versions or expect
    if not whole:
        fetched = storage.fetch(storage.locate_one(chunk), WHOLE)
        (version,), (status,) = fetched.versions, fetched.status
        old, expect = (*fetched.sources, fetched.rows), [ABSENT if status == ABSENT_KEY else version]
    encoded = np.empty(1, np.int64)
    segments, _, failures = _kernel.encode_chunks(
        inner_chunk.program, source, _elements(single), old,
        _ONE, access.stores_fill or not (expect[0] in {ANY, ABSENT} or storage.conditional_erase), 1, encoded,
    )  # fmt: skip
    if failures:
        return False
    if confirm is not None:
        confirm()
    coords = np.array([chunk], np.int64).reshape(1, len(chunk))
    if encoded[0] < 0:
        if not storage.erasable:
            return expect[0] == ABSENT
        return expect[0] == ABSENT or storage.erase(coords, expect) == [None]
    rows = np.array([(-1, 0, encoded[0])], np.int64)
    (answer,) = storage.publish(coords, Pieces(Sources(None, segments), rows, _ONE), expect)
    return not isinstance(answer, Changed)


def _covers(single: SingleChunk, extents: tuple[int, ...], lengths: tuple[int, ...]) -> bool:
    """Whether the write covers the part of the chunk inside the array."""
    return all(
        start == 0 and step == 1 and count == min(extent, length - at * extent)
        for at, start, count, step, extent, length in zip(
            single.chunk, single.starts, single.counts, single.steps, extents, lengths, strict=True
        )
    )


def _ends(single: SingleChunk, extents: tuple[int, ...]) -> tuple[int, ...]:
    """The end of the selection along each axis."""
    return tuple(
        at * extent + start + (count - 1) * step + 1
        for at, start, count, step, extent in zip(
            single.chunk, single.starts, single.counts, single.steps, extents, strict=True
        )
    )
