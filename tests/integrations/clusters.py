"""Clusters of Dask whose workers are processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dask
import distributed

__all__ = ["local_cluster"]


@contextmanager
def local_cluster(threads: int) -> Iterator[distributed.Client]:
    """The client of two workers. They are forks of a server that has imported Dask: tests kill many of them, and an import takes a second."""
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(
            processes=True, n_workers=2, threads_per_worker=threads, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.scheduler.allowed_failures = 1  # a task that kills more workers is given up
        yield client
