"""Batches of a session's keys, fetched: documents, and the chunks of arrays, each array in one call, all as buffers.

node_store.py finds the nodes of the keys."""

from __future__ import annotations

from collections.abc import Sequence
from errno import ENOENT
from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from frazil.base.record import Record
from frazil.base.retry import READS, attempts, replaced
from frazil.errors import StoreError
from frazil.stores.array_storage.chunk_storage import ChunkStorage, Located
from frazil.stores.transfer.content import as_buffers
from frazil.stores.transfer.fetch_pages import fetch_in_pages
from frazil.stores.values import (
    ABSENT_KEY,
    FOUND,
    NO_SPANS,
    Columns,
    Fetched,
    Sources,
    Version,
    Versions,
    expecting,
    object_rows,
    replaced_between_requests,
)


class DocumentBatch(Record):
    """Some of the names of a fetch, by their rows, and their documents: None for a missing one."""

    rows: Columns
    documents: Sequence[bytes | None]

    def fetch(self, names: Sequence[str], spans: Columns) -> tuple[Batch, Fetched]:
        versions = [None if document is None else digest(document) for document in self.documents]
        status = [ABSENT_KEY if version is None else FOUND for version in versions]
        sizes = np.array([-1 if document is None else len(document) for document in self.documents], np.int64)
        sources = Sources(None, [document or b"" for document in self.documents])
        return self, Fetched(sources, status, versions, sizes, object_rows(spans, status, sizes))


class ChunkBatch(Record):
    """Some of the names of a fetch, by their rows, and the chunks of one array under them: coords is int64[n, d]. held: their places, and the answer."""

    rows: Columns
    storage: ChunkStorage
    coords: Columns
    held: tuple[Located, Fetched] | None = None

    def fetch(self, names: Sequence[str], spans: Columns) -> tuple[Batch, Fetched]:
        """The answer, and this batch holding it. An answer that is held already is continued."""
        if self.held is None and not len(spans):
            located = self.storage.locate(self.coords)
            if located.versions is not None:  # no object must be opened, such as the file of a virtual chunk
                return self, self._looked_up(located.versions)
        if self.held is None:
            found = self._found(spans, names[0])
        else:
            located, before = self.held
            found = located, self.storage.fetch(located, spans, continue_from=before)
        return self._replace(held=found), as_buffers(found[1], names, spans)

    def _looked_up(self, versions: Versions) -> Fetched:
        """The answer without bytes."""
        sizes = self.storage.sizes(self.coords)
        status = [FOUND if size >= 0 else ABSENT_KEY for size in sizes.tolist()]
        return Fetched(Sources(None, ()), status, list(versions), sizes, NO_SPANS)

    def _found(self, spans: Columns, key: str) -> tuple[Located, Fetched]:
        """Looks the chunks up and reads them, again if others replaced them meanwhile."""
        located = self.storage.locate(self.coords)
        for _ in attempts(READS):
            previous, missing = located, False
            try:
                fetched = self.storage.fetch(located, spans)
                if not replaced_between_requests(fetched, None):
                    return located, fetched
            except StoreError as error:
                if error.errno != ENOENT:
                    raise
                missing = True  # perhaps it was removed when the chunk was replaced
            located = self.storage.locate(self.coords)
            if missing and list(located.names) == list(previous.names):
                return located, self.storage.fetch(located, spans)  # raises the error
        raise replaced("chunks were", key)


Batch: TypeAlias = DocumentBatch | ChunkBatch


class ReadBatches(Record):
    """`resume` of an answer: its batches."""

    batches: Sequence[Batch]


def fetch_batches(
    batches: Sequence[Batch],
    names: Sequence[str],
    spans: Columns,
    expect: Versions | None,
    *,
    single_read: bool,
) -> Fetched:
    """As Store.fetch. Each name is in one batch. single_read: the answer cannot be continued, and keeps no file open"""
    remaining, read = iter(batches), list[Batch]()

    def fetch(names: Sequence[str], spans: Columns, _: object) -> Fetched:
        batch, fetched = next(remaining).fetch(names, spans)
        if not single_read:
            read.append(batch)
        return fetched

    fetched = fetch_in_pages(fetch, names, spans, None, [batch.rows for batch in batches])
    fetched = fetched._replace(resume=None if single_read else ReadBatches(read))
    return expecting(fetched, spans, expect)


def digest(document: bytes) -> Version:
    """The version of a document."""
    return blake2b(document, digest_size=16).digest()
