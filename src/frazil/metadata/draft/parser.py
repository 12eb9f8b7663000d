"""Documents of arrays and groups in the 2022 draft, in both dialects (draft of 2022, Array metadata and Group metadata).

They become the same values as final documents: the sharding storage transformer becomes the sharding codec, the memory layout a transposition.
Unknown members are refused in version 3.0 of the dialect of December 2022, and ignored in its later minor versions; the older dialect is read in the forms that
programs wrote."""

from __future__ import annotations

from typing import Final

from frazil.base.record import Record
from frazil.errors import MetadataError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.draft.codec_chain import parse_chain
from frazil.metadata.draft.codec_entries import is_endian
from frazil.metadata.draft.emitter import emit_array, emit_group
from frazil.metadata.draft.entry_point import HierarchyExtension, check_uri, not_understood, parse_generic
from frazil.metadata.draft.fill_values import parse_fill
from frazil.metadata.draft.transformers import OLD_URI, chain_with_shards, split_transformers
from frazil.metadata.draft.types import parse_type, states_order
from frazil.metadata.extension_guard import ExtensionCall
from frazil.metadata.extensions import Extension
from frazil.metadata.grids.chunk_grids import ChunkGrid, RegularGrid
from frazil.metadata.grids.chunk_keys import SEPARATORS, ChunkKeyEncoding, V2Keys
from frazil.metadata.json_text import Json, found, item
from frazil.metadata.layout import KnownExtensions
from frazil.metadata.members import Members, check_integers, check_object, refusal
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata, ZarrFormat

MEMBERS: Final = (
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_memory_layout",
    "fill_value",
    "extensions",
    "attributes",
    "codecs",
    "storage_transformers",
)
_OF_ARRAYS: Final = frozenset({"shape", "data_type", "chunk_grid"})  # every array has these, and no group


class _Dialect(Record):
    """Which form of documents is read.

    old        the older dialect
    prototype  the older dialect as it was in 2020: chunks are named `1.0` where the grid has no separator
    strict     unknown members are refused: in documents of version 3.0 of the dialect of December 2022"""

    old: bool
    prototype: bool
    strict: bool


def parse_document(
    value: Json,
    extensions: KnownExtensions,
    *,
    array: bool,
    old: bool,
    prototype: bool = False,
    strict: bool | None = None,
) -> Metadata:
    """The metadata of a node. Raises MetadataError, UnknownExtensionError, with the member in `path`.

    old, prototype, strict  as in _Dialect; strict is `not old` by default. Configurations are always checked strictly: their members are not the core's"""
    members = Members(check_object(value, None), None)
    _check_kind(members, array)
    dialect = _Dialect(old, prototype, not old if strict is None else strict)
    return _read_array(members, extensions, dialect) if array else _read_group(members, dialect)


def _check_kind(members: Members, array: bool) -> None:
    """Refuses the document of an array under the key of a group, and the reverse: otherwise the error would name members, not the cause."""
    if array and "attributes" in members.values and _OF_ARRAYS.isdisjoint(members.values):
        raise MetadataError(
            "the document of an array is that of a group: it has attributes, and nothing that an array must have",
            hint="a group's key ends in .group and the suffix, an array's in .array and the suffix (draft of 2022, Storage keys)",
        )
    if not array and members.values.keys() >= _OF_ARRAYS:
        raise MetadataError(
            f"the document of a group is that of an array: it has {', '.join(sorted(_OF_ARRAYS))}",
            hint="an array's key ends in .array and the suffix, a group's in .group and the suffix (draft of 2022, Storage keys)",
        )


def emit_document(metadata: Metadata, *, old: bool) -> dict[str, Json]:
    """The document of a node. Raises MetadataError for metadata that the dialect cannot express."""
    return emit_group(metadata) if isinstance(metadata, GroupMetadata) else emit_array(metadata, old=old)


def _read_group(members: Members, dialect: _Dialect) -> GroupMetadata:
    attributes = _read_attributes(members, dialect.old, optional=False)  # the only member of a group's document
    if dialect.strict:
        members.finish()
    zarr_format: ZarrFormat = "draft-2021" if dialect.old else "draft"
    return GroupMetadata(attributes=attributes, zarr_format=zarr_format, unknown=members.rest())


def _read_attributes(members: Members, old: bool, *, optional: bool) -> dict[str, Json]:
    if old and members.values.get("attributes") in (None, []):  # prototypes wrote none
        return {}
    return members.object("attributes", {} if optional else None)


def _read_array(members: Members, extensions: KnownExtensions, dialect: _Dialect) -> ArrayMetadata:
    old, strict = dialect.old, dialect.strict
    for name in MEMBERS:  # allowed in the strict dialect, even if they are not read below
        members.has(name)
    if strict:
        members.finish()
    shape = check_integers(members.get("shape"), "shape", low=0)
    data_type, big = parse_type(members.get("data_type"), old=old, strict=strict, extensions=extensions.metadata)
    grid, keys = _read_grid(members, shape, extensions, dialect)
    layout = _read_layout(members)
    fill = parse_fill(
        members.values.get("fill_value") if old else members.get("fill_value"),
        data_type,
        old=old,
        path="fill_value",
        big=big,
    )
    transformers = split_transformers(_listed_transformers(members, old), len(shape), old=old, strict=strict)
    chunk = grid.chunk_shape if isinstance(grid, RegularGrid) else ()
    _check_one_order(members)
    chain = parse_chain(
        codecs=members.values.get("codecs") if old else members.array("codecs", []),
        compressor=members.values.get("compressor") if old else None,
        attributes=_read_attributes(members, old, optional=True),
        reverse_axes=len(shape) if layout == "F" else 0,
        big=big,
        swaps=bool(data_type.swaps),
        itemsize=data_type.itemsize,
        old=old,
        strict=strict,
        kinds=extensions,
    )
    codecs = chain.codecs
    if isinstance(layout, Extension):
        codecs = (*_layout_codecs(layout, chunk, extensions), *codecs)
    if transformers.shards:
        if not isinstance(grid, RegularGrid):
            raise MetadataError(
                "the sharding storage transformer needs the regular chunk grid", path="storage_transformers"
            )
        codecs, grid = chain_with_shards(codecs, chunk, transformers.shards)
    metadata = ArrayMetadata(
        shape=shape,
        data_type=data_type,
        fill_value=fill,
        chunk_grid=grid,
        chunk_key_encoding=keys,
        codecs=codecs,
        attributes=chain.attributes,
        storage_transformers=transformers.others,
        zarr_format="draft-2021" if old else "draft",
        document=dict(members.values),
    )
    return _with_extensions(
        metadata, parse_generic(members.array("extensions", []), "extensions", strict=strict), extensions
    )


def _listed_transformers(members: Members, old: bool) -> list[Json]:
    """The entries of `storage_transformers`. Early versions of zarrita wrote the same shards in other members."""
    listed = members.array("storage_transformers", [])
    if not old or members.values.get("shards") is None:
        return listed
    kind = members.choice("shard_format", ["indexed"], "indexed")
    configuration: dict[str, Json] = {"chunks_per_shard": members.get("shards")}
    return [{"extension": OLD_URI, "type": kind, "configuration": configuration}, *listed]


def _check_one_order(members: Members) -> None:
    """Refuses two byte orders, in the name of the data type and in a codec: no specification defines what both mean together."""
    codecs = members.values.get("codecs")
    if not isinstance(codecs, list) or not states_order(members.values.get("data_type")):
        return
    for at, codec in enumerate(codecs):
        if isinstance(codec, dict) and is_endian(codec.get("type")):
            raise MetadataError(
                "the data type has a byte order in its name, and there is a codec endian too; what both mean together is not defined",
                path=item("codecs", at),
                hint="leave the codec out, or spell the data type without a byte order",
            )


def _with_extensions(
    metadata: ArrayMetadata, entries: tuple[HierarchyExtension, ...], extensions: KnownExtensions
) -> ArrayMetadata:
    """The metadata with the extensions of the document (draft of 2022, Array metadata, extensions)."""
    for entry in entries:
        understand = extensions.draft.array_extension(entry.extension.name)
        if understand is not None:
            with ExtensionCall("extension", found(entry.extension.name), entry.path) as call:
                result: object = understand(entry.extension, metadata)
                if not isinstance(result, ArrayMetadata):
                    raise call.wrong(result, "ArrayMetadata")
                metadata = result
        elif entry.must_understand:
            raise not_understood(entry, "with_array_extension")
    return metadata


def _layout_codecs(layout: Extension, chunk: tuple[int, ...], extensions: KnownExtensions) -> list[Extension]:
    """The codecs that a user's memory layout returns."""
    make = extensions.draft.memory_layout(layout, "chunk_memory_layout")
    with ExtensionCall("memory layout", found(layout.name), "chunk_memory_layout") as call:
        result: object = make(layout, chunk)
        if not isinstance(result, (list, tuple)) or not all(isinstance(codec, Extension) for codec in result):
            raise call.wrong(result, "a list of Extensions")
        return list(result)


def _read_grid(
    members: Members, shape: tuple[int, ...], extensions: KnownExtensions, dialect: _Dialect
) -> tuple[ChunkGrid, ChunkKeyEncoding]:
    old = dialect.old
    grid = Members(check_object(members.get("chunk_grid"), "chunk_grid"), "chunk_grid")
    if grid.has("extension"):
        uri = check_uri(grid.string("extension"), grid.at("extension"))
        grid.get("type")
        extension = Extension(uri, {name: value for name, value in grid.values.items() if name != "extension"})
        result = extensions.metadata.chunk_grid(extension, "chunk_grid")
        keys = getattr(result, "chunk_key_encoding", None)
        return result, DraftKeys("/", old) if keys is None else keys
    grid.choice("type", ["regular"])
    lengths = check_integers(grid.get("chunk_shape"), "chunk_grid.chunk_shape", low=0)
    separator = grid.choice("separator", SEPARATORS, "/")
    if dialect.strict:
        grid.finish()
    elif old and (other := members.values.get("dimension_separator")) not in (None, separator):
        raise refusal("dimension_separator", f"the separator of chunk_grid, {separator!r}", other)
    if len(lengths) != len(shape):
        raise refusal("chunk_grid.chunk_shape", f"{len(shape)} integers, one for each dimension", list(lengths))
    for extent, length in zip(lengths, shape, strict=True):
        if extent == 0 and length:
            raise refusal(
                "chunk_grid.chunk_shape",
                "lengths above 0 where the array has elements (draft of 2022, Concepts and terminology, Chunk)",
                list(lengths),
            )
    # a dimension without elements may have chunks of length 0: all lengths are equivalent
    keys = V2Keys() if dialect.prototype and "separator" not in grid.values else DraftKeys(separator, old)
    return RegularGrid([max(extent, 1) for extent in lengths]), keys


def _read_layout(members: Members) -> str | Extension:
    value = members.get("chunk_memory_layout")
    if isinstance(value, dict):
        layout = Members(value, "chunk_memory_layout")
        uri = check_uri(layout.string("extension"), layout.at("extension"))
        layout.get("type")
        return Extension(uri, {name: member for name, member in value.items() if name != "extension"})
    return members.choice("chunk_memory_layout", ["C", "F"])
