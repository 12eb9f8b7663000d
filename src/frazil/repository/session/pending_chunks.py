"""Decides where pending chunks are stored: the commit puts very small ones into a manifest, the others are written to chunk files here.

An object for each chunk costs a file, a sync and a request. So many chunks go into one object (a pack), neighbours in reading order side by side, and a reader
merges their ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.formats.ids import encode_ids
from frazil.repository.format import RepositoryFormat
from frazil.repository.manifests.coordinates import sorting_order
from frazil.repository.session.change_set import ChangeSet, NodeChange
from frazil.repository.session.changed_references import PENDING, PendingBytes, Rows
from frazil.repository.session.chunk_ids import new_chunk_ids
from frazil.stores.values import Columns, Pieces, Sources

PackingOrder: TypeAlias = "Callable[[str, NDArray[np.int64]], NDArray[np.int64]]"

INLINE_LIMIT: Final = 512  # bytes: chunks up to this size are stored in the manifest
PACK_LIMIT: Final = 2**20  # bytes: larger chunks are written at once, as objects of their own
PACK_BYTES: Final = 2**24  # the largest size of a pack of several chunks

_NEW: Final = 2**32  # above the numbers of nodes in a snapshot


class _Waiting(Record):
    """Pending chunks of one array. numbers: of their rows in the changed references"""

    change: NodeChange
    numbers: Columns
    rows: Rows

    def those(self, which: NDArray[np.bool_]) -> _Waiting:
        return self._replace(numbers=self.numbers[which], rows=self.rows.pick(which))


def store_pending(
    changes: ChangeSet,
    files: RepositoryFormat,
    *,
    packing: bool,
    digests: bool,
    order: PackingOrder | None = None,
    most_inline: int | None = None,
) -> None:
    """Writes all chunks that are too large for a manifest to chunk files, and drops bytes that nothing refers to. Raises StoreError; then
    nothing changes.

    digests      the ids of chunk files end in digests
    order        of the chunks of each array in packs, from the user; None: row by row
    most_inline  largest total of the chunks that are kept for a manifest; if they have more bytes, they are written, too. None: no limit"""
    if changes.pending.nbytes <= INLINE_LIMIT and most_inline is None:
        return  # none is too large, and they are few
    waiting = [found for change in changes if (found := _pending_of(change)) is not None]
    limit = INLINE_LIMIT
    if most_inline is not None:
        lengths = [part.rows.lengths for part in waiting]
        if sum(int(part[part <= limit].sum()) for part in lengths) > most_inline:
            limit = 0
    large = [found for part in waiting if len((found := part.those(part.rows.lengths > limit)).numbers)]
    if large:
        _write_packs(changes, large, files, packing, order, digests=digests)
    _compact(changes, [found for part in waiting if len((found := part.those(part.rows.lengths <= limit)).numbers)])


def _pending_of(change: NodeChange) -> _Waiting | None:
    references = change.references
    if references is None:
        return None
    numbers = references.current()
    numbers = numbers[references.columns.kinds[numbers] == PENDING]
    return _Waiting(change, numbers, references.selected(numbers))


class Packs(Record):
    """Where n chunks are stored, in reading order.

    pack    int64[n], the number of the pack of each;  offset: int64[n], where it begins there
    bounds  int64[p + 1], the first chunk of each pack, and n"""

    pack: Columns
    offset: Columns
    bounds: Columns


def plan_packs(lengths: Columns, *, packing: bool = True, pack_bytes: int = PACK_BYTES) -> Packs:
    """Distributes chunks of these lengths to packs of at most `pack_bytes`; a larger chunk has its own pack. Without `packing` every chunk has."""
    ends = np.cumsum(lengths)
    bounds = np.arange(lengths.size + 1)
    if packing:
        firsts: list[int] = []
        first = 0
        while first < ends.size:
            firsts.append(first)
            before = int(ends[first - 1]) if first else 0
            first = max(int(np.searchsorted(ends, before + pack_bytes, "right")), first + 1)
        bounds = np.array([*firsts, ends.size], np.int64)
    pack = np.repeat(np.arange(bounds.size - 1), np.diff(bounds))
    starts = ends - lengths
    return Packs(pack, starts - starts[bounds[pack]], bounds)


_FIRST: Final[Columns] = np.zeros(1, np.int64)
_ONE_PACK: Final = Packs(_FIRST, _FIRST, np.array([0, 1], np.int64))


def _write_packs(
    changes: ChangeSet,
    parts: list[_Waiting],
    files: RepositoryFormat,
    packing: bool,
    by: PackingOrder | None,
    *,
    digests: bool,
) -> None:
    # arrays in the order of the numbers of their nodes
    parts.sort(key=lambda part: _NEW if part.change.base is None else part.change.base.id)
    firsts = np.cumsum([0, *(len(part.numbers) for part in parts)])
    sources, rows = _sources(changes.pending, parts)
    if len(rows) == 1 and by is None:
        order, packs = _FIRST, _ONE_PACK
    else:
        order = np.concatenate([_order(part, by) + first for part, first in zip(parts, firsts, strict=False)])
        rows = rows[order]
        packs = plan_packs(rows[:, 2], packing=packing)
    values = Pieces(sources, rows, packs.bounds)
    ids = new_chunk_ids(values, digests=digests)
    names = [files.key(f"chunks/{text}") for text in encode_ids(ids)]
    if changes.begun is None:  # other sessions may refer to the files of a fork
        changes.packs.append(ids)
    files.store.put_own(names, values)
    ranked = np.argsort(order)
    for part, low, high in zip(parts, firsts, firsts[1:], strict=False):
        pack_rows = ranked[low:high]
        part.change.changed_references().assign_objects(
            part.numbers, packs.offset[pack_rows], ids=ids[packs.pack[pack_rows]]
        )


def _order(part: _Waiting, by: PackingOrder | None) -> Columns:
    """The reading order of the chunks of an array: row by row (the last coordinate fastest), or from the user. Raises InvalidInputError for an
    invalid order."""
    coordinates, path = part.rows.coordinates, part.change.node.path
    if by is None:
        return sorting_order(coordinates)
    try:
        order = np.asarray(by(path, coordinates.copy()))
    except Exception as error:
        raise InvalidInputError(f"packing_order failed: {error!r}", path=path) from error
    count = len(coordinates)
    if order.shape != (count,) or order.dtype.kind not in "iu" or (np.sort(order) != np.arange(count)).any():
        raise InvalidInputError(f"packing_order must return the numbers of {count} chunks, each once", path=path)
    return order.astype(np.int64)


def _sources(pending: PendingBytes, parts: Sequence[_Waiting]) -> tuple[Sources, Columns]:
    """The bytes of chunks, as rows of Pieces."""
    objects, offsets, lengths = [
        np.concatenate(column) for column in zip(*[part.rows[3:] for part in parts], strict=True)
    ]
    numbers = np.searchsorted(list(pending.segments), objects)
    return Sources(None, list(pending.segments.values())), np.stack((-1 - numbers, offsets, lengths), axis=1)


def _compact(changes: ChangeSet, parts: list[_Waiting]) -> None:
    """Copies the remaining pending chunks to one segment, if more than half of the bytes are unused."""
    old = changes.pending
    if old.nbytes <= 2 * sum(int(part.rows.lengths.sum()) for part in parts):
        return
    if not parts:
        changes.pending = PendingBytes()
        return
    sources, rows = _sources(old, parts)
    # even after an interrupt every row finds its bytes: the old segments stay until all rows name the new one
    changes.pending = pending = old.copy()
    segment, offsets = pending.add(Pieces(sources, rows, np.arange(len(rows) + 1)), rows[:, 2])
    first = 0
    for part in parts:
        last = first + len(part.numbers)
        part.change.changed_references().assign_objects(part.numbers, offsets[first:last], segment=segment)
        first = last
    changes.pending = pending.only(segment)
