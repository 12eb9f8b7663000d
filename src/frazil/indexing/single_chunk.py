"""The short path for a basic selection within one inner chunk, in plain Python integers. Other selections take the general path (selection.py, box.py), which
also raises the errors."""

from __future__ import annotations

from operator import index

from frazil.base.record import Record

_NO_INTEGER = -(2**64)  # out of bounds for every axis
_WHOLE = slice(None)


class SingleChunk(Record):
    """chunk: coordinates of the inner chunk; starts, counts, steps: the elements within it, for each dimension; shape: the result's."""

    chunk: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]


def single_chunk(selection: object, shape: tuple[int, ...], extents: tuple[int, ...] | None) -> SingleChunk | None:
    """The selection as a SingleChunk. None for more than one chunk, an empty selection, another kind of selection, out of bounds, or chunks of several shapes
    (extents None)."""
    if extents is None:
        return None
    items: tuple[object, ...] = selection if type(selection) is tuple else (selection,)
    for at, item in enumerate(items):
        if item is Ellipsis:
            items = (*items[:at], *(_WHOLE,) * (len(shape) - len(items) + 1), *items[at + 1 :])
            break
    missing = len(shape) - len(items)
    if missing:
        if missing < 0:
            return None
        items += (_WHOLE,) * missing
    chunk: list[int] = []
    starts: list[int] = []
    counts: list[int] = []
    steps: list[int] = []
    result: list[int] = []
    for item, length, extent in zip(items, shape, extents, strict=True):
        if isinstance(item, slice):
            try:
                start, stop, step = item.indices(length)
            except (TypeError, ValueError):
                return None
            if step <= 0 or stop <= start:
                return None
            number = start // extent
            count = (stop - start - 1) // step + 1
            start -= number * extent
            if start + (count - 1) * step >= extent:
                return None
            result.append(count)
            counts.append(count)
            steps.append(step if count > 1 else 1)
        else:
            start = item if type(item) is int else _integer(item)
            if start < 0:
                start += length
            if not 0 <= start < length:
                return None
            number = start // extent
            start -= number * extent
            counts.append(1)
            steps.append(1)
        chunk.append(number)
        starts.append(start)
    return SingleChunk(tuple(chunk), tuple(starts), tuple(counts), tuple(steps), tuple(result))


def _integer(item: object) -> int:
    """An integer, also NumPy's; booleans, and arrays of one element, are not accepted."""
    if isinstance(item, bool) or getattr(item, "shape", None):
        return _NO_INTEGER
    try:
        return index(item)  # type: ignore[arg-type]
    except TypeError:
        return _NO_INTEGER
