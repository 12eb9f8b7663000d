"""Updates through a cache."""

from __future__ import annotations

from frazil.stores import MemoryStore
from frazil.stores.caches.caching_store import CachingStore
from frazil.stores.values import Capabilities


def test_an_update_reads_values_of_other_writers() -> None:
    """Also if the store below does not compare versions, and the cached value is not compared either."""

    class Unconditional(MemoryStore):
        @property
        def capabilities(self) -> Capabilities:
            return super().capabilities._replace(conditional=False)

    inner = Unconditional()
    store = CachingStore(inner, 1000, validate=False)
    store.set("a", b"one")
    assert store.get("a") == b"one"
    inner.set("a", b"two")
    store.update("a", lambda old: (old or b"") + b"!")
    assert inner.get("a") == store.get("a") == b"two!"
