"""Arrays whose chunks are in other files: the references in columns, and the scanned array for an array's metadata. The other modules read references."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Final

import numpy as np

from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.integrations.files.missing_values import set_missing_values
from frazil.integrations.files.runs import check_dtype
from frazil.integrations.files.scanned import ChunkColumns, ScannedArray, Skipped, check_shape
from frazil.integrations.files.sources.source import Source, source_of
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.types.variable_length import STRING
from frazil.metadata.v3.fill_attribute import decode_fill
from frazil.repository.virtual.locations import file_location, is_remote, parse_location, without_secrets
from frazil.repository.virtual.prefixes import Prefixes


class ChunkReferences(Record):
    """The references of one array: places of its chunks, the URL of each, and chunks whose bytes are in the references."""

    columns: ChunkColumns
    urls: tuple[str, ...]
    inline_chunks: tuple[tuple[tuple[int, ...], bytes], ...]


class Targets:
    """The files that references name: their URLs, and the bytes of whole ones, looked up once each. Remote ones are looked up only if a prefix allows it, as a
    file of references may name any URL."""

    def __init__(self, source: Source, prefixes: Prefixes | None) -> None:
        """source: the references; a path that is not absolute begins at the folder in which they are."""
        self._folder: Final = (
            parse_location(source.location)
            if source.container is not None
            else os.path.realpath(os.path.dirname(os.path.abspath(source.name)))
        )
        self._prefixes: Final = prefixes
        self._sizes: Final[dict[str, int]] = {}

    def url(self, target: str) -> str:
        """The URL of a file. Raises InvalidInputError for a path that leads out of the bucket or web server of the references."""
        if "://" in target or target.startswith("/"):
            return url_of(target)
        if not target:
            raise InvalidInputError("a reference names no file")
        if isinstance(self._folder, str):
            return file_location(os.path.normpath(os.path.join(self._folder, target)))
        check_no_empty_part(target)
        folder, parts = self._folder, list(self._folder.parts[:-1])
        for part in target.split("/"):
            if part == ".." and not parts:
                raise InvalidInputError(f"a reference names {target!r}, which leads out of {folder.root}")
            if part == "..":
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        return folder._replace(parts=tuple(parts)).folder_url.rstrip("/")

    def size(self, target: str) -> int:
        """Raises InvalidInputError for a place that is not allowed, StoreError."""
        url = self.url(target)
        if url not in self._sizes:
            if is_remote(url) and not self._prefixes:
                raise InvalidInputError(
                    f"the size of {without_secrets(url)} is needed, but it is requested only if virtual_prefixes allows it"
                )
            path = url if is_remote(url) else "/" + "/".join(parse_location(url).parts)
            self._sizes[url] = source_of(path, self._prefixes).state().size
        return self._sizes[url]


def url_of(target: str) -> str:
    """The URL of a file that is named by a URL or an absolute path. Raises InvalidInputError for other names."""
    if "://" not in target:
        return file_location(target)
    if not is_remote(target) and not target.startswith("file://"):
        raise InvalidInputError(
            f"a reference names {without_secrets(target)!r}; files of {target.partition('://')[0]} cannot be read here"
        )
    if is_remote(target):
        check_no_empty_part(target.partition("://")[2])
    return target


def check_no_empty_part(path: str) -> None:
    """Raises InvalidInputError for a remote path with an empty part. It names another object than the path without it, and repositories drop such parts."""
    if "//" in path:
        raise InvalidInputError(
            f"a reference names {without_secrets(path)!r}; repositories cannot refer to objects with // in their names",
            hint="copy the objects to names without //, or correct the references",
        )


def virtual_array(
    path: str,
    array: ArrayMetadata,
    attributes: dict[str, Json],
    marks: FillValue | Json,
    chunks: Callable[[str, ArrayMetadata], ChunkReferences],
    skipped: list[Skipped],
) -> ScannedArray:
    """The scanned array of metadata, of any dialect. marks: the value of missing elements, as a fill value or as an attribute of Zarr v3; None: nothing is
    missing.

    Raises InvalidInputError for metadata that cannot be an array here, and errors of reading the references."""
    if not isinstance(array.chunk_grid, RegularGrid):
        raise InvalidInputError("its chunks have several shapes")
    is_text = array.data_type.name == STRING
    if not is_text:
        check_dtype(array.dtype)
    check_shape(array.shape)
    fill = array.fill_value.scalar
    mark = fill if isinstance(marks, FillValue) else marks
    if isinstance(mark, str) and not is_text:
        mark = decode_fill(mark, array.dtype)
    dtype = np.dtype(object) if is_text else array.dtype
    set_missing_values(attributes, mark, dtype, path, skipped)
    found = chunks(path, array)
    stored = int(found.columns.lengths.sum()) + sum(len(value) for _, value in found.inline_chunks)
    return ScannedArray(
        path,
        array.shape,
        dtype,
        tuple(array.chunk_grid.chunk_shape),
        tuple([codec.to_json() for codec in array.codecs]),
        fill,
        attributes,
        array.dimension_names,
        found.columns,
        found.inline_chunks,
        chunked=True,
        urls=found.urls,
        text_nbytes=stored // max(math.prod(array.shape), 1) if is_text else 0,
    )
