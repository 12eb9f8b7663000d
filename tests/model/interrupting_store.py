"""A store that interrupts its user once, before or after some operation, with any exception that ends a program, or by failing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from frazil.errors import StoreError
from frazil.stores.store import Store
from frazil.stores.values import Changed, Columns, Fetched, Page, Pieces, Version
from frazil.stores.wrappers import WrappedStore

T = TypeVar("T")
INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, MemoryError)
RAISED: tuple[type[BaseException], ...] = (*INTERRUPTS, StoreError)


_stores: WeakValueDictionary[int, InterruptingStore] = WeakValueDictionary()


class InterruptingStore(WrappedStore):
    """Raises `raised` once, at the operation after `left` others, while it is live.

    calls  names of all operations so far;  left: None if no interrupt is due;  fired: an interrupt came"""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[str] = []
        self.left: int | None = None
        self.raised: type[BaseException] = KeyboardInterrupt
        self.after = False
        self.fired = self.live = False

    def __reduce__(self) -> tuple[object, ...]:
        _stores[id(self)] = self
        return _same, (id(self),)  # a pickled fork returns to the same store

    @property
    def armed(self) -> bool:
        return self.left is not None

    def arm(self, number: int, raised: type[BaseException], *, after: bool) -> None:
        """The operation after `number` others is interrupted, before or after it happens."""
        self.left, self.raised, self.after, self.fired = number, raised, after, False

    def disarm(self) -> None:
        self.left, self.fired = None, False

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        return self._done(
            "fetch",
            lambda: super(InterruptingStore, self).fetch(
                names, spans, expect=expect, continue_from=continue_from, single_read=single_read
            ),
        )

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self._done("put", lambda: super(InterruptingStore, self).put_many(names, pieces, expect))

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        return self._done("erase", lambda: super(InterruptingStore, self).erase_many(names, expect))

    def list_page(self, *arguments: object, **named: object) -> Page:  # type: ignore[override]
        return self._done("list", lambda: super(InterruptingStore, self).list_page(*arguments, **named))  # type: ignore[arg-type]

    def _done(self, name: str, action: Callable[[], T]) -> T:
        if not self.live:
            return action()
        self.calls.append(name)
        now = self.left == 0
        if self.left is not None:
            self.left = None if now else self.left - 1
        if now and not self.after:
            self._raise(name)
        answer = action()
        if now:
            self._raise(name)
        return answer

    def _raise(self, name: str) -> None:
        self.fired = True
        raise self.raised(f"an interrupt of {name}")


def _same(number: int) -> InterruptingStore:
    return _stores[number]
