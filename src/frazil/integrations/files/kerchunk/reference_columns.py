"""Arrays whose chunks are in other files: the references in columns, and the scanned array for an array's metadata. The other modules read references."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import InvalidInputError
from frazil.integrations.files.missing_values import set_missing_values
from frazil.integrations.files.runs import check_dtype
from frazil.integrations.files.scanned import ChunkColumns, ScannedArray, Skipped, check_shape
from frazil.integrations.files.sources.source import source_of
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.v3.fill_attribute import decode_fill
from frazil.record import Record
from frazil.repository.virtual.locations import file_location, is_remote

if TYPE_CHECKING:
    from frazil.metadata.json_text import Json
    from frazil.metadata.model import ArrayMetadata
    from frazil.repository.virtual.prefixes import Prefixes


class ChunkReferences(Record):
    """The references of one array: places of its chunks, the URL of each, and chunks whose bytes are in the references."""

    columns: ChunkColumns
    urls: tuple[str, ...]
    inline_chunks: tuple[tuple[tuple[int, ...], bytes], ...]


class ObjectSizes:
    """Bytes of whole objects and files, looked up once each. Remote ones are looked up only if a prefix allows it, as a file of references may name any URL."""

    def __init__(self, prefixes: Prefixes | None) -> None:
        self._prefixes: Final = prefixes
        self._sizes: Final[dict[str, int]] = {}

    def size(self, target: str) -> int:
        """Raises InvalidInputError for a place that is not allowed, StoreError."""
        if target not in self._sizes:
            if is_remote(target) and not self._prefixes:
                raise InvalidInputError(
                    f"the size of {target} is needed, but it is requested only if virtual_prefixes allows it"
                )
            self._sizes[target] = source_of(target.removeprefix("file://"), self._prefixes).state().size
        return self._sizes[target]


def url_of(target: str) -> str:
    """The URL of a file that references name by a URL or a path."""
    return target if is_remote(target) or target.startswith("file://") else file_location(target)


def virtual_array(
    path: str,
    array: ArrayMetadata,
    attributes: dict[str, Json],
    marks: FillValue | Json,
    chunks: Callable[[str, ArrayMetadata], ChunkReferences],
    skipped: list[Skipped],
) -> ScannedArray:
    """The scanned array of metadata, of any dialect. marks: the value of missing elements, as a fill value or as an attribute of Zarr v3; None: nothing is missing.

    Raises InvalidInputError for metadata that cannot be an array here, and errors of reading the references."""
    if not isinstance(array.chunk_grid, RegularGrid):
        raise InvalidInputError("its chunks have several shapes")
    check_dtype(array.dtype)
    check_shape(array.shape)
    fill: np.generic = np.frombuffer(array.fill_value.data, array.dtype)[0]
    mark = (
        fill if isinstance(marks, FillValue) else decode_fill(marks, array.dtype) if isinstance(marks, str) else marks
    )
    set_missing_values(attributes, mark, array.dtype, path, skipped)
    found = chunks(path, array)
    return ScannedArray(
        path,
        array.shape,
        array.dtype,
        tuple(array.chunk_grid.chunk_shape),
        tuple([codec.to_json() for codec in array.codecs]),
        fill,
        attributes,
        array.dimension_names,
        found.columns,
        found.inline_chunks,
        chunked=True,
        urls=found.urls,
    )
