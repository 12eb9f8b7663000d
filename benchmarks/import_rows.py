"""Import of a NetCDF4 file: frazil.import_file against xarray's to_zarr, with the same chunks and codec.

    PYTHON benchmarks/import_rows.py FOLDER [--megabytes 2048] [--budget 256] [--repeat 3] [--codecs zstd2,lz4]  # with frazil, xarray, zarr and netCDF4

The files have float32 of (time, 720, 1440): "contiguous", and "deflate 4" with shuffle in chunks of one map. Each run is its own process, in turns; all of them
use compiled modules, as an installed package does. Prints medians of the seconds, the CPU seconds of all threads and processes, and the peak of resident
memory. "codec" is the CPU seconds for compressing these chunks and decompressing those of the file alone, with the same libraries: no import can save them. The
results are compared outside of the timed part."""

from __future__ import annotations

import argparse
import os
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
CODECS: dict[str, dict[str, Any] | None] = {
    "zstd2": {"name": "zstd", "configuration": {"level": 2, "checksum": False}},
    "zstd0": {"name": "zstd", "configuration": {"level": 0, "checksum": False}},  # the default of zarr-python
    "lz4": {
        "name": "blosc",
        "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
    },
    "none": None,
}


def write_file(path: Path, kind: str, megabytes: int) -> None:
    import netCDF4

    steps = max(CHUNKS[0], megabytes * 2**20 // (4 * SHAPE[0] * SHAPE[1]))
    rng = np.random.default_rng(0)
    base = np.cumsum(rng.normal(size=SHAPE), axis=1).astype("f4")
    with netCDF4.Dataset(path, "w") as file:
        for name, length in zip(("time", "lat", "lon"), (steps, *SHAPE), strict=True):
            file.createDimension(name, length)
        options: dict[str, Any] = (
            {"zlib": True, "complevel": 4, "shuffle": True, "chunksizes": (1, *SHAPE)} if kind == "deflate" else {}
        )
        variable = file.createVariable("t", "f4", ("time", "lat", "lon"), contiguous=kind == "contiguous", **options)
        for step in range(steps):
            variable[step] = np.round(base + step * 0.1 + rng.normal(size=SHAPE) * 0.2, 2)


def by_frazil(source: Path, target: Path, codec: str, budget: int) -> None:
    import frazil

    runtime = frazil.Runtime(bytes_in_flight=budget)
    codecs = [CODECS[codec]] if CODECS[codec] else []
    frazil.import_file(source, target, chunks=CHUNKS, codecs=codecs, runtime=runtime)


def zarr_codecs(codec: str) -> list[Any]:
    """The same as objects of zarr-python."""
    import zarr

    chosen = CODECS[codec]
    if chosen is None:
        return []
    kinds = {"zstd": zarr.codecs.ZstdCodec, "blosc": zarr.codecs.BloscCodec}
    return [kinds[chosen["name"]](**chosen["configuration"])]


def by_xarray(source: Path, target: Path, codec: str, budget: int) -> None:
    """Slices of the budget, one after another, as to_zarr without dask reads a variable whole."""
    import xarray as xr

    encoding: dict[str, Any] = {"t": {"chunks": CHUNKS, "compressors": zarr_codecs(codec)}}
    options: dict[str, Any] = {"zarr_format": 3, "consolidated": False}
    with xr.open_dataset(source, engine="netcdf4", decode_cf=False) as opened:
        dataset = opened.drop_encoding()
        rows = max(1, budget // 2 // (4 * SHAPE[0] * SHAPE[1]) // CHUNKS[0]) * CHUNKS[0]
        for start in range(0, dataset.sizes["time"], rows):
            part = dataset.isel(time=slice(start, start + rows)).load()
            more: dict[str, Any] = {"append_dim": "time"} if start else {"encoding": encoding}
            part.to_zarr(target, **options, **more)


ENGINES = {"frazil": by_frazil, "xarray": by_xarray}


def run_one(engine: str, source: Path, target: Path, codec: str, budget: int) -> None:
    """Runs in its own process. Returns seconds, CPU seconds, MiB."""
    before, cpu = time.perf_counter(), time.process_time()
    ENGINES[engine](source, target, codec, budget)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() - cpu + children.ru_utime + children.ru_stime
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.perf_counter() - before, used, peak)


def codec_seconds(source: Path, codec: str) -> float:
    """CPU seconds for decompressing the file's chunks and compressing ours, estimated from a sample of maps on one thread."""
    import netCDF4
    import numcodecs

    from frazil import _kernel

    chosen = CODECS[codec]
    native = {"zstd": ("zstd", 2 if codec == "zstd2" else 0, False), "blosc": ("blosc", "lz4", 5, 1, 4, 0)}
    with netCDF4.Dataset(source) as file:
        steps, maps = len(file["t"]), file["t"][: 2 * CHUNKS[0]].data
    chunks = maps.reshape(2, 16, 8, 90, 8, 180).transpose(0, 2, 4, 1, 3, 5).reshape(-1, *CHUNKS)
    values = [part.tobytes() for part in chunks]
    planes = [bytes(numcodecs.Shuffle(4).encode(plane)) for plane in maps]
    stored = (
        [bytes(encoded) for encoded in _kernel.encode_bytes([("zlib", 4)], planes, 0)]
        if "deflate" in source.name
        else []
    )
    rows = np.array([(-1 - i, 0, len(value)) for i, value in enumerate(stored)], np.int64).reshape(-1, 3)
    before = time.process_time()
    if stored:
        limits, lengths = np.full(len(stored), maps[0].nbytes), np.empty(len(stored), np.int64)
        _kernel.decode_bytes([("zlib", 4)], None, stored, rows, limits, lengths, 1)
    if chosen is not None:
        _kernel.encode_bytes([native[chosen["name"]]], values, 1)
    return (time.process_time() - before) * steps / len(maps)


def check(folder: Path, kind: str) -> None:
    import zarr

    found = [zarr.open_array(folder / f"{kind}-{engine}.zarr" / "t", mode="r") for engine in ENGINES]
    for step in (0, found[0].shape[0] - 1):
        if not np.array_equal(found[0][step], found[1][step]):
            raise SystemExit(f"{kind}: step {step} differs")


def compare(folder: Path, source: Path, kind: str, codec: str, options: argparse.Namespace) -> None:
    """One row: both engines in turns."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    rounds: dict[str, list[list[float]]] = {engine: [] for engine in ENGINES}
    for number in range(options.repeat + 1):  # the first run compiles modules, and reads the file into memory
        for engine in ENGINES:
            target = folder / f"{kind}-{engine}.zarr"
            shutil.rmtree(target, ignore_errors=True)
            arguments = ["--run", engine, str(source), str(target), codec, "--budget", str(options.budget)]
            command = [sys.executable, __file__, str(folder), *arguments]
            output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            if number:
                rounds[engine].append([float(number) for number in output.split()])
    check(folder, kind)
    ours, theirs = [[statistics.median(column) for column in zip(*rounds[engine], strict=True)] for engine in ENGINES]
    for engine, (seconds, cpu, peak) in zip(ENGINES, (ours, theirs), strict=True):
        print(f"{kind:12} {codec:6} {engine:8} {seconds:8.2f} s {cpu:8.2f} s CPU {peak:8.0f} MiB")
    arguments = ["--run", "codec", str(source), "", codec]
    command = [sys.executable, __file__, str(folder), *arguments]
    alone = float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
    print(f"{kind:12} {codec:6} codec    {'':10} {alone:8.2f} s CPU")
    pairs = [b[0] / a[0] for a, b in zip(*rounds.values(), strict=True)]
    print(
        f"{kind:12} {codec:6} x xarray: {theirs[0] / ours[0]:.2f} ({min(pairs):.2f} to {max(pairs):.2f}), "
        f"CPU {theirs[1] / ours[1]:.2f}, CPU beside the codec {(theirs[1] - alone) / (ours[1] - alone):.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--budget", type=int, default=256, help="MiB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--codecs", default=",".join(CODECS))
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        engine, source, target, codec = options.run
        if engine == "codec":
            print(codec_seconds(Path(source), codec))
            return
        run_one(engine, Path(source), Path(target), codec, options.budget * 2**20)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        source = options.folder / f"{kind}-{options.megabytes}.nc"
        if not source.exists():
            write_file(source, kind, options.megabytes)
        for codec in options.codecs.split(","):
            compare(options.folder, source, kind, codec, options)


if __name__ == "__main__":
    main()
