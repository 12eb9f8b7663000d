"""A store with the latency of a remote one, to test which calls overlap, without a network."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Barrier, BrokenBarrierError, Lock
from typing import Literal, Unpack

from frazil.base.record import Record
from frazil.errors import InvalidInputError, StoreError
from frazil.stores.port import FetchOptions
from frazil.stores.store import Store
from frazil.stores.values import Changed, Columns, Fetched, Page, Pieces, Version, Versions
from frazil.testing.buffered_store import BufferedStore

Operation = Literal["fetch", "put", "erase", "list"]
_OPERATIONS = ("fetch", "put", "erase", "list")


class StoreCall(Record):
    """One finished call of a store. requests: as CountingStore counts them; rounds: one after the other; others: calls that were under way when it began."""

    operation: Operation
    requests: int
    rounds: int
    others: int


class SlowStore(BufferedStore):
    """A store over a store in which every request takes `seconds`. At most `in_flight` requests of one call are made at a time, so that a call of n requests
    takes ceil(n / in_flight) rounds. Returns buffers.

    calls  the finished calls, in the order in which they ended"""

    __slots__ = ("_barrier", "_lock", "_skip", "_under_way", "calls", "in_flight", "seconds")

    def __init__(self, inner: Store, seconds: float, in_flight: int = 64) -> None:
        """Raises InvalidInputError for negative seconds, and for an in_flight below 1."""
        super().__init__(inner)
        if not 0 <= seconds < float("inf") or in_flight < 1:
            raise InvalidInputError(
                f"a slow store with {seconds!r} seconds and {in_flight!r} requests in flight",
                hint="seconds are 0 or more, requests in flight 1 or more",
            )
        self.seconds, self.in_flight = seconds, in_flight
        self.calls: list[StoreCall] = []
        self._lock = Lock()
        self._under_way = 0
        self._barrier: tuple[Operation, Barrier] | None = None
        self._skip = 0

    def __reduce__(self) -> tuple[object, ...]:
        return SlowStore, (self.inner, self.seconds, self.in_flight)

    @property
    def rounds(self) -> int:
        """Rounds of all calls so far: the time that they would take one after the other, in units of `seconds`."""
        return sum(call.rounds for call in self.calls)

    @property
    def most_at_once(self) -> int:
        """The largest number of calls that were under way together."""
        return max((call.others + 1 for call in self.calls), default=0)

    def clear(self) -> None:
        """Resets the calls."""
        self.calls.clear()

    def meet(self, number: int, operation: Operation = "fetch", *, skip: int = 0, timeout: float = 30.0) -> None:
        """Holds the next `number` calls of an operation, after `skip` others, until all of them are under way together. If they are made one after the other,
        that ends after `timeout` seconds, and they raise StoreError. So a test can check that calls overlap without a clock."""
        if operation not in _OPERATIONS:
            raise InvalidInputError(f"there is no operation {operation!r}", hint=f"there are {', '.join(_OPERATIONS)}")
        with self._lock:
            self._barrier, self._skip = (operation, Barrier(number, timeout=timeout)), skip

    # --- the operations --------------------------------------------------------------------------------------------------------------

    def fetch(self, names: Sequence[str], spans: Columns, **options: Unpack[FetchOptions]) -> Fetched:
        lookups = 0 if options.get("continue_from") is not None else len(names) - len(set(spans[:, 0].tolist()))
        with self._call("fetch", len(spans) + lookups):
            return super().fetch(names, spans, **options)

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        with self._call("put", len(names)):
            return super().put_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        with self._call("erase", len(names)):
            return super().erase_many(names, expect)

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        with self._call("list", 1):
            return super().list_page(prefix, after, delimited=delimited, details=details, limit=limit)

    @contextmanager
    def _call(self, operation: Operation, requests: int) -> Iterator[None]:
        rounds = -(-requests // self.in_flight)
        barrier: Barrier | None = None
        with self._lock:
            others = self._under_way
            self._under_way += 1
            if self._barrier is not None and self._barrier[0] == operation:
                self._skip -= 1
                barrier = self._barrier[1] if self._skip < 0 else None
                if barrier is not None and -self._skip == barrier.parties:
                    self._barrier = None
        try:
            if barrier is not None:
                barrier.wait()
            time.sleep(rounds * self.seconds)
            yield
        except BrokenBarrierError:
            raise StoreError(
                f"the calls of {operation!r} that were to meet did not", hint="they were made one after the other"
            ) from None
        finally:
            with self._lock:
                self._under_way -= 1
                self.calls.append(StoreCall(operation, requests, rounds, others))
