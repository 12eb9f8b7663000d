"""A whole simulated run: a medium, a repository in it, clients, and the invariants during the run and at its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from frazil.api.repository import Repository
from frazil.base.record import Record
from frazil.runtime import Runtime
from frazil.stores.store import Store
from frazil.testing.memory_format import create_memory_repository, open_memory_repository
from frazil.testing.simulation.clients import Program
from frazil.testing.simulation.collectors import COLLECTORS, Collector, check_collected, watch
from frazil.testing.simulation.hierarchy import KINDS, Act, Node, act_on, acted
from frazil.testing.simulation.ledger import Ledger
from frazil.testing.simulation.machine import simulated_machine
from frazil.testing.simulation.media import Bucket, Disk
from frazil.testing.simulation.plan import Kind, make_plan
from frazil.testing.simulation.scheduler import Client, Scheduler
from frazil.testing.simulation.store import SimulatedStore, World

_RUNTIME: Final = Runtime(threads=1, requests_in_flight=1)  # no threads except those of the clients
_CRASHES: Final = 3  # times that the machine may crash
_TRACE_LINES: Final = 60  # lines of the trace that are shown with a failure


class Report(Record):
    """The result of a run. trace: one line for each step, equal for equal seeds;  commits: in the history at the end"""

    seed: int
    trace: tuple[str, ...]
    commits: int
    steps: int


class Simulation:
    """Clients of one repository, of which one runs at a time, and a store in which anything may fail between any two operations. The seed decides all of it.

    seed      decides the rest: kind, faults, clients, and what they do
    kind      "bucket" or "disk"; None: the seed decides
    without   names of FAULTS, ACTS and TASKS that are left out in any case
    create    creates a repository in a store, and `open` opens it; None: in the format that the seed decides
    wrap      a store over the store of each client: for stores over stores, such as caches"""

    def __init__(
        self,
        seed: int,
        *,
        kind: Kind | None = None,
        without: Collection[str] = (),
        create: Callable[[Store], Repository] | None = None,
        open: Callable[[Store], Repository] | None = None,  # noqa: A002
        wrap: Callable[[Store], Store] | None = None,
    ) -> None:
        self.plan = make_plan(seed, kind, without)
        self._again = " ".join([str(seed), *(["--without", *without] if without else [])])
        makers: tuple[Callable[..., Repository], Callable[..., Repository]] = Repository.create, Repository.open
        if self.plan.format == "memory":
            makers = create_memory_repository, open_memory_repository
        options = {"chunk_packing": self.plan.packing, "runtime": _RUNTIME}
        self._create = create or partial(makers[0], **options)
        self._open = open or partial(makers[1], **options)
        self._wrap = wrap or (lambda store: store)

    def run(self) -> Report:
        """Runs the simulation. Raises AssertionError, with the seed, the trace, and the command to repeat it, if an invariant does not hold."""
        scheduler = Scheduler(f"scheduler {self.plan.seed}", self.plan.switch)
        world = World(Bucket() if self.plan.kind == "bucket" else Disk(), scheduler, self.plan)
        try:
            with simulated_machine(scheduler):
                ledger = self._set_up(world)
                for life in range(_CRASHES):
                    self._live(world, ledger, life)
                    if not world.crashed:
                        break
                world.finish_writes()
                ledger.check(self._observe(world))
                if "collect" in self.plan.tasks:
                    check_collected(world, self._observe(world))
                    ledger.check(self._observe(world))
        except Exception as error:
            raise self._failure(scheduler, error) from error
        commits = len(list(ledger.repository.history()))
        return Report(self.plan.seed, _lines(scheduler), commits, scheduler.steps)

    def _observe(self, world: World) -> Repository:
        return self._open(SimulatedStore(world))

    def _set_up(self, world: World) -> Ledger:
        """A repository with a commit, created without faults."""
        client = Client("creator", f"{self.plan.seed}")
        store = SimulatedStore(world, client)
        state: dict[str, Node] = {"": Node(("creator", 0))}
        acts = [Act("array", path, kind, value=value) for path, kind, value in _FIRST]

        def create() -> None:
            repo = self._create(self._wrap(store))
            with repo.transaction(message="first") as root:
                root.attrs["first"] = 1
                for act in acts:
                    act_on(root, act)

        world.calm = True
        self._run(world, [(client, create)])
        world.calm = False
        for number, act in enumerate(acts, 1):
            state = acted(state, act, "creator", number)
        state[""] = state[""]._replace(attributes={"first": 1})
        ledger = Ledger(self._observe(world))
        *_, first, empty = ledger.repository.history()
        ledger.states |= {empty.id: {"": Node(("creator", 0))}, first.id: state}
        ledger.parents[first.id] = empty.id
        if "collect" in self.plan.tasks:
            ledger.collected = True
            world.medium.at_put = partial(watch, scheduler=world.scheduler, ledger=ledger)
        return ledger

    def _live(self, world: World, ledger: Ledger, life: int) -> None:
        """The clients run until all have ended, or the machine crashes."""
        world.crashed = False
        programs = []
        for number in range(self.plan.clients):
            client = Client(f"client {life}.{number}", f"{self.plan.seed}")
            store = self._wrap(SimulatedStore(world, client))
            program = Program(world, client, ledger, lambda store=store: self._open(store))  # type: ignore[misc]
            programs.append((client, program.run))
        world.collectors = COLLECTORS if "collect" in self.plan.tasks else 0
        for number in range(world.collectors):
            client = Client(f"collector {life}.{number}", f"{self.plan.seed}")
            store = self._wrap(SimulatedStore(world, client))
            collector = Collector(world, client, lambda store=store: self._open(store))  # type: ignore[misc]
            programs.append((client, collector.run))
        self._run(world, programs)
        if world.crashed:
            world.medium.crash(world.random)
            world.scheduler.note("the machine starts again")
            ledger.repository = self._observe(world)
            ledger.check(self._observe(world))

    def _run(self, world: World, programs: Sequence[tuple[Client, Callable[[], None]]]) -> None:
        tasks = [world.scheduler.start(client, action) for client, action in programs]
        world.scheduler.run()
        assert world.scheduler.broken is None, world.scheduler.broken
        for task in tasks:
            if task.error is not None:
                raise task.error

    def _failure(self, scheduler: Scheduler, error: Exception) -> AssertionError:
        text = error if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        lines = "\n".join(_lines(scheduler)[-_TRACE_LINES:])
        again = f"python -m frazil.testing.simulation {self._again}"
        return AssertionError(f"{text}\n\nseed {self.plan.seed}: {self.plan}; the last steps:\n{lines}\nagain: {again}")


# the nodes of the first commit
_FIRST: Final = (
    ("a/a", "inline", 5),
    ("a/b", "filed", 1),
    ("b", "inline", 3),
    ("c", "sharded", 2),
)
assert all(kind in KINDS for _, kind, _ in _FIRST)


def _lines(scheduler: Scheduler) -> tuple[str, ...]:
    return tuple([f"{step:5d} {name:12s} {event}" for step, name, event in scheduler.trace])
