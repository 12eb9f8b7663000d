"""What a process made by a fork needs: locks that are free in it, and objects that are renewed there, as no thread of the parent runs in it."""

from __future__ import annotations

import os
from _thread import allocate_lock  # threading's Lock, without the module
from itertools import count
from typing import Final, Protocol

from frazil.base.weak_references import WeakValues


class Renewed(Protocol):
    """Has locks, or is changed in several steps."""

    def after_fork(self) -> None:
        """Runs in the child: replaces held locks and discards unfinished changes, because the threads of the parent do not run there."""


_renewed: Final[WeakValues[int, Renewed]] = WeakValues()
_numbers: Final = count()


def renew_after_fork(value: Renewed) -> None:
    """Has value.after_fork() called in the child of each fork, as long as something holds the value."""
    _renewed.put(next(_numbers), value)


class ForkSafeLock:
    """A lock that is free in the child of a fork, even if a thread of the parent holds it: that thread does not exist in the child.

    lock  to be used in `with` directly: an interrupt within an __enter__ written in Python would leave it locked"""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        self.lock = allocate_lock()


def _after_fork() -> None:
    for value in _renewed.values():
        value.after_fork()


os.register_at_fork(after_in_child=_after_fork)
