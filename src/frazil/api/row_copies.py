"""Copies rows of arrays from one transaction to another. A rebase needs this if appended rows are not whole chunks (repository/merge/rebase.py, RowCopies).

Values are read and written in boxes of whole chunks, of at most `bytes_in_flight` together, but at least one chunk."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from frazil.array.array import Array
from frazil.array.hierarchy.nodes import NodeLocation, find_node
from frazil.base.arrays import boxes_of
from frazil.codecs.registry import Registry
from frazil.metadata.model import ArrayMetadata
from frazil.repository.merge.apply import Shift
from frazil.repository.merge.rebase import Located
from frazil.repository.session.transaction import Transaction
from frazil.runtime import Runtime
from frazil.stores.store import Store
from frazil.stores.values import Columns

Box = tuple[slice, ...]


_ARRAYS = 4  # boxes in memory at once: of ours, theirs and the base, and encoded chunks of the engine


class ArrayRows:
    """store: the store that the arrays report."""

    __slots__ = ("_registry", "_runtime", "_store")

    def __init__(self, store: Store, registry: Registry, runtime: Runtime) -> None:
        self._store, self._registry, self._runtime = store, registry, runtime

    def changed_chunks(
        self, shift: Shift, base: Transaction, ours: Located, theirs: Located
    ) -> tuple[Columns, Columns]:
        before, mine, other = self._open(base, shift.before), self._open(*ours), self._open(*theirs)
        low = shift.old - shift.old % _extents(before)[shift.axis]
        changed: list[tuple[int, ...]] = []
        both: list[tuple[int, ...]] = []
        for box in _tiles(before, shift.axis, low, shift.old, _extents(before)) if low < shift.old else ():
            was = before.read(box).tobytes()
            if mine.read(box).tobytes() != was:
                changed.append(_coordinates(before, box))
                if other.read(box).tobytes() != was:
                    both.append(changed[-1])
        return _columns(changed, before.ndim), _columns(both, before.ndim)

    def copy(self, shift: Shift, ours: Located, target: Located, changed: Columns) -> None:
        source, array = self._open(*ours), self._open(*target)
        extents = _extents(array)
        for chunk in changed.tolist():
            low = [at * extent for at, extent in zip(chunk, extents, strict=True)]
            high = [min(a + extent, end) for a, extent, end in zip(low, extents, source.shape, strict=True)]
            high[shift.axis] = min(high[shift.axis], shift.old)
            box = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
            array[box] = source.read(box)
        step, low_row = extents[shift.axis], shift.old
        while low_row < shift.new:
            # up to the end of a chunk of the target, so that each chunk is written once
            high_row = min(low_row + step - (low_row + shift.by) % step, shift.new)
            for box in self._boxes(source, shift.axis, low_row, high_row):
                array[_shifted(box, shift.axis, shift.by)] = source.read(box)
            low_row = high_row

    def _open(self, transaction: Transaction, path: str) -> Array:
        node_location = NodeLocation(self._store, path.strip("/"), self._registry, self._runtime, nodes=transaction)
        node = find_node(node_location)
        assert isinstance(node, ArrayMetadata), "only arrays are appended to"
        return Array(node_location, node)

    def _boxes(self, array: Array, axis: int, low: int, high: int) -> Iterator[Box]:
        """The rows of an axis, in boxes of whole chunks along the other axes that fit in memory."""
        sizes = list(_extents(array))
        sizes[axis] = high - low
        room = self._runtime.bytes_in_flight // (_ARRAYS * max(array.dtype.itemsize, 1))
        for d in reversed(range(array.ndim)):
            if d != axis:  # as many chunks along the last axes as fit
                fitting = room // max(prod(sizes), 1)
                sizes[d] *= max(1, min(fitting, -(-array.shape[d] // max(sizes[d], 1))))
        yield from _tiles(array, axis, low, high, sizes)


def _tiles(array: Array, axis: int, low: int, high: int, sizes: tuple[int, ...] | list[int]) -> Iterator[Box]:
    others = [
        (1, 1) if d == axis else (length, max(size, 1))
        for d, (length, size) in enumerate(zip(array.shape, sizes, strict=True))
    ]
    for box in boxes_of([length for length, _ in others], [size for _, size in others]):
        yield (*box[:axis], slice(low, high), *box[axis + 1 :])


def _extents(array: Array) -> tuple[int, ...]:
    """Elements of a chunk of the array's grid along each axis."""
    return array.shards or array.chunks


def _coordinates(array: Array, box: Box) -> tuple[int, ...]:
    return tuple([part.start // extent for part, extent in zip(box, _extents(array), strict=True)])


def _columns(chunks: list[tuple[int, ...]], rank: int) -> Columns:
    return np.array(chunks, np.int64).reshape(len(chunks), rank)


def _shifted(box: Box, axis: int, by: int) -> Box:
    return tuple(slice(part.start + by, part.stop + by) if d == axis else part for d, part in enumerate(box))
