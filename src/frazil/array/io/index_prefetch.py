"""Shard indexes fetched ahead: of many parts of one read at once, before the first chunk of them, so that each part costs one round of requests and not two.

Only where requests take their time; the walk through an index is in shard_lookup.py."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.array.access import MOST_OBJECTS, Access
from frazil.array.io.shard_indexes import IndexTables, Slot
from frazil.array.io.shard_lookup import Batch, Part, fetch_indexes, index_names, open_shards
from frazil.errors import DataError, StoreError
from frazil.stores.retry import lacks_files
from frazil.stores.values import Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["with_indexes"]

_MOST_BYTES: Final = 2**24  # of indexes that are held ahead


def with_indexes(access: Access, parts: Iterator[Part], absent: Callable[[Batch, Columns], None]) -> Iterator[Part]:
    """The parts, with the indexes of their shards; absent(batch, rows) is called for shards that are not there, which then are in no part.

    For chains of one level whose shards are not within another codec. A part that is alone is handed on as it is. What could not be read ahead is left to
    the part, which finds out whether that still is so. Raises StoreError."""
    entry = 16 * access.chain.levels[0].total
    groups = _groups(parts, max(1, min(MOST_OBJECTS, _MOST_BYTES // entry)))
    first = next(groups, [])
    second = next(groups, None)
    if len(first) < 2 and second is None:
        yield from first
        return
    group: list[Part] | None = first
    while group is not None:
        known, gone = _fetched(access, group)
        yield from _opened(group, known, gone, absent)
        group, second = second if second is not None else next(groups, None), None


def _groups(parts: Iterator[Part], most: int) -> Iterator[list[Part]]:
    """Parts of at most `most` shards together (one part at least); those of one shard are never apart."""
    group: list[Part] = []
    count = 0
    for part in parts:
        new = _new_shards(part)
        if group and new and count + new > most:
            yield group
            group, count = [], 0
        group.append(part)
        count += new
    if group:
        yield group


def _new_shards(part: Part) -> int:
    """Shards of a part that none before it has: the parts of a batch for one shard alone follow one another."""
    return 0 if part.batch.part else len(part.rows)


def _fetched(access: Access, group: Sequence[Part]) -> tuple[Mapping[Hashable, Slot], NDArray[np.bool_]]:
    """The indexes of all shards of a group that are not remembered, in one fetch; and for each shard whether it is not there."""
    coords = np.concatenate([part.batch.shards[part.rows] for part in group if _new_shards(part)])
    located = access.storage.locate(coords)
    names = index_names(access, coords, located)
    gone = np.zeros(len(coords), np.bool_)
    found = (access.indexes and access.indexes.find(names)) or [None] * len(names)
    known = {name: slot for name, slot in zip(names, found, strict=True) if slot is not None}
    asked = np.array([i for i, name in enumerate(names) if name != "" and found[i] is None], np.int64)
    if not len(asked):
        return known, gone
    some = located if len(asked) == len(coords) else located.take(asked)
    try:
        opened = open_shards(access, some, coords[asked], fetch_indexes(access, some))
    except DataError:
        return known, gone
    except StoreError as error:
        if not lacks_files(error):
            raise
        return known, gone
    opened.remember(access, [names[row] for row in asked.tolist()])
    gone[asked] = opened.slot < 0
    versions = [version for version, slot in zip(opened.versions, opened.slot.tolist(), strict=True) if slot >= 0]
    tables = IndexTables(opened.tables, versions)
    for i, (row, slot) in enumerate(zip(asked.tolist(), opened.slot.tolist(), strict=True)):
        if slot >= 0 and opened.versions[i] is not None and not (opened.young and opened.young[i]):
            known[names[row]] = tables, slot
    return known, gone


def _opened(
    group: Sequence[Part],
    known: Mapping[Hashable, Slot],
    gone: NDArray[np.bool_],
    absent: Callable[[Batch, Columns], None],
) -> Iterator[Part]:
    high = 0
    for part in group:
        high += _new_shards(part)
        of_part = gone[high - len(part.rows) : high]
        if of_part.any():
            absent(part.batch, part.rows[of_part])
            part = part._replace(rows=part.rows[~of_part])
        if len(part.rows):
            yield part._replace(known=known)
