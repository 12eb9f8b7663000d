"""Threads of which exactly one runs at a time, chosen by the seed: the order of a simulation, and its trace.

The work of the threads is in clients.py; their clocks, locks and random bytes are in machine.py. Nothing sleeps here."""

from __future__ import annotations

from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from random import Random
from typing import Final

from frazil.base.weak_references import Alone

EPOCH: Final = 1_700_000_000_000_000_000  # nanoseconds since 1970; when every simulation begins
_MOST_STEPS: Final = 50_000  # of one run; a normal run has some hundreds: more means an endless loop
_GAP: Final = 1_000_000  # nanoseconds of simulated time from one step to the next


class Client:
    """One simulated process: its clock, its random bytes, and whether it is alive.

    skew     nanoseconds that its clock is ahead of the simulated time
    death    the exception that every store operation of a dead client raises; None while it is alive
    threads  their current number
    collects  whether it is a collector of garbage"""

    __slots__ = ("collects", "death", "name", "random", "skew", "threads")

    def __init__(self, name: str, seed: str) -> None:
        self.name = name
        self.random = Random(f"{seed} {name}")
        self.skew = self.random.randrange(-3_600_000_000_000, 3_600_000_000_000)
        self.death: SystemExit | None = None
        self.threads = 0
        self.collects = False

    def die(self) -> SystemExit:
        """Ends the client: no later operation of it reaches the store."""
        if self.death is None:
            self.death = SystemExit(f"{self.name} died")
        return self.death


class Task:
    """One thread of a client. waits: the condition for which it waits, if there is one"""

    __slots__ = ("action", "client", "done", "error", "run_lock", "waits")

    def __init__(self, client: Client, action: Callable[[], None]) -> None:
        self.client, self.action = client, action
        self.run_lock = allocate_lock()
        self.run_lock.acquire()
        self.done = False
        self.error: BaseException | None = None
        self.waits: Callable[[], bool] | None = None

    @property
    def can_run(self) -> bool:
        return not self.done and (self.waits is None or self.client.death is not None or self.waits())


class Scheduler:
    """Runs tasks, one at a time, and switches between them at points.

    seed    decides everything: equal seeds and equal tasks give equal runs
    switch  probability that another task runs at a point
    trace   one line a step: (step, client, what)"""

    def __init__(self, seed: str, switch: float = 0.5) -> None:
        self.random = Random(seed)
        self.switch = switch
        self.trace: list[tuple[int, str, str]] = []
        self.tasks: list[Task] = []
        self.steps = 0
        self._passed = 0
        self.broken: str | None = None  # why the run cannot continue
        self.at_point: Callable[[], None] = _nothing  # called between steps
        self._of_thread: dict[int, Task] = {}
        self._end = allocate_lock()

    @property
    def now(self) -> int:
        """Nanoseconds of simulated time since the run began."""
        return self.steps * _GAP + self._passed

    def let_pass(self, duration: int) -> None:
        """Lets time pass in which nothing happens, in nanoseconds."""
        self._passed += duration

    def current(self) -> Task | None:
        """The task of the calling thread; None in a thread that is not simulated."""
        return self._of_thread.get(get_ident())

    def start(self, client: Client, action: Callable[[], None]) -> Task:
        """A new task; it first runs when its turn comes."""
        task = Task(client, action)
        client.threads += 1
        self.tasks.append(task)
        start_new_thread(self._run, (task,))
        return task

    def run(self) -> None:
        """Runs all tasks to their ends, also tasks that they start."""
        if not any(task.can_run for task in self.tasks):
            return
        self._end.acquire()
        self._next(None)
        self._end.acquire()
        self._end.release()
        self.tasks.clear()

    def note(self, event: str) -> None:
        """Adds a line to the trace."""
        task = self.current()
        self.trace.append((self.steps, task.client.name if task else "-", event))

    def point(self) -> None:
        """A place where another task may run first. Raises the death of a client that died meanwhile."""
        task = self.current()
        if task is None:
            return
        self.steps += 1
        if self.steps > _MOST_STEPS:
            self.stop(f"more than {_MOST_STEPS} steps")
        self.at_point()
        if self.random.random() < self.switch:
            self._hand_over(task)
        if task.client.death is not None:
            raise task.client.death

    def lock_point(self) -> None:
        """A point before a lock is taken, where the client has several threads."""
        task = self.current()
        if task is not None and task.client.threads > 1:
            self.point()

    def wait(self, ready: Callable[[], bool]) -> None:
        """Lets other tasks run until `ready()`, then this one. Raises the death of a client that died meanwhile."""
        task = self.current()
        if task is None or ready():
            return
        task.waits = ready
        try:
            self._hand_over(task)
        finally:
            task.waits = None
        if task.client.death is not None:
            raise task.client.death

    def stop(self, why: str) -> None:
        """Ends the run as a failure: every client dies."""
        self.broken = self.broken or why
        for task in self.tasks:
            task.client.die()

    def _hand_over(self, task: Task) -> None:
        following = self._choose()
        if following is None:  # no task can run: locks that wait for each other
            self.stop("no task can run: each waits for another")
        elif following is not task:
            following.run_lock.release()
            task.run_lock.acquire()

    def _choose(self) -> Task | None:
        able = [task for task in self.tasks if task.can_run]
        return self.random.choice(able) if able else None

    def _next(self, task: Task | None) -> None:
        """Wakes the next task when one has ended, or the caller of `run` if there is none."""
        following = self._choose()
        if following is None and any(not other.done for other in self.tasks):
            self.stop("no task can run: each waits for another")
            following = self._choose()
        if following is not None:
            following.run_lock.release()
        else:
            self._end.release()

    def _run(self, task: Task) -> None:
        task.run_lock.acquire()
        self._of_thread[get_ident()] = task
        try:
            if task.client.death is None:
                with Alone():  # threads that it starts would not take turns
                    task.action()
        except BaseException as error:
            if error is not task.client.death:
                task.error = error
        finally:
            task.done = True
            task.client.threads -= 1
            del self._of_thread[get_ident()]
            self._next(task)


def _nothing() -> None:
    pass
