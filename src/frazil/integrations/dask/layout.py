"""The alignment of chunks of dask with write chunks (shards, or chunks if there are none). Pure; does not need dask.

A task writes whole write chunks, so that no two tasks ever write the same one. A write chunk that the edge of a region cuts belongs to one task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise
from typing import Final

from frazil.base.record import Record
from frazil.errors import InvalidInputError, SelectionError

Extents = tuple[tuple[int, ...], ...]  # of chunks, for each dimension, as in dask


class Box(Record):
    """The place of a source in its target: start and stop along each dimension; write_chunk: the extents of the unit of writing"""

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    write_chunk: tuple[int, ...]


def box_of(
    region: object, source: Sequence[int], target: Sequence[int], write_chunk: Sequence[int], path: str | None = None
) -> Box:
    """The box of a region, None: all of the target. Raises SelectionError if it is not a tuple of slices without steps, or if the source has
    another shape."""
    slices = tuple(slice(None) for _ in target) if region is None else region
    if isinstance(slices, slice):
        slices = (slices,)
    if not isinstance(slices, tuple) or not all(isinstance(part, slice) for part in slices):
        raise SelectionError(f"the region is {region!r}; it must be a tuple of slices", path=path)
    if len(slices) > len(target):
        raise SelectionError(f"the region has {len(slices)} dimensions, the target {len(target)}", path=path)
    starts, stops = list[int](), list[int]()
    for part, length in zip((*slices, *[slice(None)] * (len(target) - len(slices))), target, strict=True):
        if part.step not in (None, 1):
            raise SelectionError(f"the region has a slice with step {part.step!r}; steps must be 1", path=path)
        if any(end is not None and not -length <= _index(end, path) <= length for end in (part.start, part.stop)):
            raise SelectionError(f"the region has {part!r}, which is outside of {length} elements", path=path)
        start, stop, _ = part.indices(length)
        starts.append(start)
        stops.append(max(start, stop))
    shape = tuple([stop - start for start, stop in zip(starts, stops, strict=True)])
    if shape != tuple(source):
        raise SelectionError(
            f"an array of shape {tuple(source)} does not fit a {'target' if region is None else 'region'} of shape {shape}",
            path=path,
            hint="resize the target, or name the region that the array is for",
        )
    return Box(tuple(starts), tuple(stops), tuple(write_chunk))


def _index(end: object, path: str | None) -> int:
    try:
        return end.__index__()  # type: ignore[attr-defined, no-any-return]
    except AttributeError:
        raise SelectionError(f"the region has {end!r}, which is not a whole number", path=path) from None


def aligned_chunks(chunks: Extents, box: Box) -> Extents:
    """Chunks similar to the given ones, whose boundaries are those of write chunks of the target: each boundary moves to the previous one."""
    return tuple(
        _aligned(extents, start, unit) for extents, start, unit in zip(chunks, box.starts, box.write_chunk, strict=True)
    )


def _aligned(extents: tuple[int, ...], start: int, unit: int) -> tuple[int, ...]:
    length = sum(extents)
    if length == 0:
        return (0,)
    moved = {(start + at) // unit * unit - start for at in accumulate(extents)}
    bounds = [0, *sorted(at for at in moved if 0 < at < length), length]
    return tuple([stop - start for start, stop in pairwise(bounds)])


def is_aligned(chunks: Extents, box: Box) -> bool:
    """Whether no write chunk has elements of two chunks."""
    for extents, start, stop, unit in zip(chunks, *box, strict=True):
        if any((start + at) % unit for at in accumulate(extents) if 0 < at < stop - start):
            return False
    return True


def check_no_overlap(boxes: Sequence[tuple[int, Box]], name: str) -> None:
    """Raises InvalidInputError if two boxes of one target have a write chunk in common. boxes: the number of the source, and its box; name: of the target"""
    for (first, box), (second, other) in combinations(boxes, 2):
        if _share_write_chunk(box, other, (1,) * len(box.write_chunk)):
            raise InvalidInputError(
                f"arrays {first} and {second} are both for the same elements of {name}",
                hint="give each a region of its own",
            )
        if _share_write_chunk(box, other, box.write_chunk):
            raise InvalidInputError(
                f"the regions of arrays {first} and {second} share a shard or chunk of {name}",
                hint=f"let regions end at multiples of {box.write_chunk}, concatenate the arrays, or store one after the other",
            )


def _share_write_chunk(box: Box, other: Box, write_chunk: tuple[int, ...]) -> bool:
    sides = zip(box.starts, box.stops, other.starts, other.stops, write_chunk, strict=True)
    return all(a < b and c < d and a // u <= (d - 1) // u and c // u <= (b - 1) // u for a, b, c, d, u in sides)


def selection_of(bounds: Extents, starts: Sequence[int], block: Sequence[int]) -> tuple[slice, ...]:
    """The place of a block in the target. bounds: the beginning of each block and the end of the last one, for each dimension"""
    return tuple(
        slice(start + ends[at], start + ends[at + 1]) for ends, start, at in zip(bounds, starts, block, strict=True)
    )


_LEAST: Final = 1


def reading_chunks(
    shape: Sequence[int], write_chunk: Sequence[int], inner: Sequence[int], itemsize: int, limit: int
) -> tuple[int, ...]:
    """Extents of chunks for reading, of about `limit` bytes at most: several whole shards, or if one is too large, a part of it that divides it evenly, along
    the first dimensions first. An inner chunk is never divided.

    write_chunk  extents of a shard, or of a chunk if there are none;  inner: of a chunk"""
    extents = [min(length, part) for length, part in zip(shape, write_chunk, strict=True)]
    itemsize = max(itemsize, _LEAST)
    for axis, whole in enumerate(write_chunk):  # smaller, if one is too large
        if itemsize * math.prod(extents) <= limit:
            break
        counts = whole // inner[axis]
        others = itemsize * math.prod(extents[:axis] + extents[axis + 1 :])
        most = max(1, limit // max(1, others * inner[axis]))
        extents[axis] = inner[axis] * max(part for part in range(1, min(counts, most) + 1) if counts % part == 0)
    if extents != [min(length, part) for length, part in zip(shape, write_chunk, strict=True)]:
        return tuple(extents)
    growing = set(range(len(extents)))
    while growing:  # larger, the dimension with the fewest elements first, so that chunks become cubes
        axis = min(growing, key=lambda at: (extents[at], -at))
        doubled = min(2 * extents[axis], shape[axis])
        others = itemsize * math.prod(extents[:axis] + extents[axis + 1 :])
        if doubled == extents[axis] or others * doubled > limit:
            growing.discard(axis)
        else:
            extents[axis] = doubled
    return tuple(extents)
