"""Fetching chunks that share objects, are inline, or are nowhere: ChunkStorage.fetch for any Located, and the places of such chunks for the kernel.

Located, and chunks in objects of their own, are in chunk_storage.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Flags, Octets
from frazil.stores.array_storage.chunk_storage import (
    INLINE,
    NO_VALUE,
    NOWHERE,
    STORED,
    KernelFiles,
    Located,
    as_objects,
    fetch_spans,
    missing_object,
)
from frazil.stores.port import KernelRoot
from frazil.stores.store import Store
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    FOLDER,
    FOUND,
    MISSING,
    NO_SPANS,
    STALE,
    Columns,
    Fetched,
    Sources,
    Versions,
    clip_spans,
    continued,
)


def object_spans(located: Located, spans: Columns) -> Columns:
    """Spans in chunks, int64[n, 3] (row of `located`, start, length), as spans in objects (row of its names, start, length).

    A span is clipped to its chunk: it never reads the neighbour. All rows must be STORED."""
    row = spans[:, 0]
    length = located.length[row]
    start, count = clip_spans(spans[:, 1], spans[:, 2], np.maximum(length, 0))
    moved = np.empty_like(spans)
    moved[:, 0] = located.object[row]
    moved[:, 1] = np.where(length < 0, spans[:, 1], located.base[row] + start)
    moved[:, 2] = np.where(length < 0, spans[:, 2], count)
    return moved


def located_files(root: KernelRoot, located: Located) -> KernelFiles | None:
    """Located chunks in the form for the kernel; None if it cannot read some of them."""
    kind = located.kind
    if (kind > INLINE).any():
        return None
    rows = np.empty((len(kind), 3), np.int64)
    rows[:, 0] = np.where(kind == STORED, located.object, np.where(kind == INLINE, -1 - located.object, MISSING))
    rows[:, 1], rows[:, 2] = located.base, located.length
    files = _kernel.open_files(root.fd, located.names, None) if located.names else None
    return KernelFiles(root, None, files, located.inline, rows, located)


# the store's answer for the objects, which `resume` of an answer for chunks is, where no request was needed
NOT_FETCHED: Final = Fetched(Sources(None, ()), (), (), np.zeros(0, np.int64), NO_SPANS)


def fetch_located(
    store: Store,
    located: Located,
    spans: Columns,
    *,
    expect: Versions | None = None,
    continue_from: Fetched | None = None,
    single_read: bool = False,
) -> Fetched:
    """ChunkStorage.fetch for any Located: chunks nowhere, inline, and in objects of `store` that may be shared by many. Every object is open as long as the
    answer is kept, except with `single_read`: fetch chunks in very many objects in several parts.

    Raises StoreError if an object is missing that must exist."""
    kind = located.kind[spans[:, 0]]
    stored = np.flatnonzero(kind == STORED)
    fetched = _fetch_objects(store, located, object_spans(located, spans[stored]), expect, continue_from, single_read)
    status, versions, sizes, version_may_repeat = _by_chunk(located, fetched)
    if expect is not None:
        status[_stale(status, versions, expect)] = STALE
    rows = np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
    rows[stored] = fetched.rows
    files, buffers = fetched.sources
    inline = np.flatnonzero(kind == INLINE)
    if len(inline):
        of_chunk = spans[inline, 0]
        start, rows[inline, 2] = clip_spans(spans[inline, 1], spans[inline, 2], located.length[of_chunk])
        rows[inline, 0] = -1 - len(buffers) - located.object[of_chunk]
        rows[inline, 1] = located.base[of_chunk] + start
    rows[status[spans[:, 0]] == STALE] = (MISSING, 0, 0)
    sources = Sources(files, [*buffers, *located.inline])
    return Fetched(sources, status.tolist(), versions, sizes, rows, version_may_repeat, fetched)


def _fetch_objects(
    store: Store,
    located: Located,
    spans: Columns,
    expect: Versions | None,
    continue_from: Fetched | None,
    single_read: bool,
) -> Fetched:
    """The store's answer for the objects; NOT_FETCHED if no request is needed."""
    inner = NOT_FETCHED if continue_from is None else continued(continue_from, Fetched)
    if not located.names or (inner is NOT_FETCHED and not len(spans) and located.versions is not None):
        return NOT_FETCHED
    if inner is not NOT_FETCHED and not len(spans):
        return inner._replace(rows=NO_SPANS)
    fetched = fetch_spans(
        store,
        located.names,
        spans,
        expect=None if expect is None else located.expected_objects(expect),
        continue_from=None if inner is NOT_FETCHED else inner,
        single_read=single_read
        and not located.must_exist
        and len(spans) <= len(located.names),  # each object is read once
    )
    if located.must_exist:
        for name, status in zip(located.names, fetched.status, strict=True):
            if status in (ABSENT_KEY, FOLDER):
                raise missing_object(name)
    if inner is NOT_FETCHED:
        return fetched
    # an object that was removed meanwhile, where no version can show it, is another one than that of the answer that is continued
    before_and_now = zip(inner.status, fetched.status, strict=True)
    return fetched._replace(status=[STALE if before == FOUND != now else now for before, now in before_and_now])


def _by_chunk(located: Located, fetched: Fetched) -> tuple[Octets, Versions, Columns, Sequence[bool] | None]:
    """Status, version, size and version_may_repeat of each chunk from those of the objects."""
    stored = located.kind == STORED
    status = np.where(located.kind == NOWHERE, np.uint8(ABSENT_KEY), np.uint8(FOUND))
    sizes = np.where(located.kind == NOWHERE, -1, located.length)
    versions = located.versions
    if fetched is NOT_FETCHED:
        return status, [None] * len(stored) if versions is None else versions, sizes, None
    position = located.object[stored]
    status[stored] = np.array(fetched.status, np.uint8)[position]
    whole = stored & ((located.length < 0) | (status == ABSENT_KEY) | (status == FOLDER))
    sizes[whole] = fetched.sizes[located.object[whole]]
    if versions is None:
        column = np.full(len(stored), None)
        column[stored] = as_objects(fetched.versions)[position]
        versions = column.tolist()
    if fetched.version_may_repeat is None or located.versions is not None:
        return status, versions, sizes, None
    version_may_repeat = np.zeros(len(stored), np.bool_)
    version_may_repeat[stored] = np.array(fetched.version_may_repeat, np.bool_)[position]
    return status, versions, sizes, version_may_repeat.tolist()


def _stale(status: Octets, versions: Versions, expect: Versions) -> Flags:
    """Which chunks have another version than expected, or are missing, or exist against expectation."""
    if expect is versions:
        return np.zeros(len(status), np.bool_)
    expected, present = as_objects(expect), as_objects(versions)
    present[(status == ABSENT_KEY) | (status == FOLDER)] = ABSENT
    return np.asarray(np.not_equal(expected, NO_VALUE) & np.not_equal(expected, present), np.bool_)
