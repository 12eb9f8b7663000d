"""What each task on an array prepares, what it times and how it checks the result. Lower is better in every metric.

repository_tasks.py adds those that need a repository."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

import data
import engines
from rows import Box, Row, Spec

Metrics = dict[str, float]


class Wrong(Exception):
    """The engine answered, but the answer is wrong."""


class Clock:
    """with Clock() as clock: ...; clock.seconds, clock.cpu (all threads); adds up when entered again."""

    seconds = cpu = 0.0

    def __enter__(self) -> Self:
        self.started, self.cpu_started = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self.started
        self.cpu += time.process_time() - self.cpu_started


def check(got: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        if not isinstance(got, np.ndarray) or (got.shape, got.dtype) != (expected.shape, expected.dtype):
            raise Wrong(
                f"{getattr(got, 'dtype', type(got))} {np.shape(got)} instead of {expected.dtype} {expected.shape}"
            )
        if differ := np.count_nonzero(got != expected):
            raise Wrong(f"{differ} of {expected.size} elements")
    elif got != expected:
        raise Wrong(f"{str(got)[:60]} instead of {str(expected)[:60]}")


def bytes_written() -> int:
    """Bytes written by this process so far: those passed to write(), or the pages it made dirty if that is more (memory maps)."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return max(int(fields["wchar"]), int(fields["write_bytes"]))


def memory_kib(field: str) -> int:
    return next(
        int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)
    )


def import_seconds(modules: tuple[str, ...]) -> float:
    code = f"import time; t = time.perf_counter(); import {', '.join(modules)}; print(time.perf_counter() - t)"
    return float(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()[-1]
    )


class ArrayTasks:
    """Answers the driver's verbs (hello, prepare, measure, drop); the other public methods are the tasks of rows.py."""

    # What a task needs first, by the name of the method that makes it.
    fixtures: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            ("open", "read", "random", "points", "lines", "element", "poke", "poke_append", "memory", "http"),
            "make_array",
        ),
        "plan": "make_empty",
        "open_many": "make_many",
    }

    engine: engines.Engine

    def __init__(self, engine: engines.Engine, name: str, scratch: Path, server: str) -> None:
        self.engine, self.name, self.scratch, self.server = engine, name, scratch, server
        self.path, self.new = str(scratch / name / "array"), str(scratch / name / "new")
        self.fixture: object = None  # the content of self.path
        self.turn = 0  # how often a task changed it
        self.loaded: tuple[Path, np.ndarray] | None = None

    def hello(self, _row: None) -> dict[str, Any]:
        versions = {module: importlib.metadata.version(module) for module in self.engine.modules}
        return {
            "kind": self.engine.kind,
            "python": platform.python_version(),
            "versions": {**versions, "numpy": np.__version__},
        }

    def prepare(self, row: Row) -> None:
        """Prepares what the row needs, untimed, unless it is left from the previous row."""
        make = self.fixtures.get(row.task)
        inputs = (make, row.spec, row.start)
        if make and self.fixture != inputs:
            self.fixture, self.turn = None, 0
            self.fresh(self.path)
            getattr(self, make)(row)
            self.fixture = inputs

    def measure(self, row: Row) -> Metrics:
        metrics: Metrics = getattr(self, row.task)(row)
        return metrics

    def drop(self, _row: None) -> None:
        self.fixture = self.loaded = None
        self.fresh(self.path)

    def fresh(self, path: str) -> str:
        shutil.rmtree(path, ignore_errors=True)
        return path

    def values(self, spec: Spec) -> np.ndarray:
        path = data.file_of(spec, self.scratch)
        if self.loaded is None or self.loaded[0] != path:
            self.loaded = (path, np.load(path))
        return self.loaded[1]

    def check_whole(self, path: str, expected: np.ndarray) -> None:
        check(self.engine.read(self.engine.open(path), tuple(slice(0, n) for n in expected.shape)), expected)

    # --- arrays ---------------------------------------------------------------------------------------------------------------

    def make_array(self, row: Row) -> None:
        self.engine.write(self.engine.create(self.path, row.spec), row.spec.whole, self.values(row.spec))
        self.engine.commit("array")

    def make_empty(self, row: Row) -> None:
        self.engine.create(self.path, row.spec)
        self.engine.commit("array")

    def make_many(self, row: Row) -> None:
        """Arrays without chunks, all with the same document."""
        for i in range(row.count):
            self.engine.create(f"{self.path}/{i}", row.spec)

    def write(self, row: Row) -> Metrics:
        values = self.values(row.spec)
        array = self.engine.create(self.fresh(self.new), row.spec)
        with Clock() as clock:
            self.engine.write(array, row.spec.whole, values)
            self.engine.commit("write")
        stored = sum(file.stat().st_size for file in Path(self.new).rglob("*") if file.is_file())
        self.check_whole(self.new, values)
        self.fresh(self.new)  # at once, so that the disk need not write it back during the next measurement
        return {"s": clock.seconds, "cpu s": clock.cpu, "MB stored": stored / 1e6}

    def open(self, row: Row) -> Metrics:
        with Clock() as clock:
            array = self.engine.open(self.path)
        corner = tuple(slice(0, n) for n in row.spec.chunks)
        check(self.engine.read(array, corner), self.values(row.spec)[corner])
        return {"ms": clock.seconds * 1e3, "cpu ms": clock.cpu * 1e3}

    def open_many(self, row: Row) -> Metrics:
        with Clock() as clock:
            arrays = [self.engine.open(f"{self.path}/{i}") for i in range(row.count)]
        corner = tuple(slice(0, n) for n in row.spec.chunks)
        for array in (arrays[0], arrays[-1]):
            check(self.engine.read(array, corner), np.zeros(row.spec.chunks, row.spec.dtype))
        return {"ms each": clock.seconds / row.count * 1e3, "cpu ms each": clock.cpu / row.count * 1e3}

    def read(self, row: Row) -> Metrics:
        array = self.engine.open(self.path)
        with Clock() as clock:
            got = self.engine.read(array, row.box)
        check(got, self.values(row.spec)[row.box])
        return {"s": clock.seconds, "cpu s": clock.cpu}

    def points(self, row: Row) -> Metrics:
        array, values = self.engine.open(self.path), self.values(row.spec)
        places = tuple(
            np.random.default_rng(2).integers(0, np.array(row.spec.shape)[:, None], (len(row.spec.shape), row.count))
        )
        with Clock() as clock:
            got = self.engine.points(array, places)
        check(got, values[places])
        return {"s": clock.seconds, "cpu s": clock.cpu}

    def lines(self, row: Row) -> Metrics:
        array, values = self.engine.open(self.path), self.values(row.spec)
        rows = np.random.default_rng(3).integers(0, row.spec.shape[0], row.count)
        with Clock() as clock:
            got = self.engine.lines(array, rows)
        check(got, values[rows])
        return {"s": clock.seconds, "cpu s": clock.cpu}

    def random(self, row: Row) -> Metrics:
        array, values, clock = self.engine.open(self.path), self.values(row.spec), Clock()
        grid = [n // size for n, size in zip(row.spec.shape, row.size, strict=True)]
        places = np.random.default_rng(1).integers(0, grid, (row.count, len(grid))) * row.size
        for position in places.tolist():
            box = tuple(slice(at, at + n) for at, n in zip(position, row.size, strict=True))
            with clock:
                got = self.engine.read(array, box)
            check(got, values[box])
        return {"ms each": clock.seconds / row.count * 1e3, "cpu ms each": clock.cpu / row.count * 1e3}

    def element(self, row: Row) -> Metrics:
        array, values = self.engine.open(self.path), self.values(row.spec)
        places = list(
            zip(*np.random.default_rng(4).integers(0, row.spec.shape[0], (2, row.count)).tolist(), strict=True)
        )
        with Clock() as clock:
            got = [self.engine.element(array, position) for position in places]
        check(np.array(got, row.spec.dtype), values[tuple(np.transpose(places))])
        return {"us each": clock.seconds / row.count * 1e6}

    def poke(self, row: Row) -> Metrics:
        return self.one_element(row, partial(self.engine.open, write=True))

    def poke_append(self, row: Row) -> Metrics:
        return self.one_element(row, self.engine.open_appending)

    def one_element(self, row: Row, opened: Callable[[str], Any]) -> Metrics:
        """Changes a different element each time, in an array opened with `opened`."""
        array = opened(self.path)
        values, self.turn = self.values(row.spec), self.turn + 1
        box: Box = tuple(
            slice(at, at + 1) for at in np.random.default_rng(self.turn).integers(0, row.spec.shape).tolist()
        )
        values[box] += 1
        before = bytes_written()
        with Clock() as clock:
            self.engine.write(array, box, values[box])
            self.engine.commit("poke")
        written = bytes_written() - before
        self.check_whole(self.path, values)
        return {"ms": clock.seconds * 1e3, "kB written": written / 1e3}

    def series(self, row: Row) -> Metrics:
        return self.step_by_step(row, self.engine.create_appending)

    def series_rewrite(self, row: Row) -> Metrics:
        return self.step_by_step(row, self.engine.create)

    def step_by_step(self, row: Row, created: Callable[[str, Spec], Any]) -> Metrics:
        """Appends one step after another to an array created with `created`."""
        values = self.values(row.spec)
        empty = replace(row.spec, shape=(0, *row.spec.shape[1:]))
        array, before = created(self.fresh(self.new), empty), bytes_written()
        with Clock() as clock:
            for step in range(row.count):
                array = self.engine.append(array, values[step : step + 1])
        written = bytes_written() - before
        self.check_whole(self.new, values[: row.count])
        self.fresh(self.new)
        each = {"ms each": clock.seconds * 1e3, "cpu ms each": clock.cpu * 1e3, "kB written each": written / 1e3}
        return {name: value / row.count for name, value in each.items()}

    def memory(self, row: Row) -> Metrics:
        array = self.engine.open(self.path)
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        before = memory_kib("VmRSS")
        got = self.engine.read(array, row.box)
        above = memory_kib("VmHWM") - before
        check(got, self.values(row.spec)[row.box])
        return {"MiB above start": above / 1024}

    def plan(self, row: Row) -> Metrics:
        array = self.engine.open(self.path)
        Path("/proc/self/clear_refs").write_text("5")
        before = memory_kib("VmRSS")
        with Clock() as clock:
            got = self.engine.read(array, row.box)
        above = memory_kib("VmHWM") - before
        check((got.shape, got.dtype, np.count_nonzero(got)), (row.spec.shape, np.dtype(row.spec.dtype), 0))
        return {"MiB beside the result": max(above / 1024 - got.nbytes / 2**20, 0), "s": clock.seconds}

    def import_time(self, _row: Row) -> Metrics:
        seconds, numpy = import_seconds(self.engine.modules), import_seconds(("numpy",))
        return {"s": seconds, "x import numpy": seconds / numpy, "ms over numpy": max(seconds - numpy, 0) * 1e3}

    def http(self, row: Row) -> Metrics:
        def requests() -> int:
            return int(urllib.request.urlopen(f"{self.server}/__count__").read())

        expected = self.values(row.spec)[row.box]
        requests()
        array = self.engine.open(f"{self.server}/{self.name}/array")
        counts = {"to open": requests()}
        for state in ("cold", "warm"):
            check(self.engine.read(array, row.box), expected)
            counts[f"column, {state}"] = requests()
        return dict(counts)
