"""The cost of maintenance: verification of many chunk files, and of the values of an array compared with plain reading; garbage collection of many chunk files,
of which 1% are garbage; and expiry of most of a long history.

    python benchmarks/maintenance_rows.py [chunk files] [snapshots]

Prints for each step the seconds and the peak of resident memory of its own process. Repositories are created in the system's folder for temporary files."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import frazil

COLUMNS = 10_000  # chunk files written in one call
BYTES = 600
GARBAGE = 100  # one of this many is garbage


def make_chunks(location: str, count: int) -> None:
    """A repository of this many chunk files of 600 bytes each, which are too large for manifests, and 1% more that are not referenced."""
    repo = frazil.Repository.create(location, durable=False, chunk_packing="off")
    session = repo.writable_session()
    array = session.root.create_array("a", shape=(count, BYTES), dtype="u1", chunks=(1, BYTES), codecs=[])
    for low in range(0, count, COLUMNS):
        array[low : low + COLUMNS] = 1
    session.commit("chunk files")
    killed = repo.writable_session()
    opened = killed.open("a")
    assert isinstance(opened, frazil.Array)
    opened[: count // GARBAGE] = 2


def make_history(location: str, count: int) -> None:
    """A repository with this many snapshots."""
    repo = frazil.Repository.create(location, durable=False)
    session = repo.writable_session()
    for number in range(count):
        session.root.attrs["n"] = number
        session.commit("next")


def collect(location: str) -> str:
    """One run. Afterwards the condemned files count as two days old."""
    done = frazil.Repository.open(location, durable=False).garbage_collect()
    for path in (Path(location) / "gc/condemned").glob("*"):
        os.utime(path, (time.time() - 2 * 86400,) * 2)
    return f"{sum(done.condemned.values())} condemned, {sum(done.removed.values())} removed, {sum(done.live.values())} live"


def make_values(location: str) -> None:
    """A repository with digests, and an array of 512 MiB in it, in chunks of 1 MiB that zstd compresses."""
    repo = frazil.Repository.create(location, durable=False, chunk_digests="crc32c")
    with repo.transaction(message="values") as root:
        array = root.create_array("v", shape=(512, 2**18), dtype="f4", chunks=(1, 2**18))
        for row in range(0, 512, 16):
            array[row : row + 16] = np.random.default_rng(row).normal(size=(16, 2**18)).round(2)


def verify(location: str, *, decode: bool = False, digests: bool = False) -> str:
    """Refs, snapshots, manifests and references; and all values."""
    found = frazil.Repository.open(location).verify(decode=decode, digests=digests)
    assert found.ok
    return f"{found.references} references, {found.chunks} chunk files"


def read(location: str) -> str:
    """Reads all values and keeps none."""
    array = frazil.Repository.open(location).readonly_session().root["v"]
    assert isinstance(array, frazil.Array)
    for row in range(0, 512, 64):
        array[row : row + 64]
    return "plain reading"


def expire(location: str, count: int) -> str:
    """Expires 90%."""
    repo = frazil.Repository.open(location, durable=False)
    done = repo.expire(older_than=timedelta(0), keep_last=count // 10)
    return f"{len(done.snapshots)} expired, {done.left} left"


def measured(label: str, step: Callable[..., object], *arguments: object) -> None:
    """Runs a step in its own process."""
    context = get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_run, args=(queue, step, arguments))
    process.start()
    result, seconds, peak = queue.get()
    process.join()
    print(f"{label}: {seconds:.2f} s, {peak} MiB  ({result})", flush=True)


def _run(queue: object, step: Callable[..., object], arguments: tuple[object, ...]) -> None:
    start = time.perf_counter()
    result = step(*arguments)
    seconds = time.perf_counter() - start
    queue.put((result, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024))  # type: ignore[attr-defined]


def main() -> None:
    counts = [int(text) for text in sys.argv[1:]]
    chunks, snapshots = [*counts, *(100_000, 10_000)[len(counts) :]][:2]
    with tempfile.TemporaryDirectory() as folder:
        location = f"{folder}/chunks"
        make_chunks(location, chunks)
        measured(f"verify of {chunks} chunk files", verify, location)
        make_values(f"{folder}/values")
        for _ in range(3):  # interleaved, as the load of the machine changes
            measured("reading 512 MiB", read, f"{folder}/values")
            measured("verify of 512 MiB with decode", partial(verify, decode=True), f"{folder}/values")
            measured("verify of 512 MiB with digests", partial(verify, digests=True), f"{folder}/values")
        for run in ("condemning", "removing", "with nothing to do"):
            measured(f"gc of {chunks} chunk files, 1% garbage, run {run}", collect, location)
        make_history(f"{folder}/history", snapshots)
        measured(f"expiry of 90% of {snapshots} snapshots", expire, f"{folder}/history", snapshots)
        for run in ("condemning", "removing"):
            measured(f"gc after it, run {run}", collect, f"{folder}/history")


if __name__ == "__main__":
    main()
