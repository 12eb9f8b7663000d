"""Small checks that the suites share, so that they need no test framework."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from threading import Barrier, Thread
from typing import Final, TypeVar

from frazil.errors import FrazilError

E = TypeVar("E", bound=FrazilError)

_SWITCH_INTERVAL: Final = 1e-6  # seconds


def refusal(kind: type[E], call: Callable[[], object]) -> E:
    """The error of `kind` that the call raises; AssertionError if it raises none."""
    try:
        answer = call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}, but {repr(answer)[:200]}")


def run_threads(calls: Iterable[Callable[[], object]]) -> None:
    """Runs the calls at the same time, each on a thread of its own; raises their first error. The interpreter switches between them often: threads that need no
    other resource would run one after the other."""
    todo = list(calls)
    errors: list[BaseException] = []
    barrier = Barrier(len(todo))

    def run(call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=run, args=(call,)) for call in todo]
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]
