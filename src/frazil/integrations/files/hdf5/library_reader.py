"""Datasets of HDF5 files that the HDF5 library itself decodes, because they have filters that no codec here implements.

Filters that the library does not have come from hdf5plugin, if it is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from frazil.errors import ChunkDecodeError, FrazilError
from frazil.integrations.files.hdf5.types import TEXT, load_h5py
from frazil.integrations.files.scanned import text_of
from frazil.integrations.files.sources.source import open_file

if TYPE_CHECKING:
    import h5py
    from numpy.typing import NDArray

    from frazil.integrations.files.scanned import ScannedArray
    from frazil.integrations.files.sources.source import Source

_FAILURES: Final = (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def is_available(h5py: ModuleType, number: int) -> bool:
    """Whether the HDF5 library has a filter, including those of hdf5plugin if it is installed."""
    if not h5py.h5z.filter_avail(number):
        try:
            import_module("hdf5plugin")  # registers its filters
        except ImportError:
            return False
    return bool(h5py.h5z.filter_avail(number))


def open_hdf5(
    source: Source, arrays: Sequence[ScannedArray], files: ExitStack
) -> Mapping[str, Callable[[tuple[slice, ...]], NDArray[np.generic]]]:
    """Readers of these arrays, by path. files: closes opened files. Raises InvalidInputError without h5py."""
    h5py = load_h5py()
    for array in arrays:
        assert array.library is not None
        for number in array.library.filters:
            is_available(h5py, number)  # registers the filters of hdf5plugin
    file: Any
    if source.container is not None:
        file = files.enter_context(h5py.File(files.enter_context(open_file(source)), "r"))
    else:
        file = files.enter_context(h5py.File(source.name, "r", locking="best-effort"))

    def reader(array: ScannedArray) -> Callable[[tuple[slice, ...]], NDArray[np.generic]]:
        assert array.library is not None
        dataset = file[array.library.address]

        def read(box: tuple[slice, ...]) -> NDArray[np.generic]:
            shape = [part.stop - part.start for part in box]
            values = np.full(shape, array.fill_value, array.dtype.newbyteorder("="))
            lengths = [max(0, min(part.stop, end) - part.start) for part, end in zip(box, dataset.shape, strict=True)]
            if 0 in lengths:  # a dimension of netCDF may be longer than the dataset
                return values
            if array.dtype == TEXT and dataset.chunks is not None and not is_stored(dataset, box):
                return values  # the library cannot read fill values of text from a file that is opened read-only
            ends = [part.start + extent for part, extent in zip(box, lengths, strict=True)]
            try:
                dataset.read_direct(
                    values,
                    tuple([slice(part.start, end) for part, end in zip(box, ends, strict=True)]),
                    tuple([slice(0, extent) for extent in lengths]),
                )
            except FrazilError:
                raise
            except _FAILURES as error:
                raise ChunkDecodeError(
                    f"the HDF5 library cannot decode it: {error}", key=source.name, path=array.path
                ) from error
            return _as_text(values) if array.dtype == TEXT else values

        return read

    return {array.path: reader(array) for array in arrays}


def is_stored(dataset: h5py.Dataset, box: tuple[slice, ...]) -> bool:
    """Whether the chunk of a box was written."""
    chunk = dataset.id.get_chunk_info_by_coord(tuple([part.start for part in box]))
    return chunk.byte_offset is not None


def _as_text(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Elements of text as str, in place."""
    flat = values.reshape(-1)
    flat[:] = [text_of(value) if isinstance(value, bytes) else value for value in flat.tolist()]
    return values
