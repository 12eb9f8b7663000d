"""A store whose operations end in an error or an interrupt, before or after they happen."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.stores.store import Store
from frazil.stores.values import Changed, Columns, Fetched, Page, Pieces, Version
from frazil.stores.wrappers import WrappedStore


class Interrupted(WrappedStore):
    """After this many operations, the next one raises, before or after it happens; no later one does."""

    def __init__(self, inner: Store, left: int, error: BaseException, *, after: bool) -> None:
        super().__init__(inner)
        self.left, self.error, self.after = left, error, after

    def _count(self, *, after: bool) -> None:
        if self.after == after:
            self.left -= 1
            if self.left == -1:
                raise self.error

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        self._count(after=False)
        return super().fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        self._count(after=False)
        answers = super().put_many(names, pieces, expect)
        self._count(after=True)
        return answers

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        self._count(after=False)
        answers = super().erase_many(names, expect)
        self._count(after=True)
        return answers

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        self._count(after=False)
        return super().list_page(prefix, after, delimited=delimited, details=details, limit=limit)
