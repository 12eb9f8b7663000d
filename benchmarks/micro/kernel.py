"""Measures the kernel alone: CPU and wall milliseconds, minimum of several rounds in shuffled order, without planning in Python.

    python benchmarks/micro/kernel.py [folder for the files]

Rows: read and write of a smooth 512^3 uint16 array (shards of 256^3, zstd level 0) at three sizes of inner chunks, one random inner chunk, raw sheets of 4096^2
in inner chunks of 16^2, and the cost of an empty call."""

from __future__ import annotations

import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from frazil import _kernel

Columns = NDArray[np.int64]
THREADS = 2


def smooth(n: int) -> NDArray[np.uint16]:
    """Slow waves along each axis and three bits of noise; compresses as microscopy does."""
    waves = [f(np.arange(n) / period) for f, period in ((np.sin, 40), (np.cos, 33), (np.sin, 27))]
    out = np.random.default_rng(0).integers(0, 8, (n, n, n), dtype=np.uint16)
    for i, wave in enumerate(waves[0]):
        out[i] += (1000 * (wave + waves[1][:, None] + waves[2]) + 3000).astype(np.uint16)
    return out


class Boxes(NamedTuple):
    """Inner chunks of a regular grid in the order of their shards, and the shard of each."""

    which: Columns
    entries: Columns
    runs: Columns
    groups: Columns


def grid(shape: Sequence[int], shard: Sequence[int], inner: Sequence[int]) -> Boxes:
    d = len(shape)
    entries, first = [], [0]
    for extent, width in zip(shape, inner, strict=True):
        entries += [(0, width, 1, at) for at in range(0, extent, width)]
        first.append(len(entries))
    counts = [n // s for n, s in zip(shape, shard, strict=True)]
    each = [s // i for s, i in zip(shard, inner, strict=True)]
    positions = np.indices([*counts, *each]).reshape(2 * d, -1)
    index = np.stack([positions[i] * each[i] + positions[d + i] + first[i] for i in range(d)], axis=1).astype(np.int64)
    step = int(np.prod(each))
    groups = np.arange(0, len(index) + 1, step)
    levels = np.stack([np.arange(len(entries)), np.ones(len(entries), np.int64)], axis=1)
    return Boxes(np.ascontiguousarray(index), levels, np.array(entries, np.int64), groups)


class Shards(NamedTuple):
    """Shards in files, without an index: the index is kept here as rows."""

    program: _kernel.Program
    boxes: Boxes
    files: _kernel.Files
    rows: Columns


def encode(
    program: _kernel.Program, source: NDArray[np.generic], boxes: Boxes
) -> tuple[list[_kernel.Segment], list[int], Columns]:
    lengths = np.zeros(len(boxes.which), np.int64)
    segments, table, failures = _kernel.encode_chunks(
        program, source, (boxes.which, boxes.entries, boxes.runs), None, boxes.groups, True, THREADS, lengths
    )
    assert not failures
    return segments, table, lengths


def stored(folder: Path, program: _kernel.Program, source: NDArray[np.generic], boxes: Boxes) -> Shards:
    segments, table, lengths = encode(program, source, boxes)
    rows = np.zeros((len(lengths), 3), np.int64)
    names = []
    for shard, (low, high) in enumerate(itertools.pairwise(boxes.groups.tolist())):
        rows[low:high, 0] = shard
        rows[low:high, 1] = np.cumsum(lengths[low:high]) - lengths[low:high]
        rows[low:high, 2] = lengths[low:high]
        names.append(f"{id(boxes)}-{shard}")
        parts = [bytes(s) for s, at in zip(segments, table, strict=False) if low <= at < high]
        (folder / names[-1]).write_bytes(b"".join(parts))
    root = os.open(folder, os.O_RDONLY)
    stat = np.zeros((len(names), 4), np.int64)
    files = _kernel.open_files(root, names, stat)
    os.close(root)
    return Shards(program, boxes, files, rows)


def read(shards: Shards, out: NDArray[np.generic]) -> None:
    b = shards.boxes
    if _kernel.decode_chunks(
        shards.program, shards.files, [], shards.rows, None, (b.which, b.entries, b.runs), out, THREADS
    ):
        raise SystemExit("the kernel failed to decode its own chunks")


def one_random(shards: Shards, inner: int, chooser: random.Random) -> Callable[[], None]:
    out = np.empty((inner,) * 3, np.uint16)
    index, entries = np.zeros((1, 3), np.int64), np.array([[0, 1]])
    runs = np.array([[0, inner, 1, 0]])

    def work() -> None:
        at = chooser.randrange(len(shards.rows))
        _kernel.decode_chunks(
            shards.program, shards.files, [], shards.rows[at : at + 1], None, (index, entries, runs), out, 1
        )

    return work


def measure(rows: dict[str, tuple[Callable[[], object], int]], rounds: int) -> None:
    best = {name: (float("inf"), float("inf")) for name in rows}
    for _ in range(rounds):
        for name in random.sample(sorted(rows), len(rows)):
            work, times = rows[name]
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(times):
                work()
            found = time.process_time() - cpu, time.perf_counter() - wall
            best[name] = tuple(min(a, b / times) for a, b in zip(best[name], found, strict=True))  # type: ignore[assignment]
    print(f"{'':34}{'CPU ms':>12}{'wall ms':>12}")
    for name, (cpu, wall) in best.items():
        print(f"{name:34}{cpu * 1e3:12.4f}{wall * 1e3:12.4f}")


def main(folder: Path, rounds: int = 6) -> None:
    rows: dict[str, tuple[Callable[[], object], int]] = {}
    volume = smooth(512)
    out = np.zeros_like(volume)
    zstd = [("zstd", 0, False)]
    for inner in (64, 32, 16):
        program = _kernel.program((inner,) * 3, 2, (0, 1, 2), [], zstd, bytes(2))
        boxes = grid((512,) * 3, (256,) * 3, (inner,) * 3)
        shards = stored(folder, program, volume, boxes)
        read(shards, out)
        assert np.array_equal(out, volume)
        rows[f"read 512^3, inner {inner}^3"] = partial(read, shards, out), 1
        rows[f"write 512^3, inner {inner}^3"] = partial(encode, program, volume, boxes), 1
        rows[f"one random chunk, {inner}^3"] = one_random(shards, inner, random.Random(0)), 200
    for kind in (np.uint8, np.uint16):
        sheet = np.random.default_rng(0).integers(0, 255, (4096, 4096), kind)
        size = sheet.itemsize
        program = _kernel.program((16, 16), size, (0, 1), [], [], bytes(size))
        boxes = grid((4096, 4096), (1024, 1024), (16, 16))
        shards, output = stored(folder, program, sheet, boxes), np.zeros_like(sheet)
        read(shards, output)
        assert np.array_equal(output, sheet)
        rows[f"read 4096^2 raw {sheet.dtype}, inner 16^2"] = partial(read, shards, output), 1
        rows[f"write 4096^2 raw {sheet.dtype}, inner 16^2"] = partial(encode, program, sheet, boxes), 1
    box = (np.zeros((1, 1), np.int64), np.array([[0, 1]]), np.array([[0, 1, 1, 0]]))
    byte, tiny = np.zeros(1, np.uint8), _kernel.program((1,), 1, (0,), [], [], b"\0")
    row = np.array([[-1, 0, 1]])
    rows["a call, one byte in memory"] = (
        lambda: _kernel.decode_chunks(tiny, None, [b"x"], row, None, box, byte, 2),
        1000,
    )
    measure(rows, rounds)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
