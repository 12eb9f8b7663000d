"""The functions that tasks of dask run: write one block, and join the results. dask is not imported here; workers find these functions by name."""

from __future__ import annotations

import os
from _thread import allocate_lock, get_ident
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import accumulate, islice
from typing import Any, Final

import numpy as np

from frazil.api.forked import begin_again, store_of, with_written, written_by
from frazil.api.session import Session
from frazil.array.array import Array
from frazil.base.arrays import Values
from frazil.errors import InvalidInputError, StoreError
from frazil.integrations.dask.layout import Box, Extents, selection_of
from frazil.repository.merge.fork_columns import NOTHING, Written, join
from frazil.stores.store import Store

# classes of Frazil, zarr-python, fsspec and Python whose pickle is a copy of the content, and the attributes in which stores have what they wrap
_IN_MEMORY: Final = frozenset({"MemoryStore", "MemoryFileSystem", "dict", "UserDict"})
_WRAPPED: Final = ("inner", "store", "files", "fs", "sync_fs", "_store")

_ended: Final[set[str]] = set()  # names of failed calls
_writing: Final = dict[tuple[str, int], Any]()  # locks that are held during writes to plain stores, by call and thread


class Shared:
    """The shared data of all tasks of one call; each worker gets it once.

    name  of the call, new each time, so that no scheduler reuses an old result
    fork  that each task starts from; None: targets are arrays of plain stores"""

    __slots__ = ("fork", "name", "process_id")

    def __init__(self, name: str, fork: Session | None, process_id: int | None = None) -> None:
        self.name, self.fork = name, fork
        self.process_id = os.getpid() if process_id is None else process_id  # the process of the caller

    def __reduce__(self) -> tuple[object, ...]:
        return Shared, (self.name, self.fork, self.process_id)

    def check(self, store: Store) -> None:
        """Raises InvalidInputError in another process than the caller's for a store in memory, because writes to it would be lost."""
        chain: list[object] = [store] if os.getpid() != self.process_id else []
        for inner in chain:  # it grows: each store, then what it wraps
            if not _IN_MEMORY.isdisjoint([kind.__name__ for kind in type(inner).__mro__]):
                raise InvalidInputError(
                    "workers in other processes cannot write to a store in memory",
                    hint='use a folder or an object store, or scheduler="threads"',
                )
            within = (getattr(inner, name, None) for name in _WRAPPED)
            new = (found for found in within if found is not None and all(found is not one for one in chain))
            chain += islice(new, 1)


class BlockTarget:
    """The target of the blocks of one source. array: in a plain store; path: of the array in a session; bounds: the beginnings of blocks and the end of the
    last one"""

    __slots__ = ("array", "bounds", "path", "starts")

    def __init__(self, array: Array | None, path: str, starts: tuple[int, ...], bounds: Extents) -> None:
        self.array, self.path, self.starts, self.bounds = array, path, starts, bounds

    def __reduce__(self) -> tuple[object, ...]:
        return BlockTarget, (self.array, self.path, self.starts, self.bounds)


def block_target(array: Array, box: Box, chunks: Extents, *, plain: bool) -> BlockTarget:
    """The target of a source with these chunks."""
    bounds = tuple([tuple(accumulate(extents, initial=0)) for extents in chunks])
    return BlockTarget(array if plain else None, array.path, box.starts, bounds)


def check_values(values: object, path: str) -> None:
    """Raises InvalidInputError for kinds of arrays that would lose information when they are stored."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInputError(
            "masked arrays cannot be stored: chunks have no masks",
            path=path or "/",
            hint="fill masked elements: dask.array.ma.filled(x, value)",
        )


def write_block(block: Values, shared: Shared, goal: BlockTarget, block_id: tuple[int, ...] | None = None) -> Written:
    """Writes one block; returns the writes of this task's fork. A task that fails leaves nothing, and a repeated one writes the same under new names."""
    selection = selection_of(goal.bounds, goal.starts, block_id or ())
    check_values(block, goal.path)
    if any(part.start == part.stop for part in selection):
        return NOTHING
    if shared.fork is None:
        assert goal.array is not None
        shared.check(goal.array.store)
        with _before_end(shared.name):
            goal.array[selection] = block
        return NOTHING
    shared.check(store_of(shared.fork))
    fork = begin_again(shared.fork)
    try:
        array = fork.open(goal.path)
        assert isinstance(array, Array)
        array[selection] = block
        return written_by(fork)
    except BaseException:
        fork.discard()
        raise


@contextmanager
def _before_end(name: str) -> Iterator[None]:
    """A write to a plain store, for which `end` waits. Raises StoreError after the end."""
    key, lock = (name, get_ident()), allocate_lock()
    with lock:
        _writing[key] = lock
        try:
            if name in _ended:
                raise StoreError("the computation has failed, so this block is not written", hint="store it again")
            yield
        finally:
            _writing.pop(key, None)


def end(name: str) -> None:
    """Afterwards no task of a failed call writes to a plain store in this process: schedulers do not wait for tasks that still run, and what they write late
    would replace what the caller writes next."""
    _ended.add(name)
    for (call, thread), lock in _writing.copy().items():
        if call == name and thread != get_ident():  # that of this thread was interrupted
            with lock:
                pass


async def end_in_worker(name: str) -> None:
    """As `end`, in a worker of dask.distributed, whose event loop goes on meanwhile."""
    await import_module("asyncio").to_thread(end, name)


def forked(shared: Shared, parts: Sequence[Written]) -> Session | None:
    """The writes of all tasks, as one fork that the session of the caller merges; None for plain stores."""
    return None if shared.fork is None else with_written(shared.fork, join(parts))
