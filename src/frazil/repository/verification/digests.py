"""Compares the bytes of chunk files with their digests, which the ids of the files end in: on several threads, and without decoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil import _kernel
from frazil.base.threads import Threads
from frazil.errors import AccessError
from frazil.formats.ids import CRC_BYTES, encode_ids
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.id_columns import octets
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.verification.references import DIFFERS, UNREAD, ChunkFiles
from frazil.stores.values import Columns

_BATCH_BYTES: Final = 2**24  # bytes of files that one thread reads at once
_FILES: Final = 256


def check_digests(files: RepositoryFormat, chunk_files: ChunkFiles, threads: int, progress: Progress) -> None:
    """Marks the referenced files whose bytes are not those that were written, or cannot be read. Raises StoreError."""
    rows = np.flatnonzero(chunk_files.used)
    batches = list(_batches(rows, chunk_files.sizes))
    with Threads(threads, "frazil digests") as pool:
        results = [pool.submit(_differ_from_digest, files, chunk_files, batch) for batch in batches]
        for batch, wrong in zip(batches, results, strict=True):
            chunk_files.read_faults[batch] = wrong.result()
            progress("chunk files read", len(batch))


def _batches(rows: Columns, sizes: Columns) -> Iterator[Columns]:
    low = 0
    while low < len(rows):
        ends = sizes[rows[low : low + _FILES]].cumsum()
        count = max(int(ends.searchsorted(_BATCH_BYTES, "right")), 1)
        yield rows[low : low + count]
        low += count


def _differ_from_digest(files: RepositoryFormat, chunk_files: ChunkFiles, batch: Columns) -> NDArray[np.int8]:
    """int8[n]: DIFFERS for files whose bytes differ from the digest in their id, UNREAD for those that cannot be read. A file that was deleted meanwhile is
    0: the check of the listing reports it."""
    try:
        return _compared(files, chunk_files, batch)
    except AccessError:
        if len(batch) == 1:
            return np.full(1, UNREAD, np.int8)
        return np.concatenate([_differ_from_digest(files, chunk_files, part) for part in np.split(batch, len(batch))])


def _compared(files: RepositoryFormat, chunk_files: ChunkFiles, batch: Columns) -> NDArray[np.int8]:
    ids = octets(chunk_files.ids[batch])
    keys = [files.key(f"chunks/{text}") for text in encode_ids(ids)]
    if len(batch) == 1 and chunk_files.sizes[batch[0]] > _BATCH_BYTES:
        sums = [_sum_in_parts(files, keys[0], int(chunk_files.sizes[batch[0]]))]
    else:
        sums = [None if data is None else _kernel.crc32c(data) for data in files.store.get_many(keys, largest=None)]
    expected = np.ascontiguousarray(ids[:, -CRC_BYTES:]).view(">u4").reshape(-1).tolist()
    differ = [found is not None and found != digest for found, digest in zip(sums, expected, strict=True)]
    return np.array(differ, np.int8) * DIFFERS


def _sum_in_parts(files: RepositoryFormat, key: str, size: int) -> int | None:
    total = 0
    for start in range(0, size, _BATCH_BYTES):
        (data,) = files.store.get_partial_values([(key, (start, min(_BATCH_BYTES, size - start)))])
        if data is None:
            return None
        total = _kernel.crc32c(data, total)
    return total
