"""Arrays that a library decodes, as a store of chunks."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import h5py
import numpy as np
import pytest

import frazil
from frazil import Runtime
from frazil.integrations.files.imports import importer
from frazil.integrations.files.libraries import decoded_chunks


@contextmanager
def largest_file(nbytes: int | None) -> Iterator[None]:
    """Writes beyond this size fail."""
    if nbytes is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_parts_of_one_chunk_decode_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of small slabs decoded a large chunk once for each of its parts."""
    values = np.arange(256 * 256, dtype="i4").reshape(256, 256)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(256, 256), scaleoffset=0)
    paths: list[str] = []
    encoded = decoded_chunks._encoded
    monkeypatch.setattr(decoded_chunks, "_encoded", lambda *given: (paths.append(given[0].path), encoded(*given))[1])
    limit = Runtime(bytes_in_flight=2**14)
    frazil.import_file(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=(32, 32), shards=(64, 64), runtime=limit)
    assert paths == ["a"]
    np.testing.assert_array_equal(frazil.load(tmp_path / "b.zarr")["a"], values)


@pytest.mark.parametrize("full", [False, True])
def test_chunks_that_several_slabs_need_are_decoded_once(
    full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import to long chunks decoded each chunk of the file once for each column of slabs. With a disk that becomes full it still does."""
    values = np.arange(64 * 32 * 32, dtype="i4").reshape(64, 32, 32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(1, 32, 32), scaleoffset=0)
        file.create_dataset("b", data=values, chunks=(1, 32, 32), scaleoffset=0)
    paths: list[str] = []
    encoded = decoded_chunks._encoded
    monkeypatch.setattr(decoded_chunks, "_encoded", lambda *given: (paths.append(given[0].path), encoded(*given))[1])
    limit = frazil.Runtime(bytes_in_flight=2**16)
    with largest_file(2**17 + 100 if full else None):  # the temporary file of an array would have 2**18 bytes
        frazil.import_file(
            tmp_path / "a.h5", tmp_path / "b.zarr", chunks=(64, 8, 8), shards=(64, 16, 16), runtime=limit
        )
    assert len(paths) > 300 if full else sorted(paths) == ["a"] * 64 + ["b"] * 64
    for name in "ab":
        np.testing.assert_array_equal(frazil.open_array(tmp_path / "b.zarr", path=name)[...], values)


def test_temporary_files_of_an_array_are_closed_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were kept until the end of the import, which then took the disk space of all arrays together."""
    values = np.arange(16 * 16 * 16, dtype="i4").reshape(16, 16, 16)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in "abc":
            file.create_dataset(name, data=values, chunks=(1, 16, 16), scaleoffset=0)
    made: list[IO[bytes]] = []
    opened: list[int] = []

    def temporary_file() -> IO[bytes]:
        made.append(TemporaryFile())  # noqa: SIM115
        opened.append(sum(not file.closed for file in made))
        return made[-1]

    monkeypatch.setattr(decoded_chunks, "TemporaryFile", temporary_file)
    limit = frazil.Runtime(bytes_in_flight=2**12)
    frazil.import_file(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=(16, 2, 2), shards=(16, 4, 4), runtime=limit)
    assert opened == [1, 1, 1]
    assert all(file.closed for file in made)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_an_import_within_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread reads a row of chunks ahead; it does not decode the rest of them."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", shape=(512, 64 * 64), dtype="i4", chunks=(64, 64), scaleoffset=0)
        file["a"][...] = 1
    decoded: list[object] = []
    encoded = decoded_chunks._encoded

    def slow(*given: object) -> object:
        decoded.append(given)
        if len(decoded) == 70:  # in the second row, which is read ahead
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            assert ended.wait(60)
        return encoded(*given)  # type: ignore[arg-type]

    ended = threading.Event()
    monkeypatch.setattr(importer, "Event", lambda: ended)
    monkeypatch.setattr(decoded_chunks, "_encoded", slow)
    with pytest.raises(KeyboardInterrupt):
        frazil.import_file(
            tmp_path / "a.h5", tmp_path / "b.zarr", chunks=(64, 64), runtime=frazil.Runtime(bytes_in_flight=2**23)
        )
    assert len(decoded) <= 71
