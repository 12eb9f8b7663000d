"""The keys of a hierarchy in its store, in one dialect: keys of documents and chunks, and the node of each key. Pure.

Paths here are relative to the root of the hierarchy, also where those of the layout are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from frazil.base.record import Record
from frazil.metadata.layout import Layout
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.metadata.paths import join
from frazil.stores.keys.names import check_prefix

ENTRY_NAME: Final = "zarr.json"
JOURNAL_NAME: Final = "__frazil_convert.json"  # no node has a name with this beginning, and no dialect reads this key


class Hierarchy(Record):
    """root: the prefix of all keys, "" or ending in "/"; layout: of the keys below it."""

    root: str
    layout: Layout

    @property
    def entry_key(self) -> str:
        """The document that determines the dialect of the hierarchy: the entry point of the draft, the root node of the final Zarr v3, the root group of Zarr
        v2."""
        return self.root + (".zgroup" if self.layout.zarr_format == 2 else ENTRY_NAME)

    @property
    def journal_key(self) -> str:
        return self.root + JOURNAL_NAME

    def at(self, path: str) -> str:
        """The path for the layout: from the root of the store in final Zarr v3 and in Zarr v2."""
        return join(self.root[:-1], path) if self.layout.zarr_format in (2, 3) else path

    def inside(self, path: str) -> str:
        """Undoes `at`."""
        above = len(self.root) if self.layout.zarr_format in (2, 3) else 0
        return path[above:]

    def document_key(self, path: str, node: Metadata) -> str:
        return self.layout.document_key(self.at(path), type(node))

    def data_prefix(self, path: str) -> str:
        return self.layout.data_prefix(self.at(path))


class Claims:
    """Assigns keys to documents and to chunks of arrays."""

    __slots__ = ("_arrays", "_depth", "_documents", "_folders", "_last")

    def __init__(self, hierarchy: Hierarchy, nodes: Mapping[str, Metadata]) -> None:
        self._documents = {hierarchy.entry_key, hierarchy.journal_key}
        self._documents.update(
            hierarchy.document_key(path, node) for path, node in nodes.items() if not getattr(node, "implicit", False)
        )
        for path in nodes:
            at = hierarchy.at(path)
            self._documents.update(filter(None, (hierarchy.layout.attributes_key(at), hierarchy.layout.copies_key(at))))
        self._arrays: dict[str, tuple[str, ArrayMetadata, tuple[int, ...]]] = {}
        for path, node in nodes.items():
            if isinstance(node, ArrayMetadata):
                prefix = hierarchy.data_prefix(path)
                check_prefix(prefix)
                self._arrays[prefix] = path, node, node.grid_shape
        self._folders = {folder for key in [*self._documents, *self._arrays] for folder in _above(key)}
        self._depth = max((array.ndim for _, array, _ in self._arrays.values()), default=0)
        self._last = ""

    def is_document(self, key: str) -> bool:
        return key in self._documents

    def chunk(self, key: str) -> tuple[str, tuple[int, ...]] | None:
        """The array, and the coordinates in its grid, of the chunk with this key; None for any other key."""
        prefix = self._last if self._last and key.startswith(self._last) else self._prefix(key)
        found = self._arrays.get(prefix)
        if found is None:
            return None
        self._last = prefix
        path, array, grid_shape = found
        at = array.chunk_key_encoding.decode(key[len(prefix) :], array.ndim)
        if at is None or any(i >= n for i, n in zip(at, grid_shape, strict=True)):
            return None
        return path, at

    def meets(self, key: str) -> bool:
        """Whether a key conflicts with the keys of the hierarchy: it is equal to one, it is the folder of one, or one of them is its folder, as no file system
        has both."""
        if key in self._folders or any(map(self._is_one, [key, *_above(key)])):
            return True
        return any(self.chunk(key + "/0" * levels) for levels in range(1, self._depth + 1))

    def _is_one(self, key: str) -> bool:
        return self.is_document(key) or self.chunk(key) is not None

    def _prefix(self, key: str) -> str:
        """The longest prefix of an array with which the key begins."""
        end = key.rfind("/")
        while end >= 0:
            if key[: end + 1] in self._arrays:
                return key[: end + 1]
            end = key.rfind("/", 0, end)
        return ""


def _above(key: str) -> Iterator[str]:
    """The folders that contain a key or a prefix."""
    end = key.rfind("/")
    while end > 0:
        yield key[:end]
        end = key.rfind("/", 0, end)
