"""HDF5 files are scanned in another process, with a limit of time: the HDF5 library never comes back from some damaged files, or ends the process that it runs in.

The scan itself is in datasets.py. A file at a distance is read by this process, so that the other one needs no credentials."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from frazil.errors import FormatError, FrazilError, InvalidInputError, StoreError
from frazil.integrations.files.hdf5.datasets import scan_hdf5
from frazil.integrations.files.hdf5.types import load_h5py
from frazil.integrations.files.sources.positioned_file import PositionedFile
from frazil.integrations.files.sources.ranged_file import RangedFile
from frazil.integrations.files.sources.source import state_of

if TYPE_CHECKING:
    from frazil.formats.manifests import FileCheck
    from frazil.integrations.files.scanned import ScannedFile


TIME_LIMIT: Final = 60.0  # seconds
_LATER: Final = 10.0  # seconds after which a process that nobody has ended ends itself
_KEPT: Final = 2  # processes that wait for the next file
_READ, _STEP, _DONE, _FAILED = "read", "step", "done", "failed"

_START: Final = (
    "import sys; sys.path[:] = {path!r}; from frazil.integrations.files.hdf5.scan_process import work; work({number})"
)


def scan_in_process(file: BinaryIO, name: str, time_limit: float) -> ScannedFile:
    """hdf5.scan_hdf5 in another process.

    time_limit  seconds that the library may take for one dataset, or between two reads of a file at a distance
    Raises what that raises, InvalidInputError for a limit that is none, and FormatError where the library takes longer or ends its process."""
    if isinstance(time_limit, bool) or not isinstance(time_limit, int | float) or not 0 < time_limit < float("inf"):
        raise InvalidInputError(f"time_limit is {time_limit!r}; it is a number of seconds above 0")
    load_h5py()  # says so where it is not installed
    if os.name != "posix" or not sys.executable:  # no other process can be had, and so no limit
        return scan_hdf5(file, name, state_of(file), far=isinstance(file, RangedFile))
    process = _idle.pop() if _idle else _Process()
    try:
        found = process.scan(file, name, time_limit)
    except BaseException:
        process.end()
        raise
    if len(_idle) < _KEPT:
        _idle.append(process)
    else:
        process.end()
    if isinstance(found, FrazilError):
        if isinstance(found, FormatError):
            found.key = name
        raise found
    return found


class _Process:
    """A process that scans one file after the other. It ends when this one does."""

    def __init__(self) -> None:
        self._connection, other = Pipe()
        with other:
            start = _START.format(path=sys.path, number=other.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-c", start], pass_fds=[other.fileno()], stdin=subprocess.DEVNULL
            )
        self.owner: Final = os.getpid()

    def scan(self, file: BinaryIO, name: str, time_limit: float) -> ScannedFile | FrazilError:
        far = isinstance(file, RangedFile)
        try:
            path = name if far else os.path.abspath(name)  # this process may have moved to another folder
            self._connection.send((path, name, state_of(file), far, time_limit))
            while True:
                if not self._connection.poll(time_limit):
                    raise FormatError(
                        f"the HDF5 library did not come to an end within {time_limit:g} seconds: the file is damaged, or very large",
                        key=name,
                        hint="time_limit= (on the command line, --time-limit) gives it more seconds",
                    )
                kind, value = self._connection.recv()
                if kind == _READ:
                    start, length = value
                    file.seek(start)
                    self._connection.send_bytes(file.read(length))
                elif kind in {_DONE, _FAILED}:
                    return cast("ScannedFile | FrazilError", value)
        except (EOFError, ConnectionError) as error:
            status = self._process.wait()
            raise FormatError(
                f"the HDF5 library ended its process (status {status}) while it read the file: the file is damaged",
                key=name,
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


def _after_fork() -> None:
    _idle.clear()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# --- the other process -----------------------------------------------------------------------------------------------------------------


class _Alarm:
    """Ends this process where the library does not come back: also if nobody waits for it any more. It is stopped while bytes are awaited."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def set(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _AskedFile(PositionedFile):
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
    """Scans the files that come over a connection, until it ends. number: of its file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what Ctrl-C ends
    with Connection(number) as connection, suppress(EOFError, ConnectionError):
        while True:
            asked = connection.recv()
            connection.send(_scanned(connection, *asked))


def _scanned(
    connection: Connection[Any, Any], path: str, name: str, state: FileCheck, far: bool, time_limit: float
) -> tuple[str, ScannedFile | FrazilError]:
    """The answer to a request; whatever goes wrong is one, too."""
    alarm = _Alarm(time_limit + _LATER)

    def step() -> None:
        alarm.set()
        connection.send((_STEP, None))

    alarm.set()
    try:
        with _AskedFile(connection, state.size, alarm) if far else open(path, "rb") as file:
            return _DONE, scan_hdf5(cast(BinaryIO, file), path if not far else name, state, far=far, step=step)
    except FrazilError as error:
        error.__cause__ = error.__context__ = None
        return _FAILED, error
    except OSError as error:
        return _FAILED, StoreError(f"cannot read: {error.strerror or error}", errno=error.errno, key=name)
    except Exception as error:
        return _FAILED, FormatError(f"the HDF5 file cannot be read: {type(error).__name__}: {error}", key=name)
    finally:
        alarm.stop()
