"""The base class of the stores of this package: a store over a store that returns buffers."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.stores.keys.names import is_prefix
from frazil.stores.transfer.content import as_buffers
from frazil.stores.transfer.fetch_pages import fetch_in_pages, pages_of
from frazil.stores.values import Capabilities, Changed, Columns, Fetched, Versions, continued
from frazil.stores.wrappers import WrappedStore


class BufferedStore(WrappedStore):
    """A wrapped store that returns one buffer for each span, and never files, so that its users see the bytes as it changed them."""

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
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        if continue_from is not None:
            inner = continued(continue_from, Fetched)
            return as_buffers(self.inner.fetch(names, spans, expect=expect, continue_from=inner), names, spans)
        pages = pages_of(len(names)) if single_read else ()
        return fetch_in_pages(self._fetch_buffers, names, spans, expect, pages)

    def _fetch_buffers(self, names: Sequence[str], spans: Columns, expect: Versions | None) -> Fetched:
        return as_buffers(self.inner.fetch(names, spans, expect=expect), names, spans)

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        if is_prefix(names):
            for page in self.list_pages(names[0]):
                # key by key, through this store; then whatever else `inner` keeps there, such as folders
                self.erase_values(page.keys)
        return self.inner.erase_many(names, expect)
