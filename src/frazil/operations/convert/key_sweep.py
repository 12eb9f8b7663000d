"""Lists the keys of a hierarchy once and classifies them: chunks array by array, in columns, and keys that belong to no node. Reads and writes no values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from frazil.base.record import Record
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.operations.convert.hierarchy_keys import Claims, Hierarchy
from frazil.stores.store import Store
from frazil.stores.values import Columns, Page, Version


class Chunks(Record):
    """Stored chunks of one array: keys, and int64[n, d], their coordinates in its grid; from the listing also int64[n], their sizes, and their versions, where
    looking them up would take a request for each (else None)."""

    path: str
    keys: list[str]
    coords: Columns
    sizes: Columns | None = None
    versions: list[Version | None] | None = None

    def sizes_in(self, store: Store) -> Columns:
        """The sizes, as they are in the store that was listed."""
        return store.sizes(self.keys) if self.sizes is None else self.sizes


class Sweep:
    """Iterates over the stored chunks of a hierarchy. stray_count: the number of keys below its root, so far, that are neither its documents or chunks nor
    those of `others`, which have the same location."""

    def __init__(
        self,
        store: Store,
        hierarchy: Hierarchy,
        nodes: Mapping[str, Metadata],
        others: Claims | None = None,
        on_stray: Callable[[str], object] | None = None,
    ) -> None:
        self._store, self._hierarchy, self._nodes = store, hierarchy, nodes
        self._claims, self._others, self._on_stray = Claims(hierarchy, nodes), others, on_stray
        self.stray_count = 0

    def __iter__(self) -> Iterator[Chunks]:
        # an array without dimensions may have its chunk under either of two keys. Not with their pages, which have keys of many others
        scalars: dict[str, list[tuple[str, int, Version | None]]] = {}
        details = not self._store.capabilities.direct
        for page in self._store.list_pages(self._hierarchy.root, details=details):
            path, rows, coords = "", list[int](), list[tuple[int, ...]]()
            for row, key in enumerate(page.keys):
                found = self._claims.chunk(key)
                if found is None:
                    self._is_stray(key)
                    continue
                if not found[1]:
                    of_one = (
                        (0, None)
                        if page.sizes is None or page.versions is None
                        else (page.sizes.item(row), page.versions[row])
                    )
                    scalars.setdefault(found[0], []).append((key, *of_one))
                    continue
                if found[0] != path and rows:
                    yield _chunks(path, page, rows, coords)
                    rows, coords = [], []
                path = found[0]
                rows.append(row)
                coords.append(found[1])
            if rows:
                yield _chunks(path, page, rows, coords)
        for path, candidates in scalars.items():
            keys, sizes, versions = map(list, zip(*candidates, strict=True))
            page = Page(keys, None, np.array(sizes, np.int64), versions) if details else Page(keys)
            yield _chunks(path, page, [keys.index(self._scalar(path, keys))], [()])

    def _is_stray(self, key: str) -> None:
        others = self._others
        if self._claims.is_document(key) or (others and (others.is_document(key) or others.chunk(key))):
            return
        self._count(key)

    def _count(self, key: str) -> None:
        self.stray_count += 1
        if self._on_stray is not None:
            self._on_stray(key)

    def _scalar(self, path: str, keys: list[str]) -> str:
        """The key that is read: the encoding's own key, if it exists."""
        node = self._nodes[path]
        assert isinstance(node, ArrayMetadata)
        own = node.chunk_key_encoding.encode_one((), self._hierarchy.data_prefix(path))
        chosen = own if own in keys else keys[0]
        for key in keys:
            if key != chosen:
                self._count(key)
        return chosen


def _chunks(path: str, page: Page, rows: list[int], coords: list[tuple[int, ...]]) -> Chunks:
    keys = [page.keys[row] for row in rows]
    chunks = Chunks(path, keys, np.array(coords, np.int64).reshape(len(keys), -1 if coords[0] else 0))
    if page.sizes is None or page.versions is None:
        return chunks
    return chunks._replace(sizes=page.sizes[rows], versions=[page.versions[row] for row in rows])
