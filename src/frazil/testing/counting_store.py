"""A store that counts its operations as the requests that a remote store would make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from frazil.base.record import Record
from frazil.stores.port import FetchOptions
from frazil.stores.store import Store
from frazil.stores.values import MISSING, Changed, Columns, Fetched, Page, Pieces, Version, Versions
from frazil.testing.buffered_store import BufferedStore


class Request(Record):
    """One request. operation: "fetch" (a span), "look up" (a name without a span), "put" (also a creation), "erase" or "list"; nbytes: of the values in
    it."""

    operation: str
    key: str
    start: int = 0
    length: int = -1
    nbytes: int = 0


class CountingStore(BufferedStore):
    """Counts the requests to a store: one for each span of a fetch, each name put or erased, each listing. Returns buffers."""

    __slots__ = ("requests",)

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.requests: list[Request] = []

    def count(self, operation: str | None = None, key: str | None = None) -> int:
        """Requests so far, only of one operation or one key if these are given."""
        return sum(operation in {None, done.operation} and key in {None, done.key} for done in self.requests)

    @property
    def bytes_read(self) -> int:
        return sum(done.nbytes for done in self.requests if done.operation == "fetch")

    @property
    def bytes_written(self) -> int:
        return sum(done.nbytes for done in self.requests if done.operation == "put")

    def clear(self) -> None:
        """Resets the counts."""
        self.requests.clear()

    def fetch(self, names: Sequence[str], spans: Columns, **options: Unpack[FetchOptions]) -> Fetched:
        fetched = super().fetch(names, spans, **options)
        buffers = fetched.sources.buffers
        for (name, start, length), blob in zip(spans.tolist(), fetched.rows[:, 0].tolist(), strict=True):
            nbytes = 0 if blob == MISSING else len(buffers[-1 - blob])
            self.requests.append(Request("fetch", names[name], start, max(length, -1), nbytes))  # -1: up to the end
        if options.get("continue_from") is None:  # with it the names were looked up before
            self.requests += [
                Request("look up", names[row]) for row in sorted(set(range(len(names))) - set(spans[:, 0].tolist()))
            ]
        return fetched

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        self._count_written("put", names, pieces)
        return super().put_many(names, pieces, expect)

    def _count_written(self, operation: str, names: Sequence[str], pieces: Pieces) -> None:
        offsets = pieces.offsets.tolist()
        for i, name in enumerate(names):
            nbytes = int(pieces.rows[offsets[i] : offsets[i + 1], 2].sum())
            self.requests.append(Request(operation, name, 0, nbytes, nbytes))

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        self.requests += [Request("erase", name) for name in names]
        return super().erase_many(names, expect)

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        self.requests.append(Request("list", prefix))
        return super().list_page(prefix, after, delimited=delimited, details=details, limit=limit)
