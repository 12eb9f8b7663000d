"""zarr-python's arrays through Frazil's codec pipeline and through its own pipeline; and strings in Frazil and in zarr-python.

    PYTHON benchmarks/zarr_rows.py FOLDER [--side 512] [--strings 10000000] [--repeat 3]     # a Python with frazil and zarr

The array is uint16 of side^3, smooth + noise, shards 256^3, inner chunks 32^3, zstd 0. Strings have 5 to 50 bytes, chunks of 100,000, zstd 3: words of a
vocabulary of 20,000 (the n-th is 1/n as frequent as the first), and random letters, in which zstd finds nothing. Prints the seconds and CPU seconds (all
threads), medians of rounds in turns, and how many times as fast Frazil is. Results are compared outside the timed part."""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import frazil

PIPELINES = {
    "default": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "frazil": "frazil.zarr.CodecPipeline",
}
Timed = dict[str, list[tuple[float, float]]]


def timed(act: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = act()
    return result, (time.perf_counter() - wall, time.process_time() - cpu)


def show(row: str, found: Timed) -> None:
    medians = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in found.items()}
    best = [min(values[i] for name, values in medians.items() if name != "frazil") for i in range(2)]
    timings = "  ".join(f"{name} {wall:.2f} s (CPU {cpu:.2f})" for name, (wall, cpu) in medians.items())
    ours = medians["frazil"]
    print(f"{row:<42} {best[0] / ours[0]:5.2f} x  (CPU {best[1] / ours[1]:5.2f} x)   {timings}", flush=True)


def pipelines(folder: Path, side: int, repeat: int) -> None:
    rng = np.random.default_rng(0)
    axis = np.arange(side, dtype="f4")
    values = (
        1000 * np.sin(axis / 50)[:, None, None] + 500 * np.cos(axis / 40)[None, :, None] + axis[None, None, :] + 2000
    )
    data = (values + rng.integers(0, 8, (side,) * 3)).astype("u2")
    present = [name for name in PIPELINES if name != "fused" or hasattr(zarr.core.codec_pipeline, "FusedCodecPipeline")]
    writes: Timed = {name: [] for name in present}
    reads: Timed = {name: [] for name in present}
    for _ in range(repeat):
        for name in present:
            path = folder / f"{name}.zarr"
            shutil.rmtree(path, ignore_errors=True)
            with zarr.config.set({"codec_pipeline.path": PIPELINES[name]}):
                array = zarr.create_array(
                    path,
                    shape=data.shape,
                    dtype=data.dtype,
                    chunks=(32,) * 3,
                    shards=(min(256, side),) * 3,
                    compressors=zarr.codecs.ZstdCodec(level=0),
                )
                _, cost = timed(partial(array.__setitem__, ..., data))
                writes[name].append(cost)
                opened = zarr.open_array(path, mode="r")
                found, cost = timed(partial(opened.__getitem__, ...))
                reads[name].append(cost)
            assert np.array_equal(found, data), name
    show(f"zarr {side}^3 inner 32^3, write", writes)
    show(f"zarr {side}^3 inner 32^3, read", reads)


def random_letters(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 51, count)
    text = rng.integers(97, 123, int(lengths.sum()), dtype=np.uint8).tobytes().decode()
    ends = np.cumsum(lengths)
    return [text[start:end] for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]


def words(count: int) -> list[str]:
    """Phrases of up to 8 words, cut to 5 to 50 bytes."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, 20_001)
    letters = random_letters(20_000)
    vocabulary = [word[: 3 + position % 8] for position, word in enumerate(letters)]
    frequency /= frequency.sum()
    result = []
    for start in range(0, count, 100_000):
        lengths = rng.integers(5, 51, min(100_000, count - start)).tolist()
        picked = rng.choice(len(vocabulary), size=(len(lengths), 8), p=frequency).tolist()
        result += [" ".join([vocabulary[word] for word in row])[:end] for row, end in zip(picked, lengths, strict=True)]
    return result


def strings(folder: Path, kind: str, values: list[str], repeat: int) -> None:
    count = len(values)
    data = np.array(values, np.dtypes.StringDType())
    layout: dict[str, Any] = {"shape": (count,), "chunks": (100_000,)}
    writes: Timed = {"zarr": [], "frazil": []}
    reads: Timed = {"zarr": [], "frazil": []}
    for _ in range(repeat):
        for name in writes:
            path = folder / f"{name}.strings.zarr"
            shutil.rmtree(path, ignore_errors=True)
            array: Any
            if name == "zarr":
                array = zarr.create_array(path, dtype="string", compressors=zarr.codecs.ZstdCodec(level=3), **layout)
            else:
                array = frazil.create_array(path, dtype="string", codecs=[frazil.codecs.Zstd(level=3)], **layout)
            _, cost = timed(partial(array.__setitem__, ..., data))
            writes[name].append(cost)
            opened = zarr.open_array(path, mode="r") if name == "zarr" else frazil.open_array(path)
            found, cost = timed(partial(opened.__getitem__, ...))
            reads[name].append(cost)
            assert (np.asarray(found) == data).all(), name
    show(f"{count} strings of {kind}, write", writes)
    show(f"{count} strings of {kind}, read", reads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--strings", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pipelines(options.folder, options.side, options.repeat)
    strings(options.folder, "words", words(options.strings), options.repeat)
    strings(options.folder, "random letters", random_letters(options.strings), options.repeat)


if __name__ == "__main__":
    main()
