"""Writes, reads, checks and draws the GLOBE land mask (21,600 x 43,200 elements, one for each 30 arc seconds of the Earth, 933 MB); then commits it to a
repository, and changes a country on a branch.

`make demo` runs this. The mask comes from the package global-land-mask, deflated in an .npz file. The whole mask is never in memory: bands of rows are
inflated, written as whole shards, and dropped. The process may use 256 MiB more than at its start; the demo measures this and fails above it.

The layout was chosen by measuring: with inner chunks of 360 x 360 the array takes 1.7 MB. With 240 x 240 it is 10 % larger, with 720 x 720 only 2 %
smaller, but reading 1,000 random places takes twice the time. Shards of 2160 x 2160 make 200 objects; a band of twenty has 93 MB and is one assignment."""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import shutil
import sys
import time
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

import frazil
from frazil.cli.main import main as frazil_command
from frazil.cli.progress import Progress
from frazil.stores import LocalStore

Mask = NDArray[np.bool_]

CHUNKS, SHARDS = (360, 360), (2160, 2160)
BUDGET = 256 * 2**20  # bytes above the start
ITALY = (slice(5100, 6480), slice(22320, 23880))  # 47.5 to 36 degrees north, 6 to 19 east
GREENWICH = 21600  # the column of longitude 0
PLACES = 1000
AROUND = 200  # rows and columns around Italy that are checked, too


class Source:
    """The mask in its package: True is ocean, the first row is the north pole, the first column 180 degrees west."""

    def __init__(self) -> None:
        package = find_spec("global_land_mask")  # importing it would inflate the whole mask
        if package is None or package.origin is None:
            raise SystemExit(
                "demo: the package global-land-mask is missing; `make demo` installs it, or: pip install 'frazil[demo]'"
            )
        self._path = Path(package.origin).with_name("globe_combined_mask_compressed.npz")
        with self._open("mask") as stream:
            self.shape, self.dtype = _header(stream)
        self.nbytes = self.shape[0] * self.shape[1] * self.dtype.itemsize

    def coordinates(self, name: str) -> NDArray[np.float64]:
        """The latitude of each row, or the longitude of each column, in degrees."""
        with self._open(name) as stream:
            shape, dtype = _header(stream)
            return np.frombuffer(stream.read(), dtype).reshape(shape).astype(np.float64)

    def bands(self, rows: int) -> Iterator[tuple[int, Mask]]:
        """The first row of each band, and the band; the next band reuses its memory."""
        buffer = np.empty((rows, self.shape[1]), self.dtype)
        with self._open("mask") as stream:
            _header(stream)
            for top in range(0, self.shape[0], rows):
                band = buffer[: self.shape[0] - top]
                _fill(stream, memoryview(band.reshape(-1).view(np.uint8).data))
                yield top, band

    def _open(self, name: str) -> IO[bytes]:
        return zipfile.ZipFile(self._path).open(f"{name}.npy")


class Sample(NamedTuple):
    """Values that are read in three ways, and checked."""

    window: Mask
    meridian: Mask
    places: Mask


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.bool_]]:
    np.lib.format.read_magic(stream)
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    return shape, dtype


def _fill(stream: IO[bytes], memory: memoryview, at_once: int = 2**20) -> None:
    for start in range(0, len(memory), at_once):
        part = memory[start : start + at_once]
        part[:] = stream.read(len(part))


def write(source: Source, folder: Path) -> frazil.Array:
    """The mask, as True for land, in a group with its coordinates."""
    globe = frazil.create_group(
        folder, overwrite=True, attributes={"title": "GLOBE land mask", "resolution": "30 arc seconds"}
    )
    for name, axis in (("lat", 0), ("lon", 1)):
        degrees = source.coordinates(name)
        assert len(degrees) == source.shape[axis]
        globe.create_array(name, data=degrees, dimension_names=(name,), attributes={"units": "degrees"})
    land = globe.create_array(
        "land", shape=source.shape, dtype="bool", chunks=CHUNKS, shards=SHARDS, dimension_names=("lat", "lon"),
        attributes={"long_name": "land (true) or ocean"},
    )  # fmt: skip
    writing, start = 0.0, time.perf_counter()
    with Progress("writing", source.nbytes) as report:
        for top, band in source.bands(SHARDS[0]):
            np.logical_not(band, out=band)
            before = time.perf_counter()
            land[top : top + len(band)] = band
            writing += time.perf_counter() - before
            report(band.nbytes)
    whole, stored = time.perf_counter() - start, land.nbytes_stored()
    print(
        f"wrote {land.nbytes / 1e6:.0f} MB in {whole:.1f} s, most of it inflating the source; frazil itself took {writing:.2f} s",
        end="",
    )
    print(f" ({land.nbytes / 1e6 / writing:,.0f} MB/s)")
    print(
        f"stored as {stored / 1e6:.2f} MB, {land.nbytes / stored:.0f} times smaller; the source's own file has {source._path.stat().st_size / 1e6:.2f} MB"
    )
    return land


def read_samples(land: frazil.Array, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Sample:
    """A window of the size of a country, a meridian, and random places, each with its time."""

    def timed(name: str, selected: object) -> Mask:
        start = time.perf_counter()
        values = np.asarray(selected() if callable(selected) else selected)
        print(f"read {name:<38} {values.size:>9,} elements in {(time.perf_counter() - start) * 1e3:6.1f} ms")
        return values

    return Sample(
        timed("a window (Italy, 36-47.5 N, 6-19 E)", lambda: land[ITALY]),
        timed("a meridian (Greenwich)", lambda: land[:, GREENWICH]),
        timed("random places", lambda: land.vindex[rows, columns]),
    )


def check(
    source: Source, land: frazil.Array, sample: Sample, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> None:
    """Inflates the source again, and compares the samples and the whole array with it. Ends the program if anything differs."""
    expected = Sample(*(np.zeros_like(part) for part in sample))
    reading, differing = 0.0, 0
    with Progress("checking", source.nbytes) as report:
        for top, ocean in source.bands(720):
            bottom = top + len(ocean)
            first, last = max(top, ITALY[0].start), min(bottom, ITALY[0].stop)
            if first < last:
                expected.window[first - ITALY[0].start : last - ITALY[0].start] = ~ocean[
                    first - top : last - top, ITALY[1]
                ]
            expected.meridian[top:bottom] = ~ocean[:, GREENWICH]
            here = (rows >= top) & (rows < bottom)
            expected.places[here] = ~ocean[rows[here] - top, columns[here]]
            before = time.perf_counter()
            values = land[top:bottom]
            reading += time.perf_counter() - before
            differing += int(np.count_nonzero(values == ocean))
            report(ocean.nbytes)
    for name, ours, theirs in zip(Sample._fields, sample, expected, strict=True):
        if not np.array_equal(ours, theirs):
            raise SystemExit(f"demo: the {name} differs from the source")
    if differing:
        raise SystemExit(f"demo: {differing} elements differ from the source")
    print(
        f"all {land.size:,} elements are those of the source; reading them took {reading:.2f} s ({land.nbytes / 1e6 / reading:,.0f} MB/s)"
    )


def commit(globe: Path, folder: Path) -> frazil.Repository:
    """The world in a new repository, with a tag, a branch where Italy is under water, and a later commit on main. Encoded shards are copied as they are."""
    shutil.rmtree(folder, ignore_errors=True)
    repo, source = frazil.Repository.create(folder), LocalStore(globe, read_only=True)
    start = time.perf_counter()
    session = repo.writable_session("main")
    documents_first = sorted(source.list(), key=lambda key: (not key.endswith("zarr.json"), len(key), key))
    for key in documents_first:
        session.store.set(key, source.get(key) or b"")
    session.commit("The world as GLOBE has it", metadata={"elements": 21_600 * 43_200})
    print(
        f"\ncommitted {len(documents_first)} keys of {globe.name} to {folder.name} in {time.perf_counter() - start:.2f} s"
    )

    repo.create_tag("globe", "main")
    repo.create_branch("atlantis", "globe")
    start = time.perf_counter()
    with repo.transaction("atlantis", message="Italy sinks") as root:
        land = root["land"]
        assert isinstance(land, frazil.Array)
        land[ITALY] = False
    print(f"changed Italy on the branch atlantis, and committed it, in {(time.perf_counter() - start) * 1e3:.0f} ms")
    with repo.transaction("main", message="Say what the numbers of the axes are") as root:
        for name, direction in (("lat", "north"), ("lon", "east")):
            root[name].attrs["long_name"] = f"degrees {direction}"
    return repo


def check_both(repo: frazil.Repository, italy: Mask) -> None:
    """Reads Italy and its surroundings in both states. Ends the program if one is wrong."""
    rows, columns = (slice(part.start - AROUND, part.stop + AROUND) for part in ITALY)
    start = time.perf_counter()
    states = []
    for name in ("main", "atlantis"):
        land = repo.readonly_session(branch=name).open("land")
        assert isinstance(land, frazil.Array)
        states.append(np.asarray(land[rows, columns]))
    inner = (slice(AROUND, -AROUND), slice(AROUND, -AROUND))
    before, after = states
    expected = before.copy()
    expected[inner] = False
    if not np.array_equal(before[inner], italy) or not np.array_equal(after, expected):
        raise SystemExit("demo: a branch does not read as what was committed to it")
    took = (time.perf_counter() - start) * 1e3
    print(
        f"\nread both back in {took:.0f} ms: {np.count_nonzero(italy):,} elements of land in the window on main, none on atlantis,"
    )
    print(f"and the {after.size - italy.size:,} elements around it are the same")


def show(*words: str) -> None:
    """Runs a command like a user, and shows it."""
    sys.stdout.flush()
    print("\n$ frazil", shlex.join(words))
    if frazil_command(words):
        raise SystemExit(1)


def resident(field: str) -> int:
    """Bytes of memory that the process uses (VmRSS), or the most that it used (VmHWM)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux: the maximum is used for both
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes, reads, checks, draws and commits the GLOBE land mask.")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("build/demo"),
        help="where the array, the pictures and the repository go (build/demo)",
    )
    folder: Path = parser.parse_args().folder
    os.makedirs(folder, exist_ok=True)
    began, at_start = time.perf_counter(), resident("VmRSS")
    source = Source()
    print(f"source: {source.shape[0]:,} x {source.shape[1]:,} elements of {source.dtype}, {source.nbytes / 1e6:.0f} MB")
    write(source, folder / "globe.zarr")

    random = np.random.default_rng(2024)
    rows, columns = random.integers(0, source.shape[0], PLACES), random.integers(0, source.shape[1], PLACES)
    land = frazil.open_array(folder / "globe.zarr", path="land")
    sample = read_samples(land, rows, columns)
    check(source, land, sample, rows, columns)

    globe = str(folder / "globe.zarr")
    show("info", globe, "land")
    show("tree", globe)
    show("view", globe, "land", "-o", str(folder / "world.png"), "--cmap", "land", "--bare", "--size", "1440")
    italy = f"{ITALY[0].start}:{ITALY[0].stop}, {ITALY[1].start}:{ITALY[1].stop}"
    show("view", globe, "land", italy, "-o", str(folder / "italy.png"), "--cmap", "land", "--size", "800")

    repository = str(folder / "globe.repo")
    repo = commit(folder / "globe.zarr", folder / "globe.repo")
    show("repo", "log", repository, "--graph")
    show("repo", "diff", repository, "globe", "atlantis")
    show("repo", "diff", repository, "globe", "main")
    show("info", f"{repository}@atlantis", "land")
    check_both(repo, sample.window)

    above = resident("VmHWM") - at_start
    print(
        f"\n{time.perf_counter() - began:.1f} s in all; memory at most {above / 2**20:.0f} MiB above the start, of {BUDGET / 2**20:.0f} MiB allowed"
    )
    if above > BUDGET:
        print("demo: that is too much", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
