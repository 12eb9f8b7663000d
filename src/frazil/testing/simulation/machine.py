"""The machines of simulated clients: clocks that differ, pauses, random bytes and locks, all of them decided by the seed.

While a simulation runs, time.time, time.time_ns, time.sleep, os.urandom, threading.Lock and threading.RLock are replaced by functions of this module. Threads
that are not simulated get the original results."""

from __future__ import annotations

import os
import sys
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from frazil.testing.simulation.scheduler import EPOCH, Scheduler, Task

_one_at_a_time = allocate_lock()  # the replaced names are global in the process


class SimulatedLock:
    """A lock for simulated threads: a thread that waits for it lets others run. reentrant: one thread may take it several times"""

    def __init__(self, scheduler: Scheduler, *, reentrant: bool) -> None:
        self._scheduler, self._reentrant = scheduler, reentrant
        self._owner: Task | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Takes the lock; False if it is taken and `blocking` is False or a timeout is given: time does not pass while a thread waits."""
        task = self._scheduler.current()
        if self._count and not (self._reentrant and self._owner is task):
            if not blocking or timeout >= 0:
                return False
            self._scheduler.wait(lambda: not self._count)
        self._owner = task
        self._count += 1
        return True

    def release(self) -> None:
        """Releases the lock."""
        self._count -= 1
        if not self._count:
            self._owner = None

    def locked(self) -> bool:
        """Whether a thread has it."""
        return self._count > 0

    def _is_owned(self) -> bool:  # a method of Python's locks
        return self._count > 0 and self._owner is self._scheduler.current()

    def __enter__(self) -> bool:
        self._scheduler.lock_point()
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def simulated_machine(scheduler: Scheduler) -> Iterator[None]:
    """While the block runs, simulated threads have simulated machines. One simulation at a time runs in a process; another waits."""
    real = (time.time_ns, time.time, time.sleep, os.urandom, threading.Lock, threading.RLock)
    time_ns, seconds, sleep, urandom, lock, rlock = real

    def simulated_ns() -> int:
        task = scheduler.current()
        return time_ns() if task is None else EPOCH + scheduler.now + task.client.skew

    def simulated_seconds() -> float:
        return seconds() if scheduler.current() is None else simulated_ns() / 1e9

    def simulated_sleep(duration: float, /) -> None:
        if scheduler.current() is None:
            sleep(duration)
        else:
            scheduler.point()

    def simulated_urandom(size: int, /) -> bytes:
        task = scheduler.current()
        return urandom(size) if task is None else task.client.random.randbytes(size)

    def simulated_lock() -> object:
        real = scheduler.current() is None or _is_python_lock()
        return lock() if real else SimulatedLock(scheduler, reentrant=False)

    def simulated_rlock() -> object:
        real = scheduler.current() is None or _is_python_lock()
        return rlock() if real else SimulatedLock(scheduler, reentrant=True)

    patches: list[tuple[ModuleType, str, Callable[..., object], Callable[..., object]]] = [
        (time, "time_ns", time_ns, simulated_ns),
        (time, "time", seconds, simulated_seconds),
        (time, "sleep", sleep, simulated_sleep),
        (os, "urandom", urandom, simulated_urandom),
        (threading, "Lock", lock, simulated_lock),
        (threading, "RLock", rlock, simulated_rlock),
    ]
    with _one_at_a_time:
        try:
            for module, name, _, simulated in patches:
                setattr(module, name, simulated)
            yield
        finally:
            for module, name, before, _ in patches:
                setattr(module, name, before)


def _is_python_lock() -> bool:
    """Whether Python's own modules create the lock for themselves."""
    module = str(sys._getframe(2).f_globals.get("__name__"))
    return module.partition(".")[0] in sys.stdlib_module_names
