"""The keys and values that the suites of stores use. A store that takes any key and any bytes needs no profile; a store of only a Zarr hierarchy, such as that
of a repository's session, has `profile = CHUNK_KEYS` and `profile = DOCUMENT_KEYS` in two test classes:

    class TestChunks(StoreTests):
        profile = CHUNK_KEYS

        def make_store(self) -> Store:
            return my_repository().writable_session("main").store

A profile is a store over the tested one. It maps each key of the suite to a key of Zarr in the same order, and prefixes to prefixes."""

from __future__ import annotations

import json
from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import pairwise
from typing import Final, Unpack

import numpy as np

from frazil.stores.keys.listing import first_level, page_of, with_details
from frazil.stores.keys.names import is_prefix
from frazil.stores.port import FetchOptions
from frazil.stores.store import Store
from frazil.stores.transfer.content import join_pieces, read_values
from frazil.stores.values import (
    ABSENT,
    ANY,
    FOUND,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Page,
    Pieces,
    Sources,
    Version,
    Versions,
    continued,
    object_rows,
    pieces_of,
)
from frazil.stores.wrappers import WrappedStore

_DOCUMENT: Final = "zarr.json"
_MARK: Final = " "  # ends the names of nodes for whole keys: it sorts before "/", so that they come before the keys below a node of that name


class StoreProfile:
    """Any keys, any bytes: the store is tested directly.

    versions_come_back  whether a value that is stored again may get its former version: if versions are derived from values"""

    versions_come_back: bool = False

    def over(self, store: Store) -> Store:
        """The store with the keys and values of the suite."""
        return store


class _ChunkProfile(StoreProfile):
    """Keys of chunks: `a/7` is a chunk of an array of one dimension, `a/b` one of an array without dimensions. The documents of these arrays are set when
    needed, and not listed."""

    def over(self, store: Store) -> Store:
        return _OnChunks(store)


class _DocumentProfile(StoreProfile):
    """Keys of documents, of groups and of arrays, whose attributes are the value: documents are compared by their content."""

    versions_come_back = True

    def over(self, store: Store) -> Store:
        return _OnDocuments(store)


ANY_KEYS: Final = StoreProfile()
CHUNK_KEYS: Final = _ChunkProfile()
DOCUMENT_KEYS: Final = _DocumentProfile()


def _is_number(component: str) -> bool:
    return component.isascii() and component.isdigit() and (component == "0" or component[0] != "0")


# --- the stores that are tested ------------------------------------------------------------------------------------------------------


class _Over(WrappedStore):
    """A store with the keys of a suite over one with keys of Zarr."""

    __slots__ = ()

    @abstractmethod
    def _inner_key(self, key: str) -> str:
        """The key of Zarr for a key of the suite."""

    @abstractmethod
    def _outer_key(self, key: str) -> str | None:
        """Undoes _inner_key; None for a key that is not in the suite."""

    def _inner_prefixes(self, prefix: str) -> list[str]:
        """The beginnings of the keys for a prefix of the suite."""
        return [prefix]

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        if is_prefix(names):
            for inner in self._inner_prefixes(names[0]):
                self.inner.erase_prefix(inner)
            return [None]
        return self.inner.erase_many([self._inner_key(name) for name in names], expect)

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(streams=False, erases_prefixes=True)

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        first = self._inner_key(after) if after and after[-1] != "/" else ""
        keys = merge(*[self._listed(inner, first, limit) for inner in self._inner_prefixes(prefix)])
        page = page_of(first_level(keys, prefix) if delimited else keys, after, limit)
        return with_details(page, self.fetch) if details else page

    def _listed(self, prefix: str, last: str, limit: int | None) -> Iterator[str]:
        """The keys of the suite below a prefix of Zarr, page by page, all sorted by their bytes."""
        following: str | None = last
        while following is not None:
            page = self.inner.list_page(prefix, following, limit=limit)
            keys = [last, *page.keys] if last else page.keys
            assert all(before.encode() < key.encode() for before, key in pairwise(keys))
            assert all(key.startswith(prefix) for key in page.keys)
            yield from [outer for key in page.keys if (outer := self._outer_key(key)) is not None]
            following, last = page.next, page.next or ""


class _OnChunks(_Over):
    """Chunks as arbitrary keys. Numbers at the end of a key are coordinates; the part before them is an array, or the whole key if there are none."""

    __slots__ = ()

    def _array(self, key: str) -> tuple[str, list[str]]:
        """The path of the array, and the coordinates as text."""
        parts = key.split("/")
        first = len(parts)
        while first > 1 and _is_number(parts[first - 1]) and int(parts[first - 1]) < 2**32:
            first -= 1
        return "/".join(parts[:first]) + ("" if first < len(parts) else _MARK), parts[first:]

    def _inner_key(self, key: str) -> str:
        path, coordinates = self._array(key)
        return "/".join([path, "c", *coordinates])

    def _outer_key(self, key: str) -> str | None:
        parts = key.split("/")
        if parts[-1] == _DOCUMENT:
            return None
        first = len(parts)
        while _is_number(parts[first - 1]):
            first -= 1
        return "/".join([*parts[: first - 1], *parts[first:]]).removesuffix(_MARK)

    def _inner_prefixes(self, prefix: str) -> list[str]:
        path, coordinates = self._array(prefix[:-1])
        return [prefix, "/".join([path, "c", *coordinates, ""])] if coordinates else [prefix]

    def fetch(self, names: Sequence[str], spans: Columns, **options: Unpack[FetchOptions]) -> Fetched:
        return self.inner.fetch([self._inner_key(name) for name in names], spans, **options)

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        arrays = {f"{path}/{_DOCUMENT}": len(coordinates) for path, coordinates in map(self._array, names)}
        sizes = self.inner.sizes(list(arrays)).tolist()
        missing = [key for key, size in zip(arrays, sizes, strict=True) if size < 0]
        documents = pieces_of([_array_document([2**32] * arrays[key], {}) for key in missing])
        self.inner.put_many(missing, documents, [ABSENT if self.inner.capabilities.expects else ANY] * len(missing))
        return self.inner.put_many([self._inner_key(name) for name in names], pieces, expect)


class _OnDocuments(_Over):
    """Documents as arbitrary keys and values: keys of an even length are groups, others arrays."""

    __slots__ = ()

    def _inner_key(self, key: str) -> str:
        return f"{key}{_MARK}/{_DOCUMENT}"

    def _outer_key(self, key: str) -> str | None:
        outer = key.removesuffix(f"{_MARK}/{_DOCUMENT}")
        return outer if outer != key else None

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """Whole documents of `inner`, and the spans of their values."""
        inner = None if continue_from is None else continued(continue_from, Fetched)
        keys = [self._inner_key(name) for name in names]
        whole = np.array([(row, 0, -1) for row in range(len(keys))], np.int64).reshape(-1, 3)
        fetched = self.inner.fetch(keys, whole, expect=expect, continue_from=inner)
        values = [b"" if text is None else _value(text) for text in read_values(fetched, keys, whole)]
        found = [state == FOUND for state in fetched.status]
        sizes = np.array(
            [len(value) if is_there else -1 for value, is_there in zip(values, found, strict=True)], np.int64
        )
        rows = object_rows(spans, fetched.status, sizes)
        return fetched._replace(sources=Sources(None, values), sizes=sizes, rows=rows, resume=fetched)

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        documents = [_document(name, value) for name, value in zip(names, join_pieces(pieces), strict=True)]
        return self.inner.put_many([self._inner_key(name) for name in names], pieces_of(documents), expect)


# --- documents -----------------------------------------------------------------------------------------------------------------------


def _document(key: str, value: bytes) -> bytes:
    attributes = {"value": b64encode(value).decode()}
    if len(key) % 2:
        return _array_document([], attributes)
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}).encode()


def _value(document: bytes) -> bytes:
    return b64decode(json.loads(document)["attributes"]["value"])


def _array_document(shape: list[int], attributes: dict[str, str]) -> bytes:
    """A document of an array of bytes, one element in each chunk; stores do not check the content of chunks."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1] * len(shape)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "attributes": attributes,
    }
    return json.dumps(document).encode()
