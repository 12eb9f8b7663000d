"""Datasets of HDF5 files that the HDF5 library itself decodes, read box by box in another process, because it never returns for some damaged files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from frazil.base.arrays import Values
from frazil.errors import DataError
from frazil.integrations.files.hdf5.library_reader import Box
from frazil.integrations.files.hdf5.types import load_h5py
from frazil.integrations.files.scan_process import BoxReader
from frazil.integrations.files.sources.source import open_file

if TYPE_CHECKING:
    from frazil.integrations.files.scanned import ScannedArray
    from frazil.integrations.files.sources.source import Source


def open_hdf5(
    source: Source, arrays: Sequence[ScannedArray], files: ExitStack
) -> Mapping[str, Callable[[tuple[slice, ...]], Values]]:
    """Readers of these arrays, by path. files: closes opened files. Raises InvalidInputError without h5py."""
    load_h5py()
    boxes = BoxReader(files.enter_context(open_file(source)), source.name)
    files.callback(boxes.close)

    def reader(array: ScannedArray) -> Callable[[tuple[slice, ...]], Values]:
        assert array.library is not None
        library = array.library

        def read(box: tuple[slice, ...]) -> Values:
            try:
                wanted = Box(library.address, tuple(library.filters), box, array.dtype, array.fill_value)
                return boxes.read(wanted, source.time_limit)
            except DataError as error:
                error.path = error.path or array.path
                raise

        return read

    return {array.path: reader(array) for array in arrays}
