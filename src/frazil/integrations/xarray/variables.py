"""An array of a group as a lazy variable of xarray: dimensions, attributes and encoding, as in xarray's zarr engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import xarray
from xarray.core import indexing

from frazil.array.array import Array
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, Codec
from frazil.errors import NotFoundError
from frazil.integrations.xarray.attributes import FILL, decode_attributes, decode_fill
from frazil.integrations.xarray.backend_array import FrazilBackendArray
from frazil.metadata.model import DIMENSIONS

CodecEntries: TypeAlias = "dict[int, tuple[Sequence[Codec], dict[str, object]]]"  # by the id of the codecs; arrays with the same document share them
_HIDDEN: Final = "_nc"  # prefix of attributes of netCDF-C


def dimensions_of(array: Array) -> tuple[str, ...]:
    """The names of an array's dimensions. Raises NotFoundError, a KeyError, if it has none."""
    names = array.dimension_names
    if array.metadata.zarr_format != 3 and names is None:
        found = array.metadata.attributes.get(DIMENSIONS)
        names = tuple([str(name) for name in found]) if isinstance(found, list) else None
    if names is None and array.ndim == 0:
        return ()
    if names is None or len(names) != array.ndim:
        raise NotFoundError(
            "the array has no dimension_names, which are required for xarray to determine variable dimensions",
            path=array.path or "/",
            hint="drop_variables leaves it out; or create it with dimension_names=",
        )
    return names  # type: ignore[return-value] # xarray handles None among them, as in its own engine


def group_attributes(attributes: Mapping[str, object]) -> dict[str, object]:
    """The attributes of a dataset."""
    return decode_attributes(
        {name: value for name, value in attributes.items() if not name.lower().startswith(_HIDDEN)}
    )


def variable_of(
    array: Array,
    *,
    fill_as_mask: bool | None = None,
    dimensions: tuple[str, ...] | None = None,
    entries: CodecEntries | None = None,
) -> xarray.Variable:
    """The variable, not decoded.

    fill_as_mask  whether the array's fill value marks missing values, as `_FillValue` does; None: only in other dialects than Zarr v3, if the document has one
    dimensions    their names; None: those of the array
    entries       of codecs of other variables of the dataset; those of this one are added
    Raises NotFoundError if the dimensions have no names, MetadataError for an invalid `_FillValue`."""
    dimensions = dimensions_of(array) if dimensions is None else dimensions
    metadata = array.metadata
    attributes = decode_attributes(metadata.attributes)
    encoding = _encoding(array, dimensions, {} if entries is None else entries)
    if array.dtype.kind == "T":
        encoding["dtype"] = array.dtype  # without it xarray decodes StringDType as objects
    if metadata.zarr_format != 3:
        attributes = {
            name: value
            for name, value in attributes.items()
            if name != DIMENSIONS and not name.lower().startswith(_HIDDEN)
        }
    has_fill = metadata.document is None or metadata.document.get("fill_value") is not None
    if (
        (metadata.zarr_format != 3 and has_fill)
        if fill_as_mask is None
        else fill_as_mask and array.fill_value is not None
    ):
        attributes[FILL] = array.fill_value
    else:
        if metadata.zarr_format == 3:
            encoding["fill_value"] = array.fill_value
        if FILL in attributes:
            attributes[FILL] = decode_fill(metadata.attributes[FILL], array.dtype)
    data = indexing.LazilyIndexedArray(FrazilBackendArray(array))
    return xarray.Variable(dimensions, data, attributes, encoding)


def _encoding(array: Array, dimensions: Sequence[str], entries: CodecEntries) -> dict[str, object]:
    """The encoding. Codecs are objects of a document, which every engine accepts. The preferred chunks of dask are whole shards."""
    codecs = array.codecs
    if id(codecs) not in entries:
        entries[id(codecs)] = (codecs, _codec_encoding(codecs))
    return {
        "chunks": array.chunks,
        "preferred_chunks": dict(zip(dimensions, array.shards or array.chunks, strict=True)),
        "shards": array.shards,
        **entries[id(codecs)][1],
    }


def _codec_encoding(codecs: Sequence[Codec]) -> dict[str, object]:
    filters = [codec for codec in codecs if isinstance(codec, ArrayToArray)]
    serializer = next((codec for codec in codecs if isinstance(codec, ArrayToBytes)), None)
    compressors = [codec for codec in codecs if not isinstance(codec, ArrayToArray | ArrayToBytes)]
    return {
        "filters": tuple([_entry(codec) for codec in filters]),
        "serializer": None if serializer is None else _entry(serializer),
        "compressors": tuple([_entry(codec) for codec in compressors]),
    }


def _entry(codec: Codec) -> dict[str, object]:
    extension = codec.extension()
    entry: dict[str, object] = {"name": extension.name}
    if extension.configuration is not None:
        entry["configuration"] = dict(extension.configuration)
    return entry
