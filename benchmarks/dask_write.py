"""One write of a whole array by a dask cluster, into a repository, as one commit: frazil.dask.store against icechunk.dask.store_dask.

    PYTHON benchmarks/dask_write.py frazil FOLDER          # a Python that has the engine, dask and distributed
    PYTHON benchmarks/dask_write.py icechunk FOLDER --runs 5 --megabytes 1024

Both write float32 values that each task computes itself (so that only writing takes long), from chunks that are not aligned with the target's (--aligned: they
are), on a LocalCluster of processes. Neither syncs files. Prints the seconds of each run, from the lazy array to the commit, and the number of elements that
are wrong when the array is read again. The exit status is 1 if there are any. FOLDER must be on the disk to measure; the files written there are removed."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
from numpy.typing import NDArray

SHARD, CHUNK = (256, 256, 256), (64, 64, 64)
MISALIGNED = (200, 300, 170)

Write = Callable[[Path, tuple[int, ...], Any], None]
Read = Callable[[Path], Any]


def values(block_info: Any = None) -> NDArray[np.float32]:
    """A smooth field with some noise. The value of an element depends only on its position, not on the chunks."""
    (z, z_end), (y, y_end), (x, x_end) = block_info[None]["array-location"]
    return field(slice(z, z_end), slice(y, y_end), slice(x, x_end))


def field(z: slice, y: slice, x: slice) -> NDArray[np.float32]:
    a, b, c = (np.arange(part.start, part.stop, dtype=np.uint32) for part in (z, y, x))
    noise: NDArray[np.uint32] = (a * 1_000_003)[:, None, None] + (b * 10_007)[:, None] + c
    noise *= np.uint32(2_654_435_761)
    noise >>= np.uint32(24)  # 8 bits
    block: NDArray[np.float32] = noise.astype(np.float32)
    block += (1000 * a).astype(np.float32)[:, None, None] + (256 * b).astype(np.float32)[:, None]
    return block


def lazy(shape: tuple[int, ...], chunks: tuple[int, ...]) -> da.Array:
    parts = da.core.normalize_chunks(chunks, shape)
    return da.map_blocks(values, chunks=parts, dtype=np.float32, meta=np.empty((0, 0, 0), np.float32))


def with_frazil(folder: Path, shape: tuple[int, ...], source: da.Array) -> None:
    import frazil

    repo = frazil.Repository.create(folder, durable=False)
    with repo.transaction(message="written by a cluster") as root:
        array = root.create_array("data", shape=shape, dtype="float32", chunks=CHUNK, shards=SHARD)
        frazil.dask.store(source, array)


def read_frazil(folder: Path) -> Any:
    import frazil

    return frazil.Repository.open(folder).readonly_session().root["data"]


def with_icechunk(folder: Path, shape: tuple[int, ...], source: da.Array) -> None:
    import icechunk
    import icechunk.dask
    import zarr

    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder)))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="data", shape=shape, dtype="float32", chunks=CHUNK, shards=SHARD)
    fork = session.fork()
    array = zarr.open_array(fork.store, path="data", mode="r+")
    # this engine writes the chunks of the dask array: if they are not aligned with shards, tasks race for a shard
    merged = icechunk.dask.store_dask(sources=[source.rechunk(SHARD)], targets=[array])
    session.merge(merged)
    session.commit("written by a cluster")


def read_icechunk(folder: Path) -> Any:
    import icechunk
    import zarr

    repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(folder)))
    return zarr.open_array(repo.readonly_session("main").store, path="data", mode="r")


ENGINES: dict[str, tuple[Write, Read]] = {
    "frazil": (with_frazil, read_frazil),
    "icechunk": (with_icechunk, read_icechunk),
}


def count_wrong(array: Any, shape: tuple[int, ...]) -> int:
    wrong = 0
    for start in range(0, shape[0], SHARD[0]):
        z = slice(start, min(start + SHARD[0], shape[0]))
        wrong += int((np.asarray(array[z]) != field(z, slice(0, shape[1]), slice(0, shape[2]))).sum())
    return wrong


def shape_of(megabytes: int) -> tuple[int, ...]:
    return (max(1, megabytes * 2**20 // 4 // (512 * 512)), 512, 512)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="processes, of one thread each")
    parser.add_argument("--aligned", action="store_true", help="chunks of dask are shards of the target")
    options = parser.parse_args()
    write, read = ENGINES[options.engine]
    shape = shape_of(options.megabytes)
    seconds: list[float] = []
    wrong: list[int] = []
    with (
        dask.config.set({"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}),
        distributed.LocalCluster(
            processes=True, n_workers=options.workers, threads_per_worker=1, dashboard_address=":0", silence_logs=40
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(__import__, options.engine)
        for _ in range(options.runs):
            folder = Path(tempfile.mkdtemp(prefix="dask-write-", dir=options.folder)) / "repo"
            source = lazy(shape, SHARD if options.aligned else MISALIGNED)
            begun = time.perf_counter()
            write(folder, shape, source)
            seconds.append(time.perf_counter() - begun)
            wrong.append(count_wrong(read(folder), shape))
            shutil.rmtree(folder.parent)
            print(f"{options.engine}: {seconds[-1]:.2f} s, {wrong[-1]} elements wrong", file=sys.stderr)
    document = {
        "engine": options.engine,
        "megabytes": options.megabytes,
        "aligned": options.aligned,
        "seconds": seconds,
    }
    print(json.dumps({**document, "median": statistics.median(seconds), "wrong": wrong}))
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
