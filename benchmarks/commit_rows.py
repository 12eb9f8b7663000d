"""What a small commit costs beyond writing its files: in turns with commits, the same files are written, linked and synced by bare system calls.

    python benchmarks/commit_rows.py [FOLDER] [--rounds 20] [--commits 20]

A commit of one element writes a manifest, a snapshot and a branch file. `durable` syncs each file, and then its folder. Prints, without and with syncs:
milliseconds of a commit, of its files alone, and the ratio, round by round, in wall time and in CPU time."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import frazil

FILES = (("manifests", 97), ("snapshots", 795), ("refs", 35))  # sizes of the files of a small commit


class Bare:
    """The system calls that are always needed: create a file without a name, write it, sync it, link it to its name, and sync its folder."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self.sync, self.number, self.folders = sync, 0, []
        for name, nbytes in FILES:
            (folder / name).mkdir(parents=True)
            self.folders.append((os.open(folder / name, os.O_RDONLY), b"x" * nbytes))

    def __call__(self) -> None:
        self.number += 1
        for folder, data in self.folders:
            file = os.open(".", os.O_WRONLY | os.O_TMPFILE, 0o666, dir_fd=folder)
            os.write(file, data)
            if self.sync:
                os.fsync(file)
            os.link(f"/proc/self/fd/{file}", str(self.number), dst_dir_fd=folder, follow_symlinks=True)
            os.close(file)
            if self.sync:
                os.fsync(folder)


class Commits:
    """Commits of one element."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self.repo, self.number = frazil.Repository.create(str(folder), durable=sync), 0
        with self.repo.transaction(message="start") as root:
            root.create_array("data", shape=100, chunks=1, dtype="f8")[:] = 0

    def __call__(self) -> None:
        self.number += 1
        session = self.repo.writable_session()
        array: Any = session.root["data"]
        array[self.number % 100 : self.number % 100 + 1] = np.array([float(self.number)])
        session.commit("one of many")


def timed(step: Callable[[], None], count: int) -> tuple[float, float]:
    """Milliseconds and CPU milliseconds per step."""
    start, before = time.perf_counter(), time.process_time()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count * 1e3, (time.process_time() - before) / count * 1e3


def row(folder: Path, rounds: int, count: int, *, sync: bool) -> None:
    steps: dict[str, Callable[[], None]] = {
        "commit": Commits(folder / "repository", sync=sync),
        "files alone": Bare(folder / "files", sync=sync),
    }
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for turn in range(rounds + 1):
        for name in list(steps)[:: -1 if turn % 2 else 1]:
            seconds = timed(steps[name], count)
            if turn:  # the first warms up
                runs[name].append(seconds)
    label = "with syncs" if sync else "without syncs"
    for at, unit in enumerate(("ms", "CPU ms")):
        own, bare = ([run[at] for run in runs[name]] for name in steps)
        ratios = [a / b for a, b in zip(own, bare, strict=True)]
        print(
            f"{label}: commit {median(own):.2f} {unit} (least {min(own):.2f}), files alone {median(bare):.2f} (least {min(bare):.2f}), ratio {median(ratios):.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="on the disk to measure; a temporary one, where it is left out")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--commits", type=int, default=20)
    options = parser.parse_args()
    for sync in (False, True):
        with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
            row(Path(scratch), options.rounds, options.commits, sync=sync)


if __name__ == "__main__":
    main()
