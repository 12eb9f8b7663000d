"""Threads in which asynchronous methods run blocking calls: one bounded pool for a process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_THREADS: Final = 32  # zarr-python has 10 calls under way at once (async.concurrency), unless configured otherwise
_pools: list[ThreadPoolExecutor] = []
_lock = Lock()


def _pool() -> ThreadPoolExecutor:
    with _lock:
        if not _pools:
            _pools.append(ThreadPoolExecutor(_THREADS, "frazil zarr"))
        return _pools[0]


async def in_thread(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a blocking call in a thread of the pool."""
    return await asyncio.get_running_loop().run_in_executor(_pool(), partial(call, *args, **kwargs))


def _after_fork() -> None:
    """The child has none of the parent's threads."""
    global _lock  # noqa: PLW0603
    _lock = Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
