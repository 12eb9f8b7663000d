"""Shards that are changed in place: which ones, what is written to them, and which are looked at again as somebody else was changing them (docs/design/044-shards-in-place.md).

The options are checked when an array is opened (shard_options.py). Files are changed by stores/local/appended_shards.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.array.access import Access
from frazil.codecs.shard import encode_indexes
from frazil.stores.local.appended_shards import Changes, change_files, restore_files
from frazil.stores.local.local_store import LocalStore
from frazil.stores.values import Columns, Version

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil._kernel import Buffer

__all__ = ["append_chunks", "is_worth_appending", "overwrite_chunks", "restore_shards"]

_FILE_VERSION: Final = 24  # bytes of the version of a file on a local disk
_WASTE: Final = 0.5  # of the bytes of a shard, above which it is rewritten


def restore_shards(access: Access, names: Sequence[str]) -> bool:
    """Restores shards whose append was killed, and waits for writers at them. Whether they are worth another look."""
    files = access.storage.kernel_files(lambda: np.zeros((0, 0), np.int64)) if access.chain.levels else None
    if files is None or files.names is None:
        return False
    seen, forbidden = restore_files(files.root, names)
    return seen or forbidden


def is_worth_appending(
    access: Access,
    sizes: Columns,
    versions: Sequence[Version | None],
    tables: Columns,
    slot: Columns,
    group: Columns,
    number: Columns,
) -> NDArray[np.bool_]:
    """bool[m]: which shards are there, and would not have too many unused bytes if the inner chunks (group, number) were written behind their end.

    sizes: int64[m], bytes of each shard;  tables, slot: as of a Step"""
    files = [version is not None and len(version) == _FILE_VERSION for version in versions]
    worth = np.asarray((slot >= 0) & np.array(files, np.bool_), np.bool_)
    if access.options.shard_writes == "in_place" or not len(tables):
        return worth
    level = access.chain.levels[0]
    lengths = np.maximum(tables[:, :, 1], 0)
    live = lengths.sum(axis=1)[slot]
    there = slot[group] >= 0
    replaced = np.bincount(group[there], lengths[slot[group[there]], number[there]], len(slot))
    index = level.index_codecs.nbytes
    unused = sizes - index - live + replaced + (index if level.at_end else 0)
    return np.asarray(worth & (unused <= _WASTE * sizes), np.bool_)


def append_chunks(
    access: Access,
    names: Sequence[str],
    sizes: Columns,
    versions: Sequence[Version | None],
    tables: Columns,
    group: Columns,
    number: Columns,
    values: Columns,
    buffers: Sequence[Buffer],
) -> tuple[list[int], list[int]]:
    """Writes inner chunks behind the ends of shards, and their indexes. Answers as appended_shards.change_files; a shard that becomes empty is to be replaced whole.

    sizes: int64[m];  tables: int64[m, total, 2];  group, number: int64[n] of each inner chunk, group ascending;  values: int64[n, 3], its bytes in `buffers`, length -1 where it is empty"""
    level = access.chain.levels[0]
    lengths = np.maximum(values[:, 2], 0)
    ends = np.cumsum(lengths)
    first = np.searchsorted(group, np.arange(len(names)))
    before = np.concatenate(([0], ends))[first]
    at = ends - lengths - before[group] + sizes[group]
    tables = tables.copy()
    stored = values[:, 2] >= 0
    tables[group, number] = np.where(stored[:, None], np.stack((at, lengths), axis=1), -1)
    indexes = encode_indexes(level, tables)
    rows: list[Columns] = []
    for i in range(len(names)):
        mine = np.flatnonzero((group == i) & stored)
        chunks = np.stack((-1 - values[mine, 0], values[mine, 1], values[mine, 2], at[mine]), axis=1)
        end = int(sizes[i] + lengths[mine].sum())
        index = np.array([(len(buffers), i * indexes.shape[1], indexes.shape[1], end if level.at_end else 0)], np.int64)
        rows.append(np.concatenate((chunks, index)))
    empty = np.flatnonzero((tables[:, :, 0] < 0).all(axis=1)).tolist()
    heads = np.full(len(names), 0 if level.at_end else indexes.shape[1], np.int64)
    return _changed(access, names, rows, [*buffers, indexes.reshape(-1)], heads, versions, empty, journal=True)


def overwrite_chunks(
    access: Access,
    names: Sequence[str],
    versions: Sequence[Version | None],
    entries: Columns,
    group: Columns,
    values: Columns,
    buffers: Sequence[Buffer],
) -> tuple[list[int], list[int]]:
    """Writes inner chunks over the old ones. entries: int64[n, 2], start and length of each old one. Others, and answers, as append_chunks; a shard in which one is missing is to be
    replaced whole."""
    fits = (entries[:, 0] >= 0) & (entries[:, 1] == values[:, 2])
    whole = sorted(set(group[~fits].tolist()))
    rows = [
        np.stack((-1 - values[mine, 0], values[mine, 1], values[mine, 2], entries[mine, 0]), axis=1)
        for mine in (np.flatnonzero(group == i) for i in range(len(names)))
    ]
    heads = np.zeros(len(names), np.int64)
    return _changed(access, names, rows, buffers, heads, versions, whole, journal=False)


def _changed(
    access: Access,
    names: Sequence[str],
    rows: list[Columns],
    buffers: Sequence[Buffer],
    heads: Columns,
    versions: Sequence[Version | None],
    whole: list[int],
    *,
    journal: bool,
) -> tuple[list[int], list[int]]:
    """whole: shards that are left to be replaced whole."""
    store = getattr(access.storage, "store", None)
    root = store.kernel_root() if isinstance(store, LocalStore) else None
    kept = [i for i in range(len(names)) if i not in set(whole)]
    if root is None or not isinstance(store, LocalStore) or not kept:
        return [], list(range(len(names)))
    offsets = np.concatenate(([0], np.cumsum([len(rows[i]) for i in kept])))
    table = np.ascontiguousarray(np.concatenate([rows[i] for i in kept]))
    changes = Changes(
        [names[i] for i in kept],
        buffers,
        table,
        offsets,
        np.ascontiguousarray(heads[kept]),
        [versions[i] for i in kept],
    )
    changed, others = change_files(root, changes, journal=journal, sync=store.sync)
    return [kept[i] for i in changed], sorted([*whole, *(kept[i] for i in others)])
