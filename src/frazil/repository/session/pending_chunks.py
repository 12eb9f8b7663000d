"""Chunks that wait in memory get their place: small ones stay where they are until they go into a manifest, the rest into packs (packs.py says which).

It writes chunk files; manifests are the commit's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.errors import InvalidInputError
from frazil.formats.ids import ID_BYTES, encode_ids
from frazil.repository.session.change_set import NodeChange
from frazil.repository.session.changed_references import PENDING, PendingBytes
from frazil.repository.session.packs import INLINE_LIMIT, Pending, plan_packs, reading_order
from frazil.stores.values import Pieces, Sources

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.repository.format import RepositoryFormat
    from frazil.repository.session.change_set import ChangeSet

    Columns = NDArray[np.int64]

__all__ = ["PackingOrder", "place_pending"]

PackingOrder: TypeAlias = "Callable[[str, NDArray[np.int64]], NDArray[np.int64]]"

_NEW: Final = 2**32  # above the numbers that nodes of a snapshot have


def place_pending(
    changes: ChangeSet,
    files: RepositoryFormat,
    *,
    packing: bool,
    order: PackingOrder | None = None,
    most_inline: int | None = None,
) -> None:
    """Writes all chunks that are too large for a manifest into chunk files, and gives up bytes that nothing refers to any more. Raises StoreError; then
    everything waits as before.

    order        in which the chunks of each array lie in packs, as users give it; None: row by row
    most_inline  bytes of chunks that are small enough for a manifest; where there are more, they are written, too. None: any number"""
    if changes.pending.nbytes <= INLINE_LIMIT and most_inline is None:
        return  # none of them is too large, and they are too few to be counted
    waiting = [(change, rows) for change in changes if len(rows := _pending_rows(change))]
    limit = INLINE_LIMIT
    if most_inline is not None:
        lengths = [_lengths(change, rows) for change, rows in waiting]
        if sum(int(part[part <= limit].sum()) for part in lengths) > most_inline:
            limit = 0
    large = [(change, rows[_lengths(change, rows) > limit]) for change, rows in waiting]
    large = [(change, rows) for change, rows in large if len(rows)]
    if large:
        _write_packs(changes, large, files, packing, order, limit)
    _compact(changes, [(change, rows[_lengths(change, rows) <= limit]) for change, rows in waiting])


def _pending_rows(change: NodeChange) -> Columns:
    """Rows that count and wait in memory."""
    references = change.references
    if references is None:
        return np.zeros(0, np.int64)
    rows = references.current()
    waiting: Columns = rows[references.columns.kinds[rows] == PENDING]
    return waiting


def _lengths(change: NodeChange, rows: Columns) -> Columns:
    assert change.references is not None
    lengths: Columns = change.references.columns.lengths[rows]
    return lengths


def _write_packs(
    changes: ChangeSet,
    parts: list[tuple[NodeChange, Columns]],
    files: RepositoryFormat,
    packing: bool,
    by: PackingOrder | None,
    inline_limit: int,
) -> None:
    columns = [change.changed_references().selected(rows) for change, rows in parts]
    lengths = np.concatenate([part.lengths for part in columns])
    # in the order of the numbers that they will have
    numbers = [_NEW + at if change.base is None else change.base.id for at, (change, _) in enumerate(parts)]
    nodes = np.repeat(numbers, [len(rows) for _, rows in parts])
    order = reading_order(nodes, [part.coordinates for part in columns])
    if by is not None:
        paths = [change.node.path for change, _ in parts]
        order = np.concatenate(_given(by, paths, [part.coordinates for part in columns]))
    packed = plan_packs(Pending(order, lengths), packing=packing, inline_limit=inline_limit)
    rows = np.empty((len(packed.rows), 3), np.int64)
    rows[:, 0] = -1 - np.concatenate([part.objects for part in columns])[packed.rows]
    rows[:, 1] = np.concatenate([part.offsets for part in columns])[packed.rows]
    rows[:, 2] = lengths[packed.rows]
    count = len(packed.sizes)
    bounds = np.searchsorted(packed.object[packed.rows], np.arange(count + 1))
    ids = np.frombuffer(os.urandom(ID_BYTES * count), np.uint8).reshape(count, ID_BYTES)
    names = [files.key(f"chunks/{text}") for text in encode_ids(ids)]
    if changes.begun is None:  # who else may refer to the files of a fork is not known here
        changes.packs.append(ids)
    pieces = Pieces(Sources(None, changes.pending.segments), rows, bounds.astype(np.int64))
    files.store.put_many(names, pieces, [None] * count)
    first = 0
    for change, settled in parts:
        last = first + len(settled)
        change.changed_references().settle(settled, ids[packed.object[first:last]], packed.offset[first:last])
        first = last


def _given(by: PackingOrder, paths: Sequence[str], coordinates: Sequence[Columns]) -> list[Columns]:
    """The rows in the order that a user gives, array by array. Raises InvalidInputError for what is no order."""
    orders: list[Columns] = []
    first = 0
    for path, chunks in zip(paths, coordinates, strict=True):
        try:
            given = np.asarray(by(path, chunks.copy()))
        except Exception as error:
            raise InvalidInputError(f"packing_order failed: {error!r}", path=path) from error
        count = len(chunks)
        if (
            given.shape != (count,)
            or given.dtype.kind not in "iu"
            or not np.array_equal(np.sort(given), np.arange(count))
        ):
            raise InvalidInputError(f"packing_order must give the numbers of {count} chunks, each once", path=path)
        orders.append(given.astype(np.int64) + first)
        first += count
    return orders


def _compact(changes: ChangeSet, parts: list[tuple[NodeChange, Columns]]) -> None:
    """Copies what still waits into one segment, where more than half of the bytes are nobody's."""
    kept = [(change, rows) for change, rows in parts if len(rows)]
    total = sum(int(_lengths(change, rows).sum()) for change, rows in kept)
    old = changes.pending
    if old.nbytes <= 2 * total:
        return
    changes.pending = PendingBytes()
    if not kept:
        return
    columns = [change.changed_references().selected(rows) for change, rows in kept]
    lengths = np.concatenate([part.lengths for part in columns])
    source = np.empty((len(lengths), 3), np.int64)
    source[:, 0] = -1 - np.concatenate([part.objects for part in columns])
    source[:, 1] = np.concatenate([part.offsets for part in columns])
    source[:, 2] = lengths
    pieces = Pieces(Sources(None, old.segments), source, np.arange(len(lengths) + 1))
    segment, offsets = changes.pending.add(pieces, lengths)
    first = 0
    for change, rows in kept:
        change.changed_references().relocate(rows, segment, offsets[first : first + len(rows)])
        first += len(rows)
