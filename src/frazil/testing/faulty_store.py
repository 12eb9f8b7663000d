"""A store that fails according to a plan, to test code that uses stores."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final, Literal, Unpack

from frazil.base.record import Record
from frazil.errors import InvalidInputError, StoreError
from frazil.stores.port import FetchOptions
from frazil.stores.store import Store
from frazil.stores.values import Changed, Columns, Fetched, Page, Pieces, Sources, Version, Versions, flat_buffer
from frazil.testing.buffered_store import BufferedStore

Operation = Literal["fetch", "put_many", "erase_many", "list"]
Kind = Literal["fail", "cut", "lose"]
_KINDS: Final[dict[str, tuple[Kind, ...]]] = {
    "fetch": ("fail", "cut"),
    "put_many": ("fail", "cut", "lose"),
    "erase_many": ("fail", "cut", "lose"),
    "list": ("fail",),
}


class Fault(Record):
    """The fault of the `call`-th call (1 is the first) of an operation.

    fail  StoreError, and nothing was done
    cut   of a fetch: every body has only the first half of its bytes, without an error; of put_many and erase_many: the first half of the names is
          done (none of one name), then StoreError
    lose  everything was done, but the reply is lost: StoreError
    """

    operation: Operation
    call: int
    kind: Kind = "fail"


class FaultPlan:
    """The calls that fail: the given faults, and in addition, with a `seed`, each call with probability `rate`, always the same ones."""

    __slots__ = ("faults", "rate", "seed")

    def __init__(self, faults: Sequence[Fault] = (), *, seed: int | None = None, rate: float = 0.0) -> None:
        for fault in faults:
            if fault.kind not in _KINDS.get(fault.operation, ()):
                raise InvalidInputError(
                    f"there is no fault {fault.kind!r} of {fault.operation!r}", hint=f"there are {_KINDS}"
                )
        self.faults, self.seed, self.rate = tuple(faults), seed, rate

    def fault(self, operation: Operation, call: int) -> Kind | None:
        """The fault of a call."""
        for fault in self.faults:
            if (fault.operation, fault.call) == (operation, call):
                return fault.kind
        if self.seed is not None:
            chance = random.Random(f"{self.seed} {operation} {call}")
            if chance.random() < self.rate:
                return chance.choice(_KINDS[operation])
        return None


class FaultyStore(BufferedStore):
    """A store over a store whose operations fail according to a plan. Calls are counted by operation; list_page is "list", append and create are put_many."""

    __slots__ = ("_lock", "calls", "plan")

    def __init__(self, inner: Store, plan: FaultPlan | None = None) -> None:
        super().__init__(inner)
        self.plan = FaultPlan() if plan is None else plan
        self.calls: Counter[str] = Counter()
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return FaultyStore, (self.inner, self.plan)

    def fetch(self, names: Sequence[str], spans: Columns, **options: Unpack[FetchOptions]) -> Fetched:
        kind = self._begin("fetch", names)
        fetched = super().fetch(names, spans, **options)
        if kind == "cut":
            short = [flat_buffer(body)[: len(body) // 2] for body in fetched.sources.buffers]
            return fetched._replace(sources=Sources(None, short))
        return fetched

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        return self._written(super().put_many, names, pieces, expect)

    def _written(
        self,
        write: Callable[[Sequence[str], Pieces, Versions], list[Version | Changed]],
        names: Sequence[str],
        pieces: Pieces,
        expect: Versions,
    ) -> list[Version | Changed]:
        kind = self._begin("put_many", names)
        done = len(names) // 2 if kind == "cut" else len(names)
        answers = write(names[:done], pieces._replace(offsets=pieces.offsets[: done + 1]), expect[:done])
        self._end("put_many", kind, names[done:] or names)
        return answers

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        kind = self._begin("erase_many", names)
        done = len(names) // 2 if kind == "cut" else len(names)
        answers = super().erase_many(names[:done], expect[:done])
        self._end("erase_many", kind, names[done:] or names)
        return answers

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        self._begin("list", [prefix])
        return super().list_page(prefix, after, delimited=delimited, details=details, limit=limit)

    def _begin(self, operation: Operation, names: Sequence[str]) -> Kind | None:
        with self._lock:
            self.calls[operation] += 1
            kind = self.plan.fault(operation, self.calls[operation])
        if kind == "fail":
            raise self._error(operation, names)
        return kind

    def _end(self, operation: Operation, kind: Kind | None, names: Sequence[str]) -> None:
        if kind is not None:
            raise self._error(operation, names)

    def _error(self, operation: str, names: Sequence[str]) -> StoreError:
        return StoreError(f"an injected fault in {operation}", key=names[0] if names else None, hint="try again")
