"""The served documents of groups. They have consolidated metadata of the present hierarchy, since clients cannot list the keys below a URL."""

from __future__ import annotations

import time
from collections.abc import Callable
from errno import ELOOP, EXDEV
from hashlib import blake2b
from threading import Lock
from typing import Final

from frazil.array.hierarchy.consolidated import documents_below, emit_copies
from frazil.array.hierarchy.nodes import NodeLocation, find_node
from frazil.base.record import Record
from frazil.errors import DataError, InvalidInputError, StoreError
from frazil.metadata.json_text import dump_json
from frazil.metadata.model import GroupMetadata
from frazil.metadata.paths import split
from frazil.metadata.v2 import layout as v2_layout
from frazil.metadata.v3.documents import DOCUMENT_NAME
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.store import Store

LINKS: Final = frozenset(
    {ELOOP, EXDEV}
)  # errors of links in place of files or folders, which are not followed: they may lead out of a served folder
_MOST: Final = 10_000  # nodes below a group; the document of a larger one is served as it is stored
_V2_COPIES: Final = ".zmetadata"
_REMEMBERED: Final = 16  # documents


class _Made(Record):
    """A document that was made. number: counts documents; group: its group; moment: when it was finished"""

    number: int
    store: Store
    group: GroupMetadata
    document: bytes | None
    moment: float


class ConsolidatedDocuments:
    """The documents of the groups of a store. Safe to use from many threads. One thread at a time lists and reads the nodes below a group.

    every  seconds for which the nodes below a group are not looked up again, as 10,000 nodes cost as many reads; 0: look up for each request. A thread that
           waited uses a document that was begun meanwhile. Documents of a snapshot never change, and are kept longer
    clock  returns seconds"""

    __slots__ = ("_begun", "_cache", "_clock", "_every", "_listing", "_recent")

    def __init__(self, every: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._every, self._clock = every, clock
        self._cache: dict[tuple[str, object], bytes | None] = {}
        self._listing = Lock()
        self._begun = 0  # number of documents that were begun
        self._recent: dict[str, _Made] = {}  # by key

    def document(self, store: Store, key: str) -> bytes | None:
        """The document to serve under a key instead of the stored value, also for the `.zmetadata` of groups of Zarr v2. None where the stored value is served:
        for all other keys, and if the nodes below cannot be listed, are too many, or have documents that are links or not JSON. Raises StoreError."""
        name = key.rpartition("/")[2]
        if name not in (DOCUMENT_NAME, _V2_COPIES) or not store.capabilities.listable:
            return None
        if not isinstance(store, NodeStore):
            return self._current_document(store, key)
        cache = self._cache
        location = (key, store.nodes.version)
        if location not in cache:
            if len(cache) >= _REMEMBERED:
                self._cache = cache = {}
            cache[location] = self._current_document(store, key)
        return cache[location]

    def _current_document(self, store: Store, key: str) -> bytes | None:
        """The document: a recent one, or one that is made now, by this thread or by another that began after this call."""
        came = self._begun
        path, name = split(key)
        location = (
            NodeLocation(store, path) if name == DOCUMENT_NAME else NodeLocation(store, path, layout=v2_layout.V2)
        )
        try:
            group = find_node(location)
            if not isinstance(group, GroupMetadata):
                return None
            document = self._usable(store, key, group, came)
            if document is not None:
                return document.document
            with self._listing:
                document = self._usable(store, key, group, came)
                if document is None:
                    self._begun = number = self._begun + 1
                    document = _Made(number, store, group, _document(location, group, name), self._clock())
                    recent = {} if len(self._recent) >= _REMEMBERED else self._recent
                    self._recent = {**recent, key: document}
                return document.document
        except (DataError, InvalidInputError):
            return None
        except StoreError as error:
            if error.errno not in LINKS or error.key == key:
                raise
            return None

    def _usable(self, store: Store, key: str, group: GroupMetadata, came: int) -> _Made | None:
        """A document of the unchanged group that was begun after number `came`, or finished within the last `every` seconds."""
        document = self._recent.get(key)
        if document is None or document.store is not store or document.group != group:
            return None
        return document if document.number > came or self._clock() < document.moment + self._every else None


def _document(location: NodeLocation, group: GroupMetadata, name: str) -> bytes | None:
    copies = documents_below(location, _MOST)
    if copies is None:
        return None
    if name == _V2_COPIES:
        return dump_json(emit_copies(location, copies), 4)
    return location.layout.emit(group.with_consolidated(emit_copies(location, copies)))


def etag_of(key: str, document: bytes) -> str:
    """The ETag of a document, with quotes."""
    return f'"{blake2b(key.encode() + bytes(1) + document, digest_size=16).hexdigest()}"'
