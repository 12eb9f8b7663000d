"""Threads for the work of one call: results, errors and interrupts, also where no thread can be started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

import pytest
from tests.faults.interrupted_lines import Interrupts, ends, first_times
from tests.reference_cycles import is_freed

from frazil.base import threads as module
from frazil.base.threads import Pending, Threads, to_its_end


class Wrong(Exception):
    """An error that can have weak references."""


def fails(number: int) -> int:
    raise Wrong(f"{number} is wrong")


@pytest.mark.parametrize("count", [0, 1, 4])
def test_results_have_the_order_of_the_items(count: int) -> None:
    before = {*threading.enumerate()}
    with Threads(count, "test") as threads:
        assert threads.map(lambda number: number * 2, range(50)) == [number * 2 for number in range(50)]
        assert len({*threading.enumerate()} - before) == count
    assert before.issuperset(threading.enumerate())


def test_two_callers_at_once_start_no_thread_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes while the first creates its thread."""
    create, created = threading.Thread.__init__, list[str]()

    def creates(self: threading.Thread, *arguments: object, **named: object) -> None:
        create(self, *arguments, **named)  # type: ignore[arg-type]
        created.append(self.name)
        if len(created) == 1:
            assert threads.submit(int, "2").result() == 2

    monkeypatch.setattr(threading.Thread, "__init__", creates)
    with Threads(1, "test") as threads:
        assert threads.submit(int, "1").result() == 1
    assert created == ["test"]


@pytest.mark.parametrize("count", [0, 2])
def test_an_error_is_raised_and_freed(count: int) -> None:
    def run() -> None:
        with Threads(count, "test") as threads:
            threads.map(fails, range(5))

    with pytest.raises(Wrong, match="0 is wrong"):
        run()
    assert is_freed(Wrong, run)


def test_an_error_cancels_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    done: list[int] = []

    def wait() -> None:
        begun.set()
        go.wait()

    with pytest.raises(KeyboardInterrupt), Threads(1, "test") as threads:
        threads.submit(wait)
        for number in range(3):
            threads.submit(done.append, number)
        begun.wait()
        cancel = Pending.cancel
        monkeypatch.setattr(Pending, "cancel", lambda last: cancel(last) and threads._calls.empty() and go.set())
        raise KeyboardInterrupt
    assert done == []


def test_work_that_counts_on_a_thread_that_does_not_start_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first caller's thread fails to start after the second has queued its work for it."""
    starting, fails_now = threading.Event(), threading.Event()
    start = threading.Thread.start

    def fails_later(self: threading.Thread) -> None:
        if self.name != "test":
            start(self)
            return
        starting.set()
        fails_now.wait(60)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails_later)
    with Threads(1, "test") as threads:
        first = threading.Thread(target=lambda: threads.submit(int, "1"))
        first.start()
        starting.wait(60)
        second = threads.submit(int, "2")
        fails_now.set()
        first.join(60)
        assert second.result() == 2


def test_where_no_thread_can_be_started_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with Threads(3, "test") as threads:
        assert threads.map(lambda number: (number, threading.get_ident()), range(4)) == [
            (number, threading.get_ident()) for number in range(4)
        ]


_AFTER_MAIN = """
import atexit, threading
import frazil
from frazil.codecs import Bytes, Bz2
from frazil.stores import MemoryStore

def use():
    array = frazil.create_array(MemoryStore(), shape=(40, 40), dtype="f8", chunks=(10, 10), codecs=[Bytes(), Bz2()])
    array[...] = 5
    assert (array[...] == 5).all()
    small = frazil.Runtime(bytes_in_flight=2**16)
    frazil.rechunk(array, MemoryStore(), chunks=(20, 10), runtime=small)
    print(frazil.checksum(array)[:8])

def after_main():
    threading.main_thread().join()
    use()

use()
atexit.register(use)
threading.Thread(target=after_main).start()
"""


def test_arrays_work_when_the_main_thread_has_ended() -> None:
    """In a thread that is still running, and in a function of atexit."""
    done = subprocess.run([sys.executable, "-c", _AFTER_MAIN], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    lines = done.stdout.split()
    assert len(lines) == 3
    assert len(set(lines)) == 1


def test_an_interrupt_of_the_calling_thread_is_raised_at_once() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        done.append(number)
        raise KeyboardInterrupt

    with Threads(0, "test") as threads, pytest.raises(KeyboardInterrupt):
        threads.map(work, range(5))
    assert done == [0]


def test_work_after_the_end_is_done_by_the_calling_thread() -> None:
    with Threads(2, "test") as threads:
        threads.submit(int)
    assert threads.submit(int, "7").result() == 7


def test_an_interrupt_during_the_end_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {*threading.enumerate()}
    threads = Threads(3, "test")
    threads.map(int, range(9))
    monkeypatch.setattr(threading.Thread, "join", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        threads.__exit__(None, None, None)
    monkeypatch.undo()
    for thread in {*threading.enumerate()} - before:
        thread.join(60)
    assert before.issuperset(threading.enumerate())


@pytest.mark.parametrize("place", ["end", "join"])
def test_an_interrupt_at_the_end_cancels_what_has_not_begun(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate, done, before = threading.Event(), threading.Event(), list[int](), {*threading.enumerate()}
    interrupts = iter([signal.SIGINT])

    def work(number: int) -> None:
        begun.set()
        gate.wait(60)
        done.append(number)

    def interrupted(method: Callable[..., None], *arguments: object, **named: object) -> None:
        for number in interrupts:
            signal.raise_signal(number)
        if place == "end":
            gate.set()
        method(*arguments, **named)

    def end(threads: Threads, *, cancel: bool) -> None:
        cancelled(threads, cancel=cancel)
        if cancel:
            gate.set()

    cancelled = Threads._end
    monkeypatch.setattr(Threads, "_end", end)
    kind, name = (Threads, "_end") if place == "end" else (threading.Thread, "join")
    method = getattr(kind, name)
    monkeypatch.setattr(kind, name, lambda *arguments, **named: interrupted(method, *arguments, **named))
    with pytest.raises(KeyboardInterrupt), Threads(1, "test") as threads:
        pending = [threads.submit(work, number) for number in range(5)]
        assert begun.wait(60)
    assert done[:1] == [0], "what had begun was waited for"
    assert before.issuperset(threading.enumerate())
    if place == "join":
        assert done == [0]
    assert [one.cancel() for one in pending] == [False] * 5, "nothing is left"


def test_work_that_has_begun_is_waited_for_after_an_interrupt_of_the_wait() -> None:
    """Up to Python 3.12 a second Thread.join returns at once."""
    here, order = threading.get_ident(), list[str]()
    interrupted, left = threading.Event(), threading.Event()

    def waits() -> bool:
        frame = sys._current_frames().get(here)
        while frame is not None and frame.f_code is not threading.Thread.join.__code__:
            frame = frame.f_back
        return frame is not None

    def work() -> None:
        while not waits():
            os.sched_yield()
        signal.pthread_kill(here, signal.SIGINT)
        interrupted.wait(60)
        left.wait(0.3)  # the caller leaves only if it does not wait
        order.append("done")

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), Threads(1, "test") as threads:
            threads.submit(work)
        order.append("left")
        left.set()
    finally:
        signal.signal(signal.SIGINT, before)
    assert order == ["done", "left"]


def test_interrupts_while_threads_are_ended_leave_none() -> None:
    def end(at: int | None) -> list[tuple[str, int]]:
        before = {*threading.enumerate()}
        threads, interrupts = Threads(2, "test"), Interrupts(at, modules={"threads.py"})
        threads.map(int, "123")
        interrupts.run(lambda: threads.__exit__(None, None, None))
        for thread in {*threading.enumerate()} - before:
            thread.join(20)
            assert not thread.is_alive(), interrupts.seen[-1]
        return interrupts.seen

    seen, lines = end(None), {line for *_, line in Threads._end.__code__.co_lines()}
    for number in first_times(seen):
        if seen[number][1] in lines:
            end(number)


def test_an_interrupt_while_a_thread_starts_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it comes within the standard library, the thread may never work, and never end."""
    start, end = threading.Thread.start, threading.Event()

    def interrupted(self: threading.Thread) -> None:
        if self.name == "test":
            self.run = end.wait  # type: ignore[method-assign, assignment]
        start(self)
        if self.name == "test":
            raise KeyboardInterrupt

    def work() -> None:
        with pytest.raises(KeyboardInterrupt), Threads(2, "test") as threads:
            threads.map(int, "123")

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    assert ends(work, 20)
    end.set()


def test_work_goes_on_to_its_end_wherever_an_interrupt_comes() -> None:
    """Or it never begins. Also within the standard library."""
    begun, ended = list[int](), list[int]()

    def work() -> int:
        begun.append(1)
        ended.append(1)
        return 7

    whole = Interrupts()
    assert whole.run(lambda: to_its_end(work))
    for number in first_times(whole.seen):
        begun.clear()
        ended.clear()
        Interrupts(number).run(lambda: to_its_end(work))
        assert begun == ended, whole.seen[number]
    assert to_its_end(work) == 7


def test_an_interrupt_waits_for_the_end_of_work_and_a_second_one_does_not() -> None:
    done, handler = list[int](), signal.getsignal(signal.SIGINT)

    def work(interrupts: int) -> None:
        done.append(0)
        for number in range(interrupts):
            signal.raise_signal(signal.SIGINT)
            done.append(number + 1)

    for interrupts, expected in (1, [0, 1]), (2, [0, 1]), (3, [0, 1]):
        done.clear()
        with pytest.raises(KeyboardInterrupt):
            to_its_end(partial(work, interrupts))
        assert done == expected
        assert signal.getsignal(signal.SIGINT) is handler
    with pytest.raises(KeyError):
        to_its_end({}.popitem)


def test_within_work_that_goes_to_its_end_a_second_interrupt_is_raised_at_once() -> None:
    reached = []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("first")
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("second")

    with pytest.raises(KeyboardInterrupt):
        to_its_end(partial(to_its_end, work))
    assert reached == ["first"]


@pytest.mark.parametrize("then", ["interrupt", "work", "fork"])
def test_a_handler_of_another_signal_that_raises_keeps_no_interrupt(monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    """signal() calls such handlers before it restores the one of interrupts."""
    before, calls = signal.getsignal(signal.SIGINT), list[object]()

    def calls_handlers(number: int, handler: object) -> None:
        calls.append(handler)
        if len(calls) == 2:
            raise Wrong
        signal.signal(number, handler)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "signal", calls_handlers)
    with pytest.raises(Wrong):
        to_its_end(int)
    assert signal.getsignal(signal.SIGINT) is calls[0]
    if then == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    elif then == "fork":
        module._after_fork()
    else:
        assert to_its_end(int) == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_the_work_sets_stays() -> None:
    before, own = signal.getsignal(signal.SIGINT), lambda *_: None
    try:
        to_its_end(partial(signal.signal, signal.SIGINT, own))
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_work_where_signals_belong_to_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in programs that embed Python, in which threading takes another thread for the main one."""

    def refuses(*_: object) -> None:
        raise ValueError("signal only works in main thread of the main interpreter")

    monkeypatch.setattr(module, "signal", refuses)
    assert to_its_end(int) == 0
