"""A station writes an hourly field of temperatures; a reader sees the array grow. Time is the first dimension and grows by appending.

Chunks are long in time and small in space, because most reads are time series at one place. A shard holds a week, so a week is one object.
Usage: python append_in_time.py [FOLDER]"""

from __future__ import annotations

import sys
import tempfile

import numpy as np
from numpy.typing import NDArray

import frazil

HOURS_A_DAY, HEIGHT, WIDTH = 24, 60, 90


def measured(day: int) -> NDArray[np.float32]:
    """One day of fields, in degrees Celsius: warmer by day, and in the south."""
    hours = np.arange(HOURS_A_DAY, dtype=np.float32)[:, None, None]
    south = np.linspace(0, 12, HEIGHT, dtype=np.float32)[:, None]
    noise = np.random.default_rng(day).normal(0, 0.5, (HOURS_A_DAY, HEIGHT, WIDTH)).astype(np.float32)
    return 10 - 6 * np.cos(hours / 24 * 2 * np.pi).astype(np.float32) + south + noise


def main(folder: str) -> None:
    writer = frazil.create_array(
        folder,
        shape=(0, HEIGHT, WIDTH),
        dtype="float32",
        chunks=(24, 30, 30),
        shards=(7 * 24, 60, 90),
        fill_value=float("nan"),
        dimension_names=("hour", "y", "x"),
        attributes={"units": "degrees Celsius", "days": 0},
        overwrite=True,
    )
    reader = frazil.open_array(folder)
    for day in range(14):
        shape = writer.append(measured(day))
        writer.attrs["days"] = day + 1
        assert shape == ((day + 1) * HOURS_A_DAY, HEIGHT, WIDTH)

    assert reader.shape[0] == 0  # the shape at the time of opening
    reader.refresh()
    here = np.asarray(reader[:, 40, 45])  # two weeks at one place: one of every six inner chunks is read
    print(
        f"{reader.attrs['days']} days, {len(here)} hours; at (40, 45) from {here.min():.1f} to {here.max():.1f} degrees"
    )
    print(f"warmest hour of the day: {here.reshape(-1, HOURS_A_DAY).mean(axis=0).argmax()}:00")
    print(f"{reader.nbytes / 1e6:.1f} MB stored as {reader.nbytes_stored() / 1e6:.1f} MB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:  # nothing is left behind
            main(f"{scratch}/temperatures.zarr")
