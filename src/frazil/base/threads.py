"""Threads for the work of one call. If no thread can be started, the calling thread does the work.

The pools of concurrent.futures raise RuntimeError then, and always when the main thread has ended: in other threads that still run, and in functions of atexit."""

from __future__ import annotations

from _thread import allocate_lock  # threading's Lock
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import ParamSpec, Self, TypeAlias, TypeVar

from frazil.base.weak_references import is_alone

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")
Calls: TypeAlias = "SimpleQueue[tuple[Callable[[], object], Callable[[], bool]] | None]"


class Threads:
    """At most `count` threads: `with Threads(4, "frazil copy") as threads: future = threads.submit(work, argument)`. The end of the block waits for the work;
    after an exception, work that has not begun is cancelled."""

    __slots__ = ("_calls", "_free", "_name", "_threads", "_working")

    def __init__(self, count: int, name: str) -> None:
        """count: 0 if the calling thread does the work;  name: of the threads"""
        self._name = name
        # one for each thread that may still be started: callers in several threads each take another
        self._free = [None] * (0 if is_alone() else count)
        self._calls: Calls = SimpleQueue()
        self._threads: list[Thread] = []
        self._working: list[Thread] = []

    def submit(
        self, work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Future[Result]:
        """Calls `work` in one of the threads, in the context of the caller."""
        call = partial(copy_context().run, work, *arguments, **named)
        if not self.start():  # an interrupt of this thread is raised at once; no name holds the future, as the traceback of an error holds this frame
            return _run(Future(), call, Exception)
        future: Future[Result] = Future()
        self._calls.put((partial(_run, future, call, BaseException), future.cancel))
        if not self._threads:  # the one that `start` counted on could not be started by another caller
            self._run_waiting()
        return future

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """The results of `work` for items, in their order. Raises the first error."""
        futures: list[Future[Result]] = []
        for item in items:
            futures.append(self.submit(work, item))
            if futures[-1].done() and futures[-1].exception() is not None:
                break
        futures.reverse()
        results = []
        while futures:
            results.append(futures.pop().result())  # not in a variable: the traceback of an error holds this frame
        return results

    def start(self) -> bool:
        """Starts another thread, up to their number. Returns whether there are any; else the calling thread does the work."""
        if self._free:
            with suppress(IndexError):  # another caller has taken the last
                self._free.pop()
                if not self._start():
                    self._free.clear()
                    if not self._threads:
                        self._run_waiting()
        return bool(self._threads)

    def _run_waiting(self) -> None:
        """Does the work that no thread will take."""
        with suppress(Empty):
            while (waiting := self._calls.get_nowait()) is not None:
                waiting[0]()
            self._calls.put(None)

    def _start(self) -> bool:
        # daemon: the process must never wait for a thread that an interrupt left behind
        thread = Thread(target=_work, args=(self._calls, self._working), name=self._name, daemon=True)
        self._threads.append(thread)  # before it runs: an interrupt must not leave a thread that nothing ends
        try:
            thread.start()
        except RuntimeError:
            self._threads.remove(thread)
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            while kind is not None:
                try:
                    call = self._calls.get_nowait()
                except Empty:
                    break
                if call is not None:
                    call[1]()
        finally:
            self._calls.put(None)  # each thread puts it back for the next one
            self._free.clear()
            threads, self._threads = self._threads, []
        for thread in threads:
            # after an interrupt of its start, one may never work
            if thread.ident is not None and (kind is None or thread in self._working):
                thread.join()


def to_its_end(work: Callable[[], Result]) -> Result:
    """The result of `work`, which an interrupt of the main thread does not stop: the interrupt is raised when the work has ended, or at once if it had not begun.

    Without Future and Condition: an interrupt within them would keep a lock that the other thread needs."""
    if current_thread() is not main_thread() or is_alone():  # no other thread is interrupted
        return work()
    unclaimed, results, errors, ended = [None], list[Result](), list[BaseException](), allocate_lock()
    ended.acquire()

    def run() -> None:
        try:
            unclaimed.pop()
        except IndexError:  # an interrupt came first
            return
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        ended.release()

    thread = Thread(target=copy_context().run, args=(run,), name="frazil to its end", daemon=True)
    try:
        try:
            thread.start()
        except RuntimeError:  # no more threads are available
            run()
        ended.acquire()
    except BaseException:
        with suppress(IndexError):
            unclaimed.pop()
            raise
        while not results and not errors:
            ended.acquire(timeout=1)
        raise
    if thread.ident is not None:
        thread.join()
    if errors:
        raise errors.pop()
    return results.pop()


def _work(calls: Calls, working: list[Thread]) -> None:
    working.append(current_thread())
    while (call := calls.get()) is not None:
        call[0]()
        del call
    calls.put(None)


def _run(future: Future[Result], work: Callable[[], Result], kept: type[BaseException]) -> Future[Result]:
    """Calls `work` for a future. kept: errors that the future keeps; others are raised."""
    try:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except kept as error:
                future.set_exception(error)
        return future
    finally:
        del future  # the traceback of an error holds this frame
