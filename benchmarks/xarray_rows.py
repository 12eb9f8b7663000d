"""xarray over Frazil and over zarr-python: the same stores opened with engine="frazil" and engine="zarr" (its default pipeline, and its fused one if it has
that).

    PYTHON benchmarks/xarray_rows.py FOLDER [--megabytes 1024] [--repeat 5]     # a Python with frazil, xarray and zarr

The data is float64 of ERA-Interim (eraint_uvz.nc, found as data.py finds it), tiled along time and sharded; and a group of 200 small variables. Rounds are in
turns. Prints CPU seconds (of all threads) and seconds, the median and the minimum, and how many times as fast Frazil is as the faster of the others. Results
are compared outside the timed part."""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

import data
import frazil
import frazil.xarray  # which registers ds.frazil

Row = Callable[[xr.Dataset], Any]
FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"
RNG = np.random.default_rng(0)


def write_era(path: Path, megabytes: int) -> None:
    steps = max(1, megabytes * 2**20 // (3 * 241 * 480 * 8))
    values = data.era((steps, 3, 241, 480))
    blosc = frazil.codecs.Blosc("lz4", 5, "shuffle")
    encoding = {"field": {"chunks": (1, 1, 61, 120), "shards": (16, 3, 244, 480), "compressors": blosc}}
    tiled = xr.Dataset({"field": (("time", "level", "y", "x"), values)})
    tiled.frazil.write(path, mode="w", encoding=encoding)  # the layout of the rows "era" in rows.py


def write_many(path: Path, count: int = 200) -> None:
    variables = {f"v{number}": (("t", "x"), RNG.normal(size=(10, 10)), {"units": "m"}) for number in range(count)}
    xr.Dataset(variables, {"t": np.arange(10), "x": np.arange(10)}).frazil.write(path, mode="w")
    warnings.simplefilter("ignore")
    zarr.consolidate_metadata(str(path))


def series(opened: xr.Dataset) -> Any:
    rng = np.random.default_rng(1)
    sizes = opened.sizes
    y, x = (xr.DataArray(rng.integers(0, sizes[name], 100), dims="point") for name in ("y", "x"))
    return opened["field"].isel(level=1, y=y, x=x).values


ROWS: dict[str, tuple[str, Row]] = {
    "load": ("era", lambda opened: opened["field"].values),
    "100 series": ("era", series),
    "one map": ("era", lambda opened: opened["field"].isel(time=37, level=1).values),
    "open 200 variables": ("many", lambda opened: len(opened.variables)),
}


def opener(engine: str, path: str) -> xr.Dataset:
    if engine == "frazil":
        return xr.open_dataset(path, engine="frazil")
    pipeline = {} if engine == "zarr" else {"codec_pipeline.path": FUSED}
    with zarr.config.set(pipeline):
        return xr.open_dataset(path, engine="zarr", consolidated=path.endswith("many.zarr"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    write_era(options.folder / "era.zarr", options.megabytes)
    write_many(options.folder / "many.zarr")
    engines = ["frazil", "zarr"]
    if hasattr(__import__("zarr.core.codec_pipeline", fromlist=["x"]), "FusedCodecPipeline"):
        engines.append("zarr, fused")
    for name, (source, row) in ROWS.items():
        path = str(options.folder / f"{source}.zarr")
        seconds: dict[str, list[tuple[float, float]]] = {engine: [] for engine in engines}
        expected: Any = None
        for _ in range(options.repeat):
            for engine in engines:
                wall, cpu = time.perf_counter(), time.process_time()
                found = row(opener(engine, path))
                seconds[engine].append((time.process_time() - cpu, time.perf_counter() - wall))
                expected = found if expected is None else expected
                np.testing.assert_array_equal(found, expected)
        show(name, seconds)


def show(row: str, measured: dict[str, list[tuple[float, float]]]) -> None:
    print(f"{row:20}" + "".join(f"{engine:>14}" for engine in measured) + f"{'x best':>10}")
    for column, clock in enumerate(("CPU s", "s")):
        for kind, statistic in (("median", statistics.median), ("minimum", min)):
            found = {engine: statistic([run[column] for run in runs]) for engine, runs in measured.items()}
            ratio = min(seconds for engine, seconds in found.items() if engine != "frazil") / found["frazil"]
            print(
                f"  {clock + ', ' + kind:18}" + "".join(f"{each:14.4f}" for each in found.values()) + f"{ratio:10.2f}"
            )


if __name__ == "__main__":
    main()
