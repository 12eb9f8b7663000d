"""Decodes all stored chunks of an array, on all cores, and finds each one that cannot be decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from frazil.array.array import Array
from frazil.array.shape.extents import chunk_grid_of
from frazil.errors import DataError, StoreError
from frazil.operations.shards.shard_index import grid_extents
from frazil.operations.validate.report import Problem, problem_of
from frazil.operations.window import window
from frazil.stores.values import Columns

Box = tuple[slice, ...]


def decode_objects(
    array: Array, coords: Columns, max_bytes: int, report: Callable[[int], object]
) -> Iterator[Problem | int]:
    """Decodes stored objects. Yields the problems, and the bytes of each decoded box.

    coords  int64[n, d], of objects in the array's grid, sorted;  max_bytes: of decoded elements at once, at least one chunk"""
    for box in _boxes(array, coords, max_bytes):
        yield from _faults(array, box)
        nbytes = array.dtype.itemsize * prod(part.stop - part.start for part in box)
        report(nbytes)
        yield nbytes


def _boxes(array: Array, coords: Columns, max_bytes: int) -> Iterator[Box]:
    """Adjacent objects along the last dimension as one box, as far as memory allows; parts of objects that are larger."""
    extents = grid_extents(array)
    if not extents:
        yield ()
        return
    together = max(1, max_bytes // (array.dtype.itemsize * prod(extents)))
    low = 0
    while low < len(coords):
        high = low + 1
        while high < len(coords) and high - low < together and _follows(coords[high - 1], coords[high]):
            high += 1
        ends = np.array([coords[low], coords[high - 1] + 1], np.int64)
        first, last = chunk_grid_of(array.metadata).corners(ends).tolist()
        box = tuple(slice(a, min(b, length)) for a, b, length in zip(first, last, array.shape, strict=True))
        whole = window(array, box)
        if whole.nbytes <= max_bytes:
            yield box
        else:
            for offset, tile in whole.tiles(max_bytes):
                yield tuple(
                    slice(part.start + at, part.start + at + length)
                    for part, at, length in zip(box, offset, tile.shape, strict=True)
                )
        low = high


def _follows(box: Columns, other: Columns) -> bool:
    return bool((box[:-1] == other[:-1]).all()) and bool(box[-1] + 1 == other[-1])


def _faults(array: Array, box: Box) -> Iterator[Problem]:
    """Each unreadable chunk of a box: if the whole box cannot be read, its halves are tried."""
    try:
        array.read(box)
    except (DataError, StoreError) as error:
        halves = _halves(array, box)
        if not halves:
            yield problem_of("store" if isinstance(error, StoreError) else "chunk", error, array.path)
            return
    else:
        return
    for half in halves:
        yield from _faults(array, half)


def _halves(array: Array, box: Box) -> list[Box]:
    """A box cut in two at the end of a chunk; empty for a single chunk."""
    counts = [-(-part.stop // chunk) - part.start // chunk for part, chunk in zip(box, array.chunks, strict=True)]
    if all(count <= 1 for count in counts):
        return []
    axis = int(np.argmax(counts))
    part, chunk = box[axis], array.chunks[axis]
    middle = (part.start // chunk + counts[axis] // 2) * chunk
    return [
        (*box[:axis], slice(part.start, middle), *box[axis + 1 :]),
        (*box[:axis], slice(middle, part.stop), *box[axis + 1 :]),
    ]
