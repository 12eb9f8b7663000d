"""Converts the metadata of nodes between documents (metadata/model.py) and snapshots of the alpha (formats/alpha/zarr_metadata.py). Pure.

What a snapshot cannot hold is refused here, before anything is written: the error names the format and the member (`path`), and its hint suggests an
alternative."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from frazil.errors import InvalidInputError, MetadataError
from frazil.formats import json_values, msgpack
from frazil.formats.alpha.zarr_metadata import DATA_TYPES, FillValue, NamedConfiguration, ZarrArrayMetadata, kind_of
from frazil.metadata.extensions import Extension, is_extension_name, parse_extension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.metadata.json_text import Json, NonFinite, as_json, dump_json, found, item, member, parse_json
from frazil.metadata.members import check_object
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata
from frazil.metadata.registry import MetadataExtensions
from frazil.metadata.types.core import DataType
from frazil.metadata.types.fill_values import FillValue as Element
from frazil.metadata.types.variable_length import bytes_of
from frazil.metadata.warnings import warn_caller

# the keys that a session shows for chunks, which a repository stores by coordinates
_KEYS: Final = {"Slash": DefaultKeys("/"), "Dot": DefaultKeys(".")}
_FORMAT: Final = "the alpha format of Icechunk"

_GRID_LIMIT: Final = 2**32  # chunks along a dimension: coordinates have 32 bits
_SWAPPED: Final = sys.byteorder == "little"
# of float32 and float16
_SIGN, _EXPONENT, _QUIET, _PAYLOAD_SHIFT = 0x8000, 0x7C00, 0x0200, 13


# --- from snapshots ------------------------------------------------------------------------------------------------------------------


def to_metadata(
    data: ZarrArrayMetadata, attributes: Mapping[str, json_values.Json] | None, extensions: MetadataExtensions
) -> ArrayMetadata:
    """The metadata of an array with these attributes. Its codecs may be unknown.

    Raises UnknownExtensionError for an unknown data type, MetadataError for values that no document may have; `path` names the member."""
    data_type = extensions.data_type(_type_extension(data.data_type), "data_type")
    return ArrayMetadata(
        shape=data.shape,
        data_type=data_type,
        fill_value=_to_fill(data.fill_value, data.data_type, data_type),
        chunk_grid=RegularGrid(data.chunk_shape),
        # "Default" was never written, and its meaning is not specified
        chunk_key_encoding=_KEYS.get(data.chunk_key_encoding, _KEYS["Slash"]),
        codecs=_to_extensions(data.codecs, "codecs"),
        attributes=to_attributes(attributes),
        dimension_names=data.dimension_names,
        storage_transformers=_to_extensions(data.storage_transformers or (), "storage_transformers"),
    )


def to_attributes(attributes: Mapping[str, json_values.Json] | None) -> dict[str, Json]:
    """A copy of attributes in the form of a document, with NaN and infinities as NonFinite; None: there are none."""
    try:
        return check_object(as_json(attributes or {}, "attributes"), "attributes")
    except MetadataError:
        return check_object(as_json(_with_words(attributes, NonFinite), "attributes"), "attributes")


def _to_object(value: Mapping[str, json_values.Json] | None, path: str) -> dict[str, Json]:
    """Plain JSON; NaN and infinities, which MessagePack has and JSON does not, become the strings for them in documents."""
    try:
        return check_object(as_json(value or {}, path), path)
    except MetadataError:
        return check_object(as_json(_with_words(value, str), path), path)


def _with_words(value: object, word: Callable[[str], object]) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return word("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {name: _with_words(child, word) for name, child in value.items()}
    return [_with_words(child, word) for child in value] if isinstance(value, list | tuple) else value


def _to_extensions(entries: Sequence[NamedConfiguration], path: str) -> list[Extension]:
    paths = [item(path, at) for at in range(len(entries))]
    return [
        Extension(entry.name, _to_object(entry.configuration, member(member_path, "configuration")), path=member_path)
        for member_path, entry in zip(paths, entries, strict=True)
    ]


def _type_extension(stored: str) -> Extension:
    """The data type in a snapshot: a plain name, or JSON text with its configuration."""
    if is_extension_name(stored):
        return Extension(stored)
    return parse_extension(parse_json(stored.encode(errors="replace")), "data_type", may_ignore=False)


def _to_fill(value: FillValue, name: str, data_type: DataType) -> Element:
    kind = kind_of(name)
    if name not in DATA_TYPES:
        return data_type.parse_fill(parse_json(str(value).encode(errors="replace")))
    if kind.kind == "string":
        return data_type.parse_fill(str(value))
    if kind.kind == "bytes":
        assert isinstance(value, bytes)
        return data_type.parse_fill(list(value))
    _check_dtype(name, data_type)
    return Element(_element(value, name), data_type.dtype)


def _check_dtype(name: str, data_type: DataType) -> None:
    if data_type.dtype != np.dtype(name):
        raise MetadataError(f"the data type {name} must be NumPy's, found {data_type.dtype}", path="data_type")


def _element(value: FillValue, name: str) -> bytes:
    """One element of a core type, in native memory order."""
    if isinstance(value, bytes):
        if name == "float16":
            return half_of_single(int.from_bytes(value, "big")).to_bytes(2, sys.byteorder)
        return _swapped(value, DATA_TYPES[name].size)
    return int(value).to_bytes(np.dtype(name).itemsize, sys.byteorder, signed=DATA_TYPES[name].signed)


def _swapped(data: bytes, size: int) -> bytes:
    """Items of `size` bytes, converted between big-endian and native order."""
    return b"".join([data[at : at + size][::-1] for at in range(0, len(data), size)]) if _SWAPPED else data


def half_of_single(bits: int) -> int:
    """The bits of float16 for those of float32, rounded half to even. A NaN keeps the part of its payload that fits, and stays a NaN without it."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        payload = bits >> _PAYLOAD_SHIFT & 0x3FF
        return bits >> 16 & _SIGN | _EXPONENT | (payload or _QUIET)
    with np.errstate(all="ignore"):
        return int(np.array(bits, np.uint32).view(np.float32).astype(np.float16).view(np.uint16))


def single_of_half(bits: int) -> int:
    """The bits of float32 for those of float16. half_of_single restores each of them, even signalling NaNs, which a conversion of numbers would make quiet."""
    if bits & 0x7FFF > _EXPONENT:
        return (bits & _SIGN) << 16 | 0x7F800000 | (bits & 0x3FF) << _PAYLOAD_SHIFT
    return int(np.array(bits, np.uint16).view(np.float16).astype(np.float32).view(np.uint32))


# --- to snapshots --------------------------------------------------------------------------------------------------------------------


def from_metadata(
    metadata: ArrayMetadata, like: ZarrArrayMetadata | None = None, *, freedoms: bool = True
) -> ZarrArrayMetadata:
    """The metadata of an array as a snapshot holds it, without its attributes. Raises InvalidInputError.

    like      the current metadata in the snapshot: a member with the same meaning keeps its form, such as an absent list for an empty one
    freedoms  whether data types and chunk keys may be stored that the library of the alpha cannot read"""
    name = _from_data_type(metadata.data_type, freedoms=freedoms)
    new = ZarrArrayMetadata(
        shape=metadata.shape,
        data_type=name,
        chunk_shape=_from_grid(metadata),
        chunk_key_encoding=_from_keys(metadata, freedoms=freedoms),
        fill_value=_from_fill(metadata, name),
        codecs=_from_extensions(metadata.codecs, "codecs"),
        storage_transformers=_from_extensions(metadata.storage_transformers, "storage_transformers") or None,
        dimension_names=metadata.dimension_names,
    )
    for at, dimension in enumerate(metadata.dimension_names or ()):
        _check_json(dimension, item("dimension_names", at))
    return new if like is None else _in_the_form_of(like, new, metadata)


def from_attributes(metadata: Metadata, key: str | None = None) -> dict[str, Json]:
    """A copy of the attributes of a node for its snapshot. key: of the document that the node would have.

    Raises InvalidInputError for members and attributes that a snapshot cannot hold. Consolidated metadata is dropped with a UserWarning."""
    _check_members(metadata)
    attributes = check_object(as_json(metadata.attributes, "attributes"), "attributes")
    _check_json(attributes, "attributes")
    if isinstance(metadata, GroupMetadata) and metadata.consolidated is not None:
        warn_caller(
            f"{_FORMAT} cannot hold consolidated_metadata{f' of {key}' if key else ''}, which is left out; one read of a snapshot finds all its nodes",
            UserWarning,
        )
    return attributes


def _check_members(metadata: Metadata) -> None:
    if metadata.zarr_format != 3:
        raise InvalidInputError(
            f"{_FORMAT} holds nodes of the final Zarr v3, found one of {metadata.zarr_format!r}",
            path="zarr_format",
            hint="convert the hierarchy first, with convert()",
        )
    for name, value in metadata.unknown.items():
        raise InvalidInputError(
            f"{_FORMAT} cannot hold the member {name}, found {found(value)}",
            path=member(None, name),
            hint="leave it out, or keep it among the attributes",
        )


def _from_data_type(data_type: DataType, *, freedoms: bool) -> str:
    extension = data_type.extension()
    if extension.name in DATA_TYPES and not extension.configuration:
        if DATA_TYPES[extension.name].kind not in ("string", "bytes"):
            _check_dtype(extension.name, data_type)
        return extension.name
    if not freedoms:
        raise InvalidInputError(
            f"{_FORMAT}, as its library reads it, cannot hold the data type {data_type.label}, only {', '.join(DATA_TYPES)}",
            path="data_type",
            hint=f'{_instead(data_type.dtype)}; or create the repository without compatible="alpha-library"',
        )
    return dump_json(extension.to_json(), None).decode().strip() if extension.configuration else extension.name


def _instead(dtype: np.dtype[np.generic]) -> str:
    """What to store instead of elements of an unsupported data type."""
    if dtype.fields is not None:
        return "store each field as an array of its own"
    match dtype.kind:
        case "M" | "m":
            return "store them as int64 (view them so), and name the unit in the attributes"
        case "U":
            return f"store them as uint32, with one more dimension of length {dtype.itemsize // 4}"
        case "S" | "V" if dtype.itemsize:
            return f"store them as uint8, with one more dimension of length {dtype.itemsize}"
        case _:
            return "store them as one of these"


def _from_grid(metadata: ArrayMetadata) -> tuple[int, ...]:
    extension = metadata.chunk_grid.extension()
    lengths = extension.configuration.get("chunk_shape")
    if (
        extension.name != "regular"
        or extension.configuration.keys() != {"chunk_shape"}
        or not isinstance(lengths, list)
    ):
        raise InvalidInputError(
            f"{_FORMAT} cannot hold the chunk grid {extension.name}", path="chunk_grid", hint="use a regular one"
        )
    grid = RegularGrid(lengths)
    check_grid(grid.grid_shape(metadata.shape))
    return grid.chunk_shape


def check_grid(grid: tuple[int, ...]) -> None:
    """Raises InvalidInputError for a grid, in chunks along each dimension, that is too large for a snapshot."""
    if max(grid, default=0) > _GRID_LIMIT:
        raise InvalidInputError(
            f"{_FORMAT} holds at most 2^32 chunks along a dimension, found a grid of {grid}",
            path="chunk_grid.configuration.chunk_shape",
            hint="use larger chunks, with smaller ones inside (shards)",
        )


def _from_keys(metadata: ArrayMetadata, *, freedoms: bool) -> str:
    extension = metadata.chunk_key_encoding.extension()
    for name, keys in _KEYS.items():
        if extension == keys.extension() and (freedoms or name == "Slash"):
            return name
    raise InvalidInputError(
        f"{_FORMAT} cannot hold the chunk key encoding {found(extension.to_json())}",
        path="chunk_key_encoding",
        hint="leave the encoding out, as `frazil convert sea.zarr sea.repo@main` does: a repository finds chunks by their coordinates",
    )


def _from_fill(metadata: ArrayMetadata, name: str) -> FillValue:
    data, kind = metadata.fill_value.data, kind_of(name)
    match kind.kind:
        case "boolean":
            return data != b"\0"
        case "integer":
            return int.from_bytes(data, sys.byteorder, signed=kind.signed)
        case "float" | "complex":
            if name == "float16":
                return single_of_half(int.from_bytes(data, sys.byteorder)).to_bytes(4, "big")
            return _swapped(data, kind.size)
    value = metadata.data_type.emit_fill(metadata.fill_value)
    if name not in DATA_TYPES:
        return dump_json(value, None).decode().strip()
    if kind.kind == "string" and isinstance(value, str):
        _check_json(value, "fill_value")
        return value
    if kind.kind == "bytes" and (octets := bytes_of(value)) is not None:
        return octets
    raise InvalidInputError(f"{_FORMAT} cannot hold the fill value {found(value)} of {name}", path="fill_value")


def _from_extensions(extensions: Sequence[Extension], path: str) -> tuple[NamedConfiguration, ...]:
    entries: list[NamedConfiguration] = []
    for at, extension in enumerate(extensions):
        member_path = item(path, at)
        if not extension.must_understand:
            raise InvalidInputError(
                f"{_FORMAT} cannot express must_understand false of {extension.name}",
                path=member(member_path, "must_understand"),
                hint="leave the entry out, or the member: then every reader has to know it",
            )
        # an empty map if there is no configuration: the alpha library turns a missing one into null, which zarr-python does not open
        configuration = extension.to_json().get("configuration", {})
        _check_json(configuration, member(member_path, "configuration"))
        entries.append(NamedConfiguration(extension.name, check_object(configuration, member_path)))
    return tuple(entries)


def _check_json(value: Json, path: str) -> None:
    """Refuses JSON values that a repository file cannot hold, and names the innermost member."""
    try:
        msgpack.pack(value)
    except InvalidInputError as error:
        children = [(member(path, name), child) for name, child in value.items()] if isinstance(value, dict) else []
        children += [(item(path, at), child) for at, child in enumerate(value)] if isinstance(value, list) else []
        for member_path, child in children:
            _check_json(child, member_path)
        error.path, error.hint = path, "write it as a string" if isinstance(value, int) else None
        raise


def _in_the_form_of(like: ZarrArrayMetadata, new: ZarrArrayMetadata, metadata: ArrayMetadata) -> ZarrArrayMetadata:
    """`new`, with the members of `like` that have the same meaning."""
    members: dict[str, object] = {}
    if like.chunk_key_encoding not in _KEYS and new.chunk_key_encoding == "Slash":
        members["chunk_key_encoding"] = like.chunk_key_encoding
    if like.data_type == new.data_type and isinstance(like.fill_value, bytes) and new.data_type != "bytes":
        if _element(like.fill_value, like.data_type) == metadata.fill_value.data:
            members["fill_value"] = like.fill_value
    if _same_entries(like.codecs, metadata.codecs):
        members["codecs"] = like.codecs
    if _same_entries(like.storage_transformers or (), metadata.storage_transformers):
        members["storage_transformers"] = like.storage_transformers
    return new._replace(**members)  # type: ignore[arg-type] # each value has the type of its member


def _same_entries(entries: Sequence[NamedConfiguration], extensions: Sequence[Extension]) -> bool:
    return [(entry.name, _to_object(entry.configuration, "")) for entry in entries] == [
        (extension.name, extension.configuration) for extension in extensions
    ]
