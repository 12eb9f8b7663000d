"""Documents of Zarr v2 to metadata and back. Keys are in layout.py, `.zmetadata` is in consolidated.py.

The memory layout "F" becomes a transposition, filters and compressor become the codec chain, and the attribute `_ARRAY_DIMENSIONS`, in which xarray and others
keep the names of dimensions, becomes dimension_names. A document that was read is written back with its members, except the shape, and chunks of length 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from frazil.errors import FrazilError, MetadataError
from frazil.metadata.draft.codec_chain import emit_numcodecs_chain, parse_numcodecs_chain
from frazil.metadata.draft.fill_values import emit_fill, parse_fill
from frazil.metadata.draft.types import emit_type, parse_type
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import SEPARATORS, V2Keys
from frazil.metadata.json_text import Json, as_json, item, parse_json
from frazil.metadata.layout import KnownExtensions
from frazil.metadata.members import Members, check_integers, check_object, json_object, refusal
from frazil.metadata.model import DIMENSIONS, ArrayMetadata, GroupMetadata
from frazil.metadata.types.core import DataType, RawType
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.v2.objects import DTYPE, is_object, parse_object_array, split_serializer

ARRAY: Final = ".zarray"
GROUP: Final = ".zgroup"
ATTRIBUTES: Final = ".zattrs"
NAMES: Final = (ARRAY, GROUP, ATTRIBUTES)


def read_document(value: bytes, key: str) -> dict[str, Json]:
    """The JSON object of a document. NaN and Infinity without quotes in attributes, which programs write there, are read as numbers. Raises MetadataError with
    the key."""
    try:
        if key.endswith(ATTRIBUTES):
            wrapped = parse_json(b'{"attributes":%b}' % value, free=frozenset({"attributes"}))
            return check_object(check_object(wrapped, None)["attributes"], "attributes")
        return check_object(parse_json(value, free=frozenset({"fill_value"})), None)
    except MetadataError as error:
        error.key = key
        raise


def parse_node(
    document: dict[str, Json], attributes: dict[str, Json], extensions: KnownExtensions, key: str
) -> ArrayMetadata | GroupMetadata:
    """The node of a `.zarray` or a `.zgroup`, according to the key, and of its attributes. Raises MetadataError and UnknownExtensionError with the key."""
    try:
        members = Members(document, None)
        found = members.get("zarr_format")
        if isinstance(found, bool) or found != 2:
            raise refusal("zarr_format", "the integer 2", found)
        if key.endswith(GROUP):
            return GroupMetadata(attributes=attributes, zarr_format=2)
        return _parse_array(members, attributes, extensions)
    except FrazilError as error:
        error.key = error.key or key
        raise


def _parse_array(members: Members, attributes: dict[str, Json], extensions: KnownExtensions) -> ArrayMetadata:
    shape = check_integers(members.get("shape"), "shape", low=0)
    chunks = check_integers(members.get("chunks"), "chunks", low=0, length=len(shape))
    filters, compressor = members.get("filters"), members.get("compressor")
    listed = [] if filters is None else members.array("filters")
    entries = [(item("filters", at), entry) for at, entry in enumerate(listed)]
    object_array = parse_object_array(listed, extensions) if is_object(members.get("dtype")) else None
    if object_array is None:
        dtype: Json = {"extension": "", "type": members.get("dtype")}  # the form of the older dialect of the draft
        data_type, big = parse_type(dtype, old=True, extensions=extensions.metadata, path="dtype")
        fill_value = members.get("fill_value")
        fill = (
            data_type.fill_from_user(None)
            if fill_value is None
            else parse_fill(fill_value, data_type, old=True, big=big)
        )
    else:
        data_type, big = object_array.data_type, False
        fill = _parse_fill(members.get("fill_value"), data_type)
        entries = entries if object_array.serializer is None else entries[1:]
    order = members.choice("order", ("C", "F"))
    if compressor is not None:
        entries.append(("compressor", compressor))
    codecs = parse_numcodecs_chain(
        entries,
        reverse_axes=len(shape) if order == "F" and (object_array is None or object_array.ordered) else 0,
        big=big,
        swaps=bool(data_type.swaps),
        itemsize=data_type.itemsize if object_array is None else 1,
        kinds=extensions,
        serializer=None if object_array is None else object_array.serializer,
    )
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        fill_value=fill,
        chunk_grid=_grid(shape, chunks),
        chunk_key_encoding=V2Keys(members.choice("dimension_separator", SEPARATORS, ".")),
        codecs=codecs,
        **_split_dimensions(attributes, len(shape)),
        zarr_format=2,
        document=dict(members.values),
    )


def _grid(shape: tuple[int, ...], chunks: tuple[int, ...]) -> RegularGrid:
    """A dimension without elements may have chunks of length 0: all lengths are equivalent."""
    for axis, (length, extent) in enumerate(zip(shape, chunks, strict=True)):
        if length and not extent:
            raise refusal(item("chunks", axis), "an integer from 1 to 2^63 - 1", extent)
    return RegularGrid([max(extent, 1) for extent in chunks])


def _parse_fill(value: Json, data_type: DataType) -> FillValue:
    """The fill value of an object array. null is the default of the type; for text and bytes, 0 and the empty string, which programs write for it, are too."""
    if value is None or (value in ("", 0) and not isinstance(value, bool) and data_type.zero.data == b""):
        return data_type.zero
    return data_type.parse_fill(value)


def _split_dimensions(attributes: dict[str, Json], ndim: int) -> dict[str, Any]:
    """The members `attributes` and `dimension_names`: without names if there are none, or their attribute has another meaning."""
    found = attributes.get(DIMENSIONS)
    if not isinstance(found, list) or len(found) != ndim or not all(isinstance(name, str) for name in found):
        return {"attributes": attributes, "dimension_names": None}
    others = {name: value for name, value in attributes.items() if name != DIMENSIONS}
    return {"attributes": others, "dimension_names": found}


def with_attributes(metadata: ArrayMetadata, attributes: Mapping[str, object]) -> ArrayMetadata:
    """The same array with these attributes, which have the names of its dimensions, instead of its own."""
    return metadata.with_members(**_split_dimensions(json_object(attributes, "attributes"), metadata.ndim))


def node_document(metadata: ArrayMetadata | GroupMetadata) -> dict[str, Json]:
    """The `.zarray` or `.zgroup` of a node. Raises MetadataError, which names the member, for metadata that Zarr v2 cannot express."""
    if isinstance(metadata, GroupMetadata):
        return {"zarr_format": 2}
    grid, keys = metadata.chunk_grid, metadata.chunk_key_encoding
    if type(grid) is not RegularGrid:
        raise MetadataError("Zarr v2 has only regular chunk grids", path="chunk_grid")
    if metadata.document is not None:
        document = json_object(metadata.document, None)
        return {**document, "shape": list(metadata.shape), "chunks": list(grid.chunk_shape)}  # without length 0
    if not isinstance(keys, V2Keys):
        raise MetadataError(
            f'Zarr v2 has only the chunk keys "v2", not {keys.extension().name}', path="chunk_key_encoding"
        )
    if metadata.storage_transformers:
        raise MetadataError("Zarr v2 has no storage transformers", path="storage_transformers")
    for at, codec in enumerate(metadata.codecs):
        if codec.name == "sharding_indexed":
            raise MetadataError("Zarr v2 has no shards", path=item("codecs", at), hint="leave shards out")
    data_type = metadata.data_type
    split = split_serializer(data_type, metadata.codecs)
    first, codecs = split or (None, metadata.codecs)
    chain = emit_numcodecs_chain(codecs, ndim=metadata.ndim, itemsize=1 if split else data_type.itemsize)
    dtype: Json = DTYPE
    if split is None:
        dtype = _dtype(data_type, chain.big)
        fill = emit_fill(metadata.fill_value, data_type, old=True, big=chain.big)
    else:
        fill = data_type.emit_fill(metadata.fill_value)
    return {
        "zarr_format": 2,
        "shape": list(metadata.shape),
        "chunks": list(grid.chunk_shape),
        "dimension_separator": keys.separator,
        "dtype": dtype,
        "compressor": chain.compressor,
        "fill_value": fill,
        "order": chain.layout,
        "filters": chain.filters if split is None else [*([] if first is None else [first]), *(chain.filters or ())],
    }


def _dtype(data_type: DataType, big: bool) -> Json:
    """The dtype of elements of a fixed size, in NumPy's notation. Raises MetadataError for a type that NumPy does not have."""
    try:
        dtype = emit_type(data_type, big, old=True)
    except MetadataError:  # about the draft, whose form of a dtype this is
        raise MetadataError(f"Zarr v2 has no data type {data_type.label}", path="data_type") from None
    if isinstance(dtype, dict):
        dtype = dtype["type"]
    if isinstance(data_type, RawType):
        return f"|V{data_type.itemsize}"
    if isinstance(dtype, str):
        return _spelt(data_type.dtype.newbyteorder(">" if big else "<").str, dtype)
    return dtype


def _spelt(spelling: str, name: str) -> str:
    """The dtype in NumPy's notation: the older dialect of the draft leaves out "|", and has a word for booleans."""
    return spelling if spelling.lstrip("|<>") == name.lstrip("|<>") or name == "bool" else name


def attributes_document(metadata: ArrayMetadata | GroupMetadata) -> dict[str, Json]:
    """The `.zattrs` of a node. Raises MetadataError if only some dimensions have names."""
    attributes = check_object(as_json(metadata.attributes, "attributes"), "attributes")
    names = metadata.dimension_names if isinstance(metadata, ArrayMetadata) else None
    if names is None:
        return attributes
    if any(name is None for name in names):
        raise MetadataError(
            f"in Zarr v2 either all dimensions have names or none: they are the attribute {DIMENSIONS}",
            path="dimension_names",
        )
    if attributes.get(DIMENSIONS, [*names]) != [*names]:
        raise MetadataError(
            f"the attribute {DIMENSIONS} is reserved for dimension_names in Zarr v2", path=f"attributes.{DIMENSIONS}"
        )
    return {**attributes, DIMENSIONS: [*names]}
