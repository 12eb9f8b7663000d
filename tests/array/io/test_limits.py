"""Limits of a Runtime in writing: it bounds the threads that write files, and the active requests."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
from tests.servers.buckets import S3
from tests.servers.proxy import FaultProxy
from tests.stores.local_disks import locked

import frazil
from frazil.errors import StoreError


def native_threads() -> set[str]:
    return {*os.listdir("/proc/self/task")}


def most(count: Callable[[], int], expected: int) -> int:
    """The greatest count until it is the expected one, and for 200 ms more, in which it does not exceed it."""
    found, end = 0, monotonic() + 60
    while monotonic() < end:
        found = max(found, count())
        if found >= expected:
            end = min(end, monotonic() + 0.2)
        sleep(0.001)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc/self/task")
@pytest.mark.parametrize("threads", [1, 5])
def test_files_are_written_by_as_many_threads(tmp_path: Path, threads: int) -> None:
    """All files are locked by another writer, so that each thread that publishes waits."""
    runtime = frazil.Runtime(threads=threads)
    array = frazil.create_array(tmp_path / "a", shape=160, dtype="u1", chunks=1, codecs=[], runtime=runtime)
    writer = threading.Thread(target=array.__setitem__, args=(..., 1))
    with contextlib.ExitStack() as locks:
        (tmp_path / "a/c").mkdir()
        for number in range(160):
            locks.enter_context(locked(tmp_path / f"a/c/{number}.__lock"))
        before = native_threads()
        writer.start()
        assert most(lambda: len(native_threads() - before), threads) == threads
    writer.join()
    assert np.array_equal(array[...], np.ones(160))


def test_as_many_values_are_put_at_once(s3: S3) -> None:
    with FaultProxy(s3.endpoint) as proxy:
        store = s3.store(endpoint=proxy.url, requests_in_flight=3, retry_config={"max_retries": 0})
        runtime = frazil.Runtime(requests_in_flight=3)
        array = frazil.create_array(store, shape=64, dtype="u1", chunks=1, codecs=[], runtime=runtime)
        proxy.fail("PUT c/", "stall", None)

        def write() -> None:
            with contextlib.suppress(StoreError):  # the proxy is deleted
                array[...] = 1

        writer = threading.Thread(target=write)
        writer.start()
        assert most(lambda: len(proxy.requests_matching("PUT c/")), 3) == 3
        proxy.mend()
    writer.join()
