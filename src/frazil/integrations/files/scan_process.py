"""A process for the calls of libraries on files that may be damaged, with a time limit: HDF5 and eccodes never return for some of them, or end the
process that they run in. It scans HDF5 and GRIB files, reads boxes of HDF5 datasets, and decodes fields of GRIB.

The work itself is in datasets.py and in grib/. This process reads remote files, so that the other one needs no credentials."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import numpy as np

from frazil.base.arrays import Values
from frazil.errors import ChunkDecodeError, FormatError, FrazilError, InvalidInputError, StoreError
from frazil.formats.manifests import FileCheck
from frazil.integrations.files.grib.fields import decode_field, load_eccodes, scan_grib
from frazil.integrations.files.hdf5.datasets import scan_hdf5
from frazil.integrations.files.hdf5.library_reader import Box, open_library_file, read_box
from frazil.integrations.files.hdf5.types import load_h5py
from frazil.integrations.files.scanned import ScannedFile
from frazil.integrations.files.sources.positioned_file import PositionedFile
from frazil.integrations.files.sources.ranged_file import RangedFile
from frazil.integrations.files.sources.source import state_of

if TYPE_CHECKING:
    import h5py

_EXIT_SECONDS: Final = 10.0  # seconds after which a process that was not ended ends itself
_IDLE_PROCESSES: Final = 2  # processes that wait for the next file
_READ, _STEP, _DONE, _FAILED = "read", "step", "done", "failed"
HDF5, GRIB = "hdf5", "grib"  # kinds of files
_FIELD, _BOX = "field", "box"
_LIBRARIES: Final = {HDF5: "the HDF5 library", GRIB: "eccodes", _FIELD: "eccodes", _BOX: "the HDF5 library"}

_START: Final = (
    "import sys; sys.path[:] = {path!r}; from frazil.integrations.files.scan_process import work; work({number})"
)


def scan_in_process(file: BinaryIO, name: str, time_limit: float, kind: str = HDF5) -> ScannedFile:
    """hdf5.scan_hdf5 or grib.scan_grib, by the kind, in another process.

    time_limit  seconds that the library may take for one dataset or field, or between two reads of a remote file
    Raises the errors of these functions, InvalidInputError for an invalid limit, and FormatError if the library takes longer or ends its process."""
    if isinstance(time_limit, bool) or not isinstance(time_limit, int | float) or not 0 < time_limit < float("inf"):
        raise InvalidInputError(f"time_limit is {time_limit!r}; it must be a number of seconds above 0")
    _load(kind)
    state, far = state_of(file), isinstance(file, RangedFile)
    path = name if far else os.path.abspath(name)  # this process may have moved to another folder
    found = _run_task((kind, path, name, state, far, time_limit), file, name, time_limit)
    assert isinstance(found, ScannedFile)
    return found


def decode_in_process(message: bytes, shape: Sequence[int], name: str, time_limit: float) -> Values:
    """grib.decode_field in another process. name: of the file, in messages. Raises its errors, and FormatError if eccodes takes longer or ends its process."""
    found = _run_task((_FIELD, message, tuple(shape), time_limit), None, name, time_limit)
    assert isinstance(found, np.ndarray)
    return found


class BoxReader:
    """Reads boxes of the datasets of one HDF5 file in another process, which keeps the file open. It has its own, because the next box is of the same file."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name, self._size = file, name, state_of(file).size
        self._far: Final = isinstance(file, RangedFile)
        self._path: Final = name if self._far else os.path.abspath(name)
        self._process: _Process | None = None

    def read(self, box: Box, time_limit: float) -> Values:
        """The elements of a box. Raises ChunkDecodeError, and FormatError if the library takes longer or ends its process."""
        if self._process is None or self._process.owner != os.getpid():
            self._process = _idle.pop() if _idle else _Process()
        task = (_BOX, self._path, self._name, self._size, self._far, time_limit, box)
        try:
            found = self._process.run_task(task, self._file, self._name, time_limit)
        except BaseException:
            self.close()
            raise
        if isinstance(found, FrazilError):
            raise found
        assert isinstance(found, np.ndarray)
        return found

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process = None


def _run_task(task: tuple[object, ...], file: BinaryIO | None, name: str, time_limit: float) -> object:
    """The answer of the other process. If it is an error, raises it."""
    process = _idle.pop() if _idle else _Process()
    try:
        found = process.run_task(task, file, name, time_limit)
    except BaseException:
        process.end()
        raise
    if len(_idle) < _IDLE_PROCESSES:
        _idle.append(process)
    else:
        process.end()
    if isinstance(found, FrazilError):
        if isinstance(found, FormatError):
            found.key = name
        raise found
    return found


def _load(kind: str) -> None:
    """Raises an error if a library is not installed."""
    if kind == HDF5:
        load_h5py()
    else:
        load_eccodes("cfgrib")


def _scan(
    kind: str, file: BinaryIO, name: str, state: FileCheck, *, far: bool, step: Callable[[], None]
) -> ScannedFile:
    return scan_hdf5(file, name, state, far=far, step=step) if kind == HDF5 else scan_grib(file, name, state, step)


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
                    hint="HDF5 and GRIB are read in another process of Python; it needs a file descriptor and memory",
                ) from error
        self.owner: Final = os.getpid()

    def run_task(self, task: tuple[object, ...], file: BinaryIO | None, name: str, time_limit: float) -> object:
        """The answer to a task: a result or an error."""
        library = _LIBRARIES[str(task[0])]
        try:
            self._connection.send(task)
            while True:
                if not self._connection.poll(time_limit):
                    raise FormatError(
                        f"{library} did not finish within {time_limit:g} seconds: the file is damaged, or very large",
                        key=name,
                        hint="time_limit= gives it more seconds",
                    )
                kind, value = self._connection.recv()
                if kind == _READ and file is not None:
                    start, length = value
                    file.seek(start)
                    self._connection.send_bytes(file.read(length))
                elif kind in {_DONE, _FAILED}:
                    return value
        except (EOFError, ConnectionError) as error:
            status = self._process.wait()
            raise FormatError(
                f"{library} ended its process (status {status}) while it read the file: the file is damaged", key=name
            ) from error

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


atexit.register(_end_all)
os.register_at_fork(after_in_child=_idle.clear)


# --- the other process -----------------------------------------------------------------------------------------------------------------


class _Alarm:
    """Ends this process if the library does not return, even if no process waits for it any more. It is stopped while this process waits for bytes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def set(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _RequestedFile(PositionedFile):
    """A file whose bytes the first process reads."""

    def __init__(self, connection: Connection[Any, Any], size: int, alarm: _Alarm) -> None:
        super().__init__()
        self._connection, self.size, self._alarm = connection, size, alarm

    def read_at(self, start: int, length: int) -> bytes:
        self._alarm.stop()
        self._connection.send((_READ, (start, length)))
        read = self._connection.recv_bytes()
        self._alarm.set()
        return read


def work(number: int) -> None:
    """Does the tasks that arrive over a connection, until it ends. number: of its file descriptor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process handles Ctrl-C
    opened: list[h5py.File] = []
    with Connection(number) as connection, suppress(EOFError, ConnectionError):
        while True:
            kind, *task = connection.recv()
            if kind == _FIELD:
                connection.send(_decoded(*task))
            elif kind == _BOX:
                connection.send(_read_box(connection, opened, *task))
            else:
                connection.send(_scanned(connection, kind, *task))


def _decoded(message: bytes, shape: Sequence[int], time_limit: float) -> tuple[str, object]:
    """The answer for a field."""
    alarm = _Alarm(time_limit + _EXIT_SECONDS)
    alarm.set()
    try:
        return _DONE, decode_field(message, shape)
    except FrazilError as error:
        error.__cause__ = error.__context__ = None
        return _FAILED, error
    finally:
        alarm.stop()


def _read_box(
    connection: Connection[Any, Any],
    opened: list[h5py.File],
    path: str,
    name: str,
    size: int,
    far: bool,
    time_limit: float,
    box: Box,
) -> tuple[str, object]:
    """The answer for a box of a file. opened: the file, after the first box"""
    alarm = _Alarm(time_limit + _EXIT_SECONDS)
    alarm.set()
    try:
        if not opened:
            file = cast(BinaryIO, _RequestedFile(connection, size, alarm)) if far else path
            opened.append(open_library_file(file))
        return _DONE, read_box(opened[0], box, name)
    except FrazilError as error:
        error.__cause__ = error.__context__ = None
        return _FAILED, error
    except Exception as error:
        return _FAILED, ChunkDecodeError(f"the HDF5 library cannot read it: {type(error).__name__}: {error}", key=name)
    finally:
        alarm.stop()


def _scanned(
    connection: Connection[Any, Any], kind: str, path: str, name: str, state: FileCheck, far: bool, time_limit: float
) -> tuple[str, object]:
    """The answer for a file; any error is an answer, too."""
    alarm = _Alarm(time_limit + _EXIT_SECONDS)

    def step() -> None:
        alarm.set()
        connection.send((_STEP, None))

    alarm.set()
    try:
        with _RequestedFile(connection, state.size, alarm) if far else open(path, "rb") as file:
            return _DONE, _scan(kind, cast(BinaryIO, file), name if far else path, state, far=far, step=step)
    except FrazilError as error:
        error.__cause__ = error.__context__ = None
        return _FAILED, error
    except OSError as error:
        return _FAILED, StoreError(f"the file cannot be read: {error.strerror or error}", errno=error.errno, key=name)
    except Exception as error:
        return _FAILED, FormatError(f"the file cannot be read: {type(error).__name__}: {error}", key=name)
    finally:
        alarm.stop()
