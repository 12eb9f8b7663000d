"""From rows to bytes: the content of fetched spans and of values to be put, and a fetch converted to plain buffers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from frazil import _kernel
from frazil.errors import StoreError
from frazil.stores.local.system_errors import unreadable
from frazil.stores.values import MISSING, UNKNOWN, Columns, Fetched, Pieces, Sources, clip_span, flat_buffer

if TYPE_CHECKING:
    from frazil.stores.values import SourceBuffer


def read_values(fetched: Fetched, names: Sequence[str], spans: Columns) -> list[bytes | None]:
    """The bytes of each span, clipped to its object; None if its name is missing (or stale). Not for a fetch with `single_read`.

    names, spans are those of the fetch. Raises StoreError if the store returned fewer bytes than the object has."""
    return [None if value is None else bytes(value) for value in read_views(fetched, names, spans)]


def read_views(fetched: Fetched, names: Sequence[str], spans: Columns) -> list[bytes | memoryview | None]:
    """read_values, without copies of bytes that are in buffers."""
    values: list[bytes | memoryview | None] = []
    from_files: list[tuple[int, int, int, int]] = []
    sizes = fetched.sizes.tolist()
    for i, ((blob, start, length), (name, begin, count)) in enumerate(
        zip(fetched.rows.tolist(), spans.tolist(), strict=True)
    ):
        value: bytes | memoryview | None = None
        if blob == MISSING:
            if fetched.status[name] == UNKNOWN:
                raise StoreError("only the kernel reads a fetch with `single_read`", key=names[name])
        elif blob < 0:
            value = _view(fetched.sources.buffers[-1 - blob], start, length)
            if len(value) != count and sizes[name] >= 0 and len(value) != clip_span(begin, count, sizes[name])[1]:
                raise StoreError(
                    f"the store returned {len(value)} bytes of {clip_span(begin, count, sizes[name])[1]}",
                    key=names[name],
                    hint="read it again; check the server, and proxies before it",
                )
        else:
            first, count = clip_span(begin, count, sizes[name])
            # the start of the row counts, as an object may be a part of a file; but rows of suffixes may still have the requested start
            from_files.append((i, blob, start if start >= 0 and count else first, count))
        values.append(value)
    if from_files:
        file_names = [names[spans[row[0], 0]] for row in from_files]
        found = _read_files(fetched.sources, [row[1:] for row in from_files], file_names)
        for (i, *_), value in zip(from_files, found, strict=True):
            values[i] = value
    return values


def join_pieces(pieces: Pieces, names: Sequence[str] = ()) -> list[bytes]:
    """Each value as separate bytes; a piece that is a whole `bytes` object is not copied. names: of the values, for errors. Raises StoreError for a piece
    outside its object, or one that cannot be read."""
    rows = pieces.rows.tolist()
    offsets = pieces.offsets.tolist()
    in_files = [i for i, row in enumerate(rows) if row[0] >= 0]
    found: dict[int, bytes] = {}
    if in_files:
        value_of = np.searchsorted(pieces.offsets, in_files, side="right") - 1
        named = [names[value] for value in value_of.tolist()] if names else None
        found = dict(zip(in_files, _read_files(pieces.sources, [rows[i] for i in in_files], named), strict=True))
    values: list[bytes] = []
    for low, high in itertools.pairwise(offsets):
        parts: list[bytes | memoryview] = []
        for i in range(low, high):
            blob, start, length = rows[i]
            part = found[i] if blob >= 0 else _view(pieces.sources.buffers[-1 - blob], start, length)
            if len(part) != length:
                raise StoreError(f"a piece of {length} bytes at {start} reaches outside its object")
            parts.append(part)
        values.append(parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts))
    return values


def taken(pieces: Pieces, number: int) -> Pieces:
    """One of several values."""
    low, high = pieces.offsets[number : number + 2].tolist()
    return Pieces(pieces.sources, pieces.rows[low:high], np.array([0, high - low], np.int64))


def is_large(value: Pieces, nbytes: int) -> bool:
    """Whether one value has at least `nbytes`, is in buffers, and would have to be copied to be contiguous."""
    rows = value.rows
    if (rows[:, 0] >= 0).any() or int(rows[:, 2].sum()) < nbytes:
        return False
    return len(rows) > 1 or not isinstance(value.sources.buffers[-1 - int(rows[0, 0])], bytes)


def parts_of(pieces: Pieces, nbytes: int = 2**23) -> Iterator[bytes]:
    """The bytes of one value whose pieces are in buffers, in parts of at most `nbytes`. Raises StoreError for a piece outside its object."""
    waiting: list[bytes] = []
    room = nbytes
    for blob, start, length in pieces.rows.tolist():
        end = start + length
        while start < end:
            part = bytes(_view(pieces.sources.buffers[-1 - blob], start, min(room, end - start)))
            if not part:
                raise StoreError(f"a piece of {length} bytes at {end - length} reaches outside its object")
            waiting.append(part)
            start, room = start + len(part), room - len(part)
            if not room:
                yield b"".join(waiting)
                waiting, room = [], nbytes
    if waiting:
        yield b"".join(waiting)


def as_buffers(fetched: Fetched, names: Sequence[str], spans: Columns) -> Fetched:
    """The same answer with a buffer for each span and no file, and the original one to resume, whose buffers are used. Rows of plain ranges keep the requested
    length, even if the object has less."""
    values = read_views(fetched, names, spans)
    rows = np.empty((len(spans), 3), np.int64)
    for i, (value, (_, start, length)) in enumerate(zip(values, spans.tolist(), strict=True)):
        if value is None:
            rows[i] = (MISSING, 0, 0)
        else:
            rows[i] = (-1 - i, 0, length if start >= 0 and length >= 0 else len(value))
    return fetched._replace(sources=Sources(None, [value or b"" for value in values]), rows=rows, resume=fetched)


def _view(buffer: SourceBuffer, start: int, length: int) -> bytes | memoryview:
    """A piece, not copied; `bytes` if it is a whole one."""
    if isinstance(buffer, bytes) and start == 0 and length == len(buffer):
        return buffer
    return memoryview(flat_buffer(buffer))[start : start + length]


def read_error(code: int, text: str, key: str | None) -> StoreError:
    """The error for bytes of an object that the kernel could not read."""
    if code == _kernel.FAILED_IO:
        return unreadable(int(text.split(" ", 1)[0]), key=key)
    return StoreError(f"the object changed while it was read: {text}", key=key, hint="read it again")


def _read_files(sources: Sources, rows: Sequence[Sequence[int]], names: Sequence[str] | None) -> list[bytes]:
    """The bytes of each (blob, start, length)."""
    bounds = [0, *itertools.accumulate([length for _, _, length in rows])]
    out, offsets = np.empty(bounds[-1], np.uint8), np.array(bounds, np.int64)
    table = np.array(rows, np.int64)
    for row, code, text in _kernel.read_rows(sources.files, sources.buffers, table, out, offsets, 1):
        raise read_error(code, text, None if names is None else names[row])
    if len(rows) == 1:
        return [out.tobytes()]
    return [out[a:b].tobytes() for a, b in itertools.pairwise(bounds)]
