"""The scheduler of tasks, alone: the rule of the budget, and its threads."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from errno import EMFILE
from functools import partial
from itertools import count
from types import FrameType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.interrupted_lines import Interrupts, ends

from frazil.array.io.scheduler import Budget, Scheduler, Task
from frazil.base.threads import Pending, wait_for_change
from frazil.errors import StoreError
from frazil.runtime import Runtime
from frazil.stores.values import Columns

# --- the budget --------------------------------------------------------------------------------------------------------------------------


def test_tasks_are_admitted_while_they_fit() -> None:
    budget = Budget(100)
    assert budget.begin(0, 60) and budget.begin(1, 40)
    assert not budget.begin(2, 1)
    budget.end(0)
    assert budget.begin(2, 60) and not budget.begin(3, 1)
    assert budget.nbytes == 100


def test_a_task_larger_than_the_budget_runs_alone() -> None:
    budget = Budget(100)
    assert budget.begin(0, 1000)
    assert not budget.begin(1, 1)
    budget.end(0)
    assert budget.begin(1, 1) and not budget.begin(2, 1000)
    budget.end(1)
    assert budget.begin(2, 1000)


def test_a_task_that_waits_keeps_its_bytes_and_goes_on_when_others_end() -> None:
    budget = Budget(100)
    for task in range(3):
        assert budget.begin(task, 5)
    for task in range(3):
        budget.wait(task)
    assert budget.resume(0, 80) and budget.nbytes == 90
    assert not budget.resume(1, 80), "it would be 165"
    assert budget.resume(2, 15), "a younger one that fits goes on"
    budget.end(0)
    assert budget.resume(1, 80) and budget.nbytes == 95


def test_the_oldest_that_waits_goes_on_alone_however_large_it_is() -> None:
    budget = Budget(100)
    for task in range(3):
        assert budget.begin(task, 5)
        budget.wait(task)
    assert not budget.resume(1, 1000)
    assert budget.resume(0, 1000)
    assert not budget.resume(1, 10)
    assert not budget.begin(3, 1)
    budget.end(0)
    assert budget.resume(1, 1000)


def test_waiting_tasks_hold_at_most_a_quarter_of_the_budget() -> None:
    budget = Budget(100)
    assert budget.begin(0, 20)
    budget.wait(0)
    assert not budget.begin(1, 6) and budget.begin(1, 5)


@given(st.lists(st.lists(st.integers(0, 150), min_size=1, max_size=4), max_size=12), st.integers(1, 100), st.data())
def test_all_tasks_end_and_more_than_the_limit_is_of_one_and_of_waiting_ones(
    tasks: list[list[int]], limit: int, data: st.DataObject
) -> None:
    """Tasks of several stages, with events in any order."""
    budget, stages = Budget(limit), {i: iter(costs[1:]) for i, costs in enumerate(tasks)}
    running: dict[int, int] = {}
    waiting: dict[int, int] = {}
    kept: dict[int, int] = {}
    begun = before = 0
    while begun < len(tasks) or running or waiting:
        resumed = next((i for i in sorted(waiting) if budget.resume(i, waiting[i])), None)
        if resumed is not None:
            running[resumed] = waiting.pop(resumed)
            del kept[resumed]
        elif begun < len(tasks) and budget.begin(begun, tasks[begun][0]):
            running[begun] = tasks[begun][0]
            begun += 1
        else:
            assert running, "nothing goes on"
            task = data.draw(st.sampled_from(sorted(running)))
            if (cost := next(stages[task], None)) is None:
                budget.end(task)
            else:
                budget.wait(task)
                waiting[task], kept[task] = cost, running[task]
            del running[task]
        held = sum(running.values()) + sum(kept.values())
        assert budget.nbytes == held
        # A task that does not add to the held bytes may always continue.
        assert (
            held <= max(limit, before)
            or len(running) <= 1
            or sum(kept.values()) > limit // 4
            or max(running.values()) > limit
        )
        before = held
    assert budget.nbytes == 0


# --- the scheduler alone -----------------------------------------------------------------------------------------------------------------


def acting(act: Callable[[int], object], numbers: Iterable[int]) -> Iterator[Task]:
    """A task for each number, with one stage."""

    def stages(number: int) -> Iterator[int]:
        act(number)
        return iter(())

    for number in numbers:
        yield Task(np.arange(1), 0, lambda _, number=number: stages(number))  # type: ignore[misc]


def scheduler(workers: int, limit: int = 100) -> Scheduler:
    return Scheduler(Runtime(requests_in_flight=workers, bytes_in_flight=limit), direct=False)


@pytest.fixture
def others() -> set[threading.Thread]:
    """The threads before the test. An interrupt within Thread.start leaves one for ever, and those of other tests may end at any time."""
    return {*threading.enumerate()}


def no_thread_is_left(others: set[threading.Thread]) -> bool:
    return not [thread for thread in threading.enumerate() if thread.name == "frazil task" and thread not in others]


def test_all_tasks_are_done_once_and_asked_for_by_one_thread_at_a_time() -> None:
    asking = threading.Lock()

    def numbers() -> Iterator[int]:
        for i in range(200):
            assert asking.acquire(blocking=False)
            asking.release()
            yield i

    done: list[int] = []
    scheduler(4).run(acting(done.append, numbers()))
    assert sorted(done) == list(range(200))
    scheduler(4).run(iter(()))


def test_stages_of_many_tasks_stay_within_the_budget() -> None:
    held: dict[int, int] = {}
    most = 0
    lock = threading.Lock()

    def stages(number: int) -> Iterator[int]:
        nonlocal most
        for cost in (5, 35, 25):
            with lock:
                held[number] = cost
                most = max(most, sum(held.values()))
            yield cost
        with lock:
            del held[number]

    tasks = (Task(np.arange(1), 5, lambda _, i=i: stages(i)) for i in range(100))  # type: ignore[misc]
    scheduler(8, 100).run(tasks)
    assert not held
    assert most <= 100 + 35, "what is counted here before it is admitted"


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_an_error_is_raised_when_the_others_are_done(error: BaseException, others: set[threading.Thread]) -> None:
    gate, numbers, done = threading.Event(), count(), []

    def act(number: int) -> None:
        if number == 1:
            gate.set()
            raise error
        gate.wait(30)
        done.append(number)

    with pytest.raises(type(error)) as caught:
        scheduler(3).run(acting(act, numbers))
    assert caught.value is error
    assert next(numbers) <= 3 + 2
    assert 0 in done, "what had begun was waited for"
    assert no_thread_is_left(others)


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("error", [StoreError("x"), KeyboardInterrupt(), MemoryError()], ids=repr)
def test_an_error_in_any_stage_ends_all_tasks(stage: int, error: BaseException, others: set[threading.Thread]) -> None:
    begun: list[int] = []
    ended: list[int] = []

    def stages(number: int) -> Iterator[int]:
        begun.append(number)
        try:
            for at in range(3):
                if number == 5 and at == stage:
                    raise error
                yield at
        finally:
            ended.append(number)

    numbers = count()
    tasks = (Task(np.arange(1), 0, lambda _, i=i: stages(i)) for i in numbers)  # type: ignore[misc]
    with pytest.raises(type(error)) as caught:
        scheduler(4).run(tasks)
    assert caught.value is error
    assert sorted(begun) == sorted(ended), "iterators of tasks that wait are ended, too"
    assert next(numbers) <= 5 + 2 * 4 + 2, "nothing is begun afterwards"
    assert no_thread_is_left(others)


def test_an_interrupt_ends_all_tasks_and_is_not_lost_behind_an_error(others: set[threading.Thread]) -> None:
    here, gate = threading.get_ident(), threading.Event()

    def act(number: int) -> None:
        if threading.get_ident() == here:
            gate.wait(30)  # the interrupt ends it
            pytest.fail("no interrupt came")
        os.kill(os.getpid(), signal.SIGINT)
        raise StoreError("something else")

    with pytest.raises(KeyboardInterrupt):
        scheduler(2).run(acting(act, count()))
    assert no_thread_is_left(others)


def test_an_interrupt_of_the_one_who_waits(others: set[threading.Thread]) -> None:
    """Waits for the budget, while another thread runs a task."""
    here, begun, waits, done = threading.get_ident(), threading.Event(), threading.Event(), []

    def numbers() -> Iterator[int]:
        yield from (0, 1)
        waits.set()  # the next task does not fit, and the caller starts to wait
        yield 2

    def act(number: int) -> None:
        if threading.get_ident() == here:
            begun.wait(30)
            return
        begun.set()
        waits.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        done.append(number)

    tasks = (task._replace(cost=50 if i < 2 else 100) for i, task in enumerate(acting(act, numbers())))
    with pytest.raises(KeyboardInterrupt):
        scheduler(2).run(tasks)
    assert 1 <= len(done) <= 2, "what had begun was waited for"
    assert no_thread_is_left(others)


def test_an_interrupt_within_a_condition_keeps_nobody_waiting() -> None:
    """The lock would stay locked, as the __enter__ of a Condition is written in Python; or it would be released once too often, after its `wait`."""
    modules = {"scheduler.py", "threading.py"}

    def stages(_: Columns) -> Iterator[int]:
        os.sched_yield()
        yield 1

    def work() -> None:
        Scheduler(Runtime(requests_in_flight=3), direct=False).run(iter([Task(np.arange(1), 1, stages)] * 20))

    whole = Interrupts(modules=modules)
    whole.run(work)
    for number in [number for number, place in enumerate(whole.seen) if place[0] == threading.__file__][::2]:
        assert ends(partial(Interrupts(number, modules=modules).run, work), 20), whole.seen[number]


def test_an_interrupt_while_the_budget_is_waited_for_is_no_other_error() -> None:
    """Within the `wait` of a Condition it would leave the lock released, which the end of the block releases."""
    here, waiting = threading.get_ident(), {wait_for_change.__code__, threading.Thread.join.__code__}

    def waits() -> bool:
        frame: FrameType | None = sys._current_frames()[here]
        while frame is not None and frame.f_code not in waiting:
            frame = frame.f_back
        return frame is not None

    def run(interrupts: Interrupts) -> bool:
        begun = threading.Lock()
        begun.acquire()

        def act(number: int) -> None:
            if threading.get_ident() == here:
                begun.acquire(timeout=30)
                return
            if number < 2:
                begun.release()
            while not waits():
                os.sched_yield()

        tasks = (task._replace(cost=50 if i < 2 else 100) for i, task in enumerate(acting(act, iter(range(3)))))
        return interrupts.run(lambda: scheduler(2).run(tasks))

    whole = Interrupts(modules={"threading.py"})
    assert run(whole)
    places = [number for number, place in enumerate(whole.seen) if place in wait_lines()]
    assert places
    for number in places:
        run(Interrupts(number, modules={"threading.py"}))


def wait_lines() -> set[tuple[str, int]]:
    code = threading.Condition.wait.__code__
    return {(code.co_filename, line) for _, _, line in code.co_lines() if line is not None}


def test_an_interrupt_while_a_thread_starts_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it comes within the standard library, the thread may never work, and never end."""
    start, end = threading.Thread.start, threading.Event()

    def interrupted(self: threading.Thread) -> None:
        if self.name != "frazil task":
            start(self)
            return
        self.run = end.wait  # type: ignore[method-assign, assignment]
        start(self)
        raise KeyboardInterrupt

    def work() -> None:
        with pytest.raises(KeyboardInterrupt):
            Scheduler(Runtime(requests_in_flight=3), direct=False).run(
                iter([Task(np.arange(1), 1, lambda _: iter(()))] * 6)
            )

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    assert ends(work, 20)
    end.set()


def test_an_error_of_the_tasks_themselves() -> None:
    def numbers() -> Iterator[int]:
        yield from range(10)
        raise StoreError("the list broke")

    done: list[int] = []
    with pytest.raises(StoreError, match="the list broke"):
        scheduler(3).run(acting(done.append, numbers()))
    assert sorted(done) == list(range(10))


def test_without_further_threads_the_caller_runs_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    done: list[int] = []
    scheduler(4).run(acting(done.append, range(20)))
    assert done == list(range(20))


@pytest.mark.parametrize("direct", [True, False])
def test_a_task_that_lacks_files_is_done_in_halves(direct: bool) -> None:
    done: list[list[int]] = []

    def stages(rows: Columns) -> Iterator[int]:
        yield 0
        if len(rows) > 3:
            raise StoreError("too many", errno=EMFILE)
        done.append(rows.tolist())

    tasks = [Task(np.arange(low, low + 10), 0, stages) for low in range(0, 50, 10)]
    Scheduler(Runtime(), direct=direct).run(iter(tasks))
    assert sorted(row for rows in done for row in rows) == list(range(50))


@pytest.mark.parametrize("waits", [True, False])
def test_an_interrupt_ends_what_other_threads_wait_for(waits: bool, others: set[threading.Thread]) -> None:
    """As answers of a server that does not respond. waits: also the main thread, which takes the first or last task."""
    here, begun = threading.get_ident(), count(1)
    response = Pending(int)
    late = threading.Timer(30, response.run)  # so that the test ends where it fails

    def stages(_: Columns) -> Iterator[int]:
        if next(begun) == 3:
            signal.pthread_kill(here, signal.SIGINT)
        if waits or threading.get_ident() != here:
            response.wait()
        return iter(())

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    late.start()
    try:
        tasks = iter([Task(np.arange(1), 0, stages) for _ in range(4)])
        with pytest.raises(KeyboardInterrupt):
            Scheduler(Runtime(requests_in_flight=4), direct=False).run(tasks)
        assert not response.done
    finally:
        late.cancel()
        signal.signal(signal.SIGINT, before)
    assert no_thread_is_left(others)
