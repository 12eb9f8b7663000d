"""Import of a NetCDF4 file: frazil.import_file against xarray's to_zarr, the same chunks and codec on both sides.

    PYTHON benchmarks/import_rows.py FOLDER [--megabytes 2048] [--budget 256] [--repeat 3]     # a Python with frazil, xarray, zarr and netCDF4

The files have float32 of (time, 720, 1440): "contiguous", and "deflate 4" with shuffle in chunks of one map. Each run is a process of its own; printed are the seconds, the CPU seconds of all
threads and processes, and the peak of resident memory, each the median of rounds in turns. The results are compared outside of the timed part."""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SHAPE = (720, 1440)
CHUNKS = (16, 90, 180)  # 1 MiB
KINDS = ("contiguous", "deflate")
CODEC = {"name": "zstd", "configuration": {"level": 2, "checksum": False}}


def write_file(place: Path, kind: str, megabytes: int) -> None:
    import netCDF4

    steps = max(CHUNKS[0], megabytes * 2**20 // (4 * SHAPE[0] * SHAPE[1]))
    rng = np.random.default_rng(0)
    base = np.cumsum(rng.normal(size=SHAPE), axis=1).astype("f4")
    with netCDF4.Dataset(place, "w") as file:
        for name, length in zip(("time", "lat", "lon"), (steps, *SHAPE), strict=True):
            file.createDimension(name, length)
        options: dict[str, Any] = (
            {"zlib": True, "complevel": 4, "shuffle": True, "chunksizes": (1, *SHAPE)} if kind == "deflate" else {}
        )
        variable = file.createVariable("t", "f4", ("time", "lat", "lon"), contiguous=kind == "contiguous", **options)
        for step in range(steps):
            variable[step] = np.round(base + step * 0.1 + rng.normal(size=SHAPE) * 0.2, 2)


def by_frazil(source: Path, target: Path, budget: int) -> None:
    import frazil

    runtime = frazil.Runtime(bytes_in_flight=budget)
    frazil.import_file(source, target, chunks=CHUNKS, codecs=[CODEC], runtime=runtime)


def by_xarray(source: Path, target: Path, budget: int) -> None:
    """Slices of the budget, one after the other, as to_zarr without dask reads a variable whole."""
    import xarray as xr
    import zarr

    encoding: dict[str, Any] = {"t": {"chunks": CHUNKS, "compressors": [zarr.codecs.ZstdCodec(level=2)]}}
    options: dict[str, Any] = {"zarr_format": 3, "consolidated": False}
    with xr.open_dataset(source, engine="netcdf4", decode_cf=False) as opened:
        dataset = opened.drop_encoding()
        rows = max(1, budget // 2 // (4 * SHAPE[0] * SHAPE[1]) // CHUNKS[0]) * CHUNKS[0]
        for start in range(0, dataset.sizes["time"], rows):
            part = dataset.isel(time=slice(start, start + rows)).load()
            more: dict[str, Any] = {"append_dim": "time"} if start else {"encoding": encoding}
            part.to_zarr(target, **options, **more)


ENGINES = {"frazil": by_frazil, "xarray": by_xarray}


def run_one(engine: str, source: Path, target: Path, budget: int) -> None:
    """In a process of its own: seconds, CPU seconds, MiB."""
    before, cpu = time.perf_counter(), time.process_time()
    ENGINES[engine](source, target, budget)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() - cpu + children.ru_utime + children.ru_stime
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.perf_counter() - before, used, peak)


def check(folder: Path, kind: str) -> None:
    import zarr

    found = [zarr.open_array(folder / f"{kind}-{engine}.zarr" / "t", mode="r") for engine in ENGINES]
    for step in (0, found[0].shape[0] - 1):
        if not np.array_equal(found[0][step], found[1][step]):
            raise SystemExit(f"{kind}: step {step} differs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--budget", type=int, default=256, help="MiB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_one(options.run[0], Path(options.run[1]), Path(options.run[2]), options.budget * 2**20)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        source = options.folder / f"{kind}-{options.megabytes}.nc"
        if not source.exists():
            write_file(source, kind, options.megabytes)
        rounds: dict[str, list[list[float]]] = {engine: [] for engine in ENGINES}
        for _ in range(options.repeat):
            for engine in ENGINES:
                target = options.folder / f"{kind}-{engine}.zarr"
                shutil.rmtree(target, ignore_errors=True)
                arguments = ["--run", engine, str(source), str(target), "--budget", str(options.budget)]
                command = [sys.executable, __file__, str(options.folder), *arguments]
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                rounds[engine].append([float(number) for number in said.split()])
        check(options.folder, kind)
        medians = {
            engine: [statistics.median(column) for column in zip(*runs, strict=True)] for engine, runs in rounds.items()
        }
        for engine, (seconds, cpu, peak) in medians.items():
            print(f"{kind:12} {engine:8} {seconds:8.2f} s {cpu:8.2f} s CPU {peak:8.0f} MiB")
        ours, theirs = medians["frazil"], medians["xarray"]
        print(f"{kind:12} x xarray: {theirs[0] / ours[0]:.2f}, CPU {theirs[1] / ours[1]:.2f}")


if __name__ == "__main__":
    main()
