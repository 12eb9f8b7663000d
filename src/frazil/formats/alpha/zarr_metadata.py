"""The metadata of arrays as snapshots hold it: closed lists of data types, fill values and chunk key encodings (struct ZarrArrayMetadata of the library
that the Icechunk specification, Snapshot Files, points to). Translation from and to Zarr documents is in repository/.

The structure has text for the data type. Frazil stores a type outside of the list there, as the JSON of a document says it, and its fill value as a String: the
JSON text of the document's. The library of the alpha refuses such a snapshot; repositories that it shall read have none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from frazil.errors import FormatError, InvalidInputError
from frazil.formats.msgpack import Json, Reader, write_array, write_integer, write_map, write_text, write_value
from frazil.record import Record

__all__ = [
    "CHUNK_KEY_ENCODINGS",
    "DATA_TYPES",
    "FillValue",
    "NamedConfiguration",
    "ZarrArrayMetadata",
    "kind_of",
    "read_metadata",
    "write_metadata",
]

FillValue: TypeAlias = bool | int | str | bytes

_Kind: TypeAlias = Literal["boolean", "integer", "float", "complex", "string", "bytes"]


class _Type(Record):
    """variant: of the enum of fill values; size: bytes of an integer, or of a float as it is stored"""

    variant: str
    kind: _Kind
    size: int = 0
    signed: bool = False

    @property
    def low(self) -> int:
        return -(1 << (8 * self.size - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (8 * self.size - self.signed)) - 1


DATA_TYPES: Final[Mapping[str, _Type]] = {
    "bool": _Type("Bool", "boolean"),
    **{f"int{8 * size}": _Type(f"Int{8 * size}", "integer", size, signed=True) for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": _Type(f"UInt{8 * size}", "integer", size) for size in (1, 2, 4, 8)},
    "float16": _Type("Float16", "float", 4),
    "float32": _Type("Float32", "float", 4),
    "float64": _Type("Float64", "float", 8),
    "complex64": _Type("Complex64", "complex", 4),
    "complex128": _Type("Complex128", "complex", 8),
    "string": _Type("String", "string"),
    "bytes": _Type("Bytes", "bytes"),
}
_OTHER: Final = _Type("String", "string")
CHUNK_KEY_ENCODINGS: Final = ("Slash", "Dot", "Default")

_FIELDS: Final = (
    *("shape", "data_type", "chunk_shape", "chunk_key_encoding", "fill_value", "codecs"),
    *("storage_transformers", "dimension_names"),
)
_NAMED: Final = ("name", "configuration")


def kind_of(data_type: str) -> _Type:
    """How the fill value of a data type is stored."""
    return DATA_TYPES.get(data_type, _OTHER)


class NamedConfiguration(Record):
    """A codec or a storage transformer. configuration: None where there is none; else its members in the order of the file"""

    name: str
    configuration: Mapping[str, Json] | None = None


class ZarrArrayMetadata(Record):
    """The metadata of one array, as a snapshot holds it.

    shape, chunk_shape    of one length; chunk lengths from 1
    data_type             of DATA_TYPES; or another type: its name, or the JSON text of its name and configuration
    chunk_key_encoding    of CHUNK_KEY_ENCODINGS; "Slash" is Zarr's `default` with "/", which alone was ever written
    fill_value            a bool, int, str or bytes as the data type has it; of floats the bits, big-endian: 4 bytes for float16 (which is stored as
                          float32) and float32, 8 for float64, twice as many for complex; of a type outside of DATA_TYPES JSON text
    storage_transformers  None where the member is absent
    dimension_names       None where the member is absent; a name may be None"""

    shape: tuple[int, ...]
    data_type: str
    chunk_shape: tuple[int, ...]
    chunk_key_encoding: str
    fill_value: FillValue
    codecs: tuple[NamedConfiguration, ...]
    storage_transformers: tuple[NamedConfiguration, ...] | None = None
    dimension_names: tuple[str | None, ...] | None = None


# --- reading -------------------------------------------------------------------------------------------------------------------------


def read_metadata(reader: Reader) -> ZarrArrayMetadata:
    """Reads one array's metadata. Raises FormatError for what the lists do not have, or does not fit together."""
    what = "the metadata of an array"
    places = reader.struct(what, _FIELDS, _FIELDS[6:])
    reader.go(places, 0)
    shape = _lengths(reader, "shape", 0)
    reader.go(places, 1)
    named = reader.at
    data_type = reader.text("the data type")
    reader.go(places, 2)
    begin = reader.at
    chunk_shape = _lengths(reader, "chunk_shape", 1)
    if len(chunk_shape) != len(shape):
        raise reader.fail(
            f"chunk_shape must have {len(shape)} lengths, as the shape has, found {len(chunk_shape)}", begin
        )
    reader.go(places, 3)
    encoding = _one_of(reader, "the chunk key encoding", CHUNK_KEY_ENCODINGS)
    reader.go(places, 4)
    fill_value = _read_fill(reader, data_type, named)
    reader.go(places, 5)
    codecs = _read_named(reader, "codecs")
    transformers = names = None
    if reader.go(places, 6) and not reader.nil():
        transformers = _read_named(reader, "storage_transformers")
    if reader.go(places, 7) and not reader.nil():
        begin = reader.at
        names = tuple([_optional_text(reader) for _ in range(reader.array("dimension_names"))])
        if len(names) != len(shape):
            raise reader.fail(f"dimension_names must be {len(shape)}, as the shape is long, found {len(names)}", begin)
    reader.go(places, -1)
    return ZarrArrayMetadata(shape, data_type, chunk_shape, encoding, fill_value, codecs, transformers, names)


def _lengths(reader: Reader, what: str, low: int) -> tuple[int, ...]:
    return tuple([reader.integer(what, low) for _ in range(reader.array(what))])


def _one_of(reader: Reader, what: str, known: Iterable[str]) -> str:
    place = reader.at
    name = reader.text(what)
    if name not in known:
        raise _unknown(reader, what, name, known, place)
    return name


def _unknown(reader: Reader, what: str, name: str, known: Iterable[str], place: int) -> FormatError:
    return reader.fail(f"{what} {name[:40]!r} is not among those that there are ({', '.join(known)})", place)


def _read_fill(reader: Reader, data_type: str, named: int) -> FillValue:
    """named: where the data type stands in the file"""
    place, what = reader.at, f"the fill value of {data_type[:40]}"
    kind = kind_of(data_type)
    variant, has_value = reader.variant(what)
    if data_type not in DATA_TYPES and variant != kind.variant:
        raise _unknown(reader, "the data type", data_type, DATA_TYPES, named)
    if variant != kind.variant or not has_value:
        raise reader.fail(f"{what} must be of the variant {kind.variant}, found {variant[:40]!r}", place)
    match kind.kind:
        case "boolean":
            return reader.boolean(what)
        case "integer":
            return reader.integer(what, kind.low, kind.high)
        case "float":
            return reader.float_bits(what, kind.size)
        case "complex":
            if reader.array(what) != 2:
                raise reader.fail(f"{what} must have a real and an imaginary part", place)
            return reader.float_bits(what, kind.size) + reader.float_bits(what, kind.size)
        case "string":
            return reader.text(what)
        case "bytes":
            return bytes([reader.integer(what, 0, 255) for _ in range(reader.array(what))])


def _read_named(reader: Reader, what: str) -> tuple[NamedConfiguration, ...]:
    return tuple([_read_one(reader, f"an entry of {what}") for _ in range(reader.array(what))])


def _read_one(reader: Reader, what: str) -> NamedConfiguration:
    places = reader.struct(what, _NAMED, _NAMED[1:])
    reader.go(places, 0)
    name, configuration = reader.text(f"the name of {what}"), None
    if reader.go(places, 1) and not reader.nil():
        configuration = reader.members(f"the configuration of {name[:40]!r}")
    reader.go(places, -1)
    return NamedConfiguration(name, configuration)


def _optional_text(reader: Reader) -> str | None:
    return None if reader.nil() else reader.text("a dimension's name")


# --- writing -------------------------------------------------------------------------------------------------------------------------


def write_metadata(out: bytearray, metadata: ZarrArrayMetadata) -> None:
    """Writes one array's metadata. Raises InvalidInputError, with `path` the member, for what the format cannot hold."""
    _check(metadata)
    write_array(out, len(_FIELDS))
    _write_lengths(out, metadata.shape)
    write_text(out, metadata.data_type)
    _write_lengths(out, metadata.chunk_shape)
    write_text(out, metadata.chunk_key_encoding)
    _write_fill(out, kind_of(metadata.data_type), metadata.fill_value)
    _write_named(out, metadata.codecs)
    if metadata.storage_transformers is None:
        write_value(out, None)
    else:
        _write_named(out, metadata.storage_transformers)
    write_value(out, metadata.dimension_names)


def _check(metadata: ZarrArrayMetadata) -> None:
    if metadata.chunk_key_encoding not in CHUNK_KEY_ENCODINGS:
        raise InvalidInputError(
            f"a snapshot holds no chunk_key_encoding {metadata.chunk_key_encoding!r}, only {', '.join(CHUNK_KEY_ENCODINGS)}",
            path="chunk_key_encoding",
        )
    ndim = len(metadata.shape)
    if len(metadata.chunk_shape) != ndim or not all(length > 0 for length in metadata.chunk_shape):
        raise InvalidInputError(
            f"chunks must have {ndim} lengths above 0, found {metadata.chunk_shape}", path="chunk_shape"
        )
    if metadata.dimension_names is not None and len(metadata.dimension_names) != ndim:
        raise InvalidInputError(f"there must be {ndim} names, found {metadata.dimension_names}", path="dimension_names")
    if not all(length >= 0 for length in metadata.shape):
        raise InvalidInputError(f"lengths must be 0 or more, found {metadata.shape}", path="shape")
    if not _fits(kind_of(metadata.data_type), metadata.fill_value):
        if metadata.data_type not in DATA_TYPES:
            raise InvalidInputError(
                f"the fill value of {metadata.data_type!r} must be JSON text, as it is none of {', '.join(DATA_TYPES)}",
                path="data_type",
            )
        raise InvalidInputError(f"{metadata.fill_value!r} is no fill value of {metadata.data_type}", path="fill_value")


def _fits(kind: _Type, value: FillValue) -> bool:
    match kind.kind:
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool) and kind.low <= value <= kind.high
        case "float" | "complex":
            return isinstance(value, bytes) and len(value) == kind.size * (2 if kind.kind == "complex" else 1)
        case "string":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, bytes)


def _write_lengths(out: bytearray, lengths: tuple[int, ...]) -> None:
    write_array(out, len(lengths))
    for length in lengths:
        write_integer(out, length)


def _write_fill(out: bytearray, kind: _Type, value: FillValue) -> None:
    write_map(out, 1)
    write_text(out, kind.variant)
    if isinstance(value, bytes) and kind.kind != "bytes":
        if kind.kind == "complex":
            write_array(out, 2)
        for at in range(0, len(value), kind.size):
            out.append(0xCA if kind.size == 4 else 0xCB)
            out += value[at : at + kind.size]
    else:
        write_value(out, list(value) if isinstance(value, bytes) else value)


def _write_named(out: bytearray, entries: tuple[NamedConfiguration, ...]) -> None:
    write_array(out, len(entries))
    for name, configuration in entries:
        write_array(out, len(_NAMED))
        write_text(out, name)
        write_value(out, configuration)
