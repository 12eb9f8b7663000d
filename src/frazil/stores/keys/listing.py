"""Pages of listings for stores (Page is in values.py). How a store finds its keys is in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from frazil.stores.values import NO_SPANS, Columns, Fetched, Page, Version, pages


def page_of(rows: Iterable[str], after: str, limit: int | None) -> Page:
    """A page of sorted rows: at most `limit` rows after a text. No more rows are taken than that."""
    found = list(islice((row for row in rows if row > after), limit))
    return Page(found, found[-1] if found and len(found) == limit else None)


def first_level(keys: Iterable[str], prefix: str) -> Iterator[str]:
    """The rows directly below a prefix, from sorted keys that begin with it: keys without a slash after the prefix, and for the others the part up to that
    slash."""
    last = "/"
    for key in keys:
        slash = key.find("/", len(prefix))
        if slash < 0:
            yield key
        elif not key.startswith(last):
            last = key[: slash + 1]
            yield last


def with_details(page: Page, fetch: Callable[[Sequence[str], Columns], Fetched]) -> Page:
    """The page with its last columns, for a store whose listing returns only keys: each value is looked up."""
    count = len(page.keys)
    sizes = np.full(count, -1, np.int64)
    versions: list[Version | None] = [None] * count
    rows = np.flatnonzero(~page.prefixes())
    for some in pages(rows):
        part = rows[some]
        fetched = fetch([page.keys[row] for row in part.tolist()], NO_SPANS)
        sizes[part] = fetched.sizes
        for row, version in zip(part.tolist(), fetched.versions, strict=True):
            versions[row] = version
    return page._replace(sizes=sizes, versions=versions, modified=np.full(count, -1, np.int64))
