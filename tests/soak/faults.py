"""The faults at the store operations of a process, by its seed: an error, a lost or late answer, half of a batch, an interrupt, a full disk, a pause of hours
in the repository's time, or the death of the process by signal 9, before or after."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from collections.abc import Callable
from itertools import count
from random import Random
from threading import Timer
from typing import Any, Final

from frazil.errors import StoreError
from frazil.stores import LocalStore
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.values import Pieces
from tests.soak.plan import HOUR, SCALE, Life

_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit, MemoryError)
_OPERATIONS: Final = (
    "fetch",
    "put_many",
    "erase_many",
    "list_page",
    "copy_in",
    "erase_leftovers",
    "list_column",
    "erase_immutable",
)
_WRITES: Final = ("put_many", "erase_many", "erase_immutable")
_DECIDE: Final = ("refs/", "gc/")  # prefixes of the keys that decide what is reachable and what is garbage
_MORE: Final = 4
_LONGEST_STALL: Final = 3 * HOUR / SCALE / 1e9  # seconds
_LATE: Final = 3.0  # maximum of seconds until a late request arrives


def install(life: Life) -> None:
    """Installs the faults of this process."""
    if life.file_limit:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (life.file_limit, hard))
    numbers = count(1)
    for kind in (LocalStore, ObjectStore):
        for name in _OPERATIONS:
            setattr(kind, name, _failing(life, name, getattr(kind, name), numbers, sure=kind is LocalStore))


def _failing(life: Life, name: str, operation: Callable[..., Any], numbers: count[int], *, sure: bool) -> Any:
    """sure: a disk knows the outcome; a bucket may execute a request later"""

    def call(self: object, names: Any, *arguments: Any, **options: Any) -> object:
        number = next(numbers)
        random = Random(f"{life.name} {os.getpid()} {number}")
        fault = _fault(life, name, names, random)
        if fault == "stall":
            time.sleep(random.random() * _LONGEST_STALL)
        if fault == "die" or number == life.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "interrupt" and random.random() < 0.5:
            raise random.choice(_INTERRUPTS)("injected")
        if fault == "full" and name in _WRITES[:1]:
            raise StoreError("an injected full disk", done=False, errno=errno.ENOSPC, hint="make room")
        if fault in {"fail", "full"} or (fault in {"lose", "late", "cut"} and name not in _WRITES):
            raise StoreError(f"an injected fault in {name}", done=False, hint="try again")
        if fault == "late" and not sure:
            Timer(random.random() * _LATE, _ignored, (operation, self, names, *arguments), options).start()
            raise StoreError(f"an injected late answer of {name}", hint="try again")
        if fault == "cut" and len(names) > 1 and not (arguments and _is_whole(arguments[0])):
            operation(self, *_half(names, *arguments), **options)
            raise StoreError(f"half of {name} was done", hint="try again")
        answer = operation(self, names, *arguments, **options)
        if fault == "die after":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "interrupt":
            raise random.choice(_INTERRUPTS)("injected")
        if fault in {"lose", "cut", "late"}:
            raise StoreError(f"an injected lost answer of {name}", done=True if sure else None, hint="try again")
        return answer

    return call


def _fault(life: Life, name: str, names: Any, random: Random) -> str | None:
    """The fault at an operation; more often for commits and lists."""
    decides = name in _WRITES and isinstance(names[0], str) and names[0].startswith(_DECIDE)
    rate = life.rate * (_MORE if decides else 1)
    return random.choice(life.faults) if life.faults and random.random() < rate else None


def _is_whole(value: object) -> bool:
    """Whether these are pieces that cannot be split in half."""
    return isinstance(value, Pieces) and value.parts is not None


def _half(names: Any, *arguments: Any) -> list[Any]:
    done = len(names) // 2
    half = []
    for value in arguments:
        if isinstance(value, Pieces):
            half.append(value._replace(offsets=value.offsets[: done + 1]))
        else:
            half.append(value[:done])
    return [names[:done], *half]


def _ignored(operation: Callable[..., object], *arguments: Any, **options: Any) -> None:
    try:
        operation(*arguments, **options)
    except BaseException:
        pass  # no process waits for the answer
