"""Threads in which asynchronous methods run blocking calls: one bounded set for a process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from frazil.base.threads import Threads

P = ParamSpec("P")
R = TypeVar("R")

_THREADS: Final = 32  # zarr-python has 10 calls under way at once (async.concurrency), unless configured otherwise
_threads = Threads(_THREADS, "frazil zarr")


async def in_thread(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a blocking call in one of the threads."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def work() -> R:
        try:
            return call(*args, **kwargs)
        finally:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(ended.set)

    pending = _threads.submit(work)
    try:
        await ended.wait()
    except BaseException:
        pending.cancel()
        raise
    return pending.result()


def _after_fork() -> None:
    """The child has none of the parent's threads."""
    global _threads  # noqa: PLW0603
    _threads = Threads(_THREADS, "frazil zarr")


os.register_at_fork(after_in_child=_after_fork)
