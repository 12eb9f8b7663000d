"""Stores over a store: the base that hands every operation on, the one that hands out buffers, and the one that refuses to write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from frazil.errors import InvalidInputError, ReadOnlyError
from frazil.stores.fetched.content import HeldBuffers, as_buffers
from frazil.stores.fetched.fetch_pages import fetch_in_pages, pages_of
from frazil.stores.keys import check_key, check_prefix
from frazil.stores.store import Store
from frazil.stores.values import Capabilities, Changed, Columns, Fetched, Page, Pieces, Version

if TYPE_CHECKING:
    from frazil._kernel import Buffer

__all__ = ["BufferedStore", "ReadOnlyStore", "WrappedStore", "read_only"]


class WrappedStore(Store):
    """A store that hands every operation on to `inner`. Subclasses override what they change."""

    __slots__ = ("inner",)

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        return self.inner.fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self.inner.put_many(names, pieces, expect)

    def create(self, key: str, value: Buffer) -> bool:
        """As the port says. A subclass that changes what putting does, and not this, has its way here too: then a value is put."""
        kind = type(self)
        if kind.put_many is not WrappedStore.put_many or kind.put is not Store.put:
            return super().create(key, value)
        return self._create_inside(key, value)

    def keeps_conditions(self, key: str) -> bool:
        return self.inner.keeps_conditions(key)

    def _create_inside(self, key: str, value: Buffer) -> bool:
        """Hands a creation on, checked as this store and not only the inner one would."""
        check_key(key)
        self._require("writable")
        self._require("conditional")
        return self.inner.create(key, value)

    def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        """As the port says, by the operation of `inner`, which an object of a user's may have itself. A subclass that changes how values are read or put has its way
        here too: then whole values are read and put."""
        kind = type(self)
        if kind.put_many is not WrappedStore.put_many or kind.fetch is not WrappedStore.fetch:
            super().set_partial_values(key_start_values)
            return
        self._require("writable")
        self.inner.set_partial_values(key_start_values)

    def append_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self.inner.append_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        return self.inner.erase_many(names, expect)

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        return self.inner.list_page(prefix, after, delimited=delimited, details=details, limit=limit)

    def erase_prefix(self, prefix: str) -> None:
        check_prefix(prefix)
        self._require("erasable")
        self._require("listable")
        self.inner.erase_prefix(prefix)


class BufferedStore(WrappedStore):
    """A wrapped store that hands out buffers, a span each, and never files, so that what it does to bytes is what its user sees."""

    __slots__ = ()

    @property
    def identity(self) -> str | None:
        return self.inner.identity

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(direct=False)

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        if continue_from is not None:
            if not isinstance(continue_from.sources.buffers, HeldBuffers):
                raise InvalidInputError("the answer to hold came from another store")
            inner = continue_from.sources.buffers.inner
            return as_buffers(self.inner.fetch(names, spans, expect=expect, continue_from=inner), names, spans)
        pages = pages_of(len(names)) if single_read else ()
        return fetch_in_pages(self._fetch_buffers, names, spans, expect, pages)

    def _fetch_buffers(self, names: Sequence[str], spans: Columns, expect: Sequence[Version | None] | None) -> Fetched:
        return as_buffers(self.inner.fetch(names, spans, expect=expect), names, spans)

    def erase_prefix(self, prefix: str) -> None:
        Store.erase_prefix(self, prefix)  # key by key, through this store
        self.inner.erase_prefix(prefix)  # and what else the inner one keeps there, such as folders


class ReadOnlyStore(WrappedStore):
    """A store that can be read and not written: every write raises ReadOnlyError."""

    __slots__ = ()

    @property
    def identity(self) -> str | None:
        return self.inner.identity

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(writable=False, erasable=False)

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        raise ReadOnlyError(
            "the store was opened for reading", key=names[0] if names else None, hint="open it for writing"
        )

    def append_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self.put_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        raise ReadOnlyError(
            "the store was opened for reading", key=names[0] if names else None, hint="open it for writing"
        )


def read_only(store: Store) -> Store:
    """The store itself where it cannot be written, else a ReadOnlyStore over it."""
    return ReadOnlyStore(store) if store.capabilities.writable else store
