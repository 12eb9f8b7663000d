"""The process that scans and decodes files: which file it opens, and how it ends. What libraries do with damaged files is tested beside them."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from traceback import walk_tb
from typing import Any

import h5py
import numpy as np
import pytest
from tests.faults.concurrent_calls import fork

import frazil
from frazil.errors import FormatError, FrazilError, StoreError
from frazil.integrations.files.libraries import scan_process
from frazil.integrations.files.libraries.scan_messages import HDF5
from frazil.integrations.files.scanned import Box, ScannedArray
from frazil.integrations.files.scanner import scan_file
from frazil.integrations.files.sources.ranged_file import RangedFile
from frazil.stores.memory import MemoryStore


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The processes that wait; none at the beginning."""
    monkeypatch.setattr(scan_process, "_idle", [])
    yield scan_process._idle
    scan_process._end_all()


def patched(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the other process run this first; its module is p."""
    start = f"import frazil.integrations.files.libraries.scan_worker as p; {code}; work("
    monkeypatch.setattr(scan_process, "_START", scan_process._START.replace("work(", start))


def write(path: Path, values: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(10,), compression="lzf")  # which the library decodes
    return path


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as files:
        yield files


def boxes(path: Path, opened: ExitStack) -> tuple[scan_process.BoxReader, Box]:
    """A reader of the file, and the box of its first chunk."""
    (array,) = scan_file(path).arrays
    assert isinstance(array, ScannedArray) and array.library is not None
    box = Box(array.library, array.shape, array.dtype, array.fill_value, (slice(0, 10),))
    return scan_process.BoxReader(HDF5, opened.enter_context(path.open("rb")), str(path), 5.0), box


def test_the_file_that_was_opened_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path behind a link leads elsewhere than its text, and a descriptor is another file in another process."""
    (tmp_path / "real/sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/sub")
    write(tmp_path / "real/a.h5", np.arange(20.0))
    write(tmp_path / "a.h5", np.arange(30.0))
    monkeypatch.chdir(tmp_path)
    assert scan_file("link/../a.h5").arrays[0].shape == (20,)
    with open("a.h5", "rb") as file:
        assert scan_file(f"/proc/self/fd/{file.fileno()}").arrays[0].shape == (30,)
    frazil.import_file("link/../a.h5", "new.zarr")
    assert frazil.open_array("new.zarr/x")[:].tolist() == list(range(20))


def test_closing_while_another_thread_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[Any], opened: ExitStack
) -> None:
    """As after interrupts of a wait for it: two threads must not use one connection."""
    patched("p.read_box = lambda *_: __import__('threading').Event().wait()", monkeypatch)
    reader, box = boxes(write(tmp_path / "a.h5", np.arange(20.0)), opened)
    errors: list[FrazilError] = []
    sent = Event()
    send = scan_process._Process.run_task

    def run_task(self: Any, *arguments: Any) -> object:
        sent.set()
        return send(self, *arguments)

    monkeypatch.setattr(scan_process._Process, "run_task", run_task)

    def read() -> None:
        try:
            reader.read(box)
        except FrazilError as error:
            errors.append(error)

    thread = Thread(target=read)
    thread.start()
    assert sent.wait(30)
    reader.close()
    thread.join(30)
    assert "ended its process" in str(errors[0])
    assert idle == []
    reader.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_while_another_thread_reads(tmp_path: Path, opened: ExitStack) -> None:
    reader, box = boxes(write(tmp_path / "a.h5", np.arange(20.0)), opened)
    with reader._lock.lock:  # as that thread does
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(60)
                code = int(reader.read(box).tolist() != list(range(10)))
                scan_process._end_all()
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    assert reader.read(box).tolist() == list(range(10))
    reader.close()


def test_a_file_that_cannot_be_closed_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[Any], opened: ExitStack
) -> None:
    patched("p._Worker._close = lambda *_: 1 / 0", monkeypatch)
    reader, box = boxes(write(tmp_path / "a.h5", np.arange(20.0)), opened)
    assert reader.read(box).tolist() == list(range(10))
    reader.close()
    assert idle == []


@pytest.mark.parametrize("error", [ConnectionResetError, EOFError])
def test_a_store_whose_connection_ends(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[Any]
) -> None:
    """Its error is not one of the other process, which waits for bytes."""
    store = MemoryStore()
    store.set("a.h5", write(tmp_path / "a.h5", np.arange(20.0)).read_bytes())
    file: Any = RangedFile(store, "a.h5", "memory://a.h5")

    def fail(*_: object) -> bytes:
        raise error("of the store")

    monkeypatch.setattr(file, "read_at", fail)
    with pytest.raises(error, match="of the store"):
        scan_process.scan_in_process(file, file.name, 60.0, HDF5)
    assert idle == []


def test_a_process_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is not damaged."""
    patched("import no_such_module", monkeypatch)
    with pytest.raises(StoreError, match=r"ended when it was started \(status 1\)"):
        scan_file(write(tmp_path / "a.h5", np.arange(20.0)))


def test_errors_keep_no_lent_bytes(tmp_path: Path, idle: list[Any]) -> None:
    """Python 3.13 and newer print one more error when an io.BytesIO is collected before a view of it; frames of an error may keep both in a circle."""
    path = write(tmp_path / "a.h5", np.arange(20.0))
    scan_file(path)
    idle[0]._process.kill()
    idle[0]._process.wait()
    with pytest.raises(FrazilError, match="ended its process") as caught:
        scan_file(path)
    assert caught.value.__cause__ is not None
    frames = [frame for frame, _ in walk_tb(caught.value.__cause__.__traceback__)]
    views = [value for frame in frames for value in frame.f_locals.values() if isinstance(value, memoryview)]
    assert all(isinstance(view.obj, bytes) for view in views)


def test_a_forked_child_starts_its_own_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[Any], opened: ExitStack
) -> None:
    """And says nothing of those of its parent, of which Popen would warn where they are freed."""
    path, said = write(tmp_path / "a.h5", np.arange(20.0)), list[Any]()
    reader, box = boxes(path, opened)
    reader.read(box)
    scan_file(path)
    number = idle[0]._process.pid
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    def child() -> None:
        assert idle == []
        scan_file(path)
        assert idle[0]._process.pid != number
        assert reader.read(box).tolist() == list(range(10))
        assert said == []

    assert os.waitpid(fork(child), 0)[1] == 0
    assert scan_file(path).arrays[0].shape == (20,)
    assert idle[0]._process.pid == number
    reader.close()


@pytest.mark.parametrize("limit", [3e6, 1e300, 10**400])
def test_any_limit_above_that_of_timers(limit: float, tmp_path: Path) -> None:
    assert scan_file(write(tmp_path / "a.h5", np.arange(20.0)), time_limit=limit).arrays[0].shape == (20,)


def test_pages_that_share_a_large_list_of_tiles(tmp_path: Path) -> None:
    """They would be 1.2 million rows, of a file of 70 kB."""
    strips, count = 4000, 300
    lists = 8 + 64, 8 + 64 + 4 * strips
    out = bytearray(b"II*\0" + bytes(4 + 64))
    out += struct.pack(f"<{strips}I", *[8] * strips) + struct.pack(f"<{strips}I", *[16] * strips)

    def page(height: int, more: list[tuple[int, ...]], *, rows: int, offsets: tuple[int, int], number: int) -> bytes:
        tags = [(256, 4, 1, 16), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
        tags += [(273, 4, number, offsets[0]), (277, 3, 1, 1), (278, 4, 1, rows), (279, 4, number, offsets[1]), *more]
        return struct.pack("<H", len(tags)) + b"".join([struct.pack("<HHII", *tag) for tag in tags]) + bytes(4)

    below = page(strips, [], rows=1, offsets=lists, number=strips)
    places = [len(out) + i * len(below) for i in range(count)]
    out += below * count
    at = len(out)
    out += struct.pack(f"<{count}I", *places)
    struct.pack_into("<I", out, 4, len(out))
    out += page(4, [(330, 4, count, at)], rows=4, offsets=(8, 64), number=1)
    (tmp_path / "a.tif").write_bytes(out)
    with pytest.raises(FormatError, match=r"tiles in \d+ bytes"):
        scan_file(tmp_path / "a.tif")
