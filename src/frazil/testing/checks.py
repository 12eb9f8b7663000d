"""Small checks that the suites share, so that they need no test framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Barrier, Thread
from typing import TypeVar

from frazil.errors import FrazilError

E = TypeVar("E", bound=FrazilError)


def refusal(kind: type[E], call: Callable[[], object]) -> E:
    """The error of `kind` that the call raises; AssertionError if it raises none."""
    try:
        answer = call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}, but {repr(answer)[:200]}")


def run_threads(calls: Iterable[Callable[[], object]]) -> None:
    """Runs the calls at the same time, each on a thread of its own; raises their first error."""
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
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
