"""An object of a store as a file that is open for reading: bytes are requested by ranges, as they are read, and never the whole object.

For libraries that need a file, such as h5py. Bytes near each other are cached in pages; parts that are not read are not fetched."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np

from frazil.errors import FrazilError, NotFoundError, StoreError
from frazil.integrations.files.sources.positioned_file import PositionedFile
from frazil.stores.store import Store
from frazil.stores.transfer.content import read_values
from frazil.stores.values import FOUND, NO_SPANS, Version

PAGE: Final = 2**16  # smallest request in bytes
_MAX_PREFETCH: Final = 16  # most pages that are prefetched when a file is read sequentially
_CACHED_PAGES: Final = 2**9  # pages
_LARGE: Final = 2**20  # bytes of a read that is not cached, as data is read once; and of a file that is not small


class RangedFile(PositionedFile):
    """A value of a store, read by ranges, all of one version. One reader at a time.

    size, version  of the object when it was opened
    requests       number of requests so far, and bytes_read by them
    failure        the error of the store: a library that reads this file may have converted it to another one
    """

    def __init__(self, store: Store, key: str, name: str) -> None:
        """name: for messages. Raises NotFoundError if the object does not exist, StoreError."""
        super().__init__()
        self._store, self._keys, self.name = store, [key], name
        self._pages: dict[int, bytes] = {}  # in order of use, the most recent last
        self._next, self._prefetch_count = -1, 1  # the page behind those fetched last, and the number to fetch next
        self.failure: FrazilError | None = None
        self.requests, self.bytes_read = 1, 0
        self.size, self.version = _look_up(store, key, name)

    def read_at(self, start: int, length: int) -> bytes | memoryview:
        try:
            return self._bytes(start, length)
        except FrazilError as error:
            self.failure = error
            raise

    # --- pages ---------------------------------------------------------------------------------------------------------------------

    def _bytes(self, start: int, length: int) -> bytes | memoryview:
        """Bytes of the object, all of them inside it."""
        if length >= _LARGE:
            return self._fetch([(start, length)])[0]
        first, last = start // PAGE, (start + length - 1) // PAGE
        pages = range(first, last + 1)
        if any(page not in self._pages for page in pages):
            self._load([page for page in pages if page not in self._pages])
        for page in pages:  # moves them to the end, as the most recently used
            self._pages[page] = self._pages.pop(page)
        found = b"".join([self._pages[page] for page in pages]) if first != last else self._pages[first]
        while len(self._pages) > _CACHED_PAGES:
            del self._pages[next(iter(self._pages))]
        return memoryview(found)[start - first * PAGE :][:length]

    def _load(self, pages: list[int]) -> None:
        """Fetches pages, ascending; also the following ones if the file is read sequentially, and at first all of a small file."""
        self._prefetch_count = min(self._prefetch_count * 2, _MAX_PREFETCH) if pages[0] == self._next else 1
        end = -(-self.size // PAGE)
        if not self._pages and self.size <= _LARGE:
            pages = list(range(end))
        pages += [page for page in range(pages[-1] + 1, pages[-1] + self._prefetch_count) if page < end]
        pages = [page for page in pages if page not in self._pages]
        self._next = pages[-1] + 1
        cuts = [i for i in range(1, len(pages)) if pages[i] != pages[i - 1] + 1]
        runs = [pages[low:high] for low, high in itertools.pairwise([0, *cuts, len(pages)])]
        spans = [(run[0] * PAGE, min((run[-1] + 1) * PAGE, self.size) - run[0] * PAGE) for run in runs]
        for run, found in zip(runs, self._fetch(spans), strict=True):
            for i, page in enumerate(run):
                self._pages[page] = found[i * PAGE : (i + 1) * PAGE]

    def _fetch(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        columns = np.array([(0, start, length) for start, length in spans], np.int64)
        try:
            fetched = self._store.fetch(self._keys, columns, expect=[self.version])
            values = read_values(fetched, self._keys, columns)
        except StoreError as error:
            raise StoreError(
                f"the file cannot be read: {error.message}", errno=error.errno, key=self.name, hint=error.hint
            ) from error
        self.requests += len(spans)
        found = [value for value in values if value is not None]
        if fetched.status[0] != FOUND or [len(value) for value in found] != [length for _, length in spans]:
            raise StoreError("the file changed while it was read", key=self.name, hint="import it again")
        self.bytes_read += sum(map(len, found))
        return found


def _look_up(store: Store, key: str, name: str) -> tuple[int, Version | None]:
    try:
        fetched = store.fetch([key], NO_SPANS)
    except StoreError as error:
        raise StoreError(
            f"the file cannot be read: {error.message}", errno=error.errno, key=name, hint=error.hint
        ) from error
    if fetched.status[0] != FOUND:
        raise NotFoundError("there is no file", key=name, hint="check the URL")
    return int(fetched.sizes[0]), fetched.versions[0]
