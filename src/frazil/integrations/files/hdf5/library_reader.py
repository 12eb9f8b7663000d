"""Boxes of HDF5 datasets that the HDF5 library itself decodes, because they have filters that no codec here implements.
libraries/scan_worker.py calls this in another process.

Filters that the library does not have come from hdf5plugin, if it is installed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from frazil.errors import ChunkDecodeError, FrazilError
from frazil.integrations.files.hdf5.types import TEXT, load_h5py
from frazil.integrations.files.scanned import Box, text_of

if TYPE_CHECKING:
    import h5py
    from numpy.typing import NDArray

_FAILURES: Final = (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def is_available(h5py: ModuleType, number: int) -> bool:
    """Whether the HDF5 library has a filter, including those of hdf5plugin if it is installed."""
    if not h5py.h5z.filter_avail(number):
        try:
            import_module("hdf5plugin")  # registers its filters
        except ImportError:
            return False
    return bool(h5py.h5z.filter_avail(number))


def open_library_file(source: BinaryIO | str) -> h5py.File:
    """A file, or the file at a path, as the HDF5 library has it."""
    h5py = load_h5py()
    return h5py.File(source, "r") if not isinstance(source, str) else h5py.File(source, "r", locking="best-effort")


def read_box(file: h5py.File, wanted: Box, name: str) -> NDArray[np.generic]:
    """The elements of a box. name: of the file, in messages. Raises ChunkDecodeError."""
    for number in wanted.library.filters:
        is_available(load_h5py(), number)  # registers the filters of hdf5plugin
    dataset: Any = file[wanted.library.address]
    shape = [part.stop - part.start for part in wanted.box]
    dtype = wanted.dtype.newbyteorder("=")
    values: NDArray[Any] = np.full(shape, wanted.fill_value, _encoded(dtype, dataset.dtype))
    lengths = [max(0, min(part.stop, end) - part.start) for part, end in zip(wanted.box, dataset.shape, strict=True)]
    if 0 in lengths:  # a dimension of netCDF may be longer than the dataset
        return values.view(dtype)
    ends = [part.start + extent for part, extent in zip(wanted.box, lengths, strict=True)]
    try:
        dataset.read_direct(
            values,
            tuple([slice(part.start, end) for part, end in zip(wanted.box, ends, strict=True)]),
            tuple([slice(0, extent) for extent in lengths]),
        )
    except FrazilError:
        raise
    except _FAILURES as error:
        if wanted.dtype == TEXT and was_never_written(error):
            return np.full(shape, wanted.fill_value, object)
        raise ChunkDecodeError(f"the HDF5 library cannot decode it: {error}", key=name) from error
    return _as_text(values) if wanted.dtype == TEXT else values.view(dtype)


def _encoded(dtype: np.dtype[np.generic], stored: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The data type with the encodings of text that a dataset has: the HDF5 library does not read UTF-8 of a fixed length as ASCII."""
    own, theirs = dtype.fields, stored.fields
    if own and theirs:
        return np.dtype([(name, _encoded(own[name][0], theirs[name][0])) for name in own])
    return stored if dtype.kind == stored.kind == "S" else dtype


def was_never_written(error: Exception) -> bool:
    """Whether the HDF5 library cannot read text because its chunk was never written: the fill value would go into the file, which is open for reading. Its
    list of chunks does not answer this, as it has wrong coordinates for some datasets."""
    return "no write intent" in str(error)


def _as_text(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Elements of text as str, in place."""
    flat = values.reshape(-1)
    flat[:] = [text_of(value) if isinstance(value, bytes) else value for value in flat.tolist()]
    return values
