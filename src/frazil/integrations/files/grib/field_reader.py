"""Variables of a GRIB file, read field by field: each field is decoded by eccodes in another process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from frazil.base.arrays import Values
from frazil.errors import DataError
from frazil.integrations.files.grib.fields import load_eccodes
from frazil.integrations.files.grib.messages import Field, read_field
from frazil.integrations.files.libraries.scan_process import decode_in_process
from frazil.integrations.files.scanned import ScannedArray
from frazil.integrations.files.sources.source import Source, open_file


def open_grib(
    source: Source, arrays: Sequence[ScannedArray], files: ExitStack
) -> Mapping[str, Callable[[tuple[slice, ...]], Values]]:
    """Readers of variables, by path; each box is a chunk. files: closes opened files. Raises InvalidInputError without eccodes."""
    load_eccodes()
    file = files.enter_context(open_file(source))

    def reader(array: ScannedArray) -> Callable[[tuple[slice, ...]], Values]:
        assert array.library is not None
        rank, fields = json.loads(array.library.address)
        before = array.shape[:rank]

        def read(box: tuple[slice, ...]) -> Values:
            at = tuple([part.start for part in box[:rank]])
            field = fields[int(np.ravel_multi_index(at, before)) if rank else 0]
            shape = [part.stop - part.start for part in box]
            if field is None:
                return np.full(shape, array.fill_value, array.dtype)
            try:
                message = read_field(file, Field(*field), source.name)
                return decode_in_process(message, shape, source.name, source.time_limit)
            except DataError as error:
                error.key, error.path = error.key or source.name, error.path or array.path
                raise

        return read

    return {array.path: reader(array) for array in arrays}
