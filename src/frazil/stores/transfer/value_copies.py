"""Copying values from one store into another, byte for byte, by fetch and put, for stores without a shorter way. Memory is bounded; larger values are copied
piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from frazil.base.retry import Backoff, attempts
from frazil.errors import ConflictError, StoreError
from frazil.stores.port import StorePort
from frazil.stores.transfer.content import read_values
from frazil.stores.values import (
    ANY,
    FOLDER,
    FOUND,
    MISSING,
    NO_SPANS,
    OPEN_AT_ONCE,
    WHOLE,
    Columns,
    Fetched,
    Pieces,
    Sources,
    pieces_of,
    whole_spans,
)

_SHORTEST: Final = 2**20  # bytes of a request, if the limit allows it: smaller ones take as long
_REQUESTS: Final = 16  # for one object at once
_COPIES: Final = Backoff(3)  # for an object that others replace


def put_parts(target: StorePort, name: str, size: int, parts: Iterator[bytes]) -> None:
    """Stores a value of `size` bytes that comes in parts, replacing an old one. It is published whole, or not at all if `parts` raises. A store without the
    capability `streams` gets it in one piece of memory."""
    if target.capabilities.streams:
        rows, offsets = np.array([[-1, 0, size]], np.int64), np.array([0, 1], np.int64)
        target.put_many([name], Pieces(Sources(None, ()), rows, offsets, parts=parts), [ANY])
    else:
        target.put_many([name], pieces_of([b"".join(parts)]), [ANY])


def copy_by_put(
    target: StorePort, names: Sequence[str], source: StorePort, sources: Sequence[str], limit: int
) -> list[int]:
    """copy_in by fetch and put_many. limit: bytes that may be in memory."""
    sized = source.capabilities.direct or source.capabilities.sized
    batch = OPEN_AT_ONCE if sized else max(1, min(OPEN_AT_ONCE, limit // _SHORTEST))
    first = 0 if sized else max(1, limit // batch)
    sizes: list[int] = []
    for low in range(0, len(names), batch):
        part = slice(low, low + batch)
        sizes += _copy_batch(target, names[part], source, sources[part], first, limit)
    return sizes


def _copy_batch(
    target: StorePort, names: Sequence[str], source: StorePort, sources: Sequence[str], first: int, limit: int
) -> list[int]:
    """first: bytes that are requested of each object before its size is known; 0: sizes are known first."""
    sizes, long = _copy_small(target, names, source, sources, first, limit)
    for row, found in long.items():  # when the others are no longer in memory, as these need all of it
        sizes[row] = _put_long(target, names[row], source, sources[row], limit, found)
    return sizes


def _copy_small(
    target: StorePort, names: Sequence[str], source: StorePort, sources: Sequence[str], first: int, limit: int
) -> tuple[list[int], dict[int, Fetched | None]]:
    """_copy_batch, except for objects that are larger, or replaced meanwhile: returns the sizes, and the rows of these with what was found there."""
    fetched = source.fetch(sources, whole_spans(len(names), first) if first else NO_SPANS)
    for source_name, status in zip(sources, fetched.status, strict=True):
        if status == FOLDER:
            raise StoreError("there is a folder where a value is expected", key=source_name, hint="find out what it is")
    found = [row for row, status in enumerate(fetched.status) if status == FOUND]
    sizes = [-1] * len(names)
    small: list[int] = []
    long: dict[int, Fetched | None] = {}
    room = 0

    def keep_for_later(row: int) -> None:
        # where sizes cost no request, an answer for it alone may have a stream
        head = Fetched(Sources(None, ()), [FOUND], [fetched.versions[row]], fetched.sizes[row : row + 1], NO_SPANS)
        long[row] = head if first else None

    def put() -> None:
        answer, rows = fetched, fetched.rows
        if not first and small:
            spans = np.array([(row, 0, sizes[row]) for row in small], np.int64)
            answer = source.fetch(sources, spans, continue_from=fetched)
            rows = np.empty((len(names), 3), np.int64)
            rows[small] = answer.rows
        whole: list[int] = []
        for row in small:
            if _is_whole(answer, rows[row], sizes[row], sources[row]):
                whole.append(row)
            else:
                keep_for_later(row)
        small.clear()
        if whole:
            rows = rows[whole]
            rows[:, 2] = [sizes[row] for row in whole]
            pieces = Pieces(answer.sources, rows, np.arange(len(whole) + 1, dtype=np.int64))
            target.put_many([names[row] for row in whole], pieces, [ANY] * len(whole))

    for row in found:
        size = int(fetched.sizes[row])
        if size < 0:  # the store does not know it
            sizes[row] = _put_unmeasured(target, names[row], source, sources[row])
        elif size > (first or limit):
            keep_for_later(row)
        else:
            if room + size > limit:
                put()
                room = 0
            small.append(row)
            room += size
            sizes[row] = size
    put()
    return sizes, long


def _is_whole(fetched: Fetched, row: Columns, size: int, key: str) -> bool:
    """False if the object was replaced since its size was read. Raises StoreError for a part of an object."""
    blob, start, _ = row.tolist()
    if MISSING < blob < 0 and len(fetched.sources.buffers[-1 - blob]) < start + size:
        raise StoreError(f"the store returned less than the {size} bytes of the object", key=key, hint="try again")
    return bool(blob != MISSING)


def _put_unmeasured(target: StorePort, name: str, source: StorePort, source_name: str) -> int:
    value = read_values(source.fetch([source_name], WHOLE), [source_name], WHOLE)[0]
    if value is None:
        return -1
    target.put_many([name], pieces_of([value]), [ANY])
    return len(value)


def _put_long(
    target: StorePort, name: str, source: StorePort, source_name: str, limit: int, found: Fetched | None
) -> int:
    """An object that is larger than memory should hold; returns its size, -1 if it was removed. found: the object, as it was before"""
    for _ in attempts(_COPIES):
        found = source.fetch([source_name], NO_SPANS) if found is None else found
        if found.status[0] != FOUND:
            return -1
        size = int(found.sizes[0])
        try:
            put_parts(target, name, size, pieces_of_object(source, source_name, found, limit))
        except ConflictError:
            found = None
            continue
        return size
    raise StoreError(
        f"the object was replaced during each of {_COPIES.attempts} attempts to copy it",
        key=source_name,
        hint="copy it while no process writes to it",
    )


def pieces_of_object(source: StorePort, name: str, found: Fetched, limit: int) -> Iterator[bytes]:
    """The bytes of an object of known size, one after the other, of the version in `found`, the answer to a fetch of this name alone; at most `limit` of them
    in memory. Raises ConflictError if it is replaced meanwhile, StoreError."""
    if found.stream is not None:
        yield from found.stream(limit)
        return
    size, version = int(found.sizes[0]), found.versions[0]
    each = max(1, min(max(_SHORTEST, limit // _REQUESTS), limit))
    window = max(1, limit // each) * each
    for low in range(0, size, window):
        starts = np.arange(low, min(low + window, size), each, dtype=np.int64)
        spans = np.zeros((len(starts), 3), np.int64)
        spans[:, 1], spans[:, 2] = starts, np.minimum(each, size - starts)
        fetched = source.fetch([name], spans, expect=None if version is None else [version])
        if fetched.status[0] != FOUND or int(fetched.sizes[0]) not in {size, -1}:
            raise ConflictError(
                "the object was replaced while it was read",
                key=name,
                hint="read it again",
            )
        for row in range(len(spans)):  # one by one, as each is copied
            current, length = slice(row, row + 1), int(spans[row, 2])
            value = read_values(fetched._replace(rows=fetched.rows[current]), [name], spans[current])[0]
            if value is None or len(value) != length:
                raise StoreError(f"the store returned less than the {length} bytes that were requested", key=name)
            yield value
        del fetched  # before the next ones arrive
