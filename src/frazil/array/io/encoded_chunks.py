"""Encoded inner chunks of one shard, in the order in which they arrive: in memory up to a limit, then in an unnamed temporary file.

Safe to use from many threads. shard_writer.py encodes them and makes the shard."""

from __future__ import annotations

import mmap
import os
from _thread import allocate_lock  # threading's Lock, without the module
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from frazil.base.arrays import Columns
from frazil.base.threads import to_its_end
from frazil.errors import StoreError

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.stores.values import SourceBuffer


_EMPTY: Final = -1  # the length of an inner chunk that is all fill value


class EncodedChunks:
    """limit: bytes that may be in memory; folder: of the temporary file, None for the system's choice."""

    __slots__ = ("_buffers", "_end", "_file", "_folder", "_limit", "_lock", "_map", "_memory", "_rows")

    def __init__(self, limit: int, folder: str | None) -> None:
        self._limit, self._folder = limit, folder
        self._lock = allocate_lock()
        self._rows: dict[int, tuple[int, int, int, int]] = {}  # number -> buffer (-1: the file), start, length, order
        self._buffers: list[bytes] = []
        self._memory = self._end = 0
        self._file: IO[bytes] | None = None  # closed when it is dropped, also by an interrupt
        self._map: mmap.mmap | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, numbers: Sequence[int], rows: Columns, buffers: Sequence[Buffer]) -> None:
        """Adds inner chunks, or replaces those that have these numbers.

        rows  int64[n, 3], the bytes of each: (-1 - number of a buffer, start, length); length -1: it is all fill value
        Raises StoreError where the temporary file cannot be written."""
        for number, (blob, start, length) in zip(numbers, rows.tolist(), strict=True):
            if length < 0:
                with self._lock:
                    self._rows[number] = 0, 0, _EMPTY, len(self._rows)
                continue
            data = memoryview(buffers[-1 - blob]).cast("B")[start : start + length]
            self._keep(number, data)

    def _keep(self, number: int, data: memoryview) -> None:
        with self._lock:
            order = self._end + self._memory
            if self._file is None and self._memory + len(data) <= self._limit:
                self._buffers.append(bytes(data))
                self._memory += len(data)
                self._rows[number] = len(self._buffers) - 1, 0, len(data), order
                return
            file = self._file or self._spill()
            at = self._end
            self._end += len(data)
        _write(file, data, at)
        with self._lock:
            self._rows[number] = -1, at, len(data), at

    def _spill(self) -> IO[bytes]:
        """Moves the chunks in memory to the file."""
        try:
            # an interrupt in tempfile would leave its descriptor open
            file = self._file = to_its_end(
                lambda: TemporaryFile(dir=self._folder, prefix=".frazil-", suffix=".__lock", buffering=0)  # noqa: SIM115
            )
        except OSError as error:
            raise _refused(error) from error
        for number, (buffer, _, length, _) in list(self._rows.items()):
            if length != _EMPTY:
                at = self._end
                self._end += length
                _write(file, memoryview(self._buffers[buffer]), at)
                self._rows[number] = -1, at, length, at
        self._buffers, self._memory = [], 0
        return file

    def numbers(self) -> Columns:
        """int64[n]: the numbers of all inner chunks, also of those that are all fill value; ascending."""
        with self._lock:
            return np.array(sorted(self._rows), np.int64)

    def columns(self, numbers: Columns) -> tuple[Columns, Columns, Sequence[SourceBuffer]]:
        """The bytes of inner chunks by their numbers: rows int64[n, 3] as in `add`; int64[n], ascending in the order in which they were added; and the buffers.

        Raises StoreError where the temporary file cannot be mapped."""
        with self._lock:
            found = [self._rows[number] for number in numbers.tolist()]
            buffers: list[SourceBuffer] = list(self._buffers)
        if self._file is not None and self._end:
            if self._map is None:
                try:
                    self._map = mmap.mmap(self._file.fileno(), self._end, prot=mmap.PROT_READ)
                except (OSError, ValueError) as error:
                    raise _refused(error) from error
            buffers.append(np.frombuffer(self._map, np.uint8))
        last = len(buffers) - 1
        rows = np.array(
            [(-1 - (last if buffer < 0 else buffer), start, length) for buffer, start, length, _ in found], np.int64
        )
        return rows.reshape(len(found), 3), np.array([order for *_, order in found], np.int64), buffers

    def close(self) -> None:
        """Releases everything. Memory that `columns` returned stays as long as it is referenced."""
        with self._lock:
            file, self._file, self._map = self._file, None, None
            self._rows, self._buffers = {}, []
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
