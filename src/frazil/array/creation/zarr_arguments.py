"""Translates arguments of create_array in the form of zarr-python 2 and 3: filters, serializer and compressors, codec objects of zarr-python and numcodecs,
settings. Pure.

The objects are recognised by their methods (to_dict, get_config); neither package is imported. Chunk shapes are in array_metadata.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from frazil.base.record import Record
from frazil.codecs.bytes_to_bytes.blosc import Blosc
from frazil.codecs.codec import ArrayToArray, ArrayToBytes, BytesToBytes, Codec
from frazil.codecs.registry import Registry
from frazil.errors import InvalidInputError, MetadataError
from frazil.metadata.draft.codec_entries import parse_filter
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import as_json, item
from frazil.metadata.members import json_object
from frazil.metadata.v2.objects import ObjectArray, parse_object_array

_KINDS: Final = {"filters": ArrayToArray, "serializer": ArrayToBytes, "compressors": BytesToBytes}
_SETTINGS: Final = ("order", "write_empty_chunks")
_ALLOWED: Final = {
    "order": ("C", "F", None),
    "write_empty_chunks": (True, False, None),
    "read_missing_chunks": (True, None),
}  # of config=
_SPEED: Final = ("sharding_coalesce_max_bytes", "sharding_coalesce_max_gap_bytes")
_RENAMED: Final = ("compressor", "object_codec", "dimension_separator", "chunk_shape")
NO_EFFECT: Final = ("cache_attrs", "cache_metadata", "read_only", "synchronizer")
NOTHING: Final = ("chunk_store", "meta_array")  # for which only None is accepted
ELSEWHERE: Final = {  # arguments of other functions, by name, and where they are given
    "virtual_prefixes": 'a repository has them: frazil.Repository.open(..., virtual_prefixes=...).readonly_session("main").root'
}
_OBJECTS: Final = {"vlen-utf8": "string", "vlen-bytes": "variable_length_bytes"}  # data types, by the codec of objects


class ZarrArguments(TypedDict, total=False):
    """Names of zarr-python beside our own (docs/design/068-names-of-zarr-python.md). filters, serializer, compressors: a codec, a list, "auto" or None, instead
    of codecs; order: of the elements of a chunk in Zarr v2; write_empty_chunks, config: checked, without effect.

    Of zarr-python 2: compressor: one of compressors; object_codec: the first of filters, of object arrays; dimension_separator: of chunk_key_encoding;
    synchronizer, cache_attrs, cache_metadata: without effect; read_only: True only where an array is opened for reading; chunk_store, meta_array: only None."""

    filters: object
    serializer: object
    compressors: object
    order: str | None
    write_empty_chunks: bool | None
    config: object
    compressor: object
    object_codec: object
    dimension_separator: str | None
    chunk_shape: object
    synchronizer: object
    cache_attrs: object
    cache_metadata: object
    read_only: object
    chunk_store: None
    meta_array: None


class CreateArguments(ZarrArguments, total=False):
    """Arguments of create_array and of Group.create_array. zarr_version: the older name of zarr_format; write_data: False where `data` only gives shape and
    data type."""

    zarr_version: int | None
    write_data: bool


class GroupArguments(TypedDict, total=False):
    """Names of zarr-python for functions that open groups. zarr_version: the older name of zarr_format; use_consolidated: True where consolidated metadata must
    exist; it is then read, and no group is created; False where it is never read; read_only: True for mode r; the others as in ZarrArguments."""

    zarr_version: int | None
    use_consolidated: bool | str | None
    synchronizer: object
    cache_attrs: object
    cache_metadata: object
    read_only: bool | None
    chunk_store: None
    meta_array: None


class TreeArguments(TypedDict, total=False):
    """Names of zarr-python that have no effect in Group.tree."""

    expand: bool | None
    max_nodes: int
    plain: bool


class Renamed(Record):
    """Arguments of create_array that names of zarr-python 2 can change; zarr: the other names of zarr-python."""

    dtype: object
    chunks: object
    chunk_key_encoding: object
    zarr: ZarrArguments


def renamed(arguments: Renamed, zarr_format: int | str) -> Renamed:
    """The arguments by the names of zarr-python 3. Raises InvalidInputError for an argument given twice, MetadataError for a codec of objects that only Zarr v2
    has."""
    converted: dict[str, object] = dict(arguments.zarr)
    check_nothing(converted)
    if converted.get("read_only"):
        raise InvalidInputError(
            "read_only is True, but a new array is writable", hint='open it again after that, with mode "r"'
        )
    for name in (*NO_EFFECT, *NOTHING):
        converted.pop(name, None)
    dtype, chunks, keys = arguments.dtype, arguments.chunks, arguments.chunk_key_encoding
    old = {name: converted.pop(name, None) for name in _RENAMED if name in converted}
    if "compressor" in old:
        _refuse_both("compressor", "compressors", "compressors" in converted)
        chosen = old["compressor"]
        converted["compressors"] = "auto" if isinstance(chosen, str) and chosen == "default" else chosen
    if old.get("chunk_shape") is not None:
        _refuse_both("chunk_shape", "chunks", not (isinstance(chunks, str) and chunks == "auto"))
        chunks = old["chunk_shape"]
    if old.get("dimension_separator") is not None:
        _refuse_both("dimension_separator", "chunk_key_encoding", keys is not None)
        keys = {"name": "v2" if zarr_format == 2 else "default", "separator": old["dimension_separator"]}
    if old.get("object_codec") is not None:
        dtype, filters = _objects(old["object_codec"], dtype, converted.get("filters"), zarr_format)
        converted["filters"] = filters
    return Renamed(dtype, chunks, keys, converted)  # type: ignore[arg-type] # the rest of its names


def check_nothing(arguments: Mapping[str, object]) -> None:
    """Raises InvalidInputError for arguments of zarr-python without an equivalent here."""
    for name in NOTHING:
        if arguments.get(name) is not None:
            raise InvalidInputError(
                f"{name} is not supported here",
                hint="documents and chunks are in one store; arrays are read into NumPy's",
            )


def with_effect(arguments: Mapping[str, object]) -> list[str]:
    """The names without those that have no effect on an existing array."""
    return [name for name in arguments if name not in (*_SETTINGS, *NO_EFFECT, *NOTHING, "config", "use_consolidated")]


def group_format(zarr_format: int | str | None, arguments: GroupArguments) -> int | str | None:
    """As format_of, for the other arguments of open_group, which are checked. Raises InvalidInputError for a name that is not an argument."""
    for name in arguments:
        if name not in GroupArguments.__annotations__:
            raise InvalidInputError(
                f"{name} is not an argument of a group",
                hint=ELSEWHERE.get(name) or f"known names: {', '.join(GroupArguments.__annotations__)}",
            )
    return format_of(zarr_format, {**arguments})


def format_of(zarr_format: int | str | None, arguments: dict[str, object] | CreateArguments) -> int | str | None:
    """zarr_format, which may also be given as zarr_version; that is removed from the other arguments. Raises InvalidInputError where both differ, and as
    check_nothing."""
    check_nothing(arguments)
    version = arguments.pop("zarr_version", None)
    if version is not None and zarr_format not in (None, version):
        raise InvalidInputError(f"zarr_format is {zarr_format!r}, but zarr_version, its older name, is {version!r}")
    return zarr_format if version is None else version  # type: ignore[return-value] # checked where it is used


def _refuse_both(old: str, new: str, is_given: bool) -> None:
    if is_given:
        raise InvalidInputError(f"{old} and {new} are both given", hint=f"give {new} alone")


def _objects(codec: object, dtype: object, filters: object, zarr_format: int | str) -> tuple[object, object]:
    """The data type and the filters for a codec of objects: in Zarr v2 it is the first filter, in Zarr v3 text and bytes are data types."""
    listed = [*filters] if isinstance(filters, list | tuple) else [] if filters in (None, "auto") else [filters]
    if zarr_format == 2:
        return dtype, [codec, *listed]
    document = _document(codec)
    name = None if document is None else document.get("id", document.get("name"))
    if name not in _OBJECTS:
        raise MetadataError(
            f"object_codec is {codec!r}, which Zarr v3 does not have",
            path="object_codec",
            hint="zarr_format=2 has it; or give a data type: string, bytes",
        )
    return _OBJECTS[str(name)], listed


def codecs_by_kind(
    registry: Registry,
    codecs: object,
    arguments: ZarrArguments,
    default: Sequence[Codec],
    itemsize: int,
    *,
    any_kind: bool = False,
) -> object:
    """The codecs of filters, serializer and compressors as one list; `codecs` where none of the three is given.

    default   the compressors that "auto" means; "auto" means no filters, and the serializer of the data type
    itemsize  as in converted_codecs
    any_kind  whether any codec may be among filters and compressors, as in Zarr v2
    Raises InvalidInputError for codecs that are given twice and for unknown settings, MetadataError for codecs of another kind."""
    check_settings(arguments)
    named = [name for name in _KINDS if name in arguments]
    if not named:
        return codecs
    if not (isinstance(codecs, str) and codecs == "auto"):
        raise InvalidInputError(
            f"codecs and {named[0]} are both given", hint="give codecs alone, or filters, serializer, compressors"
        )
    result: list[Codec] = []
    for name, kind in _KINDS.items():
        value: object = arguments.get(name, "auto")
        automatic = isinstance(value, str) and value == "auto"
        if automatic and name == "compressors":
            result += default
        if automatic or value is None:
            continue
        listed = value if isinstance(value, list | tuple) and name != "serializer" else (value,)
        parsed = registry.codecs_from_user(converted_codecs(registry, listed, itemsize, name), name)
        for i, codec in enumerate(parsed):
            if not (any_kind or isinstance(codec, kind)):
                raise MetadataError(f"codec {codec.name} is of another kind than {name}", path=item(name, i))
        result += parsed
    return result


def object_array(
    registry: Registry, codecs: object, arguments: ZarrArguments
) -> tuple[ObjectArray, object, ZarrArguments]:
    """The kind of objects in a new array of Zarr v2, from its codec of objects (the first of filters, or of codecs), and both arguments without this codec.
    Raises MetadataError where there is none, UnknownExtensionError for an unknown one."""
    name = "codecs" if "filters" not in arguments else "filters"
    listed = _listed_filters(codecs, arguments)
    first = _document(listed[0]) if listed else None
    filters = [] if first is None else [as_json(_lists(first), item(name, 0))]
    parsed = parse_object_array(filters, registry, name)
    filters_left: list[object] = listed if parsed.serializer is None else listed[1:]
    if name == "filters":
        return parsed, codecs, {**arguments, "filters": filters_left}
    return parsed, filters_left, arguments


def first_filter(codecs: object, arguments: ZarrArguments) -> object:
    """The id of the first of filters, or of codecs, if it is one of numcodecs; else None."""
    listed = _listed_filters(codecs, arguments)
    return (_document(listed[0]) or {}).get("id") if listed else None


def _listed_filters(codecs: object, arguments: ZarrArguments) -> list[object]:
    value = arguments.get("filters", codecs)
    return [*value] if isinstance(value, list | tuple) else [] if value is None or isinstance(value, str) else [value]


def check_settings(arguments: ZarrArguments) -> None:
    """Raises InvalidInputError for settings that zarr-python does not have. Its settings have no effect here: results are in C order, and chunks that are all
    fill value are not stored."""
    config = arguments.get("config")
    for name in arguments:
        if name not in (*_KINDS, *_SETTINGS, "config"):
            raise InvalidInputError(f"{name} is not an argument here")
    settings: dict[str, object] = {name: arguments[name] for name in _SETTINGS if name in arguments}
    if isinstance(config, Mapping):
        settings = {**config, **settings}
    elif config is not None:
        settings = {**{name: getattr(config, name, None) for name in _ALLOWED}, **settings}
    for name, value in settings.items():
        allowed = _ALLOWED.get(name)
        if allowed is None and name not in _SPEED:
            raise InvalidInputError(f"config has no {name}", hint=f"known names: {', '.join(_ALLOWED)}")
        if allowed and not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
            raise InvalidInputError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, allowed))}")


def converted_codecs(registry: Registry, codecs: Sequence[object], itemsize: int, name: str = "codecs") -> list[object]:
    """The list with Codecs and Extensions instead of zarr-python's codecs and of numcodecs' codecs and configurations; others as they are.

    itemsize  bytes of an element, for numcodecs.Blosc, which does not know it, and for entries of blosc without typesize
    name      the argument, for messages
    Raises MetadataError, UnknownExtensionError."""
    return [_converted(registry, codec, item(name, i), itemsize) for i, codec in enumerate(codecs)]


def _converted(registry: Registry, codec: object, path: str, itemsize: int) -> object:
    if isinstance(codec, str | Codec | Extension):
        return codec
    document = _document(codec)
    if document is None:
        return codec
    if "id" in document and "name" not in document:
        return parse_filter(json_object(document, path), path, itemsize=itemsize, kinds=registry).extension
    chosen = getattr(codec, "_tunable_attrs", ())  # members of zarr-python's blosc that follow the data type
    if chosen and document.get("name") == "blosc":
        given = json_object(document.get("configuration"), path)
        given = {name: value for name, value in given.items() if name not in chosen}
        return Blosc(**given)  # type: ignore[arg-type] # checked there
    return as_json(_lists(_with_typesize(document, itemsize)), path)


def _with_typesize(entry: object, itemsize: int) -> object:
    """The entry of a codec. One of blosc gets a missing typesize, also within sharding."""
    members = entry.get("configuration") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(members, Mapping):
        return entry
    if entry.get("name") == "blosc":
        members = {"typesize": max(itemsize, 1), **members}
    elif entry.get("name") == "sharding_indexed" and isinstance(inner := members.get("codecs"), list | tuple):
        members = {**members, "codecs": [_with_typesize(codec, itemsize) for codec in inner]}
    return {**entry, "configuration": members}


def _document(codec: object) -> Mapping[str, object] | None:
    """The configuration of a codec object; None for an object that is not a codec of either package."""
    if isinstance(codec, Mapping):
        return codec
    for method in ("to_dict", "get_config"):
        describe = None if isinstance(codec, type | Codec | Extension) else getattr(codec, method, None)
        if callable(describe):
            document = describe()
            if not isinstance(document, Mapping):
                raise MetadataError(f"{method}() of {type(codec).__name__} gives {document!r}, not a mapping")
            return document
    return None


def _lists(value: object) -> object:
    """A value with lists instead of tuples, as in documents."""
    if isinstance(value, Mapping):
        return {name: _lists(member) for name, member in value.items()}
    return [_lists(member) for member in value] if isinstance(value, list | tuple) else value
