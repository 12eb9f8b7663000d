"""Which small chunks of a commit go into which chunk object, and in which order: columns in, columns out.

One object for each chunk costs a file, a sync and a request, so chunks that wait in memory go many to an object (a pack), neighbours in reading order side by side, and
a reader merges their ranges. Very small ones stay in the manifest. The bytes are written elsewhere (pending_chunks.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.record import Record
from frazil.repository.manifests.coordinates import sorting_order

__all__ = ["INLINE_LIMIT", "PACK_BYTES", "PACK_LIMIT", "Packed", "Pending", "plan_packs", "reading_order"]

Columns = NDArray[np.int64]

INLINE_LIMIT: Final = 512  # bytes: chunks up to this size stand in the manifest
PACK_LIMIT: Final = 2**20  # bytes: larger chunks are objects of their own, and never come here
PACK_BYTES: Final = 2**24  # bytes of a pack, which is closed before the chunk that would go beyond


class Pending(Record):
    """n chunks of one commit that lie in memory."""

    order: Columns  # int64[n]: the rows 0 to n - 1 in the order they will be read, as reading_order or a user's function gives it
    lengths: Columns  # int64[n], bytes of each row


class Packed(Record):
    """Where n chunks go."""

    object: Columns  # int64[n], for each row the number of its pack; -1: it stays inline
    offset: Columns  # int64[n], where the chunk begins in its pack; 0 inline
    sizes: Columns  # int64[p], bytes of each pack; chunks lie in it side by side
    rows: Columns  # int64[m]: the rows that are in packs, pack after pack, in the order they lie in them


def plan_packs(
    pending: Pending, *, inline_limit: int = INLINE_LIMIT, pack_bytes: int = PACK_BYTES, packing: bool = True
) -> Packed:
    """Chunks above `inline_limit` in packs of at most `pack_bytes`; one that is larger by itself has a pack alone. Without `packing` each has.

    Raises InvalidInputError where `order` is not each row once."""
    count = pending.lengths.size
    if not _is_order(pending.order, count):
        raise InvalidInputError(f"an order of {count} chunks must hold each of 0 to {count - 1} once")
    rows = pending.order[pending.lengths[pending.order] > inline_limit]
    ends = np.cumsum(pending.lengths[rows])
    firsts = _cut(ends, pack_bytes) if packing else np.arange(rows.size)
    numbers = np.zeros(rows.size, np.int64)
    numbers[firsts[1:]] = 1
    numbers = np.cumsum(numbers)
    starts = ends - pending.lengths[rows]
    packs, offset = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    packs[rows] = numbers
    offset[rows] = starts - starts[firsts][numbers]
    sizes = np.diff(starts[firsts], append=ends[-1:])
    return Packed(packs, offset, sizes, rows)


def _is_order(order: Columns, count: int) -> bool:
    if order.shape != (count,) or (count and not 0 <= int(order.min()) <= int(order.max()) < count):
        return False
    return bool((np.bincount(order, minlength=count) == 1).all())


def _cut(ends: Columns, pack_bytes: int) -> Columns:
    """The first chunk of each pack; one step a pack. ends: int64[m], how far the chunks reach, side by side."""
    firsts: list[int] = []
    first = 0
    while first < ends.size:
        firsts.append(first)
        before = int(ends[first - 1]) if first else 0
        first = max(int(np.searchsorted(ends, before + pack_bytes, "right")), first + 1)
    return np.array(firsts, np.int64)


def reading_order(nodes: Columns, coordinates: Sequence[Columns]) -> Columns:
    """The rows of several arrays in the order in which they will be read: arrays one after the other by node, the chunks of each row by row (the last coordinate fastest).

    coordinates: of each array int64[k, d], whose rows lie one after the other; nodes: int64[n], the node of each row, one alone within an array."""
    sizes = [len(part) for part in coordinates]
    if sum(sizes) != nodes.size:
        raise InvalidInputError(f"{nodes.size} nodes do not go with {sum(sizes)} coordinates")
    firsts = np.cumsum([0, *sizes])[:-1].tolist()
    parts = [(int(nodes[first]), first, part) for first, part in zip(firsts, coordinates, strict=True) if len(part)]
    parts.sort(key=lambda part: part[:2])
    orders = [sorting_order(part) + first for _, first, part in parts]
    return np.concatenate([np.zeros(0, np.int64), *orders])
