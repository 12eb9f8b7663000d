"""Small chunks asked for whole, where a request takes longer than the rest of the chunk: of a small shard the index and the inner chunks then come as one.

Pure, over columns. Only for storages that remember what they fetched (stores/caches/chunk_cache.py): the second look into the shard finds it there."""

from __future__ import annotations

from typing import Final

import numpy as np

from frazil.stores.array_storage.chunk_storage import STORED, Located
from frazil.stores.values import MISSING, Columns, clip_spans

__all__ = ["SMALL", "cut_rows", "whole_spans"]

SMALL: Final = 2**16  # bytes of a chunk that is fetched whole


def whole_spans(located: Located, spans: Columns) -> Columns | None:
    """The spans, int64[n, 3] (row of located, start, length), those in small chunks as the whole chunk; None where there are none such."""
    row = spans[:, 0]
    length = located.length[row]
    small = (located.kind[row] == STORED) & (length > 0) & (length <= SMALL)
    small &= (spans[:, 1] != 0) | (spans[:, 2] != length)
    if not small.any():
        return None
    whole = spans.copy()
    whole[small, 1], whole[small, 2] = 0, length[small]
    return whole


def cut_rows(located: Located, spans: Columns, whole: Columns, rows: Columns) -> Columns:
    """The rows of `spans`, from those that were fetched for `whole`."""
    changed = np.flatnonzero((whole != spans).any(axis=1) & (rows[:, 0] != MISSING))
    start, length = clip_spans(spans[changed, 1], spans[changed, 2], located.length[spans[changed, 0]])
    cut = rows.copy()
    cut[changed, 1] += start
    cut[changed, 2] = length
    return cut
