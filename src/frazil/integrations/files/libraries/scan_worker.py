"""The process that calls the libraries of HDF5, TIFF and GRIB: it does the tasks that scan_process.py sends, with limits of time and memory.
The work itself is in hdf5/, tiff/ and grib/."""

from __future__ import annotations

import io
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from multiprocessing.connection import Connection
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from frazil.base.arrays import Values
from frazil.errors import ChunkDecodeError, FormatError, FrazilError, StoreError
from frazil.formats.manifests import FileCheck
from frazil.integrations.files.grib.fields import decode_field, scan_grib
from frazil.integrations.files.hdf5.datasets import scan_hdf5
from frazil.integrations.files.hdf5.library_reader import open_library_file, read_box
from frazil.integrations.files.libraries import scan_messages as messages
from frazil.integrations.files.libraries.scan_messages import HDF5, LIBRARIES, TIFF, send
from frazil.integrations.files.scanned import Box, ScannedFile
from frazil.integrations.files.sources.positioned_file import PositionedFile
from frazil.integrations.files.sources.ranged_file import PAGE
from frazil.integrations.files.tiff.series import OpenTiff, scan_tiff

if TYPE_CHECKING:
    import h5py

_EXIT_SECONDS: Final = 10.0  # seconds after which a process that was not ended ends itself
_STEP_SECONDS: Final = 0.01  # between two messages that there is progress
_CACHED_PAGES: Final = 2**6  # of a remote file


class _Alarm:
    """Ends this process if the library does not return, even if no process waits for it any more. It is stopped while this process waits for bytes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def set(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _RequestedFile(PositionedFile):
    """A file whose bytes the first process reads: in whole pages, as it fetches them, because libraries read a few bytes at a time."""

    def __init__(self, connection: Connection[Any, Any], name: str, size: int, alarm: _Alarm) -> None:
        super().__init__()
        self._connection, self.name, self.size, self._alarm = connection, name, size, alarm
        self._page = lru_cache(_CACHED_PAGES)(lambda page: self._request(page * PAGE, min(PAGE, size - page * PAGE)))

    def read_at(self, start: int, length: int) -> bytes | memoryview:
        page, at = divmod(start, PAGE)
        return memoryview(self._page(page))[at : at + length] if at + length <= PAGE else self._request(start, length)

    def _request(self, start: int, length: int) -> bytes:
        self._alarm.stop()
        send(self._connection, (messages.READ, (start, length)))
        read = self._connection.recv_bytes()
        self._alarm.set()
        return read


class _SteppedFile(io.FileIO):
    """A file of this machine whose reads are steps: tifffile decodes some arrays in one call, however large they are."""

    def __init__(self, path: str, step: Callable[[], None]) -> None:
        super().__init__(path)
        self._step = step

    def readinto(self, buffer: Any, /) -> int:
        self._step()
        return super().readinto(buffer)


def work(number: int) -> None:
    """Does the tasks that arrive over a connection, until it ends. number: of its file descriptor."""
    _limit_memory()
    with Connection(number) as connection, suppress(EOFError, ConnectionError):
        worker = _Worker(connection)
        send(connection, (messages.STEP, None))  # it has started
        while True:
            task = connection.recv()
            try:
                send(connection, worker.answer(*task))
            except MemoryError:
                send(connection, (messages.NO_MEMORY, None))


def _limit_memory() -> None:
    """Half of the memory, of the machine or of the container, for the data of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as file:
        memory = min(memory, int(file.read()))
    with suppress(OSError, ValueError):
        most = memory // 2 if soft == resource.RLIM_INFINITY else min(memory // 2, soft)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


class _Worker:
    """Does tasks, one after the other. Boxes are read from one file, which stays open until it is closed."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._opened: h5py.File | OpenTiff | None = None

    def answer(self, action: str, kind: str, name: str, time_limit: float, *arguments: Any) -> tuple[str, object]:
        """The answer to a task; any error but MemoryError is an answer, too."""
        self._name, self._alarm = name, _Alarm(time_limit + _EXIT_SECONDS)
        self._alarm.set()
        self._stepped = monotonic()
        acts: dict[str, Callable[..., object]] = {
            messages.SCAN: self._scan,
            messages.BOX: self._read,
            messages.CLOSE: self._close,
        }
        try:
            return messages.DONE, decode_field(*arguments) if action == messages.FIELD else acts[action](
                kind, *arguments
            )
        except MemoryError:
            raise
        except FrazilError as error:
            error.__cause__ = error.__context__ = None
            return messages.FAILED, error
        except Exception as error:
            if action != messages.SCAN:
                library = LIBRARIES[kind]
                return messages.FAILED, ChunkDecodeError(
                    f"{library} cannot read it: {type(error).__name__}: {error}", key=name
                )
            if isinstance(error, OSError):
                text = f"the file cannot be read: {error.strerror or error}"
                return messages.FAILED, StoreError(text, errno=error.errno, key=name)
            return messages.FAILED, FormatError(f"the file cannot be read: {type(error).__name__}: {error}", key=name)
        finally:
            self._alarm.stop()

    def _step(self) -> None:
        """Says that there is progress. Not each time, because each message makes the first process run."""
        if monotonic() - self._stepped < _STEP_SECONDS:
            return
        self._stepped = monotonic()
        self._alarm.set()
        send(self._connection, (messages.STEP, None))

    def _requested(self, size: int) -> BinaryIO:
        return cast(BinaryIO, _RequestedFile(self._connection, self._name, size, self._alarm))

    def _scan(self, kind: str, path: str, state: FileCheck) -> ScannedFile:
        with open(path, "rb") if path else self._requested(state.size) as file:
            if kind == HDF5:
                return scan_hdf5(file, path or self._name, state, far=not path, step=self._step)
            if kind == TIFF:
                return scan_tiff(file, self._name, state)
            return scan_grib(file, self._name, state, self._step)

    def _read(self, kind: str, path: str, size: int, box: Box) -> Values:
        if self._opened is None and kind == HDF5:
            self._opened = open_library_file(path or self._requested(size))
        elif self._opened is None:
            local = path and io.BufferedReader(_SteppedFile(path, self._step))
            self._opened = OpenTiff(local or self._requested(size))
        opened = self._opened
        return opened.read(box) if isinstance(opened, OpenTiff) else read_box(opened, box, self._name)

    def _close(self, _: str) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
