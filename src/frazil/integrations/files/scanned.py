"""The result of scanning a file of another format: arrays with metadata of Zarr v3, and the positions of their chunks in the file, in columns. Pure.

The packages of the formats scan files. The caller decides how the values are used (references, a copy)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from frazil.base.arrays import Flags
from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.formats.manifests import FileCheck
from frazil.integrations.files.sources.source import TIME_LIMIT
from frazil.metadata.json_text import Json, NonFinite
from frazil.metadata.paths import check_name
from frazil.metadata.types.variable_length import STRINGS
from frazil.stores.values import Columns

RANK_LIMIT: Final = 32
_LEVEL_LIMIT: Final = 100


class ChunkColumns(Record):
    """Chunks in the file: coordinates in the chunk grid, int64[n, d]; first byte and number of bytes, int64[n]. Rows are distinct."""

    coordinates: Columns
    offsets: Columns
    lengths: Columns


class Library(Record):
    """The library that decodes an array whose chunks no codec here decodes. Such an array can be copied, but not referenced.

    name     of the reader in decoded_chunks.py;  address: of the array in the file, in the form of the library
    reason   in words;  filters: of HDF5, that the library must have"""

    name: str
    address: str
    reason: str
    filters: tuple[int, ...] = ()


class ScannedArray(Record):
    """An array of the file.

    path             "group/name"
    dtype            of the values in the file, with their byte order: NumPy's kinds b, i, u, f, c, m, M, S and U for text of a fixed length, V for structs and
                     raw bytes, O for text of any length
    codecs           of Zarr v3, in the form of documents, in the order of encoding
    fill_value       of dtype's type
    dimension_names  None if the file has none
    chunks           their positions; chunks that are in neither `chunks` nor `inline_chunks` are the fill value
    inline_chunks    chunks whose encoded bytes are here, because no span of the file has them: (coordinates, bytes)
    chunked          whether the file itself has these chunks; else its data is one run, which the scan cuts
    library          that decodes it; None: its codecs do
    urls             the file of each chunk, if they are in other files; (): the scanned file
    text_nbytes      for text of any length: bytes of the text of an element, the mean of some"""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    chunk_shape: tuple[int, ...]
    codecs: tuple[Mapping[str, Json], ...]
    fill_value: np.generic
    attributes: dict[str, Json]
    dimension_names: tuple[str | None, ...] | None
    chunks: ChunkColumns
    inline_chunks: tuple[tuple[tuple[int, ...], bytes], ...] = ()
    chunked: bool = False
    library: Library | None = None
    urls: tuple[str, ...] = ()
    text_nbytes: int = 0

    @property
    def grid(self) -> tuple[int, ...]:
        """Chunks along each dimension."""
        return tuple([-(-extent // chunk) for extent, chunk in zip(self.shape, self.chunk_shape, strict=True)])

    def arguments(self) -> dict[str, object]:
        """The arguments of create_array for this array, without its path."""
        return {
            "shape": self.shape,
            "dtype": "string" if self.dtype.kind == "O" else self.dtype.newbyteorder("="),
            "chunks": self.chunk_shape,
            "codecs": [dict(codec) for codec in self.codecs],
            "fill_value": self.fill_value,
            "attributes": self.attributes,
            "dimension_names": self.dimension_names,
        }


class Box(Record):
    """A box of an array that a library decodes. shape: of the array;  dtype, fill_value: of its elements"""

    library: Library
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    fill_value: np.generic
    box: tuple[slice, ...]


class Skipped(Record):
    """A part of a file that cannot be represented in Zarr, and the reason: an attribute of the node at `path`, or with attribute None the node itself.

    loses_values  whether values are left out that are nowhere else in the scanned arrays"""

    path: str
    attribute: str | None
    reason: str
    loses_values: bool = True


class ScannedFile(Record):
    """A scanned file. Groups are by path, "" the root, with their attributes; parents come first.

    in_memory  it is not a file, but a dataset that the caller has;  time_limit: seconds that a library may take for one call on it"""

    kind: str  # in words
    state: FileCheck  # of the file at the scan
    groups: Mapping[str, dict[str, Json]]
    arrays: tuple[ScannedArray, ...]
    skipped: tuple[Skipped, ...]
    in_memory: bool = False
    time_limit: float = TIME_LIMIT

    @property
    def refers(self) -> bool:
        """Whether it only contains the places of chunks in other files."""
        return self.in_memory or any(array.urls for array in self.arrays)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.state.size


def no_chunks(rank: int) -> ChunkColumns:
    """Columns of no chunk."""
    none = np.zeros(0, np.int64)
    return ChunkColumns(np.zeros((0, rank), np.int64), none, none)


def select_chunks(chunks: ChunkColumns, rows: Flags | Columns) -> ChunkColumns:
    """Some of the chunks."""
    return ChunkColumns(*(np.ascontiguousarray(column[rows]) for column in chunks))


def element_nbytes(dtype: np.dtype[np.generic]) -> int:
    """Bytes of an element in memory; without its characters for text of any length."""
    return STRINGS.itemsize if dtype.kind == "O" else dtype.itemsize


def bytes_codec(dtype: np.dtype[np.generic]) -> Mapping[str, Json]:
    """The codec that encodes elements in the form of this dtype."""
    if dtype.itemsize == 1 or dtype.kind == "S":
        return {"name": "bytes"}
    return {"name": "bytes", "configuration": {"endian": "little" if dtype == dtype.newbyteorder("<") else "big"}}


def check_path(path: str) -> None:
    """Raises InvalidInputError for a path that no node here can have. The limit of levels is for hostile files: each level is a group, and four bytes of a file
    can name one."""
    levels = path.count("/") + 1
    if levels > _LEVEL_LIMIT:
        raise InvalidInputError(f"a node is at most {_LEVEL_LIMIT} levels below the root of its file, found {levels}")
    for name in path.split("/"):
        check_name(name)


def check_shape(shape: Sequence[int]) -> None:
    """Raises InvalidInputError for a shape that no array here can have."""
    if len(shape) > RANK_LIMIT:
        raise InvalidInputError(f"an array has at most {RANK_LIMIT} dimensions, found {len(shape)}")
    if any(extent < 0 for extent in shape):
        raise InvalidInputError(f"no array has the shape {tuple(shape)}")
    if math.prod(shape) >= 2**63:
        raise InvalidInputError(f"an array has fewer than 2**63 elements, found the shape {tuple(shape)}")


def as_attribute(value: object) -> Json:
    """An attribute's value as JSON: text for bytes (UTF-8, or else Latin-1, without NULs at the end), a number for one number, a list for several.
    NaN and infinities are NonFinite. Raises InvalidInputError for values that JSON cannot express."""
    if isinstance(value, str):
        return text_of(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bytes):
        return text_of(value)
    array = np.asarray(value)
    if array.dtype.kind in "SUO":
        texts = [as_attribute(item) if isinstance(item, str | bytes) else None for item in array.reshape(-1).tolist()]
        if None in texts:
            raise InvalidInputError(f"an attribute of {array.dtype} cannot be expressed in JSON")
        return texts[0] if len(texts) == 1 else texts
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"an attribute of {array.dtype} cannot be expressed in JSON")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    items: Json = array.item() if array.size == 1 else array.tolist()
    return items if array.dtype.kind != "f" or np.isfinite(array).all() else _finite(items)


def _finite(value: object) -> Json:
    if isinstance(value, list):
        return [_finite(item) for item in value]
    assert isinstance(value, float)
    return value if math.isfinite(value) else NonFinite(value)


def text_of(value: bytes | str) -> str:
    """Text in UTF-8, else in Latin-1, without NULs at its end. A str is unchanged: h5py has names in UTF-8 as str, others as bytes."""
    if isinstance(value, str):
        return value
    value = value.rstrip(b"\0")
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
