"""Writes the elements of variables: arrays in memory at once, arrays of dask together, as one transaction of frazil.dask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from frazil.api.forked import session_of
from frazil.array.array import Array
from frazil.integrations.dask.arrays import store

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed


class Writer:
    """Collects data to write until `sync`.

    progress  called with the bytes of elements that were written since the last call"""

    def __init__(self, progress: Callable[[int], object] | None = None) -> None:
        self._progress = progress
        self._loaded: list[tuple[object, Array, tuple[slice, ...]]] = []
        self._lazy: list[tuple[DaskArray, Array, tuple[slice, ...]]] = []

    def add(self, source: object, target: Array, region: tuple[slice, ...] | None = None) -> None:
        """source: an array in memory, or one of dask; region: its place in the target, None: the whole target"""
        found = region or (slice(None),) * target.ndim
        if hasattr(source, "__dask_graph__"):
            self._lazy.append((source, target, found))
        else:
            self._loaded.append((source, target, found))

    def sync(self, *, compute: bool = True) -> Delayed | None:
        """Writes everything; with compute=False arrays of dask are written when the result is computed."""
        targets = [target for _, target, _ in (*self._loaded, *self._lazy)]
        for source, target, region in self._loaded:
            values = np.asarray(source)
            target[region] = values
            self._report_progress(values.nbytes)
        lazy, self._loaded, self._lazy = self._lazy, [], []
        if not compute or lazy:
            sources = [source for source, _, _ in lazy]
            goals = [target for _, target, _ in lazy]
            regions = [region for _, _, region in lazy]
            session = session_of(targets[0]) if targets else None
            later = store(sources, goals, regions=regions, into=session, compute=compute)
            if not compute:
                return later  # never the id of a snapshot, as this location has no commits
            self._report_progress(sum(source.size * source.dtype.itemsize for source in sources))
        return None

    def _report_progress(self, nbytes: int) -> None:
        if self._progress is not None:
            self._progress(nbytes)
