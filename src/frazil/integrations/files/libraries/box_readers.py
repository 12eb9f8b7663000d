"""Arrays of HDF5 and TIFF files that a library decodes, read box by box in another process, because the libraries never return for some damaged files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from frazil.base.arrays import Values
from frazil.errors import DataError
from frazil.integrations.files.libraries.scan_process import BoxReader, load_library
from frazil.integrations.files.scanned import Box, ScannedArray
from frazil.integrations.files.sources.source import Source, open_file


def open_boxes(
    kind: str, source: Source, arrays: Sequence[ScannedArray], files: ExitStack
) -> Mapping[str, Callable[[tuple[slice, ...]], Values]]:
    """Readers of these arrays of a file of HDF5 or TIFF, by path. files: closes opened files. Raises InvalidInputError without the library."""
    load_library(kind)
    boxes = BoxReader(kind, files.enter_context(open_file(source)), source.name, source.time_limit)
    files.callback(boxes.close)

    def reader(array: ScannedArray) -> Callable[[tuple[slice, ...]], Values]:
        assert array.library is not None
        library = array.library

        def read(box: tuple[slice, ...]) -> Values:
            try:
                return boxes.read(Box(library, array.shape, array.dtype, array.fill_value, box))
            except DataError as error:
                error.key, error.path = error.key or source.name, error.path or array.path
                raise

        return read

    return {array.path: reader(array) for array in arrays}
