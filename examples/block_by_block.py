"""Mean and histogram of an array that may be larger than memory: block by block, on a few threads, because frazil releases the GIL.

A block is a shard, so each object is opened once. Usage: python block_by_block.py [FOLDER]"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
from numpy.typing import NDArray

import frazil

EDGES = np.linspace(0, 4096, 9)


def summary(block: NDArray[np.generic]) -> tuple[float, NDArray[np.int64]]:
    """The sum and the histogram of a block."""
    return float(block.sum(dtype=np.float64)), np.histogram(block, EDGES)[0].astype(np.int64)


def main(folder: str) -> None:
    image = frazil.create_array(
        folder, shape=(3000, 5000), dtype="uint16", chunks=(100, 100), shards=(1000, 1000), overwrite=True
    )
    for top in range(0, 3000, 1000):  # whole shards: nothing is read back
        y, x = np.mgrid[top : top + 1000, :5000]
        image[top : top + 1000] = 2048 + 2047 * np.sin(y / 300) * np.cos(x / 400)

    shards = image.shards or image.chunks
    grid = [range(-(-length // extent)) for length, extent in zip(image.shape, shards, strict=True)]
    with ThreadPoolExecutor(2) as threads:
        parts = list(threads.map(lambda place: summary(np.asarray(image.blocks[place])), product(*grid)))
    total, histogram = sum(part[0] for part in parts), sum((part[1] for part in parts), np.zeros(8, np.int64))
    print(f"{len(parts)} blocks of {shards[0]} x {shards[1]}; mean {total / image.size:.3f}")
    for low, high, count in zip(EDGES, EDGES[1:], histogram.tolist(), strict=False):
        print(f"{low:4.0f} to {high:4.0f}  {count:>9,}  {'#' * (count * 60 // image.size)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:  # nothing is left behind
            main(f"{scratch}/image.zarr")
