"""Eight processes write one array at the same time, in stripes that share shards, and no write is lost.

A process that covers a shard in part replaces the whole shard: it copies the other inner chunks without decoding, and repeats this
if another process replaced the shard first. Stripes of whole shards would be faster, because nothing is read. Usage: python many_writers.py [FOLDER]"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import frazil

ROWS, COLUMNS, WRITERS = 1024, 2048, 8
STRIPE = ROWS // WRITERS  # 128 rows: four stripes in each shard


def write_stripe(array: frazil.Array, number: int) -> int:
    """Writes the rows of one writer. Arrays can be pickled, so every process gets its own object."""
    rows = np.arange(number * STRIPE, (number + 1) * STRIPE)[:, None]
    array[number * STRIPE : (number + 1) * STRIPE] = rows * COLUMNS + np.arange(COLUMNS)
    return number


def main(folder: str) -> None:
    array = frazil.create_array(
        folder,
        shape=(ROWS, COLUMNS),
        dtype="uint32",
        chunks=(64, 64),
        shards=(512, 512),
        fill_value=2**32 - 1,
        overwrite=True,
    )
    with ProcessPoolExecutor(WRITERS, mp_context=multiprocessing.get_context("spawn")) as processes:
        done = sorted(processes.map(write_stripe, [array] * WRITERS, range(WRITERS)))
    values = array[:, :]
    assert np.array_equal(values, np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS))
    print(
        f"{len(done)} processes wrote {array.nchunks} inner chunks into {array.info.stored_objects} shards; all {array.size:,} elements are right"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:  # nothing is left behind
            main(f"{scratch}/stripes.zarr")
