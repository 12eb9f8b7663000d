"""The file that the HDF5 library writes, as a file object for h5py.

If the system refuses a write while the library closes a file, the library ends the process later, by a segmentation fault. So it is told that all writes
succeed: a refused one is remembered, and the caller raises its error when the file is closed. An interrupt would fail a write too: so the library is called on
a thread, which receives none."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO

from frazil.base.threads import Threads
from frazil.errors import StoreError


class Output:
    """An empty binary file without a buffer."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._at, self._length = file, 0, 0
        self._failed: OSError | None = None
        self._ended = False

    def fill(self, write: Callable[[Output], object]) -> None:
        """Calls `write`, which opens this file with h5py, writes and closes it. Raises its errors, and the OSError of a write that was refused."""
        with Threads(1, "frazil export") as thread:
            pending = thread.submit(write, self)
            try:
                pending.result()
            except Exception:
                self.check()  # the library may have read what was not written
                raise
            except BaseException:
                self._ended = True
                raise
        self.check()

    def check(self) -> None:
        """Raises the OSError of the first write that was refused, and StoreError after an interrupt: the rest need not be written."""
        if self._failed is not None:
            raise self._failed
        if self._ended:
            raise StoreError("the export was interrupted")

    # --- called by h5py ------------------------------------------------------------------------------------------------------------------

    def write(self, data: memoryview) -> int:
        start, count, done = self._at, len(data), 0
        self._at += count
        self._length = max(self._length, self._at)
        try:
            while done < count and self._failed is None:
                done += os.pwrite(self._file.fileno(), data[done:], start + done)
        except OSError as error:
            self._failed = error
        return count

    def truncate(self, size: int) -> int:
        self._length = size
        try:
            if self._failed is None:
                self._file.truncate(size)
        except OSError as error:
            self._failed = error
        return size

    def readinto(self, data: memoryview) -> int:
        try:
            done = os.preadv(self._file.fileno(), [data], self._at)
        except OSError as error:
            self._failed, done = error, 0
        self._at += done
        return done

    def read(self, size: int) -> bytes:
        """As readinto. h5py calls that one, but what has no `read` is no file object for it."""
        data = bytearray(size)
        return bytes(data[: self.readinto(memoryview(data))])

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (self._length if whence == os.SEEK_END else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Does nothing, as there is no buffer."""
