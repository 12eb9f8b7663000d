"""Encoded inner chunks of one shard, in the order in which they arrive: in memory up to a limit, then in an unnamed temporary file.

Safe to use from many threads. shard_writer.py encodes them and makes the shard."""

from __future__ import annotations

import mmap
import os
from _thread import allocate_lock  # threading's Lock, without the module
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import numpy as np

from frazil.base.arrays import Columns
from frazil.base.threads import to_its_end
from frazil.errors import StoreError

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.stores.values import SourceBuffer


class EncodedChunks:
    """limit: bytes that may be in memory; folder: of the temporary file, None for the system's choice."""

    __slots__ = ("_end", "_file", "_folder", "_limit", "_lock", "_memory", "_rows")

    def __init__(self, limit: int, folder: str | None) -> None:
        self._limit, self._folder = limit, folder
        self._lock = allocate_lock()
        self._rows: dict[int, tuple[int, int]] = {}  # number -> start, length
        self._end = 0
        self._memory = bytearray()  # all bytes, until they are in the file
        self._file: IO[bytes] | None = None  # closed when it is dropped, also by an interrupt

    def add(self, numbers: Sequence[int], rows: Columns, buffers: Sequence[Buffer]) -> None:
        """Adds inner chunks, or replaces those that have these numbers.

        rows  int64[n, 3], the bytes of each: (-1 - number of a buffer, start, length); length -1: it is all fill value
        Raises StoreError where the temporary file cannot be written."""
        for number, (blob, start, length) in zip(numbers, rows.tolist(), strict=True):
            if length < 0:
                with self._lock:
                    self._rows[number] = 0, length
            else:
                self._keep(number, memoryview(buffers[-1 - blob]).cast("B")[start : start + length])

    def _keep(self, number: int, data: memoryview) -> None:
        with self._lock:
            at, self._end = self._end, self._end + len(data)
            if self._file is None and self._end <= self._limit:
                self._memory += data
                self._rows[number] = at, len(data)
                return
            file = self._file or self._spill()
        _write(file, data, at)
        with self._lock:
            self._rows[number] = at, len(data)

    def _spill(self) -> IO[bytes]:
        """Moves the bytes in memory to the file."""
        try:
            # an interrupt in tempfile would leave its descriptor open
            file = self._file = to_its_end(
                lambda: TemporaryFile(dir=self._folder, prefix=".frazil-", suffix=".__lock", buffering=0)  # noqa: SIM115
            )
        except OSError as error:
            raise _refused(error) from error
        _write(file, memoryview(self._memory), 0)  # if it fails, so does the assignment, and nothing is published
        self._memory = bytearray()
        return file

    def numbers(self) -> Columns:
        """int64[n]: the numbers of all inner chunks, also of those that are all fill value; ascending."""
        with self._lock:
            return np.array(sorted(self._rows), np.int64)

    def columns(self, numbers: Columns) -> tuple[Columns, Columns, Sequence[SourceBuffer]]:
        """The bytes of inner chunks by their numbers: rows int64[n, 3] as in `add`; int64[n], ascending in the order in which they were added; and the buffer.

        Raises StoreError where the temporary file cannot be mapped."""
        with self._lock:
            found = [self._rows[number] for number in numbers.tolist()]
        data: bytearray | mmap.mmap = self._memory
        if self._file is not None:
            try:
                data = mmap.mmap(self._file.fileno(), self._end, prot=mmap.PROT_READ)
            except (OSError, ValueError) as error:
                raise _refused(error) from error
        rows = np.full((len(found), 3), -1, np.int64)
        rows[:, 1:] = found
        return rows, rows[:, 1], (memoryview(data),)

    def close(self) -> None:
        """Releases everything. Memory that `columns` returned stays as long as it is referenced."""
        with self._lock:
            file, self._file = self._file, None
            self._rows, self._memory = {}, bytearray()
        if file is not None:
            file.close()


def _write(file: IO[bytes], data: memoryview, at: int) -> None:
    try:
        while len(data):
            done = os.pwrite(file.fileno(), data, at)
            data, at = data[done:], at + done
    except (OSError, ValueError) as error:  # ValueError: another thread has closed it
        raise _refused(error) from error


def _refused(error: Exception) -> StoreError:
    code = error.errno if isinstance(error, OSError) else None
    return StoreError(
        f"encoded inner chunks could not be kept in a temporary file: {error}",
        errno=code,
        hint="free space on the disk of the store, or in TMPDIR if the store is not a local disk; nothing was published",
    )
