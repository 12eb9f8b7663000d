"""Pages of listings, in columns, and what stores make them of. How a store finds its keys is in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.record import Record
from frazil.stores.values import Columns, Fetched, Version

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NOTHING", "PAGE", "Page", "first_level", "page_of", "with_details"]

PAGE: Final = 2**16  # rows of a page, where a listing begins anew with each page
_LOOKED_UP: Final = 256  # objects that are looked up in one call, where a listing does not say more than keys
_NO_SPANS: Final[Columns] = np.zeros((0, 3), np.int64)


class Page(Record):
    """A page of a listing, a row for each key or prefix.

    keys      sorted by their UTF-8 bytes; those that end in "/" are prefixes, which have keys below them
    next      `after` of the next page; None: the listing ends here. There need not be anything on the next page
    sizes     int64, bytes of each value; -1 of a prefix, and of a value that has gone meanwhile
    versions  of each value; None of a prefix, and where the store lists none
    modified  int64, when each value was stored, ns since 1970; -1 where that is not known
    The last three are None where no details were asked for."""

    keys: Sequence[str]
    next: str | None = None
    sizes: Columns | None = None
    versions: Sequence[Version | None] | None = None
    modified: Columns | None = None

    def prefixes(self) -> NDArray[np.bool_]:
        """Which rows are prefixes, bool[n]."""
        return np.fromiter((key[-1] == "/" for key in self.keys), np.bool_, len(self.keys))


NOTHING: Final = Page((), None, np.zeros(0, np.int64), (), np.zeros(0, np.int64))


def page_of(rows: Iterable[str], after: str, limit: int | None) -> Page:
    """A page of sorted rows: those after a text, as many as `limit` says at most. No more rows are taken than that."""
    found = list(islice((row for row in rows if row > after), limit))
    return Page(found, found[-1] if found and len(found) == limit else None)


def first_level(keys: Iterable[str], prefix: str) -> Iterator[str]:
    """The rows directly below a prefix: of sorted keys that begin with it, those without a slash behind it, and what the others have up to that slash."""
    last = "/"
    for key in keys:
        slash = key.find("/", len(prefix))
        if slash < 0:
            yield key
        elif not key.startswith(last):
            last = key[: slash + 1]
            yield last


def with_details(page: Page, fetch: Callable[[Sequence[str], Columns], Fetched]) -> Page:
    """The page with its last columns, of a store whose listing says no more than keys: each value is looked up."""
    count = len(page.keys)
    sizes = np.full(count, -1, np.int64)
    versions: list[Version | None] = [None] * count
    rows = np.flatnonzero(~page.prefixes())
    for low in range(0, len(rows), _LOOKED_UP):
        part = rows[low : low + _LOOKED_UP]
        fetched = fetch([page.keys[row] for row in part.tolist()], _NO_SPANS)
        sizes[part] = fetched.sizes
        for row, version in zip(part.tolist(), fetched.versions, strict=True):
            versions[row] = version
    return page._replace(sizes=sizes, versions=versions, modified=np.full(count, -1, np.int64))
