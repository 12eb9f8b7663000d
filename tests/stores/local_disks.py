"""Shared by the tests of local disks: publishing by the kernel itself, child processes, small file systems."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork

from frazil import _kernel


class Folder:
    """An open root, and the kernel's calls on it for values in memory."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.fd = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self.fd)

    def publish(
        self,
        values: dict[str, bytes],
        expect: Sequence[bytes | None] | None = None,
        *,
        sync: bool = False,
        threads: int = 2,
    ) -> list[list[int]]:
        rows = np.array([(-1 - i, 0, -1) for i in range(len(values))], np.int64).reshape(-1, 3)
        offsets = np.arange(len(values) + 1, dtype=np.int64)
        result = np.full((len(values), 4), -99, np.int64)
        expected = [None] * len(values) if expect is None else expect
        buffers = list(values.values())
        _kernel.publish_files(self.fd, list(values), None, buffers, rows, offsets, expected, sync, threads, result)
        return result.tolist()

    def erase(self, names: Sequence[str], expect: Sequence[bytes | None] | None = None) -> list[list[int]]:
        result = np.full((len(names), 4), -99, np.int64)
        _kernel.erase_files(self.fd, names, [None] * len(names) if expect is None else expect, False, result)
        return result.tolist()

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def version(self, name: str) -> bytes:
        stat = (self.path / name).stat()
        return pack_version([stat.st_ino, stat.st_size, stat.st_mtime_ns])

    def names(self) -> set[str]:
        """Every file, lock files too."""
        return {str(path.relative_to(self.path)) for path in self.path.rglob("*") if not path.is_dir()}


def pack_version(numbers: Sequence[int]) -> bytes:
    return struct.pack("<3q", *numbers)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Holds a lock file like another writer."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        yield fd
    finally:
        os.close(fd)


def run_processes(calls: Sequence[Callable[[], object]]) -> None:
    """Makes the calls at the same time, each in its own process."""
    pids = [fork(call) for call in calls]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)


def has_open(pid: int, path: Path) -> bool:
    """Whether a process has the file open."""
    try:
        return any(os.readlink(entry) == str(path) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # the process closed one meanwhile
        return False


@contextlib.contextmanager
def mounted(path: Path, *words: str) -> Iterator[Path]:
    """A file system mounted for the test; skips it if mounting is not allowed."""
    path.mkdir()
    done = subprocess.run(["mount", *words, path], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mount {' '.join(words)}: {done.stderr.strip().splitlines()[0]}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
