"""Stores over a store: the base class that forwards every operation, and the one that refuses to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from frazil.errors import ReadOnlyError
from frazil.stores.port import FetchOptions
from frazil.stores.store import Store
from frazil.stores.values import Capabilities, Changed, Columns, Fetched, Page, Pieces, Version, Versions

if TYPE_CHECKING:
    from frazil.stores.operations.partial_values import Writes


class WrappedStore(Store):
    """A store that forwards every operation to `inner`. Subclasses override what they change. One that changes names in erase_many must handle prefixes there
    too, or declare that it does not (Capabilities.erases_prefixes)."""

    __slots__ = ("inner",)

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def __str__(self) -> str:
        return str(self.inner)

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def fetch(self, names: Sequence[str], spans: Columns, **options: Unpack[FetchOptions]) -> Fetched:
        return self.inner.fetch(names, spans, **options)

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        return self.inner.put_many(names, pieces, expect)

    def erase_leftovers(self, prefix: str, before: int) -> int:
        return self.inner.erase_leftovers(prefix, before)

    def write_parts(self, writes: Writes) -> None:
        """Uses `inner`'s, where the subclass changes neither how values are read nor how they are put; else whole values are read and put."""
        kind = type(self)
        if kind.put_many is WrappedStore.put_many and kind.fetch is WrappedStore.fetch:
            self.inner.write_parts(writes)
        else:
            super().write_parts(writes)

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        return self.inner.erase_many(names, expect)

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        return self.inner.list_page(prefix, after, delimited=delimited, details=details, limit=limit)


class ReadOnlyStore(WrappedStore):
    """A store that can be read and not written: every write raises ReadOnlyError."""

    __slots__ = ()

    @property
    def identity(self) -> str | None:
        return self.inner.identity

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(writable=False, erasable=False)

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        raise _refused(names)

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        raise _refused(names)


def _refused(names: Sequence[str]) -> ReadOnlyError:
    return ReadOnlyError(
        "the store was opened for reading", key=names[0] if names else None, hint="open it for writing"
    )


def read_only(store: Store) -> Store:
    """The store itself if it cannot be written, else a ReadOnlyStore over it."""
    return ReadOnlyStore(store) if store.capabilities.writable else store
