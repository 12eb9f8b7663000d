"""Fetches of more objects than may be open together, for stores that read the bytes of each into memory and then close it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from frazil.stores.values import MISSING, OPEN_AT_ONCE, Columns, Fetched, Sources, Version, Versions

if TYPE_CHECKING:
    from frazil.stores.values import SourceBuffer

Fetch = Callable[[Sequence[str], Columns, Versions | None], Fetched]


def pages_of(count: int) -> list[Columns]:
    """The rows of `count` names, in parts of those that may be open."""
    return [np.arange(low, min(low + OPEN_AT_ONCE, count)) for low in range(0, count, OPEN_AT_ONCE)]


def fetch_in_pages(
    fetch: Fetch,
    names: Sequence[str],
    spans: Columns,
    expect: Versions | None,
    pages: Sequence[Columns],
) -> Fetched:
    """fetch(names, spans, expect), page by page; a page is rows of names. `fetch` must return buffers. The answer of several pages cannot be continued."""
    if len(pages) < 2:
        return fetch(names, spans, expect)
    buffers: list[SourceBuffer] = []
    status = [0] * len(names)
    versions: list[Version | None] = [None] * len(names)
    version_may_repeat = [False] * len(names)
    sizes = np.empty(len(names), np.int64)
    rows = np.empty((len(spans), 3), np.int64)
    position = np.empty(len(names), np.int64)
    for page in pages:
        part = page.tolist()
        position[:] = -1
        position[page] = np.arange(len(page))
        of_part = position[spans[:, 0]] >= 0
        part_spans = spans[of_part]
        part_spans[:, 0] = position[part_spans[:, 0]]
        expected = None if expect is None else [expect[row] for row in part]
        fetched = fetch([names[row] for row in part], part_spans, expected)
        found = fetched.rows.copy()
        found[(found[:, 0] != MISSING), 0] -= len(buffers)
        rows[of_part] = found
        buffers += fetched.sources.buffers
        sizes[page] = fetched.sizes
        for i, row in enumerate(part):
            status[row], versions[row] = fetched.status[i], fetched.versions[i]
            version_may_repeat[row] = bool(fetched.version_may_repeat and fetched.version_may_repeat[i])
        del fetched  # and with it the files that it may hold
    return Fetched(
        Sources(None, buffers),
        status,
        versions,
        sizes,
        rows,
        version_may_repeat if True in version_may_repeat else None,
    )
