"""Rows of arrays read from one transaction and written to another: what a rebase needs where appended rows are no whole chunks (repository/merge/rebase.py, RowCopies)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from frazil.array.array import Array
from frazil.array.hierarchy.nodes import Place, find_node
from frazil.metadata.model import ArrayMetadata
from frazil.repository.merge.rebase import Shift
from frazil.repository.session.transaction import Transaction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.codecs.registry import Registry
    from frazil.runtime import Runtime
    from frazil.stores.store import Store

    Columns = NDArray[np.int64]
    Values = NDArray[np.generic]

__all__ = ["ArrayRows"]


class ArrayRows:
    """store: what the arrays say that they are in."""

    __slots__ = ("_registry", "_runtime", "_store")

    def __init__(self, store: Store, registry: Registry, runtime: Runtime) -> None:
        self._store, self._registry, self._runtime = store, registry, runtime

    def changed_rows(
        self, shift: Shift, base: Transaction, ours: Transaction, theirs: Transaction
    ) -> tuple[Values | None, Columns]:
        before = self._open(base, shift.before)
        low = shift.old - shift.old % _chunk(before, shift.axis)
        nowhere = np.zeros((0, before.ndim), np.int64)
        if low == shift.old:
            return None, nowhere
        was = _rows(before, shift.axis, low, shift.old)
        mine = _rows(self._open(ours, shift.path), shift.axis, low, shift.old)
        if mine.tobytes() == was.tobytes():
            return None, nowhere
        other = _rows(self._open(theirs, shift.theirs), shift.axis, low, shift.old)
        if other.tobytes() == was.tobytes():
            return mine, nowhere
        return mine, _chunks_at(before, shift.axis, low)

    def copy(self, shift: Shift, ours: Transaction, target: Transaction, changed: object | None) -> None:
        source, array = self._open(ours, shift.path), self._open(target, shift.path)
        if isinstance(changed, np.ndarray):
            _write(array, shift.axis, shift.old - changed.shape[shift.axis], changed)
        step = _chunk(array, shift.axis)
        low = shift.old
        while low < shift.new:
            # up to the end of a chunk of the target, so that each is written once
            high = min(low + step - (low + shift.by) % step, shift.new)
            _write(array, shift.axis, low + shift.by, _rows(source, shift.axis, low, high))
            low = high

    def _open(self, transaction: Transaction, path: str) -> Array:
        place = Place(self._store, path.strip("/"), self._registry, self._runtime, nodes=transaction)
        node = find_node(place)
        assert isinstance(node, ArrayMetadata), "only arrays are appended to"
        return Array(place, node)


def _chunks_at(array: Array, axis: int, low: int) -> Columns:
    """The coordinates of the chunks whose rows begin at `low`: int64[n, d], sorted."""
    extents = array.shards or array.chunks
    grid = [-(-length // extent) for length, extent in zip(array.shape, extents, strict=True)]
    grid[axis] = 1
    coordinates = np.stack(np.unravel_index(np.arange(int(np.prod(grid))), grid), axis=1).astype(np.int64)
    coordinates[:, axis] = low // extents[axis]
    return coordinates


def _chunk(array: Array, axis: int) -> int:
    return (array.shards or array.chunks)[axis]


def _rows(array: Array, axis: int, low: int, high: int) -> Values:
    return array.read((*[slice(None)] * axis, slice(low, high)))


def _write(array: Array, axis: int, low: int, values: Values) -> None:
    array[(*[slice(None)] * axis, slice(low, low + values.shape[axis]))] = values
