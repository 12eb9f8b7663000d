"""Runs the tasks of one read or write within one budget of bytes.

`Budget` is the rule, without threads; `Scheduler` applies it. read.py and write.py have the stages of a task, task_costs.py their costs."""

from __future__ import annotations

from _thread import RLock, allocate_lock  # as in threading, without the module
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from frazil.base import threads
from frazil.base.arrays import Columns
from frazil.base.packages import threading
from frazil.base.record import Record
from frazil.base.retry import FREE_FILES, lacks_files, when_files_are_free
from frazil.base.weak_references import is_alone
from frazil.errors import StoreError

if TYPE_CHECKING:
    from frazil.runtime import Runtime

WORKERS: Final = 16  # threads of one read or write, which wait for requests most of the time
_TASKS: Final = 4  # number of tasks of the usual size that fill the budget
_CALL_BYTES: Final = 2**26  # decoded by one call of the kernel, which cannot be interrupted
_NO_LOCK: Final = nullcontext()


class Task(Record):
    """Whole shards, or a batch of chunks without shards.

    rows    int64[k]: of a batch
    cost    of its first stage: the bytes that it holds in addition to the result
    stages  stages(rows): an iterator that runs one stage at each step, and then yields the whole cost of the next; it may be restarted, with fewer rows"""

    rows: Columns
    cost: int
    stages: Callable[[Columns], Iterator[int]]


class Budget:
    """Decides which tasks may continue within a limit of bytes. Tasks are numbered by age. A waiting task keeps the bytes of its last stage.

    A single task is always admitted; so is the oldest waiting task if none is running, as otherwise all might wait for ever. Waiting tasks hold at most a
    quarter of the limit. They exceed it only if one of them alone is larger."""

    __slots__ = ("_limit", "_running", "_waiting", "nbytes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        self.nbytes = 0

    def begin(self, task: int, nbytes: int) -> bool:
        """Admits a new task if it may begin. Returns whether it was admitted."""
        if self.nbytes:
            waiting = sum(self._waiting.values())
            if self.nbytes + nbytes > self._limit or (waiting and waiting + nbytes > self._limit // 4):
                return False
        self._running[task] = nbytes
        self.nbytes += nbytes
        return True

    def wait(self, task: int) -> None:
        """A stage is over: the task waits to be admitted again."""
        self._waiting[task] = self._running.pop(task)

    def resume(self, task: int, nbytes: int) -> bool:
        """Admits a waiting task if it may continue with `nbytes` in all. Returns whether it was admitted."""
        before = self._waiting[task]
        alone = not self._running and task == min(self._waiting)
        if not alone and nbytes > before and self.nbytes - before + nbytes > self._limit:
            return False
        del self._waiting[task]
        self._running[task] = nbytes
        self.nbytes += nbytes - before
        return True

    def end(self, task: int) -> None:
        self.nbytes -= self._running.pop(task)


class Scheduler:
    """The tasks of one read or write.

    task_bytes  decoded bytes of a task of the usual size, into which the plan is cut
    kernel      a lock, held while the kernel decodes or encodes for a task with Runtime.threads threads. Tasks take turns, so that not all wait for requests at
                the same time"""

    __slots__ = ("_limit", "_workers", "kernel", "task_bytes")

    def __init__(self, runtime: Runtime, *, direct: bool) -> None:
        """direct: there are no requests (Capabilities.direct), so tasks run one after the other."""
        self._limit = runtime.bytes_in_flight
        self._workers = 1 if direct or is_alone() else min(WORKERS, runtime.requests_in_flight)
        self.task_bytes = min(self._limit if self._workers == 1 else max(self._limit // _TASKS, 1), _CALL_BYTES)
        self.kernel: AbstractContextManager[object] = _NO_LOCK if self._workers == 1 else allocate_lock()

    def run(self, tasks: Iterator[Task]) -> None:
        """Runs all tasks. They begin in order; one thread at a time takes the next from `tasks`. No thread is started for a single task.

        An interrupt, or else the first error, is raised when all running stages are done; after it no stage begins. After an interrupt, they do not wait for
        requests."""
        first = list(islice(tasks, self._workers)) if self._workers > 1 else []
        if len(first) < 2:
            for task in chain(first, tasks):
                finish(task)
            return
        _Run(chain(first, tasks), self._limit, self._workers).run(len(first))


def finish(task: Task) -> None:
    """Runs all stages of a single task. If too many files are open, it runs the two halves of the task; one row waits until other tasks have closed files."""
    if len(task.rows) == 1:
        when_files_are_free(partial(_run_stages, task), FREE_FILES)
        return
    try:
        _run_stages(task)
    except StoreError as error:
        if not lacks_files(error):
            raise
    else:
        return
    middle = len(task.rows) // 2
    finish(task._replace(rows=task.rows[:middle]))
    finish(task._replace(rows=task.rows[middle:]))


def _run_stages(task: Task) -> None:
    for _ in task.stages(task.rows):
        pass


class _Begun(Record):
    """A task that was admitted once. nbytes: of its next stage; stages: the remaining ones, None before the first."""

    number: int
    task: Task
    nbytes: int
    stages: Iterator[int] | None


class _Run:
    """The state that the threads of one run share. ended: no further stage begins."""

    def __init__(self, tasks: Iterator[Task], limit: int, workers: int) -> None:
        self._tasks, self._workers = tasks, workers
        self._next: Task | None = None
        self._begun = 0
        self._budget = Budget(limit)
        self._waiting: dict[int, _Begun] = {}
        self._lock = RLock()  # an interrupt in the __enter__ of a Condition would leave it locked
        self._changed = threading.Condition(self._lock)
        self._ended = False
        self._errors: list[BaseException] = []

    def run(self, workers: int) -> None:
        others: list[threading.Thread] = []

        def start() -> None:
            for _ in range(workers - 1):
                thread = threading.Thread(
                    target=copy_context().run, args=(self._work,), name="frazil task", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # no more threads are available: the existing ones do all tasks
                    break
                others.append(thread)

        try:
            threads.to_its_end(start)  # an interrupt in Thread.start may keep the thread from its work
            self._work()
            if not all(isinstance(error, Exception) for error in self._errors):
                threads.give_up(others)
            for thread in others:
                threads.join(thread)
        except BaseException:  # an interrupt
            self._end()
            threads.give_up(others)
            for thread in others:
                threads.join(thread)
            raise
        finally:
            self._waiting.clear()  # ends their iterators
        if self._errors:
            try:
                raise next((error for error in self._errors if not isinstance(error, Exception)), self._errors[0])
            finally:
                self._errors.clear()  # their tracebacks hold this frame

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            self._changed.notify_all()

    def _work(self) -> None:
        """The loop of one thread, until no stage is left."""
        try:
            while (begun := self._admitted()) is not None:
                self._step(begun)
                del begun
        except BaseException as error:
            self._errors.append(error)
            self._end()

    def _admitted(self) -> _Begun | None:
        """The next stage, of the oldest task that may continue; None when no stage is left to begin."""
        with self._lock:
            while not self._ended:
                for number in sorted(self._waiting):
                    if self._budget.resume(number, self._waiting[number].nbytes):
                        return self._waiting.pop(number)
                if self._next is None:
                    self._next = next(self._tasks, None)
                task = self._next
                if task is None:
                    if not self._waiting:
                        return None
                elif len(self._waiting) < self._workers and self._budget.begin(self._begun, task.cost):
                    self._next = None
                    self._begun += 1
                    return _Begun(self._begun - 1, task, task.cost, None)
                threads.wait_for_change(self._changed)
            return None

    def _step(self, begun: _Begun) -> None:
        number, task, _, stages = begun
        cost: int | None = None
        try:
            stages = stages or task.stages(task.rows)
            cost = next(stages, None)
        except StoreError as error:
            if not lacks_files(error):
                raise
            finish(task)
        with self._lock:
            if cost is None:
                self._budget.end(number)
            else:
                self._budget.wait(number)
                self._waiting[number] = _Begun(number, task, cost, stages)
            self._changed.notify_all()
