"""The store of a simulated client: each operation is a point where other clients may run first, and where it may fail in any of the ways that stores fail.

The values are in media.py. The scheduler chooses the client that runs (scheduler.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Final

import numpy as np

from frazil.base.record import Record
from frazil.base.weak_references import WeakValues
from frazil.errors import StoreError
from frazil.stores.keys.listing import first_level, page_of
from frazil.stores.store import Store
from frazil.stores.transfer.content import join_pieces
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    FOUND,
    STALE,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Page,
    Pieces,
    Sources,
    Version,
    Versions,
    object_rows,
)
from frazil.testing.simulation.media import Medium
from frazil.testing.simulation.plan import Fault, Plan
from frazil.testing.simulation.scheduler import EPOCH, Client, Scheduler

_INTERRUPTS: Final[tuple[type[BaseException], ...]] = (KeyboardInterrupt, SystemExit, MemoryError)
_RESULTS: Final[Mapping[Fault, tuple[str, ...]]] = {  # the possible results of the writes of a call with this fault
    "fail": ("not",),
    "lose": ("now",),
    "late": ("late",),
    "unsynced": ("unsynced",),
    "interrupt": ("not", "now", "late"),  # a system call is not interrupted between a name and its sync
    "die": ("not", "now", "late", "unsynced"),
    "crash": ("not", "now", "late", "unsynced"),
}
_SKEW: Final = 600_000_000_000  # nanoseconds by which the clock of a medium may be ahead
_HOUR: Final = 3_600_000_000_000  # nanoseconds
# of runs with drift, in nanoseconds. A jump and a delay together are shorter than the seven days after which a collection no longer waits for a request
_OFFSETS: Final = tuple(round(hours * _HOUR) for hours in (-30, -2, -0.4, 0, 0, 0.02, 0.4, 2, 30))
_PAUSES: Final = tuple(round(hours * _HOUR) for hours in (0.05, 0.6, 1.1))
_DELAYS: Final = tuple(round(hours * _HOUR) for hours in (0, 0.02, 0.5, 1.1, 3, 24))
_LONGEST: Final = 48 * _HOUR
_RESOLUTION: Final = 2_000_000_000
_JUMP_PROBABILITY: Final = 0.01  # at a point
_STALL_PROBABILITY: Final = 0.05  # probability at an operation
_WRITE: Final = 4  # how many times more likely faults are at conditional writes, because commits use them


class World:
    """The shared state of all clients of a simulation: the medium, the scheduler, and the faults.

    faults  of the plan, those that this medium has
    sent    failed writes that may still arrive
    drifts  clocks jump, and late writes take up to days"""

    def __init__(self, medium: Medium, scheduler: Scheduler, plan: Plan) -> None:
        self.medium, self.scheduler, self.plan = medium, scheduler, plan
        no: Fault = "unsynced" if medium.late else "late"
        self.faults = tuple(fault for fault in plan.faults if fault != no)
        self.sent: list[_Sent] = []
        self.drifts = "drift" in plan.tasks
        self.calm = False  # no more faults
        self.crashed = False
        self.collectors = 0  # collectors that are running
        self.collections = 0  # collections that they made, or tried to make
        scheduler.at_point = self._at_point
        self._skew = Random(f"medium {plan.seed}").randrange(-_SKEW, _SKEW)
        self._jumps = Random(f"jumps {plan.seed}")
        medium.clock = self._medium_time

    @property
    def random(self) -> Random:
        """The source of all choices."""
        return self.scheduler.random

    def fault(self, *, write: bool, conditional: bool) -> Fault | None:
        """The fault of an operation, if it has one."""
        rate = self.plan.rate * (_WRITE if conditional else 1)
        if self.calm or not self.faults or self.random.random() >= rate:
            return None
        fault = self.random.choice(self.faults)
        return "fail" if fault in ("lose", "late", "unsynced") and not write else fault

    def stall(self, client: Client, *, conditional: bool = False) -> None:
        """Stops a client at random, while others collect garbage several times."""
        rate = _STALL_PROBABILITY * (_WRITE if conditional else 1)
        if self.collectors and not client.collects and self.random.random() < rate:
            until = self.collections + self.random.randrange(1, 5)
            self.scheduler.note("stands still")
            self.scheduler.wait(lambda: self.collections >= until or not self.collectors)

    def _medium_time(self) -> int:
        now = EPOCH + self._skew + self.scheduler.now
        return now // _RESOLUTION * _RESOLUTION if self.drifts else now

    def _at_point(self) -> None:
        if self.drifts and not self.calm:
            self._jump()
        now = self.scheduler.now
        arrived = [number for number, sent in enumerate(self.sent) if sent.due <= now]
        if arrived and self.random.random() < 0.1:
            self.arrive(self.random.choice(arrived))

    def _jump(self) -> None:
        """Lets the clock of the store or of a client jump, or some time pass."""
        draw, task = self._jumps.random(), self.scheduler.current()
        if draw < _JUMP_PROBABILITY:
            self._skew = self._jumps.choice(_OFFSETS)
            self.scheduler.note(f"the clock of the store is now {self._skew / _HOUR:.1f} hours ahead")
        elif draw < 2 * _JUMP_PROBABILITY and task is not None:
            task.client.skew = self._jumps.choice(_OFFSETS)
            self.scheduler.note(f"its clock is now {task.client.skew / _HOUR:.1f} hours ahead")
        elif draw < 3 * _JUMP_PROBABILITY:
            self.scheduler.let_pass(self._jumps.choice(_PAUSES))

    def send(self, key: str, action: Callable[[], object]) -> None:
        """Lets a write arrive later."""
        self.sent.append(_Sent(key, action, self.scheduler.now + (self._jumps.choice(_DELAYS) if self.drifts else 0)))

    def arrive(self, number: int) -> None:
        """Does a write that was under way, unless it was that for longer than a request can be."""
        sent = self.sent.pop(number)
        if self.scheduler.now - sent.due < _LONGEST:
            self.scheduler.note(f"arrives late: {sent.key}: {sent.action()!r}")

    def finish_writes(self) -> None:
        """Does each write that is under way, or drops it for ever."""
        while self.sent:
            number = self.random.randrange(len(self.sent))
            if self.random.random() < 0.5:
                self.arrive(number)
            else:
                self.sent.pop(number)

    def crash(self) -> None:
        """The machine stops: all clients die."""
        self.crashed = True
        for task in self.scheduler.tasks:
            task.client.die()


class _Sent(Record):
    """A write that is under way. due: the simulated time before which it does not arrive"""

    key: str
    action: Callable[[], object]
    due: int


class _Write(Record):
    """One write of a batch."""

    key: str
    action: Callable[[], object]


class SimulatedStore(Store):
    """A store of one client. client None: a store of the same values without any faults."""

    __slots__ = ("__weakref__", "_number", "client", "world")

    def __init__(self, world: World, client: Client | None = None) -> None:
        self.world, self.client = world, client
        self._number = next(_numbers)
        _stores.put(self._number, self)

    def __repr__(self) -> str:
        return f"SimulatedStore({self.client.name if self.client else 'observer'})"

    def __reduce__(self) -> tuple[object, ...]:
        return _same, (self._number,)

    @property
    def capabilities(self) -> Capabilities:
        return self.world.medium.capabilities

    # --- operations ----------------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        self._schedule_before("fetch", names)
        if continue_from is None:
            found = [self.world.medium.get(name) for name in names]
            values = [b"" if stored is None else stored[0] for stored in found]
            versions: list[Version | None] = [None if stored is None else stored[1] for stored in found]
            sizes = np.array([-1 if stored is None else len(stored[0]) for stored in found], np.int64)
            sources = Sources(None, values)
        else:
            sources, versions, sizes = continue_from.sources, list(continue_from.versions), continue_from.sizes
        status = [ABSENT_KEY if version is None else FOUND for version in versions]
        for i, expected in enumerate(expect or ()):
            if expected is not None and expected != (versions[i] or ABSENT):
                status[i] = STALE
        return Fetched(sources, status, versions, sizes, object_rows(spans, status, sizes))

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        medium = self.world.medium
        values = [bytes(value) for value in join_pieces(pieces)]
        writes = [
            _Write(name, lambda name=name, value=value, expected=expected: medium.put(name, value, expected))  # type: ignore[misc]
            for name, value, expected in zip(names, values, expect, strict=True)
        ]
        answers = self._write("put", writes, conditional=any(expected is not None for expected in expect))
        return answers  # type: ignore[return-value] # those of Medium.put

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        medium = self.world.medium
        can = medium.capabilities.conditional_erase
        writes = [
            _Write(name, lambda name=name, expected=expected: medium.erase(name, expected if can else None))  # type: ignore[misc]
            for name, expected in zip(names, expect, strict=True)
        ]
        return self._write("erase", writes, conditional=False)  # type: ignore[return-value] # those of Medium.erase

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        self._schedule_before("list", [prefix])
        medium = self.world.medium
        keys = sorted(key for key in [*medium.values] if key.startswith(prefix))
        page = page_of(first_level(keys, prefix) if delimited else keys, after, limit)
        found = [medium.get(row) for row in page.keys]
        return page._replace(
            sizes=np.array([-1 if stored is None else len(stored[0]) for stored in found], np.int64),
            versions=[None if stored is None else stored[1] for stored in found],
            modified=np.array(
                [-1 if stored is None else medium.modified[row] for row, stored in zip(page.keys, found, strict=True)],
                np.int64,
            ),
        )

    def sync_values(self, keys: Sequence[str]) -> list[str]:
        """As the port says. Other clients do not see it, so it is no point where they run."""
        if self.client is not None and self.client.death is not None:
            raise self.client.death
        for key in keys:
            self.world.medium.sync(key)
        return []

    # --- faults ------------------------------------------------------------------------------------------------------------------------

    def _schedule_before(self, operation: str, names: Sequence[str]) -> None:
        """The point before an operation that changes nothing, with its possible faults."""
        world, client = self.world, self.client
        if client is None:
            return
        if client.death is not None:
            raise client.death
        world.stall(client)
        world.scheduler.point()
        fault = world.fault(write=False, conditional=False)
        world.scheduler.note(f"{operation} {_names_text(names)}{f': {fault}' if fault else ''}")
        if fault is not None:
            raise self._error(fault, names)

    def _write(self, operation: str, writes: Sequence[_Write], *, conditional: bool) -> list[object]:
        """Does writes one by one, with points in between; or as many of them as the fault of the call allows."""
        world, client = self.world, self.client
        names = [write.key for write in writes]
        if client is None:
            return [self._run_write(write) for write in writes]
        if client.death is not None:
            raise client.death
        world.stall(client, conditional=conditional)
        world.scheduler.point()
        fault = world.fault(write=True, conditional=conditional)
        world.scheduler.note(f"{operation} {_names_text(names)}{f': {fault}' if fault else ''}")
        if fault is not None:
            self._run_some(fault, writes)
            raise self._error(fault, names)
        answers = []
        for number, write in enumerate(writes):
            if number:
                world.scheduler.point()
            answers.append(self._run_write(write, sync=False))
        if not world.medium.late:  # names that others can see already, but that are not synced yet
            world.scheduler.point()
        for name in names:
            world.medium.sync(name)
        if any(isinstance(answer, Changed) for answer in answers):
            world.scheduler.note("taken")
        return answers

    def _run_write(self, write: _Write, *, sync: bool = True) -> object:
        answer = write.action()
        if sync:
            self.world.medium.sync(write.key)
        return answer

    def _run_some(self, fault: Fault, writes: Sequence[_Write]) -> None:
        """Does each write of a failed call now or later, or drops it."""
        world, random = self.world, self.world.random
        effects = _RESULTS[fault]
        if len(writes) > 1 and fault == "fail":
            effects = ("not", "now")  # some of the batch
        can = [
            effect
            for effect in effects
            if effect not in ("late", "unsynced") or effect in world.faults or fault in ("die", "crash")
        ]
        for write in writes:
            effect = random.choice(can)
            if effect in ("now", "unsynced"):
                self._run_write(write, sync=effect == "now")
            elif effect == "late" and world.medium.late:
                world.send(write.key, write.action)
            world.scheduler.note(f"  {write.key} happens: {effect}")

    def _error(self, fault: Fault, names: Sequence[str]) -> BaseException:
        assert self.client is not None
        if fault == "crash":
            self.world.crash()
        if fault in ("die", "crash"):
            return self.client.die()
        if fault == "interrupt":
            return self.world.random.choice(_INTERRUPTS)("simulated")
        # a disk knows what it did; the client of a bucket knows only that there was no reply, or an error
        done = {"fail": False, "unsynced": True, "lose": None if self.world.medium.late else True}.get(fault)
        return StoreError("a simulated fault", done=done, key=names[0] if names else None, hint="try again")


def _names_text(names: Sequence[str]) -> str:
    return " ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# Pickled sessions of a client refer to the same client after unpickling: stores by number, as long as they live.
_stores: WeakValues[int, SimulatedStore] = WeakValues()
_numbers = count()


def _same(number: int) -> SimulatedStore:
    store = _stores.get(number)
    assert store is not None, "who pickles a session holds its store"
    return store
