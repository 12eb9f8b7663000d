"""Threads for the work of one call. If no thread can be started, the calling thread does the work. And work that Ctrl-C does not stop.

Not by concurrent.futures: an interrupt in the Condition of a Future keeps a lock that the thread needs which does the work. Its pools raise RuntimeError if no
thread can be started, and always when the main thread has ended: in other threads that still run, and in functions of atexit."""

from __future__ import annotations

import os
from _signal import SIGINT, getsignal, signal  # type: ignore[import-not-found] # signal's, without its slow enumerations
from _thread import allocate_lock  # threading's Lock
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Condition, Thread, current_thread, main_thread
from typing import Any, Final, Generic, ParamSpec, Self, TypeAlias, TypeVar
from weakref import ref

from frazil.base.weak_references import WeakValues, is_alone

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")

_PATIENCE: Final = 0.1  # seconds until a thread that waits looks whether it was interrupted
_given_up: Final[WeakValues[int, Thread]] = WeakValues()  # by their id()


class Pending(Generic[Result]):
    """A call that one thread makes, while another one waits for its result. done: it has ended; errors: what it raised, until `result` raises it."""

    __slots__ = ("_calls", "_ended", "_results", "done", "errors")

    def __init__(self, call: Callable[[], Result]) -> None:
        self._calls = [call]  # until a thread takes it
        self._ended = allocate_lock()
        self._ended.acquire()
        self._results: list[Result] = []
        self.errors: list[BaseException] = []
        self.done = False

    def run(self, kept: type[BaseException] = BaseException) -> None:
        """Makes the call, unless a thread has, or it was cancelled. kept: errors that `result` raises; others are raised here."""
        with suppress(IndexError):
            call = self._calls.pop()
            try:
                self._results.append(call())
            except kept as error:
                self.errors.append(error)
            finally:
                self.done = True
                self._ended.release()
                del call  # the traceback of an error holds this frame

    def cancel(self) -> bool:
        """Whether the call had not begun. Then nobody makes it, and nobody may wait for it."""
        with suppress(IndexError):
            self._calls.pop()
            return True
        return False

    def wait(self) -> None:
        """Returns when the call has ended. Raises KeyboardInterrupt in a thread that was given up."""
        while not self.done:  # Python misses a signal that arrives just before a thread waits for a lock
            if self._ended.acquire(timeout=_PATIENCE):
                self._ended.release()
            elif _given_up.get(id(thread := current_thread())) is thread:
                raise KeyboardInterrupt

    def result(self) -> Result:
        """Waits for the call, and returns its result, once. Raises its error."""
        self.wait()
        if self.errors:
            raise self.errors.pop()
        return self._results.pop()


Calls: TypeAlias = "SimpleQueue[Pending[Any] | None]"


class Threads:
    """At most `count` threads: `with Threads(4, "frazil copy") as threads: pending = threads.submit(work, argument)`. The end of the block waits for the work;
    after an exception, work that has not begun is cancelled."""

    __slots__ = ("_calls", "_ended", "_free", "_name", "_threads")

    def __init__(self, count: int, name: str) -> None:
        """count: 0 if the calling thread does the work;  name: of the threads"""
        self._name = name
        # one for each thread that may still be started: callers in several threads each take another
        self._free = [None] * (0 if is_alone() else count)
        self._calls: Calls = SimpleQueue()
        self._threads: list[Thread] = []
        self._ended: list[Thread] = []  # those that end when they have done their work

    def submit(
        self, work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Pending[Result]:
        """Calls `work` in one of the threads, in the context of the caller."""
        pending = Pending(partial(copy_context().run, work, *arguments, **named))
        if self.start():
            self._calls.put(pending)
        else:
            pending.run(Exception)  # an interrupt of this thread is raised at once
        return pending

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """The results of `work` for items, in their order. Raises the first error."""
        pending: list[Pending[Result]] = []
        for item in items:
            pending.append(self.submit(work, item))
            if pending[-1].errors:
                break
        return [one.result() for one in pending]

    def start(self) -> bool:
        """Starts another thread, up to their number. Returns whether there are any; else the calling thread does the work."""
        if self._free:
            to_its_end(self._start)  # an interrupt in Thread.start may keep the thread from its work
        return bool(self._threads)

    def _start(self) -> None:
        with suppress(IndexError):  # another caller has taken the last
            self._free.pop()
            # daemon: the process must never wait for a thread that an interrupt left behind
            thread = Thread(target=_work, args=(self._calls,), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads are available
                self._free.clear()
            else:
                self._threads.append(thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            to_its_end(partial(self._end, cancel=kind is not None))
            self._join()
        except BaseException:  # an interrupt
            to_its_end(partial(self._end, cancel=True))
            self._join()
            raise

    def _end(self, *, cancel: bool) -> None:
        """Ends the threads when they have done their work."""
        with suppress(Empty):
            while cancel:
                if (pending := self._calls.get_nowait()) is not None:
                    pending.cancel()
        self._calls.put(None)  # each thread puts it back for the next one
        self._free.clear()
        self._ended += self._threads
        self._threads = []

    def _join(self) -> None:
        for thread in self._ended:
            join(thread)


def join(thread: Thread) -> None:
    """Waits until a thread has ended. An interrupt is raised within a tenth of a second: one within Thread.join, or is_alive, makes Python up to 3.12 take the
    thread for ended, and the caller waits again to find out when it is."""

    def ends() -> bool:
        thread.join(_PATIENCE)
        return not thread.is_alive()

    while not to_its_end(ends):
        pass


def give_up(threads: Iterable[Thread]) -> None:
    """Ends what threads wait for, as an interrupt ends it in the main thread: a request whose server does not respond is not awaited."""
    for thread in threads:
        _given_up.put(id(thread), thread)


def wait_for_change(condition: Condition) -> None:
    """Waits until others notify of a change, or for a tenth of a second: the caller looks, and waits again. An interrupt is raised afterwards, when the lock
    is held again: within Condition.wait it would leave the lock released, and the `with` block of the caller would raise RuntimeError."""
    to_its_end(partial(condition.wait, _PATIENCE))


class _Held:
    """A handler of SIGINT that keeps interrupts while some work runs. If the work ended without restoring the handler before, because a handler of another
    signal raised an exception just then, it does that itself.

    handler  the one before;  arrived: the interrupts so far, which live as long as the work"""

    __slots__ = ("_arrived", "handler")

    def __init__(self, handler: Callable[[int, object], object], arrived: deque[int]) -> None:
        self.handler, self._arrived = handler, ref(arrived)

    def holds(self) -> bool:
        """Whether the work runs."""
        return self._arrived() is not None

    def __call__(self, number: int, _: object) -> None:
        arrived = self._arrived()
        if arrived is None:
            signal(SIGINT, self.handler)
        elif not arrived:
            arrived.append(number)
            return
        self.handler(number, None)


def to_its_end(work: Callable[[], Result]) -> Result:
    """The result of `work`, which an interrupt of the main thread does not stop: it is raised when the work has ended. A second one is raised at once.

    An interrupt is the signal: other exceptions, as those of other signals, do stop the work."""
    interrupt = getsignal(SIGINT)
    if isinstance(interrupt, _Held) and not interrupt.holds():
        interrupt = interrupt.handler
    # another thread is not interrupted; and within such work the outer call holds interrupts
    if current_thread() is not main_thread() or not callable(interrupt) or isinstance(interrupt, _Held):
        return work()
    arrived: deque[int] = deque()
    held = _Held(interrupt, arrived)
    try:
        # refused where Python was started by another thread than the one that threading takes for the main one
        with suppress(ValueError):
            signal(SIGINT, held)
        return work()
    finally:
        try:
            if getsignal(SIGINT) is held:  # the work may have set another one
                signal(SIGINT, interrupt)
        finally:
            if arrived:
                interrupt(arrived[0], None)


def _after_fork() -> None:
    held = getsignal(SIGINT)
    if isinstance(held, _Held):  # another thread forked: the work does not go on in the child
        signal(SIGINT, held.handler)


os.register_at_fork(after_in_child=_after_fork)


def _work(calls: Calls) -> None:
    while (pending := calls.get()) is not None:
        pending.run()
        del pending
    calls.put(None)
