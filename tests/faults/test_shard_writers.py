"""Shard writers in a bucket, whose memory does not grow with the shard, in failing stores, and interrupted."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.faults.interrupted_lines import Interrupts, ends
from tests.servers.buckets import S3

import frazil
from frazil.errors import StoreError
from frazil.stores import MemoryStore
from frazil.testing import Fault, FaultPlan, FaultyStore

_LARGE = """
import resource, sys
import numpy as np
import frazil

array = frazil.create_array(
    sys.argv[1], shape=(4096, 16384), dtype="int32", chunks=(256, 256), shards=(4096, 16384), codecs=[], overwrite=True
)
block = np.ones((256, 256), "int32")
with array.shard_writer((0, 0)) as writer:
    writer[0, 0] = block
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with array.shard_writer((0, 0)) as writer:
    for i in range(16):
        for j in range(64):
            writer[i, j] = block + (i * 64 + j)
with open("/proc/self/status") as status:
    anonymous = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
print(anonymous)
for i, j in ((0, 0), (7, 31), (15, 63)):
    assert (array[i * 256 : i * 256 + 256, j * 256 : j * 256 + 256] == 1 + i * 64 + j).all()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how much memory is not mapped")
def test_memory_does_not_grow_with_the_shard(tmp_path: Path) -> None:
    """256 MiB are written; the memory that is not mapped from the temporary file stays small."""
    done = subprocess.run(
        [sys.executable, "-c", _LARGE, str(tmp_path / "a")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100_000  # KiB


def test_a_large_shard_goes_to_a_bucket_in_parts(s3: S3) -> None:
    array = frazil.create_array(
        s3.store(), shape=(4096, 2560), dtype="int32", chunks=(256, 256), shards=(4096, 2560), codecs=[]
    )
    expected = np.arange(4096 * 2560, dtype="int32").reshape(4096, 2560) + 1
    with array.shard_writer((0, 0)) as writer:
        for i in range(16):
            writer[i] = expected[256 * i : 256 * i + 256]
    assert (array[...] == expected).all()
    with array.shard_writer((0, 0)) as writer:
        writer[3, 4] = 0
    expected[768:1024, 1024:1280] = 0
    assert (array[...] == expected).all()


def test_a_store_that_fails_publishes_nothing() -> None:
    store = FaultyStore(MemoryStore())
    array = frazil.create_array(store, shape=(64, 64), dtype="int32", chunks=(8, 8), shards=(32, 32))
    array[0:8, 0:8] = 1
    for operation in ("fetch", "put_many"):
        for number in range(1, 4):
            store.plan = FaultPlan([Fault(operation, store.calls[operation] + number)])
            try:
                with array.shard_writer((0, 0)) as writer:
                    writer[1, 1] = 2
            except StoreError:
                store.plan = FaultPlan()
                assert array[8:16, 8:16].max() == 0
            store.plan = FaultPlan()
            array[8:16, 8:16] = 0
            assert (array[0:8, 0:8] == 1).all()


def test_a_writer_ends_in_another_thread_after_an_interrupt_of_an_assignment() -> None:
    """It waits for assignments in progress, but not for interrupted ones, and publishes none that began and was interrupted."""
    array = frazil.create_array(MemoryStore(), shape=(8, 8), dtype="i4", chunks=(4, 4), shards=(8, 8))
    modules, number, done = {"shard_writer.py", "threading.py"}, 0, False
    while not done:
        writer, interrupts = array.shard_writer((0, 0)).__enter__(), Interrupts(number, modules=modules)
        done, number = interrupts.run(partial(writer.__setitem__, (0, 0), number + 1)), number + 1
        with nullcontext() if done or not writer._unfinished else pytest.raises(StoreError, match="failed"):
            assert ends(partial(writer.__exit__, None, None, None), 20), interrupts.seen[-1]
    assert number > 20
    assert (array[:4, :4] == number).all()
