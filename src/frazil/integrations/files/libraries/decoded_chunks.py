"""Arrays that a library decodes (h5py, tifffile, eccodes, zipfile), as a store of chunks without codecs, so that they are read like any other array.

The packages of the formats name the library in `Library.name`; this module opens it when the first chunk is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from tempfile import TemporaryFile
from threading import Event, Lock
from typing import IO, Final, Protocol

import numpy as np

from frazil.api.nodes import create_array, create_group
from frazil.base.arrays import Values
from frazil.base.threads import to_its_end
from frazil.errors import StoreError
from frazil.integrations.files.grib.field_reader import open_grib
from frazil.integrations.files.libraries.box_readers import open_boxes
from frazil.integrations.files.libraries.scan_messages import HDF5, TIFF
from frazil.integrations.files.numpy_files.arrays import open_members
from frazil.integrations.files.scanned import ScannedArray
from frazil.integrations.files.sources.source import Source
from frazil.stores.memory import MemoryStore


class ReadBox(Protocol):
    """Reads a box of one array; called by one thread at a time."""

    def __call__(self, box: tuple[slice, ...], /) -> Values: ...


Opener = Callable[["Source", "Sequence[ScannedArray]", ExitStack], "Mapping[str, ReadBox]"]

_OPENERS: Final[dict[str, Opener]] = {
    "eccodes": open_grib,
    "h5py": partial(open_boxes, HDF5),
    "tifffile": partial(open_boxes, TIFF),
    "zip": open_members,
}
_OPENED_BY_ARRAY: Final = ("zip",)  # each array has its own files, which are closed after it

_BYTES: Final = [{"name": "bytes", "configuration": {"endian": "little"}}]
_VLEN: Final = ["vlen-utf8"]


class _Spool:
    """Decoded chunks of one array, by key, in a temporary file without a name."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0

    def get(self, key: str) -> bytes | None:
        if key not in self._places:
            return None
        start, length = self._places[key]
        self._file.seek(start)
        return self._file.read(length)

    def put(self, key: str, chunk: bytes) -> None:
        """Raises OSError, for example if the disk is full; then the file can only be closed."""
        self._file.seek(self._end)
        self._file.write(chunk)
        self._file.flush()
        self._places[key] = self._end, len(chunk)
        self._end += len(chunk)

    def close(self) -> None:
        """Frees the space of the file."""
        with suppress(OSError):  # of bytes that are not yet written
            self._file.close()


class DecodedChunks:
    """A store of Zarr v3 keys, for frazil.stores.adapt: the documents of the arrays, and their chunks, decoded as they are read."""

    def __init__(self, arrays: Sequence[ScannedArray], source: Source, files: ExitStack, ended: Event) -> None:
        """files: closes the files that are opened. ended: set when no more chunks are needed; then reads fail, so that a thread that reads many of them
        ends."""
        memory = MemoryStore()
        create_group(memory).create_arrays(
            {
                array.path: {**array.arguments(), "codecs": _VLEN if array.dtype.kind == "O" else _BYTES}
                for array in arrays
            }
        )
        self._documents: Final = {key: memory.get(key) for key in memory.list()}
        self._arrays: Final = {array.path: array for array in arrays}
        self._source: Final = source
        self._files: Final = files
        self._ended: Final = ended
        self._readers: dict[str, ReadBox] = {}
        self._path: str | None = None  # of the array that was read last
        self._array_files: Final = files.enter_context(ExitStack())  # opened for that array alone
        self._spool: _Spool | None = None
        self._last: tuple[str, bytes | None] = "", None  # slabs of an import are often parts of one chunk
        self._lock: Final = Lock()

    def get(self, key: str) -> bytes | None:
        """The document or the chunk of a key. Raises the library's error for a damaged file as a DataError, StoreError after the end."""
        if key in self._documents:
            return self._documents[key]
        path, mark, chunk_key = key.rpartition("/c")
        if not mark or path not in self._arrays:
            return None
        array = self._arrays[path]
        first = [int(number) * chunk for number, chunk in zip(chunk_key.split("/")[1:], array.chunk_shape, strict=True)]
        box = tuple(
            [
                slice(start, min(start + chunk, extent))
                for start, chunk, extent in zip(first, array.chunk_shape, array.shape, strict=True)
            ]
        )
        with self._lock:
            if self._ended.is_set():
                raise StoreError("the import has ended", key=self._source.name, path=path)
            self._switch(path)
            if self._last[0] != key:
                self._last = "", None  # its memory is free before the next chunk is decoded
                self._last = key, self._chunk(key, array, box)
            return self._last[1]

    def spool(self, path: str) -> None:
        """Keeps the chunks of an array in a temporary file until another array is read, so that each is decoded once: for a copy that reads them several
        times."""
        if path in self._arrays and self._arrays[path].chunked:
            with self._lock:
                self._switch(path)
                # an interrupt in tempfile would leave its descriptor open
                self._spool = _Spool(self._array_files.enter_context(to_its_end(TemporaryFile)))

    def _switch(self, path: str) -> None:
        """Closes the files of the last array, if this is another one: arrays are copied one after the other, and there may be thousands."""
        if path != self._path:
            self._path, self._spool = path, None
            self._array_files.close()

    def _chunk(self, key: str, array: ScannedArray, box: tuple[slice, ...]) -> bytes | None:
        chunk = None if self._spool is None else self._spool.get(key)
        if chunk is None:
            chunk = _encoded(array, self._reader(array)(box))
            if chunk is not None and self._spool is not None:
                try:
                    self._spool.put(key, chunk)
                except OSError:  # the disk is full: frees the space, and decodes chunks as often as they are read
                    self._spool.close()
                    self._spool = None
        return chunk

    def list(self) -> list[str]:
        """The documents. Chunks are read by their keys, and not listed."""
        return list(self._documents)

    def _reader(self, array: ScannedArray) -> ReadBox:
        assert array.library is not None
        if array.path not in self._readers:
            name, files = array.library.name, self._files
            same = [other for other in self._arrays.values() if other.library and other.library.name == name]
            if name in _OPENED_BY_ARRAY:
                same, files = [array], self._array_files
                files.callback(self._readers.pop, array.path)
            self._readers |= _OPENERS[name](self._source, same, files)
        return self._readers[array.path]


def _encoded(array: ScannedArray, values: Values) -> bytes | None:
    """The bytes of a whole chunk. values: those of the chunk within the array"""
    dtype = array.dtype.newbyteorder("<")
    if values.shape != array.chunk_shape:
        whole = np.full(array.chunk_shape, array.fill_value, dtype)
        whole[tuple([slice(0, extent) for extent in values.shape])] = values
        values = whole
    return _text_chunk(values) if dtype.kind == "O" else np.ascontiguousarray(values, dtype).tobytes()


def _text_chunk(values: Values) -> bytes | None:
    """A chunk of text, encoded."""
    store = MemoryStore()
    other = "" if values.flat[0] else "."  # as a chunk that is all fill value is not stored
    create_array(store, data=values, dtype="string", chunks=values.shape, codecs=_VLEN, fill_value=other)
    return store.get("/".join(["c", *["0"] * values.ndim]))
