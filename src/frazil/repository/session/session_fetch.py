"""The answer to a fetch of a session's keys: documents, and the chunks of several arrays, as buffers in one table.

Which nodes the keys are of is found out in session_store.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from errno import ENOENT
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import StoreError
from frazil.record import Record
from frazil.stores.array_storage.chunk_storage import ChunkStorage, Located
from frazil.stores.fetched.content import as_buffers
from frazil.stores.retry import pause
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    FOUND,
    MISSING,
    STALE,
    Columns,
    Fetched,
    Sources,
    Version,
    resolve_spans,
    stale_unasked,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.stores.values import SourceBuffer

__all__ = ["HeldKeys", "Part", "digest", "expecting", "read_keys", "spread"]

_ATTEMPTS: Final = 100  # to read chunks that others keep replacing
_LONGEST_PAUSE: Final = 0.05  # seconds


class Part(Record):
    """The chunks of one array among the names of a fetch. rows: of these names; coords: int64[n, d]; held: where they were found, and what they were"""

    rows: Sequence[int]
    storage: ChunkStorage
    coords: Columns
    held: tuple[Located, Fetched] | None = None

    def fetch(self, spans: Columns, key: str) -> Part:
        """These with what there is of spans; what was held is read on."""
        if self.held is not None:
            located, before = self.held
            return self._replace(held=(located, self.storage.fetch(located, spans, held=before)))
        located = self.storage.locate(self.coords)
        for attempt in range(_ATTEMPTS):
            known, fetched = located, self._fetched(located, spans)
            if fetched is not None and not stale_unasked(fetched, None):
                return self._replace(held=(located, fetched))
            pause(min(_LONGEST_PAUSE, 0.0005 * 2**attempt))
            located = self.storage.locate(self.coords)
            if fetched is None and list(located.names) == list(known.names):
                return self._replace(held=(located, self.storage.fetch(located, spans)))  # which says what is wrong
        raise StoreError(
            f"chunks were replaced {_ATTEMPTS} times while they were read", key=key, hint="read again later"
        )

    def _fetched(self, located: Located, spans: Columns) -> Fetched | None:
        """None where an object is missing: it may have been removed since, as its chunks were replaced."""
        try:
            return self.storage.fetch(located, spans)
        except StoreError as error:
            if error.errno != ENOENT:
                raise
            return None


class HeldKeys(list["SourceBuffer"]):
    """The buffers of an answer, with what it was made from, so that it can be held (Store.fetch)."""

    __slots__ = ("documents", "parts")

    def __init__(self, buffers: Sequence[SourceBuffer], documents: Mapping[int, bytes], parts: Sequence[Part]) -> None:
        super().__init__(buffers)
        self.documents, self.parts = documents, parts


def read_keys(names: Sequence[str], spans: Columns, documents: Mapping[int, bytes], parts: Sequence[Part]) -> Fetched:
    """As Store.fetch, of distinct names: documents by their row, and the chunks of parts; what is neither is not there."""
    count = len(names)
    status, versions, young = [ABSENT_KEY] * count, list[Version | None]([None] * count), [False] * count
    sizes = np.full(count, -1, np.int64)
    rows = np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
    buffers: list[SourceBuffer] = list(documents.values())
    if documents:
        mine, asked = _of_rows(list(documents), count, spans)
        for row, document in documents.items():
            status[row], versions[row], sizes[row] = FOUND, digest(document), len(document)
        rows[mine, 0] = -1 - asked[:, 0]
        rows[mine, 1], rows[mine, 2] = resolve_spans(asked[:, 1], asked[:, 2], sizes[spans[mine, 0]])
    read: list[Part] = []
    for part in parts:
        mine, asked = _of_rows(part.rows, count, spans)
        part = part.fetch(asked, names[part.rows[0]])
        assert part.held is not None
        fetched = as_buffers(part.held[1], [names[row] for row in part.rows], asked)
        found = fetched.rows
        found[found[:, 0] != MISSING, 0] -= len(buffers)
        rows[mine] = found
        buffers += fetched.sources.buffers
        sizes[part.rows] = fetched.sizes
        for at, row in enumerate(part.rows):
            status[row], versions[row] = fetched.status[at], fetched.versions[at]
            young[row] = bool(fetched.young and fetched.young[at])
        read.append(part)
    held = HeldKeys(buffers, documents, read)
    return Fetched(Sources(None, held), status, versions, sizes, rows, young if True in young else None)


def _of_rows(rows: Sequence[int], count: int, spans: Columns) -> tuple[NDArray[np.bool_] | slice, Columns]:
    """Which spans are of some of `count` names, in ascending order; and these, of the names by their place among them."""
    if len(rows) == count:
        return slice(None), spans
    place = np.full(count, -1, np.int64)
    place[rows] = np.arange(len(rows))
    mine = place[spans[:, 0]] >= 0
    asked = spans[mine]
    asked[:, 0] = place[asked[:, 0]]
    return mine, asked


def spread(fetched: Fetched, place: Sequence[int]) -> Fetched:
    """The answer for names that may repeat, from that for distinct ones: name i is the one at place[i]. Rows stay as they are."""
    return fetched._replace(
        status=[fetched.status[at] for at in place],
        versions=[fetched.versions[at] for at in place],
        sizes=fetched.sizes[np.array(place, np.int64)],
        young=fetched.young and [fetched.young[at] for at in place],
    )


def expecting(fetched: Fetched, spans: Columns, expect: Sequence[Version | None]) -> Fetched:
    """The answer where versions are expected: what has another one is STALE, and its rows MISSING."""
    status = [
        state if wanted is None or wanted == (version or ABSENT) else STALE
        for state, version, wanted in zip(fetched.status, fetched.versions, expect, strict=True)
    ]
    rows = fetched.rows.copy()
    rows[np.array(status, np.int64)[spans[:, 0]] == STALE] = MISSING, 0, 0
    return fetched._replace(status=status, rows=rows)


def digest(document: bytes) -> Version:
    """The version of a document."""
    return blake2b(document, digest_size=16).digest()
