"""Single codecs in the draft's documents, converted to extensions of the final Zarr v3 and back: entries of `codecs` (December 2022), `compressor` and filters
(the older dialect, in the form of numcodecs). codec_chain.py makes chains of them."""

from __future__ import annotations

from typing import Final

from frazil.base.record import Record
from frazil.errors import MetadataError, UnknownExtensionError
from frazil.metadata.extensions import Extension, parse_extension
from frazil.metadata.json_text import Json, as_json, found, member
from frazil.metadata.layout import KnownExtensions
from frazil.metadata.members import Members, check_object, json_object
from frazil.metadata.warnings import warn_caller

ARRAY_TO_ARRAY, ARRAY_TO_BYTES, BYTES_TO_BYTES = range(3)
ON_BYTES: Final = "frazil.on_bytes"  # an array codec applied to a byte string (bytes_to_bytes/on_bytes.py)
NUMCODECS: Final = "numcodecs."
COMPRESSORS: Final = ("gzip", "zlib", "blosc", "bz2", "lz4", "lzma", "zstd")  # with a URI in the older dialect
_SHUFFLES: Final = ("noshuffle", "shuffle", "bitshuffle")
_GDAL_SHUFFLES: Final = ("NONE", "BYTE", "BIT")  # as GDAL 3.4 to 3.7 wrote them
_CNAMES: Final = ("lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib")
_BLOSC_DEFAULTS: Final[dict[str, Json]] = {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}  # numcodecs'
_CORE: Final = {"gzip": "gzip", "zstd": "zstd", "blosc": "blosc"}  # numcodecs' codecs with a name in the core
_OF_OBJECTS: Final = ("json2", "msgpack2", "msgpack", "pickle", "vlen-utf8", "vlen-bytes", "vlen-array")


class Step(Record):
    """One codec of a chain; `path` is its path in the document."""

    extension: Extension
    kind: int
    path: str


def parse_entry(
    value: Json, path: str, *, itemsize: int, old: bool, strict: bool = True, kinds: KnownExtensions
) -> Step:
    """An entry of `codecs`: {"type": URI, "configuration": object}. strict: other members are refused, those of a configuration always unless `old`."""
    members = Members(check_object(value, path), path)
    uri = members.string("type")
    configuration = members.object("configuration", {})
    if strict and not old:
        members.finish()
    inner_path = member(path, "configuration")
    if (step := _registered(uri, configuration, path, kinds)) is not None:
        return step
    name = _short_name(uri)
    if name == "endian":
        settings = Members(configuration, inner_path)
        endian = settings.choice("endian", ("little", "big"))
        settings.finish()
        return Step(Extension("bytes", {"endian": endian}), ARRAY_TO_BYTES, path)
    if name in COMPRESSORS:
        return Step(_compressor(name, configuration, inner_path, itemsize, strict=not old), BYTES_TO_BYTES, path)
    raise _unknown(uri, member(path, "type"))


def parse_compressor(value: Json, path: str, *, itemsize: int, kinds: KnownExtensions) -> Step:
    """The member `compressor` of the older dialect: {"codec": URI, "configuration": object}."""
    members = Members(check_object(value, path), path)
    uri = members.string("codec")
    configuration = members.object("configuration", {})
    if (step := _registered(uri, configuration, path, kinds)) is not None:
        return step
    name = _short_name(uri)
    if name == "" and "level" in configuration and not configuration.keys() - {"level", "checksum"}:
        # zarr-python before 2.18.2 had no name for zstd, and could not read its own files
        warn_caller(
            f"{member(path, 'codec')} names no codec ({found(uri)}); its configuration is that of zstd, which is assumed",
            UserWarning,
        )
        name = "zstd"
    if name not in COMPRESSORS:
        raise _unknown(uri, member(path, "codec"))
    return Step(
        _compressor(name, configuration, member(path, "configuration"), itemsize, strict=False), BYTES_TO_BYTES, path
    )


def parse_filter(value: dict[str, Json], path: str, *, itemsize: int, kinds: KnownExtensions) -> Step:
    """A codec of numcodecs with its `id`, as in attributes.filters."""
    name = Members(value, path).string("id")
    configuration = {key: setting for key, setting in value.items() if key != "id"}
    if name in COMPRESSORS:
        return Step(_compressor(name, configuration, path, itemsize, strict=False), BYTES_TO_BYTES, path)
    if name == "crc32c" and configuration.get("location", "end") == "end":
        return Step(Extension("crc32c"), BYTES_TO_BYTES, path)
    kind = kinds.codec_kind(NUMCODECS + name)
    if kind is not None and name not in ("json2", "msgpack2"):
        return Step(Extension(NUMCODECS + name, configuration, path=path), kind, path)
    reason = (
        "it makes elements of variable size, which are not supported" if name in _OF_OBJECTS else "it is not registered"
    )
    raise UnknownExtensionError(
        f"the filter {found(name)} cannot be decoded: {reason}",
        path=member(path, "id"),
        hint=f'register a codec named "{NUMCODECS}{name}", or write the data again without it'
        ' (an attribute "filters" of one\'s own must not be a list of objects with "id")',
    )


def _registered(uri: str, configuration: dict[str, Json], path: str, kinds: KnownExtensions) -> Step | None:
    """A codec that the user registered under its URI."""
    kind = kinds.codec_kind(uri) if ":" in uri else None
    return None if kind is None else Step(Extension(uri, configuration, path=path), kind, path)


def _unknown(uri: str, path: str) -> UnknownExtensionError:
    return UnknownExtensionError(
        f"the codec {found(uri)} is not known (known: those of https://purl.org/zarr/spec/codecs/ named endian, {', '.join(COMPRESSORS)})",
        path=path,
        hint="register a codec under this URI with Registry.with_codec",
    )


def is_endian(uri: Json) -> bool:
    """Whether the type of an entry of `codecs` is that of the codec endian."""
    return isinstance(uri, str) and _short_name(uri) == "endian"


def _short_name(uri: str) -> str | None:
    """The name at the end of https?://purl.org/zarr/spec/codecs?/<name>(/1.<n>)?, "" if the name is empty; None for another URI."""
    scheme, _, uri_path = uri.partition("://")
    parts = uri_path.split("/")
    if scheme not in {"http", "https"} or parts[:3] != ["purl.org", "zarr", "spec"] or len(parts) < 4:
        return None
    if parts[3] not in {"codec", "codecs"}:
        return None
    name, version = [*parts[4:], "", ""][:2]
    major, _, minor = version.partition(".")
    if len(parts) > 6 or (version and not (major == "1" and minor.isascii() and minor.isdigit())):
        return None
    return name


def _compressor(name: str, configuration: dict[str, Json], path: str, itemsize: int, *, strict: bool) -> Extension:
    """A compressor with numcodecs' configuration.

    strict  all members that the draft specifies are required, and no others are allowed; otherwise numcodecs' defaults replace absent ones"""
    members = Members(configuration, path)
    if name == "blosc":
        return _blosc(configuration, path, itemsize, strict=strict)
    if name == "gzip":
        level = members.integer("level", 0, 9) if strict else members.integer("level", -1, 9, default=1)
        extension = Extension("gzip", {"level": 6 if level < 0 else level})  # zlib's default
    elif name == "zstd":
        level, checksum = members.integer("level", -131072, 22, default=0), members.boolean("checksum", False)
        extension = Extension("zstd", {"level": level, "checksum": checksum})
    elif name == "zlib":
        level = members.integer("level", -1, 9, default=1)
        extension = Extension(f"{NUMCODECS}zlib", {"level": 6 if level < 0 else level})
    else:
        # the codec itself checks its members, except GDAL's member, which repeats information of the xz frames
        settings = {member: value for member, value in configuration.items() if (name, member) != ("lzma", "delta")}
        return Extension(NUMCODECS + name, settings)
    if strict:
        members.finish()
    return extension


def _blosc(configuration: dict[str, Json], path: str, itemsize: int, *, strict: bool) -> Extension:
    """The draft has no typesize: it is that of the data type, which also determines the meaning of shuffle -1."""
    members = Members(configuration if strict else {**_BLOSC_DEFAULTS, **configuration}, path)
    settings: dict[str, object] = {"cname": members.choice("cname", _CNAMES), "clevel": members.integer("clevel", 0, 9)}
    if not strict and (word := members.values["shuffle"]) in _GDAL_SHUFFLES:
        shuffle = _GDAL_SHUFFLES.index(word)
    else:
        shuffle = members.integer("shuffle", -1, 2)
    blocksize = members.integer("blocksize", 0, 2**31 - 1)
    if strict:
        members.finish()
    if shuffle < 0:
        shuffle = 2 if itemsize == 1 else 1
    return Extension("blosc", {**settings, "shuffle": _SHUFFLES[shuffle], "typesize": itemsize, "blocksize": blocksize})


def emit_entry(extension: Extension, path: str) -> dict[str, Json]:
    """The entry of `codecs`, for December 2022. MetadataError for a codec that the draft does not have."""
    name, configuration = extension.name, json_object(extension.configuration, path)
    if name == ON_BYTES:
        return emit_entry(inner_of(extension, path), path)
    if ":" in name:  # a URI, so it is a user's codec
        return {"type": name} | ({"configuration": configuration} if configuration else {})
    if name in {"bytes", "endian"}:
        name = "endian"
    elif name == "blosc":
        configuration = _emit_blosc(extension, path)
    elif name == "sharding_indexed":
        raise _sharding(path)
    elif name != "gzip":
        raise MetadataError(
            f"codec {name} cannot be expressed in the draft of December 2022, which specifies the codecs blosc, endian and gzip",
            path=path,
            hint='use blosc with cname "zstd", or gzip' if name in {"zstd", *_NUMCODECS_COMPRESSORS} else None,
        )
    return {"type": f"https://purl.org/zarr/spec/codecs/{name}/1.0", "configuration": configuration}


def emit_compressor(extension: Extension, path: str) -> dict[str, Json] | None:
    """The member `compressor` of the older dialect; None for a codec that cannot be one."""
    if ":" in extension.name:
        return {"codec": extension.name, "configuration": as_json(extension.configuration, path)}
    config = emit_numcodecs(extension, path)
    name = config.pop("id")
    if name not in COMPRESSORS:
        return None
    return {"codec": f"https://purl.org/zarr/spec/codec/{name}/1.0", "configuration": config}


def emit_numcodecs(extension: Extension, path: str) -> dict[str, Json]:
    """The codec in numcodecs' configuration, with its `id`. MetadataError for a codec that numcodecs does not have."""
    name, configuration = extension.name, json_object(extension.configuration, path)
    if name == ON_BYTES:
        return emit_numcodecs(inner_of(extension, path), path)
    if name == "blosc":
        return {"id": "blosc", **_emit_blosc(extension, path)}
    if name == "crc32c":
        return {"id": "crc32c", "location": "end"}
    if name in _CORE:
        return {"id": name, **configuration}
    if name.startswith(NUMCODECS):
        return {"id": name.removeprefix(NUMCODECS), **configuration}
    if name == "sharding_indexed":
        raise _sharding(path)
    raise MetadataError(
        f"Zarr v2 and the older dialect of the draft have only the codecs of numcodecs, not {name}",
        path=path,
    )


def inner_of(extension: Extension, path: str) -> Extension:
    """The array codec that is applied to bytes."""
    value = extension.configuration.get("codec")
    return parse_extension(value, f"{path}.configuration.codec")


def on_bytes(extension: Extension) -> Extension:
    """The array codec, to be applied to a byte string."""
    return Extension(ON_BYTES, {"codec": extension.to_json()})


_NUMCODECS_COMPRESSORS: Final = tuple(NUMCODECS + name for name in COMPRESSORS)


def _sharding(path: str) -> MetadataError:
    return MetadataError(
        "sharding can be expressed in the draft only as a storage transformer, which is outermost: no codec can be beside it",
        path=path,
    )


def _emit_blosc(extension: Extension, path: str) -> dict[str, Json]:
    given = {name: value for name, value in extension.configuration.items() if value is not None}
    members = Members(given, f"{path}.configuration")
    return {
        "cname": members.choice("cname", _CNAMES),
        "clevel": members.integer("clevel", 0, 9),
        "shuffle": _SHUFFLES.index(members.choice("shuffle", _SHUFFLES)),
        "blocksize": members.integer("blocksize", 0, 2**31 - 1, default=0),
    }
