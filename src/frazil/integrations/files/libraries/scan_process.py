"""A process for the calls of libraries on files that may be damaged, with limits of time and memory: HDF5, eccodes and tifffile never return for some of them,
take all memory, or end the process that they run in. It scans HDF5, TIFF and GRIB files, reads boxes of HDF5 datasets and of series of TIFF, and decodes fields
of GRIB.

scan_worker.py is the other process. This one reads remote files, so that the other one needs no credentials."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Pipe
from time import monotonic
from typing import BinaryIO, Final, TypeAlias

import numpy as np

from frazil.base.arrays import Values
from frazil.base.fork_safety import ForkSafeLock, renew_after_fork
from frazil.errors import FormatError, FrazilError, InvalidInputError, StoreError
from frazil.integrations.files.grib.fields import load_eccodes
from frazil.integrations.files.hdf5.types import load_h5py
from frazil.integrations.files.libraries import scan_messages as messages
from frazil.integrations.files.libraries.scan_messages import GRIB, HDF5, LIBRARIES, TIFF, send
from frazil.integrations.files.scanned import Box, ScannedFile
from frazil.integrations.files.sources.ranged_file import RangedFile
from frazil.integrations.files.sources.source import state_of
from frazil.integrations.files.tiff.series import load_tifffile

_START_SECONDS: Final = 60.0  # seconds that a process may take to start, on a busy machine
_CLOSE_SECONDS: Final = 5.0  # seconds that a library may take to close a file, or its process to end, on a busy machine
_MOST_SECONDS: Final = 1e6  # of a time limit: the system's timers hold not much more
_IDLE_PROCESSES: Final = 2  # processes that wait for the next file

# SIGINT is ignored from the beginning: the first process handles Ctrl-C
_START: Final = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import sys; sys.path[:] = {path!r}; "
    "from frazil.integrations.files.libraries.scan_worker import work; work({number})"
)


def scan_in_process(file: BinaryIO, name: str, time_limit: float, kind: str) -> ScannedFile:
    """hdf5.scan_hdf5, tiff.scan_tiff or grib.scan_grib, by the kind, in another process.

    time_limit  seconds that the library may take for one dataset or field, or for a file of TIFF
    Raises the errors of these functions, InvalidInputError for an invalid limit, and FormatError if the library takes longer, needs too much memory or ends its
    process."""
    if isinstance(time_limit, bool) or not isinstance(time_limit, int | float) or not 0 < time_limit < float("inf"):
        raise InvalidInputError(f"time_limit is {time_limit!r}; it must be a number of seconds above 0")
    load_library(kind)
    found = _run_task(file, (messages.SCAN, kind, name, time_limit, _path_of(file, name), state_of(file)))
    assert isinstance(found, ScannedFile)
    return found


def decode_in_process(message: bytes, shape: Sequence[int], name: str, time_limit: float) -> Values:
    """grib.decode_field in another process. name: of the file, in messages. Raises its errors, and FormatError as scan_in_process."""
    found = _run_task(None, (messages.FIELD, GRIB, name, time_limit, message, tuple(shape)))
    assert isinstance(found, np.ndarray)
    return found


def load_library(kind: str) -> None:
    """Raises InvalidInputError if a library for files of this kind is not installed."""
    {HDF5: load_h5py, GRIB: lambda: load_eccodes("cfgrib"), TIFF: load_tifffile}[kind]()


class BoxReader:
    """Reads boxes of the arrays of one file of HDF5 or TIFF in another process, which keeps the file open. It has its own, because the next box is of the same
    file. file: stays open until close"""

    def __init__(self, kind: str, file: BinaryIO, name: str, time_limit: float) -> None:
        self._kind, self._file, self._name, self._time_limit = kind, file, name, time_limit
        self._process: _Process | None = None
        self._lock: Final = ForkSafeLock()

    def read(self, box: Box) -> Values:
        """The elements of a box. Raises ChunkDecodeError, and FormatError as scan_in_process."""
        with self._lock.lock:
            if self._process is None or self._process.owner != os.getpid():
                self._process = _take_process()
            place = _path_of(self._file, self._name), state_of(self._file).size
            task: _Task = (messages.BOX, self._kind, self._name, self._time_limit, *place, box)
            try:
                found = self._process.run_task(self._file, task)
            except BaseException:
                self._process.end()
                self._process = None
                raise
        if isinstance(found, FrazilError):
            raise found
        assert isinstance(found, np.ndarray)
        return found

    def close(self) -> None:
        """Closes the file in the other process, which then waits for the next file. If another thread still reads a box, because its caller was interrupted,
        the process is ended, and that thread gets an error."""
        process = self._process
        if process is None or process.owner != os.getpid():
            return
        lock = self._lock.lock
        if not lock.acquire(blocking=False):
            process.kill()
            return
        try:
            self._process = None
            with suppress(FormatError):
                _finish_task(process, None, (messages.CLOSE, self._kind, self._name, _CLOSE_SECONDS))
        finally:
            lock.release()


# what is to be done, the kind of the file, its name in messages, seconds; and more, for the other process
_Task: TypeAlias = "tuple[str, str, str, float, *tuple[object, ...]]"


def _path_of(file: BinaryIO, name: str) -> str:
    """The path of an open file in the other process; "" for a remote file. Not its name: another file may have that by now, and this process may have moved to
    another folder."""
    if isinstance(file, RangedFile):
        return ""
    path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    return path if os.path.exists(path) else os.path.join(os.getcwd(), name)


def _run_task(file: BinaryIO | None, task: _Task) -> object:
    """The answer of another process. If it is an error, raises it."""
    found = _finish_task(_take_process(), file, task)
    if isinstance(found, FrazilError):
        if isinstance(found, FormatError):
            found.key = task[2]
        raise found
    return found


def _take_process() -> _Process:
    return _idle.pop() if _idle else _Process()


def _finish_task(process: _Process, file: BinaryIO | None, task: _Task) -> object:
    """The answer of a process, which then waits for the next file; but it ends if it could not close the last one."""
    try:
        found = process.run_task(file, task)
    except BaseException:
        process.end()
        raise
    if len(_idle) < _IDLE_PROCESSES and not (task[0] == messages.CLOSE and isinstance(found, FrazilError)):
        _idle.append(process)
    else:
        process.end()
    return found


class _Process:
    """A process that scans one file after the other. It ends when this one does. Raises StoreError if it cannot be started."""

    def __init__(self) -> None:
        self._connection, other = Pipe()
        with other:
            start = _START.format(path=sys.path, number=other.fileno())
            command = [sys.executable, "-c", start]
            try:
                self._process = subprocess.Popen(command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL)
            except OSError as error:
                self._connection.close()
                raise StoreError(
                    f"the process that reads the file cannot be started: {error}",
                    hint="HDF5, TIFF and GRIB are read in another process of Python; it needs a file descriptor and memory",
                ) from error
        self.owner: Final = os.getpid()
        self._start_seconds = _START_SECONDS
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Otherwise Popen warns in the child that a process of its parent is still running."""
        self._process.returncode = 0

    def run_task(self, file: BinaryIO | None, task: _Task) -> object:
        """The answer to a task: a result or an error. file: whose bytes the other process may request"""
        action, kind, name, time_limit, *more = task
        library, time_limit = LIBRARIES[kind], min(time_limit, _MOST_SECONDS)
        left = max(time_limit, self._start_seconds)
        with self._running(library, name):
            send(self._connection, (action, kind, name, time_limit, *more))
        while True:
            start = monotonic()
            with self._running(library, name):
                if not self._connection.poll(max(left, 0.0)):
                    raise FormatError(
                        f"{library} did not finish within {time_limit:g} seconds: the file is damaged, or very large",
                        key=name,
                        hint="time_limit= gives it more seconds",
                    )
                answer, value = self._connection.recv()
            # a scan that reads may be in a circle, for example of pages
            left = left - (monotonic() - start) if action == messages.SCAN else time_limit
            self._start_seconds = 0.0
            if answer == messages.READ and file is not None:
                at, length = value
                file.seek(at)
                found = file.read(length)
                with self._running(library, name):
                    self._connection.send_bytes(found)
            elif answer == messages.STEP:
                left = time_limit
            elif answer == messages.NO_MEMORY:
                raise FormatError(
                    f"{library} needs more than half of the memory, or more than the limit of this process: the file is damaged, or very large",
                    key=name,
                )
            elif answer in {messages.DONE, messages.FAILED}:
                return value

    @contextmanager
    def _running(self, library: str, name: str) -> Iterator[None]:
        """For each use of the connection. Raises StoreError if the process did not start, FormatError if it has ended."""
        try:
            yield
        except (EOFError, ConnectionError, pickle.UnpicklingError) as error:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_CLOSE_SECONDS)
            self._process.kill()
            status = self._process.wait()
            if self._start_seconds:
                raise StoreError(
                    f"the process that reads the file ended when it was started (status {status})", key=name
                ) from error
            why = "the file is damaged"
            if status == -signal.SIGKILL:
                why += ", or very large, or memory is full"
            raise FormatError(
                f"{library} ended its process (status {status}) while it read the file: {why}", key=name
            ) from error

    def kill(self) -> None:
        """Ends the process, while another thread may wait for its answer."""
        self._process.kill()

    def end(self) -> None:
        if self.owner != os.getpid():
            return
        self._process.kill()
        self._process.wait()
        self._connection.close()


_idle: list[_Process] = []


def _end_all() -> None:
    while _idle:
        _idle.pop().end()


def _after_fork() -> None:
    """Runs after _Process.after_fork, which was registered before."""
    _idle.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_after_fork)
