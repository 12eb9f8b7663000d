"""The metadata of an array from the arguments of create_array. Pure: nothing is stored here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack, cast

from frazil.array.arguments import DEFAULT_FILL, check_sequence
from frazil.array.compiled_array import chunk_spec
from frazil.array.creation import zarr_arguments
from frazil.array.creation.defaults import default_chunks, default_codecs, default_shards, draft_codecs
from frazil.codecs.array_to_array.transpose import Transpose
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.array_to_bytes.sharding_indexed import ShardingIndexed
from frazil.codecs.chain.compilation import check_sizes, compile_chain
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, Codec, choice, resolve
from frazil.codecs.registry import Registry
from frazil.errors import InvalidInputError, MetadataError
from frazil.metadata.draft import emitter
from frazil.metadata.draft import transformers as draft_transformers
from frazil.metadata.extensions import Extension, parse_extension, suggestion
from frazil.metadata.grids import rectilinear
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import ChunkKeyEncoding, DefaultKeys, V2Keys
from frazil.metadata.json_text import Json, as_json, item
from frazil.metadata.members import json_object, lengths_from_user
from frazil.metadata.model import ArrayMetadata, ZarrFormat
from frazil.metadata.v2 import documents as v2_documents
from frazil.metadata.v2 import objects as v2_objects

if TYPE_CHECKING:
    from frazil.array.creation.zarr_arguments import ZarrArguments
    from frazil.metadata.grids.rectilinear import RectilinearGrid
    from frazil.metadata.types.core import DataType

Lengths = int | Sequence[int | Sequence[int | Sequence[int]]]

# members of a document of the draft that the argument `document` may give
_EXTENSION_POINTS = ("extensions", "data_type", "chunk_grid", "chunk_memory_layout")


def check_arguments(
    names: Mapping[str, object], also: Iterable[str] = (), *, required: Iterable[str] = (), path: str | None = None
) -> None:
    """Raises InvalidInputError for a name that is neither an argument of array_metadata nor in `also`, and for a required argument that is missing or None."""
    ours = {*array_metadata.__annotations__, *also} - {"registry", "zarr_format", "zarr", "return"}
    _refuse_unknown(set(names) - ours, ours)
    for name in required:
        if names.get(name) is None:
            raise InvalidInputError(f"{name} is missing", path=path)


def _refuse_unknown(names: Iterable[str], ours: Iterable[str]) -> None:
    for name in names:
        if name not in zarr_arguments.ZarrArguments.__annotations__:
            known = sorted({*ours, *zarr_arguments.ZarrArguments.__annotations__})
            hint = zarr_arguments.ELSEWHERE.get(name) or suggestion(name, known) or f"known names: {', '.join(known)}"
            raise InvalidInputError(f"{name} is not an argument here", hint=hint)


def array_metadata(
    registry: Registry,
    *,
    shape: Lengths,
    dtype: object,
    chunks: Lengths | str = "auto",
    shards: Lengths | str | Mapping[str, object] | None = None,
    codecs: object = "auto",
    fill_value: object = DEFAULT_FILL,
    attributes: Mapping[str, object] | None = None,
    dimension_names: Sequence[str | None] | None = None,
    chunk_key_encoding: object = None,
    index_location: str = "end",
    storage_transformers: Sequence[object] = (),
    document: Mapping[str, object] | None = None,
    zarr_format: ZarrFormat = 3,
    **zarr: Unpack[ZarrArguments],
) -> ArrayMetadata:
    """The metadata of a new array, complete and checked. Arguments as in create_array. Raises MetadataError that names the argument."""
    draft = zarr_format not in (2, 3)
    storage_transformers = check_sequence(storage_transformers, "storage_transformers")
    if zarr:
        _refuse_unknown(zarr, {*array_metadata.__annotations__} - {"registry", "zarr", "return"})
        old = zarr_arguments.Renamed(dtype, chunks, chunk_key_encoding, zarr)
        dtype, chunks, chunk_key_encoding, zarr = zarr_arguments.renamed(old, zarr_format)  # type: ignore[assignment]
    shards, index_location = _shards(shards, index_location)
    extents = lengths_from_user(shape, "shape", low=0)
    codecs = "auto" if codecs is None else codecs  # None is the default of zarr-python
    data_type, serializer, codecs, zarr = _data_type(registry, dtype, codecs, zarr, zarr_format)
    inner, outer, varied = _chunk_shapes(chunks, shards, extents, data_type.itemsize, draft=draft)
    default = (default_codecs if zarr_format == 3 else draft_codecs)(data_type.element)
    chain = _with_serializer(
        _codecs(registry, codecs, zarr, default, data_type.itemsize, any_kind=zarr_format == 2),
        registry.parse_codecs([serializer]),
    )
    if zarr_format == 2 and zarr.get("order") == "F" and len(extents) > 1:  # in other formats it is that of results
        chain = (Transpose(range(len(extents))[::-1]), *chain)
    if shards is not None:
        # in the draft a storage transformer makes shards, whose index has no checksum
        index = [Bytes("little")] if draft else None
        chain = (ShardingIndexed(inner, chain, index, index_location),)
    fill = data_type.fill_from_user(None if fill_value is DEFAULT_FILL else fill_value)
    chain = resolve(chain, chunk_spec(data_type, outer, fill))
    codecs_of, grid = [codec.extension() for codec in chain], RegularGrid(outer)
    if chunk_key_encoding is None and zarr_format == 2:
        chunk_key_encoding = V2Keys(".")
    keys = _key_encoding(registry, chunk_key_encoding)
    if draft:
        transformers = draft_transformers.split_transformers(
            _draft_entries(storage_transformers), len(extents), old=False
        )
        others = [*transformers.others]
        if transformers.shards:
            sharded, grid = draft_transformers.chain_with_shards(codecs_of, outer, transformers.shards)
            codecs_of = [*sharded]
        keys = _draft_keys(keys, zarr_format)
    else:
        others = _transformers(storage_transformers)
    for i, extension in enumerate(others, len(storage_transformers) - len(others)):
        if not (draft and draft_transformers.is_sharding(extension.name)):  # which runs as a store there
            registry.transformer(extension, item("storage_transformers", i))  # raises for an unknown one
    parsed, spec = registry.parse_codecs(codecs_of), chunk_spec(data_type, grid.chunk_shape, fill)
    compile_chain(parsed, spec)
    check_sizes(parsed, spec)
    metadata = ArrayMetadata(
        shape=extents,
        data_type=data_type,
        fill_value=fill,
        chunk_grid=grid if varied is None else varied,
        chunk_key_encoding=keys,
        codecs=codecs_of,
        attributes=attributes,
        dimension_names=dimension_names,
        storage_transformers=others,
        zarr_format=zarr_format,
    )
    if zarr_format == 2 and fill_value is None:
        metadata = metadata.with_members(document={**v2_documents.node_document(metadata), "fill_value": None})
    return metadata if document is None else _with_document(metadata, document)


def _data_type(
    registry: Registry, dtype: object, codecs: object, zarr: ZarrArguments, zarr_format: ZarrFormat
) -> tuple[DataType, Extension, object, ZarrArguments]:
    """The data type and its array-to-bytes codec, and the other arguments: without the codec of objects, which determines both for object arrays of Zarr v2."""
    if zarr_format == 2 and v2_objects.is_object(dtype):
        return _object_type(registry, codecs, zarr)
    if hasattr(dtype, "to_native_dtype") and hasattr(dtype, "to_json"):  # zarr-python's object
        dtype = dtype.to_json(zarr_format=3)
    data_type = registry.metadata.data_type_from_user(dtype)
    if zarr_format == 2 and zarr_arguments.first_filter(codecs, zarr) == data_type.serializer.name:
        return _object_type(registry, codecs, zarr)  # text, or bytes, with its codec
    return data_type, data_type.serializer, codecs, zarr


def _object_type(
    registry: Registry, codecs: object, zarr: ZarrArguments
) -> tuple[DataType, Extension, object, ZarrArguments]:
    object_type, codecs, zarr = zarr_arguments.object_array(registry, codecs, zarr)
    return object_type.data_type, object_type.extension, codecs, zarr


def _draft_keys(keys: ChunkKeyEncoding, zarr_format: ZarrFormat) -> ChunkKeyEncoding:
    if isinstance(keys, V2Keys):
        raise MetadataError(
            'chunk_key_encoding "v2" cannot be expressed in the draft of 2022, whose chunks are named c0/0 or c0.0',
            path="chunk_key_encoding",
            hint='"default" with the separator "/" or "."',
        )
    return emitter.draft_keys(keys, old=zarr_format == "draft-2021")


def _with_document(metadata: ArrayMetadata, document: Mapping[str, object]) -> ArrayMetadata:
    """The metadata with members of its document that no other argument can give."""
    if metadata.zarr_format in (2, 3):
        raise InvalidInputError("document is only for the draft of 2022", path="document")
    members = json_object(document, "document")
    for name in members:
        if name not in _EXTENSION_POINTS:
            raise MetadataError(
                f"{name} cannot be given with document",
                path=name,
                hint=f"possible names: {', '.join(_EXTENSION_POINTS)}",
            )
    emitted = emitter.emit_array(metadata, old=metadata.zarr_format == "draft-2021")
    if "chunk_memory_layout" in members and emitted["chunk_memory_layout"] != "C":
        raise MetadataError(
            "codecs begin with a transposition, and document has a different memory layout", path="chunk_memory_layout"
        )
    return metadata.with_members(document={**emitted, **members})


def _extents(
    value: Lengths | str | None, name: str, extents: tuple[int, ...], default: tuple[int, ...]
) -> tuple[int, ...]:
    """Elements along each dimension. A whole number is for all dimensions, -1 and None in a sequence for the whole extent, True for "auto", False for all
    extents."""
    if isinstance(value, str):
        if value != "auto":
            raise MetadataError(f'{name} is {value!r}; it must be whole numbers, or "auto"', path=name)
        return default
    if isinstance(value, bool):
        return default if value else tuple([max(extent, 1) for extent in extents])
    if hasattr(value, "__index__") and not hasattr(value, "__len__"):
        return lengths_from_user(value, name, low=1) * len(extents)
    if isinstance(value, list | tuple) and len(value) == len(extents):
        value = [
            1 if type(length) is int and length == extent == 0 else length
            for length, extent in zip(value, extents, strict=True)
        ]
        whole = [length is None or (type(length) is int and length == -1) for length in value]
        if any(whole):
            value = [
                max(extent, 1) if all_of else length
                for length, extent, all_of in zip(value, extents, whole, strict=True)
            ]
    return lengths_from_user(value, name, low=1)


def _shards(
    shards: Lengths | str | Mapping[str, object] | None, index_location: str
) -> tuple[Lengths | str | None, str]:
    """The shape of shards and the location of their index, also from zarr-python's {"shape": ..., "index_location": ...}; False: no shards."""
    if isinstance(shards, Mapping):
        if not {"shape"} <= set(shards) <= {"shape", "index_location"}:
            raise MetadataError(f"shards is {shards!r}; it has shape and index_location", path="shards")
        index_location = cast("str", shards.get("index_location", index_location))
        shards = cast("Lengths", shards["shape"])
    choice(index_location, "index_location", ("start", "end"))
    return None if shards is False else shards, index_location


def _chunk_shapes(
    chunks: Lengths | str, shards: Lengths | str | None, extents: tuple[int, ...], itemsize: int, *, draft: bool
) -> tuple[tuple[int, ...], tuple[int, ...], RectilinearGrid | None]:
    """Extents of a chunk, and of a shard (the same where there are none); and the grid, where chunks have different shapes. Extents are then the largest
    ones."""
    sharded = shards is not None
    varied = _varied(shards if shards is not None else chunks, "shards" if sharded else "chunks", draft)
    if varied is not None:
        chunks, shards = (chunks, varied.largest) if sharded else (varied.largest, None)
    inner = _extents(chunks, "chunks", extents, default_chunks(extents, itemsize))
    if len(inner) != len(extents):
        raise MetadataError(f"chunks has {len(inner)} dimensions; the array has {len(extents)}", path="chunks")
    if not sharded:
        return inner, inner, varied
    outer = _extents(shards, "shards", extents, default_shards(extents, inner, itemsize))
    _check_shards(outer, inner)
    for axis, lengths in enumerate(() if varied is None else varied.different):
        for length in lengths:
            _check_shards((*outer[:axis], length, *outer[axis + 1 :]), inner)
    return inner, outer, varied


def _varied(value: Lengths | str | None, name: str, draft: bool) -> RectilinearGrid | None:
    """The grid of chunks (or shards) that have several shapes; None where all have one shape."""
    grid: object = value
    if isinstance(value, Sequence) and any(isinstance(lengths, list | tuple) for lengths in value):
        grid = rectilinear.RectilinearGrid(value, path=name)
    if grid is None or isinstance(grid, str | int | Sequence) or not isinstance(grid, rectilinear.RectilinearGrid):
        return None
    if draft:
        raise MetadataError("the draft of 2022 has only chunks of one shape", path=name)
    return grid


def _check_shards(shards: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    if len(shards) != len(chunks) or any(s % c for s, c in zip(shards, chunks, strict=False)):
        raise MetadataError(
            f"shards {shards} must be a multiple of chunks {chunks} along every dimension",
            path="shards",
            hint='shards="auto" chooses a fitting one',
        )


def _codecs(
    registry: Registry,
    codecs: object,
    zarr: ZarrArguments,
    default: tuple[Codec, ...],
    itemsize: int,
    *,
    any_kind: bool,
) -> tuple[Codec, ...]:
    """The codecs that a user names, or the default ones."""
    if zarr:
        codecs = zarr_arguments.codecs_by_kind(registry, codecs, zarr, default, itemsize, any_kind=any_kind)
    if isinstance(codecs, str) and codecs == "auto":
        return default
    if isinstance(codecs, list | tuple) and not all(isinstance(codec, str | Codec | Extension) for codec in codecs):
        codecs = zarr_arguments.converted_codecs(registry, codecs, itemsize)
    return registry.codecs_from_user(codecs)


def _with_serializer(codecs: tuple[Codec, ...], serializer: tuple[Codec, ...]) -> tuple[Codec, ...]:
    """The codecs, with the serializer in the place of the array-to-bytes codec if the user named none."""
    if any(isinstance(codec, ArrayToBytes) for codec in codecs):
        return codecs
    at = next((i for i, codec in enumerate(codecs) if not isinstance(codec, ArrayToArray)), len(codecs))
    return (*codecs[:at], *serializer, *codecs[at:])


def _transformers(transformers: Sequence[object]) -> list[Extension]:
    """Storage transformers as a user gives them: Extensions, objects of a document, or names."""
    extensions = []
    for i, transformer in enumerate(transformers):
        location = item("storage_transformers", i)
        extensions.append(
            transformer
            if isinstance(transformer, Extension)
            else parse_extension(as_json(transformer, location), location)
        )
    return extensions


def _draft_entries(transformers: Sequence[object]) -> list[Json]:
    """Storage transformers for a document of the draft of 2022: its objects, or Extensions that hold them."""
    return [
        {"extension": transformer.name, **transformer.configuration}
        if isinstance(transformer, Extension)
        else as_json(transformer, item("storage_transformers", i))
        for i, transformer in enumerate(transformers)
    ]


def _key_encoding(registry: Registry, value: object) -> ChunkKeyEncoding:
    if value is None:
        return DefaultKeys("/")
    if isinstance(value, tuple) and len(value) == 2:  # ("v2", "."), as zarr-python takes it
        value = {"name": value[0], "separator": value[1]}
    elif hasattr(value, "to_dict"):  # zarr-python's object
        value = value.to_dict()
    if isinstance(value, str | Mapping):
        if isinstance(value, Mapping) and "separator" in value:  # zarr-python's short form
            value = {"name": value.get("name", "default"), "configuration": {"separator": value["separator"]}}
        extension = parse_extension(as_json(value, "chunk_key_encoding"), "chunk_key_encoding", may_ignore=False)
        return registry.metadata.chunk_key_encoding(extension)
    if hasattr(value, "encode_all"):
        return cast("ChunkKeyEncoding", value)
    raise InvalidInputError(
        f"chunk_key_encoding is {value!r}; it must be a name, an object of a document, or a ChunkKeyEncoding"
    )
