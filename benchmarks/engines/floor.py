"""The physical floor, not a peer: floor.c in two threads, on files that it wrote itself. Needs cc and libzstd-dev."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import engines
from rows import FLOOR, Box, Spec

RANK = 4


class Job(ctypes.Structure):
    """floor.c's Job."""

    _fields_ = [
        ("folder", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("rank", "itemsize", "sharded", "level")),
        *((name, ctypes.c_int64 * RANK) for name in ("shape", "shard", "inner")),
        *((name, ctypes.c_int64) for name in ("next", "failed", "write")),
    ]


@dataclass
class Array:
    path: str
    spec: Spec


class Engine(engines.Engine):
    kind = FLOOR

    def __init__(self) -> None:
        source = Path(__file__).parent.parent / "floor.c"
        with tempfile.TemporaryDirectory() as folder:
            library = f"{folder}/floor.so"
            command = [
                "cc",
                "-O3",
                "-march=native",
                "-shared",
                "-fPIC",
                "-pthread",
                str(source),
                "-lzstd",
                "-o",
                library,
            ]
            try:
                built = subprocess.run(command, capture_output=True, text=True)
            except FileNotFoundError:
                raise engines.Unsupported("no cc") from None
            if built.returncode:
                raise engines.Unsupported("floor.c does not build (libzstd-dev?): " + built.stderr.splitlines()[0])
            self.library = ctypes.CDLL(library)  # stays mapped when the file is removed
        self.specs: dict[str, Spec] = {}

    def create(self, path: str, spec: Spec) -> Array:
        shards = spec.shards or spec.chunks
        if any(n % s for n, s in zip(spec.shape, shards, strict=True)) or any(
            codec["name"] != "zstd" for codec in spec.codecs or ()
        ):
            raise engines.Unsupported("floor: whole shards, raw or zstd")
        grid = [range(n // s) for n, s in zip(spec.shape, shards, strict=True)]
        for outer in itertools.product(*grid[:-1]):
            os.makedirs(os.path.join(path, "c", *map(str, outer)))
        self.specs[path] = spec
        return self.open(path)

    def open(self, path: str, write: bool = False) -> Array:
        return Array(path, self.specs[path])

    def read(self, array: Array, box: Box) -> np.ndarray:
        out = np.empty([s.stop - s.start for s in box], array.spec.dtype)
        job = self.job(array, out)
        if box == array.spec.whole:
            failed = self.library.whole(ctypes.byref(job))
        elif out.shape == array.spec.chunks and array.spec.shards and array.spec.codecs:
            at = (ctypes.c_int64 * RANK)(*padded([s.start for s in box], 0))
            failed = self.library.one_chunk(ctypes.byref(job), at, out.ctypes.data_as(ctypes.c_void_p))
        else:
            raise engines.Unsupported("floor: whole arrays and single inner chunks")
        return done(failed, out)

    def write(self, array: Array, box: Box, values: np.ndarray) -> None:
        if box != array.spec.whole:
            raise engines.Unsupported("floor: whole arrays")
        job = self.job(array, values)
        job.write = 1
        done(self.library.whole(ctypes.byref(job)), values)

    @staticmethod
    def job(array: Array, data: np.ndarray) -> Job:
        spec = array.spec
        level = spec.codecs[0]["configuration"]["level"] if spec.codecs else -1
        extents = (padded(n, 1) for n in (spec.shape, spec.shards or spec.chunks, spec.chunks))
        return Job(
            array.path.encode(),
            data.ctypes.data,
            len(spec.shape),
            data.itemsize,
            spec.shards is not None,
            level,
            *((ctypes.c_int64 * RANK)(*extent) for extent in extents),
        )


def padded(extent: list[int] | tuple[int, ...], filler: int) -> list[int]:
    return [filler] * (RANK - len(extent)) + list(extent)


def done(failed: int, out: np.ndarray) -> np.ndarray:
    if failed:
        raise OSError("floor.c could not read or write a shard")
    return out
