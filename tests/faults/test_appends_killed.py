"""shard_writes="append" under kill -9 and with concurrent readers: each shard is restored, and no other inner chunk is harmed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import frazil

# Writes k into all of one inner chunk after another, and prints it before and after.
_APPENDS = """
import sys
import frazil

array = frazil.open_array(sys.argv[1], "r+", shard_writes="append")
number, k = 0, int(sys.argv[2])
print("begun", flush=True)
while True:
    k += 1
    number = (number + 7) % 64
    i, j = divmod(number, 8)
    array[i * 8 : i * 8 + 8, j * 8 : j * 8 + 8] = k
    print(number, k, flush=True)
"""


def create(path: Path, location: str, **more: object) -> frazil.Array:
    array = frazil.create_array(
        path, shape=(64, 64), dtype="int64", chunks=(8, 8), shards=(64, 64), index_location=location, **more
    )  # type: ignore[arg-type]
    array[...] = 1
    return array


def killed_run(path: Path, k: int, seconds: float) -> dict[int, int]:
    """The writes that the writer reported: number of an inner chunk -> value."""
    writer = subprocess.Popen([sys.executable, "-c", _APPENDS, str(path), str(k)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"begun\n"
    time.sleep(seconds)  # the time of the kill; no event is waited for
    writer.send_signal(signal.SIGKILL)
    acknowledged = writer.stdout.read().split(b"\n")[:-1]  # the following bytes are torn
    writer.wait()
    writer.stdout.close()
    return {int(line.split()[0]): int(line.split()[1]) for line in acknowledged if line.count(b" ") == 1}


def check_kills(path: Path, location: str, count: int) -> None:
    create(path, location)
    random_numbers = random.Random(count)
    expected = np.ones(64, np.int64)
    k = 1
    for _ in range(count):
        acknowledged = killed_run(path, k, random_numbers.uniform(0, 0.05))
        for number, value in acknowledged.items():
            expected[number] = value
        last = max([*acknowledged.values(), k])
        array = frazil.open_array(path)
        found = array[...].reshape(8, 8, 8, 8).transpose(0, 2, 1, 3).reshape(64, 64)
        assert (found == found[:, :1]).all(), "an inner chunk is whole"
        others = np.flatnonzero(found[:, 0] != expected)
        assert len(others) <= 1, "at most the one that was being written"
        assert all(found[number, 0] == last + 1 for number in others.tolist())
        expected = found[:, 0].copy()
        k = last + 1
    array = frazil.open_array(path, "r+", shard_writes="append")
    array[0, 0] = array[0, 0]
    assert sorted(os.listdir(path / "c/0")) == ["0"]
    assert frazil.validate(path, decode=True).ok


@pytest.mark.parametrize("location", ["end", "start"])
def test_kills(tmp_path: Path, location: str) -> None:
    check_kills(tmp_path / "a", location, 3)


@pytest.mark.campaign
@pytest.mark.parametrize("location", ["end", "start"])
def test_many_kills(tmp_path: Path, location: str) -> None:
    check_kills(tmp_path / "a", location, 150)


def read_beside(path: Path, location: str, seconds: float) -> None:
    """A writer sets inner chunks to increasing numbers; a reader never sees a decreasing one, or a partial one."""
    array = create(path, location, shard_writes="append")
    done = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        last = np.zeros(64, np.int64)
        try:
            while not done.is_set():
                found = frazil.open_array(path)[...].reshape(8, 8, 8, 8).transpose(0, 2, 1, 3).reshape(64, 64)
                if not (found == found[:, :1]).all() or (found[:, 0] < last).any():
                    wrong.append(found)
                    return
                last = found[:, 0].copy()
        except Exception as error:
            wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    end, k = time.monotonic() + seconds, 1
    while time.monotonic() < end and not wrong:
        k += 1
        i, j = divmod(k * 7 % 64, 8)
        array[i * 8 : i * 8 + 8, j * 8 : j * 8 + 8] = k
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


@pytest.mark.parametrize("location", ["end", "start"])
def test_readers_beside_a_writer(tmp_path: Path, location: str) -> None:
    read_beside(tmp_path / "a", location, 1)


@pytest.mark.campaign
@pytest.mark.parametrize("location", ["end", "start"])
def test_readers_beside_a_writer_for_a_minute(tmp_path: Path, location: str) -> None:
    read_beside(tmp_path / "a", location, 30)
