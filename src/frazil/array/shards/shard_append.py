"""Changes shards in place: decides which shards qualify, and which bytes are written (docs/design/044-shards-in-place.md).

shard_options.py checks the options when an array is opened. stores/local/appended_shards.py changes and restores the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.array.access import Access
from frazil.array.shards.shard_indexes import FILE_VERSION, IndexTables, file_versions
from frazil.array.shards.shard_objects import BlobTable
from frazil.base.arrays import Columns, Flags, distinct, offsets_of
from frazil.base.record import Record
from frazil.codecs.sharding.shard import encode_indexes
from frazil.errors import ChecksumError, FormatError, FrazilError
from frazil.indexing.points import Chunks
from frazil.stores.local.appended_shards import (
    COPIED_HINT,
    COPIED_TORN,
    Answers,
    Changes,
    change_files,
    restore_files,
    was_copied,
)
from frazil.stores.local.local_store import LocalStore
from frazil.stores.values import Versions

if TYPE_CHECKING:
    from frazil._kernel import Buffer


Encode: TypeAlias = Callable[[BlobTable], Columns]  # encodes all chunks into blobs, as write.Part does

_WASTE: Final = 0.5  # the part of a shard's bytes that may be unused before it is rewritten


class Shards(Record):
    """Existing shards. coords: int64[m, d];  names: of their files;  sizes: int64[m], in bytes;  tables: int64[m, total, 2], copies of their indexes, which
    become the new ones"""

    coords: Columns
    names: Sequence[str]
    sizes: Columns
    versions: Versions
    tables: Columns


def restore_shards(access: Access, names: Sequence[str]) -> bool:
    """Restores shards whose append was interrupted, and waits for their writers. Returns whether reading them again may give another result."""
    files = access.storage.kernel_files(lambda: np.zeros((0, 0), np.int64)) if access.chain.levels else None
    if files is None or files.names is None:
        return False
    restored, forbidden = restore_files(files.root, names)
    return restored or forbidden


def explained(access: Access, error: FrazilError | MemoryError) -> FrazilError | MemoryError:
    """The error for a shard index that cannot be read; it says so if the file was copied during an append."""
    if isinstance(error, ChecksumError | FormatError) and error.key is not None and access.chain.levels:
        files = access.storage.kernel_files(lambda: np.zeros((0, 0), np.int64))
        if files is not None and files.names is not None and was_copied(files.root, error.key):
            error.message, error.hint = f"{error.message}: {COPIED_TORN}", COPIED_HINT
    return error


def is_worth_appending(
    access: Access,
    sizes: Columns,
    versions: Versions,
    tables: Columns,
    slot: Columns,
    group: Columns,
    number: Columns,
) -> Flags:
    """bool[m]: the existing shards that would not have too many unused bytes if the inner chunks (group, number) were written behind their end.

    sizes: int64[m], bytes of each shard;  tables, slot: as in a Step"""
    files = [version is not None and len(version) == FILE_VERSION for version in versions]
    worth = np.asarray((slot >= 0) & np.array(files, np.bool_), np.bool_)
    if access.options.shard_writes == "in_place" or not len(tables):
        return worth
    level = access.chain.levels[0]
    lengths = np.maximum(tables[slot, :, 1], 0)  # of any table where there is none
    replaced = np.bincount(group, lengths[group, number], len(slot))
    old_index = 0 if level.at_end else level.index_codecs.nbytes
    unused = sizes - old_index - lengths.sum(axis=1) + replaced
    return np.asarray(worth & (unused <= _WASTE * sizes), np.bool_)


def append_remembered(
    access: Access,
    chunks: Chunks,
    coords: Columns,
    names: Sequence[str],
    encode: Encode,
    confirm: Callable[[], None],
) -> tuple[list[int], list[int]] | None:
    """Writes inner chunks behind the ends of shards without reading: their indexes must be remembered, and all inner chunks written whole. None, with nothing
    written, for any other write.

    chunks: of the shards at `coords`, which have these names;  confirm: as write.Source.confirm. Returns as change_chunks. Measurements show the benefit: an
    append of a step takes half of the time outside the kernel."""
    if access.indexes is None or not access.indexes.by_coordinates:
        return None
    found = access.indexes.find(list(map(tuple, coords.tolist()))) or ()
    slots = [slot for slot in found if slot is not None]
    versions = [cached.version(row) for cached, row in slots]
    columns = file_versions(versions)
    if len(slots) < len(coords) or columns is None:
        return None
    level = access.chain.levels[0]
    tables = np.concatenate([cached.tables[row : row + 1] for cached, row in slots])
    sizes = columns[:, 1]
    group = chunks.shard_rows()
    number = chunks.numbers([1] * len(level.counts), level.counts, level.strides)
    if ((tables[group, number, 0] >= 0) & ~chunks.whole()).any():
        return None
    if not is_worth_appending(access, sizes, versions, tables, np.arange(len(slots)), group, number).all():
        return None
    blobs = BlobTable()
    values = encode(blobs)
    confirm()
    shards = Shards(coords, names, sizes, versions, tables)
    return change_chunks(access, shards, group, number, values, blobs.buffers)


def change_chunks(
    access: Access, shards: Shards, group: Columns, number: Columns, values: Columns, buffers: Sequence[Buffer]
) -> tuple[list[int], list[int]]:
    """Writes inner chunks according to the options of the array, and remembers the new indexes. Returns the shards that had another version, and those that
    must be replaced whole instead.

    group, number: int64[n] of each inner chunk, group ascending;  values: int64[n, 3], its bytes in `buffers`, length -1 where it is empty"""
    change = _append if access.options.shard_writes == "append" else _overwrite
    answers = change(access, shards, group, number, values, buffers)
    if access.indexes is not None and access.indexes.by_coordinates:
        for i, name in enumerate(map(tuple, shards.coords.tolist())):
            if answers.versions[i, 1] >= 0:
                access.indexes.put([name], IndexTables(shards.tables[i : i + 1], answers.versions[i : i + 1]))
            else:
                access.indexes.drop([name])
    return answers.changed, answers.whole


def _append(
    access: Access, shards: Shards, group: Columns, number: Columns, values: Columns, buffers: Sequence[Buffer]
) -> Answers:
    """Writes inner chunks behind the ends of shards, then the indexes; a shard that becomes empty must be replaced whole."""
    level = access.chain.levels[0]
    stored = values[:, 2] >= 0
    lengths = np.maximum(values[:, 2], 0)
    ends = offsets_of(lengths)
    first = group.searchsorted(np.arange(len(shards.names) + 1))
    before = ends[first]
    chunks = np.empty((len(values), 4), np.int64)
    chunks[:, 0] = -1 - values[:, 0]
    chunks[:, 1:3] = values[:, 1:]
    chunks[:, 3] = np.where(stored, ends[:-1] + (shards.sizes - before[:-1])[group], -1)
    shards.tables[group, number] = chunks[:, 3:1:-1]
    indexes = encode_indexes(level, shards.tables)
    rows: list[Columns] = []
    for i, end in enumerate((shards.sizes + before[1:] - before[:-1]).tolist()):
        shard_chunks = slice(first[i], first[i + 1])
        index = np.array([(len(buffers), i * indexes.shape[1], indexes.shape[1], end if level.at_end else 0)], np.int64)
        rows.append(np.concatenate((chunks[shard_chunks][stored[shard_chunks]], index)))
    empty = np.flatnonzero((shards.tables[:, :, 0] < 0).all(axis=1)).tolist()
    head = 0 if level.at_end else indexes.shape[1]
    return _changed(access, shards, rows, [*buffers, indexes.reshape(-1)], head, empty)


def _overwrite(
    access: Access, shards: Shards, group: Columns, number: Columns, values: Columns, buffers: Sequence[Buffer]
) -> Answers:
    """Writes inner chunks over the old ones, as _append; a shard must be replaced whole if an inner chunk is missing or has another length, or if two share
    bytes."""
    entries = shards.tables[group, number]
    fits = (entries[:, 0] >= 0) & (entries[:, 1] == values[:, 2])
    chunks = np.stack((-1 - values[:, 0], values[:, 1], values[:, 2], entries[:, 0]), axis=1)
    rows = [chunks[group == i] for i in range(len(shards.names))]
    starts, longest = np.sort(shards.tables[:, :, 0], axis=1), shards.tables[:, :, 1].max(axis=1, keepdims=True)
    common = ((np.diff(starts, axis=1) < longest) & (starts[:, :-1] >= 0)).any(axis=1)
    whole = distinct(np.append(group[~fits], np.flatnonzero(common))).tolist()
    return _changed(access, shards, rows, buffers, 0, whole)


def _changed(
    access: Access,
    shards: Shards,
    rows: list[Columns],
    buffers: Sequence[Buffer],
    head: int,
    whole: list[int],
) -> Answers:
    """rows, buffers, head: as in Changes, rows by shard;  whole: shards that must be replaced whole."""
    store, count = getattr(access.storage, "store", None), len(rows)
    root = store.kernel_root() if isinstance(store, LocalStore) else None
    versions = np.full((count, 3), -1, np.int64)
    some = [i for i in range(count) if i not in whole]
    if root is None or not isinstance(store, LocalStore) or not some:
        return Answers([], list(range(count)), versions)
    changes = Changes(
        [shards.names[i] for i in some],
        buffers,
        np.concatenate([rows[i] for i in some]),
        offsets_of(np.array([len(rows[i]) for i in some], np.int64)),
        np.full(len(some), head, np.int64),
        [shards.versions[i] for i in some],
    )
    answers = change_files(root, changes, journal=access.options.shard_writes == "append", sync=store.sync)
    versions[some] = answers.versions
    return Answers([some[i] for i in answers.changed], sorted([*whole, *(some[i] for i in answers.whole)]), versions)
