"""Names of zarr-python's Array that array.py does not have, implemented with those of array.py, and values that follow from shape and data type.
docs/design/068-names-of-zarr-python.md has the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from frazil.array.creation import zarr_arguments
from frazil.array.handle import Handle
from frazil.array.interface import html, indexer, lazy_view
from frazil.array.io import read
from frazil.array.shape.extents import chunk_counts, chunk_grid_of, chunk_lengths
from frazil.base.arrays import ArrayLike, Values
from frazil.base.record import Record
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, BytesToBytes, Codec
from frazil.errors import FrazilError, InvalidInputError, SelectionError, one_line, shown
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.members import lengths_from_user
from frazil.metadata.v2 import documents as v2_documents

if TYPE_CHECKING:
    from typing import Self

    from frazil.array.info import ArrayInfo
    from frazil.array.interface.indexer import Indexer
    from frazil.metadata.model import ArrayMetadata

Fields: TypeAlias = str | Sequence[str] | None
Target: TypeAlias = "ZarrArray | Indexer"


class ArrayConfig(Record):
    """Settings of zarr-python, with the values here: results are in C order, and chunks that are all fill value are not stored."""

    order: Literal["C", "F"] = "C"
    write_empty_chunks: bool = False


class ZarrArray(Handle):
    """Base class of Array."""

    __slots__ = ()

    if TYPE_CHECKING:  # the members of Array that are needed here

        @property
        def metadata(self) -> ArrayMetadata: ...
        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> np.dtype[np.generic]: ...
        @property
        def chunks(self) -> tuple[int, ...]: ...
        @property
        def shards(self) -> tuple[int, ...] | None: ...
        @property
        def codecs(self) -> tuple[Codec, ...]: ...
        @property
        def nchunks_initialized(self) -> int: ...
        @property
        def info(self) -> ArrayInfo: ...
        @property
        def oindex(self) -> Indexer: ...
        @property
        def vindex(self) -> Indexer: ...
        @property
        def blocks(self) -> Indexer: ...
        def __getitem__(self, selection: object, /) -> Values | np.generic: ...
        def __setitem__(self, selection: object, value: ArrayLike, /) -> None: ...
        def read(self, selection: object = ..., *, out: Values | None = None) -> Values: ...

    def _repr_html_(self) -> str:
        return html.array_html(self.metadata, self)

    def __bool__(self) -> bool:
        """True, whatever the array holds, as in zarr-python: `if array` asks whether there is one. Raises SelectionError for a single bool."""
        return indexer.truth(self.dtype, self.shape, self.path or "/")

    # --- properties ----------------------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, decoded."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def nchunks(self) -> int:
        """Number of chunks (innermost ones) that the array is made of, stored or not."""
        return prod(self.cdata_shape)

    def nbytes_stored(self) -> int:
        """Bytes of all stored chunks or shards, without the document. Lists the array's keys."""
        return self.info.stored_nbytes

    def info_complete(self) -> ArrayInfo:
        """`info` with the number of chunks (innermost ones) that are stored. Reads the index of every shard, too."""
        return self.info._replace(chunks_initialized=self.nchunks_initialized)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def order(self) -> Literal["C", "F"]:
        """Order of the elements of a stored chunk of Zarr v2; always C in Zarr v3, where a codec transposes. Results are in C order."""
        column_major = self.metadata.zarr_format == 2 and v2_documents.node_document(self.metadata)["order"] == "F"
        return "F" if column_major else "C"

    @property
    def filters(self) -> tuple[ArrayToArray, ...]:
        """The array-to-array codecs of a chunk; of an inner chunk, where there are shards."""
        return tuple([codec for codec in self.codecs if isinstance(codec, ArrayToArray)])

    @property
    def serializer(self) -> ArrayToBytes:
        """The array-to-bytes codec of a chunk; of an inner chunk, where there are shards."""
        return next(codec for codec in self.codecs if isinstance(codec, ArrayToBytes))

    @property
    def compressors(self) -> tuple[BytesToBytes, ...]:
        """The bytes-to-bytes codecs of a chunk; of an inner chunk, where there are shards."""
        return tuple([codec for codec in self.codecs if isinstance(codec, BytesToBytes)])

    @property
    def compressor(self) -> BytesToBytes | None:
        """The first of `compressors`, as zarr-python 2 has only one; None where there are none."""
        return next((codec for codec in self.codecs if isinstance(codec, BytesToBytes)), None)

    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """Number of chunks (innermost ones) along each dimension."""
        return chunk_counts(self.shape, self.metadata.chunk_grid, self.chunks, sharded=self.shards is not None)

    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of the chunks (innermost ones) along each dimension, cut at the end of the array."""
        return self.write_chunk_sizes if self.shards is None else chunk_lengths(self.shape, RegularGrid(self.chunks))

    @property
    def write_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of the shards along each dimension, cut at the end of the array; of the chunks, where there are no shards."""
        return chunk_lengths(self.shape, chunk_grid_of(self.metadata))

    @property
    def lazy(self) -> lazy_view.LazyView:
        """A view whose selections compose without reading: `a.lazy[10:20][::-2]`. np.asarray reads it, assignment writes through."""
        return lazy_view.LazyView.of(self)

    @property
    def config(self) -> ArrayConfig:
        """The settings of zarr-python, which are the same for all arrays here."""
        return ArrayConfig()

    def with_config(self, config: object) -> Self:
        """The array itself: the settings of zarr-python are checked, and have no effect. Raises InvalidInputError."""
        zarr_arguments.check_settings({"config": config})
        return self

    # --- selections by the name of their kind --------------------------------------------------------------------------------------

    def get_basic_selection(
        self, selection: object = ..., *, out: Values | None = None, fields: Fields = None
    ) -> Values | np.generic:
        """a[selection]: integers and slices. out: receives the result; fields: of a structured data type. Raises SelectionError, DataError, StoreError."""
        return _get(self, self, selection, out, fields)

    def set_basic_selection(self, selection: object, value: ArrayLike, *, fields: Fields = None) -> None:
        """a[selection] = value."""
        _set(self, self, selection, value, fields)

    def get_orthogonal_selection(
        self, selection: object, *, out: Values | None = None, fields: Fields = None
    ) -> Values | np.generic:
        """a.oindex[selection]."""
        return _get(self, self.oindex, selection, out, fields)

    def set_orthogonal_selection(self, selection: object, value: ArrayLike, *, fields: Fields = None) -> None:
        """a.oindex[selection] = value."""
        _set(self, self.oindex, selection, value, fields)

    def get_coordinate_selection(
        self, selection: object, *, out: Values | None = None, fields: Fields = None
    ) -> Values | np.generic:
        """a.vindex[selection], where the selection is one integer array for each dimension."""
        return _get(self, self.vindex, selection, out, fields)

    def set_coordinate_selection(self, selection: object, value: ArrayLike, *, fields: Fields = None) -> None:
        """a.vindex[selection] = value, where the selection is one integer array for each dimension."""
        _set(self, self.vindex, selection, value, fields)

    def get_mask_selection(
        self, mask: object, *, out: Values | None = None, fields: Fields = None
    ) -> Values | np.generic:
        """a.vindex[mask], where the mask has the array's shape."""
        return _get(self, self.vindex, _mask(self, mask), out, fields)

    def set_mask_selection(self, mask: object, value: ArrayLike, *, fields: Fields = None) -> None:
        """a.vindex[mask] = value, where the mask has the array's shape."""
        _set(self, self.vindex, _mask(self, mask), value, fields)

    def get_block_selection(
        self, selection: object, *, out: Values | None = None, fields: Fields = None
    ) -> Values | np.generic:
        """a.blocks[selection]."""
        return _get(self, self.blocks, selection, out, fields)

    def set_block_selection(self, selection: object, value: ArrayLike, *, fields: Fields = None) -> None:
        """a.blocks[selection] = value."""
        _set(self, self.blocks, selection, value, fields)


def new_lengths(shape: object, more: tuple[int, ...], new_shape: object) -> tuple[int, ...]:
    """The lengths that Array.resize gets: as one sequence, as separate lengths, or as new_shape. Raises InvalidInputError for two shapes, MetadataError."""
    if new_shape is None:
        return lengths_from_user((shape, *more) if more else shape, "shape", low=0)
    if shape is not None or more:
        raise InvalidInputError("the new shape is given twice, also as new_shape=")
    return lengths_from_user(new_shape, "new_shape", low=0)


def fields_of(dtype: np.dtype[np.generic], selection: object) -> tuple[Fields, object] | None:
    """Names of fields in a selection of an array with a structured dtype, and the rest of it; None where there are none: a["f"], a["f", 2:5], a[["f", "g"]]."""
    if dtype.names is None:
        return None
    items = selection if isinstance(selection, tuple) else (selection,)
    if items and all(isinstance(item, list) and item and all(isinstance(name, str) for name in item) for item in items):
        return items[0], ...
    names = [item for item in items if isinstance(item, str)]
    if not names:
        return None
    others = tuple([item for item in items if not isinstance(item, str)])
    return names[0] if len(names) == 1 else names, others or ...


def field_names(dtype: np.dtype[np.generic], fields: Fields, path: str) -> list[str] | str:
    """Fields of a structured dtype that a user names. path: of the array. Raises SelectionError where the dtype has no such field."""
    if not isinstance(fields, str | list | tuple):
        raise SelectionError(
            f"fields is {shown(fields)}; it must be the name of a field, or a list of names", path=path
        )
    names, existing = [fields] if isinstance(fields, str) else list(fields), dtype.names or ()
    for field in names:
        if not isinstance(field, str) or field not in existing:
            raise SelectionError(
                f"the array has no field {field!r}",
                path=path,
                hint=f"its fields are {', '.join(existing)}" if existing else f"its data type {dtype} has no fields",
            )
    if len(set(names)) < len(names):
        raise SelectionError(f"fields is {shown(fields)}; it names a field twice", path=path)
    return fields if isinstance(fields, str) else names


def _get(
    array: ZarrArray, target: Target, selection: object, out: Values | None, fields: Fields
) -> Values | np.generic:
    """With fields and `out` all fields are read first, into memory beside `out`."""
    names = None if fields is None else field_names(array.dtype, fields, array.path or "/")
    if out is not None and hasattr(out, "as_numpy_array"):  # an NDBuffer of zarr-python
        out = out.as_numpy_array()
    if out is not None and names is None:
        return target.read(selection, out=out)
    found = target[selection]
    if names is not None:
        found = found[names]  # type: ignore[index] # of a structured dtype
    if out is None:
        return found
    values = np.asarray(found)
    read.check_out(out, values.shape, values.dtype, array.path or "/")
    out[...] = values
    return out


def _set(array: ZarrArray, target: Target, selection: object, value: ArrayLike, fields: Fields) -> None:
    """With fields, the other fields of the elements are read and written again."""
    if fields is None:
        target[selection] = value
        return
    names = field_names(array.dtype, fields, array.path or "/")
    value = indexer.without_mask(value, array.path or "/")
    elements = np.array(target[selection], array.dtype)
    try:
        elements[names] = value
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the value cannot be written to {names} of {elements.shape} elements: {one_line(str(error))}",
            path=array.path or "/",
        ) from error
    target[selection] = elements


def _mask(array: ZarrArray, mask: object) -> object:
    try:
        values = np.asarray(mask)
    except FrazilError:  # some of which are also ValueErrors
        raise
    except ValueError as error:
        raise SelectionError(f"{shown(mask)} is not a mask: {one_line(str(error))}", path=array.path or "/") from error
    if values.dtype != np.bool_:
        raise SelectionError(f"a mask must be an array of bools, not of {values.dtype}", path=array.path or "/")
    return values
