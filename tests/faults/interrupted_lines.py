"""Interrupts wherever Python may raise them: at the start of each function, at each line, and after the last call of a function, also in the standard library.

Not where Python handles no signal although its tracer reports an event: between the last instruction of a `with` block and the call of __exit__, at the end of
an `except` block, and where a generator resumes. Nor where a loop is repeated on one line: there an exception of the tracer ends no `with` block around a
comprehension (Python 3.12 and newer), as that of a signal does."""

from __future__ import annotations

import dis
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection
from functools import cache
from types import CodeType, FrameType
from typing import Any

Act = Callable[[], object]


@cache
def _places(code: CodeType) -> tuple[int, frozenset[int], frozenset[int]]:
    """Offsets of instructions: the first RESUME, those that begin to leave a `with` or `except` block or to repeat a loop, and returns after a call."""
    instructions = [one for one in dis.get_instructions(code) if one.opname not in {"CACHE", "PRECALL"}]
    leaves, returns = set(), set()
    for at, one in enumerate(instructions):
        three = instructions[at : at + 4]
        if (
            len(three) == 4
            and all(i.opname == "LOAD_CONST" and i.argval is None for i in three[:3])
            and three[3].opname == "CALL"
        ):
            leaves.add(one.offset)
            while at and instructions[at - 1].opname in {
                "SWAP",
                "NOP",
            }:  # beneath the value that the block returns; after a loop
                at -= 1
                leaves.add(instructions[at].offset)
        if one.opname == "POP_EXCEPT":  # an exception would stay the one that is handled
            leaves.add(one.offset)
        # where a comprehension goes on, Python 3.13 and 3.12 lose an exception of the tracer
        if one.opname == "JUMP_BACKWARD" or (one.opname == "FOR_ITER" and instructions[at - 1].opname == "SWAP"):
            leaves.add(one.offset)
        if one.opname == "RETURN_VALUE" and at and instructions[at - 1].opname.startswith("CALL"):
            returns.add(one.offset)
    start = next((one.offset for one in instructions if one.opname == "RESUME"), 0)
    return start, frozenset(leaves), frozenset(returns)


def leaves_block(frame: FrameType) -> bool:
    """Whether the line that begins is the end of a `with` block, where Python handles no signal: a lock would stay locked."""
    return frame.f_lasti in _places(frame.f_code)[1]


class Interrupts:
    """Counts the places that an operation reaches, and interrupts it at one of them.

    modules  the names of the files whose places count: random numbers change how often lines of others run; None: all
    seen   the code and line of each place; left  the text of each interrupt that could not be raised"""

    def __init__(
        self,
        at: int | None = None,
        error: type[BaseException] = KeyboardInterrupt,
        modules: Collection[str] | None = None,
    ) -> None:
        self.at, self.error, self.modules = at, error, modules
        self.seen: list[tuple[str, int]] = []
        self.lost: list[str] = []

    def _trace(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if self.modules is not None and os.path.basename(frame.f_code.co_filename) not in self.modules:
            return None
        start, leaves, returns = _places(frame.f_code)
        offset = frame.f_lasti
        if (
            (event == "line" and offset not in leaves)
            or (event == "call" and offset == start)
            or (event == "return" and offset in returns)
        ):
            self.seen.append((frame.f_code.co_filename, frame.f_lineno))
            if len(self.seen) - 1 == self.at:
                if self.error is KeyboardInterrupt and threading.current_thread() is threading.main_thread():
                    signal.raise_signal(signal.SIGINT)  # the work may have a handler
                else:
                    raise self.error
        return self._trace

    def run(self, act: Act) -> bool:
        """Whether the operation finished."""
        before, hook, collects = sys.gettrace(), sys.unraisablehook, gc.isenabled()
        gc.disable()  # whose callbacks, of other packages, would be interrupted too
        sys.unraisablehook = lambda event: self.lost.append(f"{event.exc_type.__name__} in {event.object!r}")
        try:
            sys.settrace(self._trace)
            act()
        except self.error:
            return False
        finally:
            sys.settrace(before)
            if collects:
                gc.enable()
            gc.collect(0)
            sys.unraisablehook = hook
        return True


def first_times(seen: list[tuple[str, int]]) -> list[int]:
    """The first and the last time that the operation reached each place."""
    first: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], int] = {}
    for number, place in enumerate(seen):
        first.setdefault(place, number)
        last[place] = number
    return sorted({*first.values(), *last.values()})


def open_files() -> set[str]:
    """The targets of the open descriptors of this process, with their numbers."""
    folder, found = "/proc/self/fd", set()
    for name in os.listdir(folder):
        try:
            found.add(f"{name} {os.readlink(f'{folder}/{name}')}")
        except FileNotFoundError:  # the descriptor of the listing itself
            pass
    return found


def ends(act: Act, seconds: float = 60) -> bool:
    """Whether an operation ends. It does not if a lock is never released. Raises what the operation raises."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    return not thread.is_alive()
