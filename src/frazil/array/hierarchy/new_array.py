"""From the arguments of create_array to the metadata of an array. Pure: nothing is stored here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from frazil.array.arguments import check_sequence
from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.array_to_bytes.sharding_indexed import ShardingIndexed
from frazil.codecs.chain import check_sizes, compile_chain
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, ChunkSpec, Codec, choice, resolve
from frazil.codecs.defaults import default_chunks, default_codecs, default_shards, draft_codecs
from frazil.codecs.registry import Registry
from frazil.errors import InvalidInputError, MetadataError
from frazil.late import LateModule
from frazil.metadata.chunk_grids import RegularGrid
from frazil.metadata.chunk_keys import ChunkKeyEncoding, DefaultKeys, V2Keys
from frazil.metadata.extensions import Extension, parse_extension
from frazil.metadata.json_text import Json, as_json, item
from frazil.metadata.members import json_object, lengths_from_user
from frazil.metadata.model import ArrayMetadata, ZarrFormat
from frazil.metadata.types.core import DataType

if TYPE_CHECKING:
    from frazil.metadata.draft import emitter
    from frazil.metadata.draft import transformers as draft_transformers
else:
    draft_transformers = LateModule("frazil.metadata.draft.transformers")
    emitter = LateModule("frazil.metadata.draft.emitter")

Lengths = int | Sequence[int]

# members of a document of the draft that the argument `document` may give
_POINTS = ("extensions", "data_type", "chunk_grid", "chunk_memory_layout")


def check_arguments(given: Iterable[str], also: Iterable[str] = ()) -> None:
    """Raises InvalidInputError for a name that is no argument of array_metadata, nor among `also`."""
    known = {*array_metadata.__annotations__, *also} - {"registry", "zarr_format", "return"}
    for name in given:
        if name not in known:
            raise InvalidInputError(f"{name} is no argument here", hint=f"there are {', '.join(sorted(known))}")


def array_metadata(
    registry: Registry,
    *,
    shape: Lengths,
    dtype: object,
    chunks: Lengths | str = "auto",
    shards: Lengths | str | None = None,
    codecs: object = "auto",
    fill_value: object = None,
    attributes: Mapping[str, object] | None = None,
    dimension_names: Sequence[str | None] | None = None,
    chunk_key_encoding: object = None,
    index_location: str = "end",
    storage_transformers: Sequence[object] = (),
    document: Mapping[str, object] | None = None,
    zarr_format: ZarrFormat = 3,
) -> ArrayMetadata:
    """The metadata of a new array, complete and checked. Arguments as in create_array. Raises MetadataError that names the argument."""
    draft = zarr_format != 3
    storage_transformers = check_sequence(storage_transformers, "storage_transformers")
    choice(index_location, "index_location", ("start", "end"))
    extents = lengths_from_user(shape, "shape", low=0)
    data_type = registry.metadata.data_type_from_user(dtype)
    inner = _extents(chunks, "chunks", default_chunks(extents, data_type.itemsize))
    if len(inner) != len(extents):
        raise MetadataError(f"chunks has {len(inner)} dimensions; the array has {len(extents)}", path="chunks")
    chain = _with_serializer(
        (draft_codecs if draft else default_codecs)(data_type.dtype)
        if isinstance(codecs, str) and codecs == "auto"
        else registry.codecs_from_user(codecs)
    )
    outer = inner
    if shards is not None:
        outer = _extents(shards, "shards", default_shards(extents, inner, data_type.itemsize))
        _check_shards(outer, inner)
        # a storage transformer, which is what makes shards in the draft, knows no checksum of the index
        index = [Bytes("little")] if draft else None
        chain = (ShardingIndexed(inner, chain, index, index_location),)
    fill = data_type.fill_from_user(fill_value)
    chain = resolve(chain, chunk_spec(data_type, outer, fill.data))
    codecs_of, grid = [codec.extension() for codec in chain], RegularGrid(outer)
    keys = _key_encoding(registry, chunk_key_encoding)
    if draft:
        transformers = draft_transformers.split_transformers(
            _draft_entries(storage_transformers), len(extents), old=False
        )
        others = [*transformers.others]
        if transformers.shards:
            sharded, grid = draft_transformers.chain_with_shards(codecs_of, outer, transformers.shards)
            codecs_of = [*sharded]
        if isinstance(keys, V2Keys):
            raise MetadataError(
                'chunk_key_encoding "v2" cannot be said in the draft of 2022, whose chunks are named c0/0 or c0.0',
                path="chunk_key_encoding",
                hint='"default" with the separator "/" or "."',
            )
        keys = emitter.draft_keys(keys, old=zarr_format == "draft-2021")
    else:
        others = _transformers(storage_transformers)
    for i, extension in enumerate(others, len(storage_transformers) - len(others)):
        if not (draft and draft_transformers.is_sharding(extension.name)):  # which is run as a store there
            registry.transformer(extension, item("storage_transformers", i))  # raises where it is not known
    parsed, spec = registry.parse_codecs(codecs_of), chunk_spec(data_type, grid.chunk_shape, fill.data)
    compile_chain(parsed, spec)
    check_sizes(parsed, spec)
    metadata = ArrayMetadata(
        shape=extents,
        data_type=data_type,
        fill_value=fill,
        chunk_grid=grid,
        chunk_key_encoding=keys,
        codecs=codecs_of,
        attributes=attributes,
        dimension_names=dimension_names,
        storage_transformers=others,
        zarr_format=zarr_format,
    )
    return metadata if document is None else _with_document(metadata, document)


def _with_document(metadata: ArrayMetadata, document: Mapping[str, object]) -> ArrayMetadata:
    """The metadata with members of its document that no other argument can say."""
    if metadata.zarr_format == 3:
        raise InvalidInputError("document is for the draft of 2022 alone", path="document")
    members = json_object(document, "document")
    for name in members:
        if name not in _POINTS:
            raise MetadataError(
                f"{name} cannot be given with document", path=name, hint=f"there are {', '.join(_POINTS)}"
            )
    made = emitter.emit_array(metadata, old=metadata.zarr_format == "draft-2021")
    if "chunk_memory_layout" in members and made["chunk_memory_layout"] != "C":
        raise MetadataError(
            "codecs begin with a transposition, and document has another memory layout", path="chunk_memory_layout"
        )
    return metadata.with_members(document={**made, **members})


def chunk_spec(data_type: DataType, shape: tuple[int, ...], fill: bytes) -> ChunkSpec:
    """The chunks that the codecs of an array encode."""
    return ChunkSpec(shape, data_type.dtype, data_type.swaps, fill)


def _extents(value: Lengths | str | None, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(value, str):
        if value != "auto":
            raise MetadataError(f'{name} is {value!r}; it must be whole numbers, or "auto"', path=name)
        return default
    return lengths_from_user(value, name, low=1)


def _check_shards(shards: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    if len(shards) != len(chunks) or any(s % c for s, c in zip(shards, chunks, strict=False)):
        raise MetadataError(
            f"shards {shards} must be a multiple of chunks {chunks} along every dimension",
            path="shards",
            hint='shards="auto" chooses a fitting one',
        )


def _with_serializer(codecs: Sequence[Codec]) -> tuple[Codec, ...]:
    """The codecs with `bytes` where an array-to-bytes codec has to stand and the user named none."""
    if any(isinstance(codec, ArrayToBytes) for codec in codecs):
        return tuple(codecs)
    at = next((i for i, codec in enumerate(codecs) if not isinstance(codec, ArrayToArray)), len(codecs))
    return (*codecs[:at], Bytes(), *codecs[at:])


def _transformers(transformers: Sequence[object]) -> list[Extension]:
    """Storage transformers as a user writes them: Extensions, objects of a document, or names."""
    extensions = []
    for i, transformer in enumerate(transformers):
        place = item("storage_transformers", i)
        extensions.append(
            transformer if isinstance(transformer, Extension) else parse_extension(as_json(transformer, place), place)
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
