"""Arrays that a library decodes (h5py, tifffile, eccodes, zipfile), as a store of chunks without codecs, so that they are read like any other array.

The packages of the formats name the library in `Library.name`; this module opens it when the first chunk is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from frazil.api.nodes import create_array, create_group
from frazil.integrations.files.grib.field_reader import open_grib
from frazil.integrations.files.hdf5.library_reader import open_hdf5
from frazil.integrations.files.numpy_files.arrays import open_members
from frazil.integrations.files.tiff.series import open_tiff
from frazil.stores.memory import MemoryStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.integrations.files.scanned import ScannedArray
    from frazil.integrations.files.sources.source import Source


class BoxReader(Protocol):
    """Reads boxes of one array; called by one thread at a time."""

    def __call__(self, box: tuple[slice, ...], /) -> NDArray[np.generic]: ...


Opener = Callable[["Source", "Sequence[ScannedArray]", ExitStack], "Mapping[str, BoxReader]"]

_OPENERS: Final[dict[str, Opener]] = {
    "eccodes": open_grib,
    "h5py": open_hdf5,
    "tifffile": open_tiff,
    "zip": open_members,
}


_BYTES: Final = [{"name": "bytes", "configuration": {"endian": "little"}}]
_VLEN: Final = ["vlen-utf8"]


class DecodedChunks:
    """A store of Zarr v3 keys, for frazil.stores.adapt: the documents of the arrays, and their chunks, decoded as they are read."""

    def __init__(self, arrays: Sequence[ScannedArray], source: Source, files: ExitStack) -> None:
        """files: closes the files that the libraries open."""
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
        self._readers: dict[str, BoxReader] = {}
        self._last: tuple[str, bytes | None] = "", None  # slabs of an import are often parts of one chunk
        self._lock: Final = Lock()

    def get(self, key: str) -> bytes | None:
        """The document or the chunk of a key. Raises the library's error for a damaged file as a DataError."""
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
            if self._last[0] != key:
                self._last = "", None  # its memory is free before the next chunk is decoded
                self._last = key, _encoded(array, self._reader(array)(box))
            return self._last[1]

    def list(self) -> list[str]:
        """The documents. Chunks are read by their keys, and not listed."""
        return list(self._documents)

    def _reader(self, array: ScannedArray) -> BoxReader:
        assert array.library is not None
        if array.path not in self._readers:
            same = [
                other for other in self._arrays.values() if other.library and other.library.name == array.library.name
            ]
            self._readers |= _OPENERS[array.library.name](self._source, same, self._files)
        return self._readers[array.path]


def _encoded(array: ScannedArray, values: NDArray[np.generic]) -> bytes | None:
    """The bytes of a whole chunk. values: those of the chunk within the array"""
    dtype = array.dtype.newbyteorder("<")
    if values.shape != array.chunk_shape:
        whole = np.full(array.chunk_shape, array.fill_value, dtype)
        whole[tuple([slice(0, extent) for extent in values.shape])] = values
        values = whole
    return _text_chunk(values) if dtype.kind == "O" else np.ascontiguousarray(values, dtype).tobytes()


def _text_chunk(values: NDArray[np.generic]) -> bytes | None:
    """A chunk of text, encoded."""
    store = MemoryStore()
    create_array(store, data=values, dtype="string", chunks=values.shape, codecs=_VLEN, write_empty_chunks=True)
    return store.get("/".join(["c", *["0"] * values.ndim]))
