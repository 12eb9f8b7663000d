"""The metadata of arrays in snapshots: closed lists of data types, fill values and chunk key encodings (struct ZarrArrayMetadata of the library
that the Icechunk specification, Snapshot Files, points to). repository/ converts it from and to Zarr documents.

The structure has text for the data type. Frazil stores a type outside of the list there, as the JSON of a document, and its fill value as a String: the
JSON text of the document's. The library of the alpha refuses such a snapshot; repositories for that library have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from frazil.base.record import Record
from frazil.formats.json_values import Json
from frazil.formats.msgpack import DEPTH_LIMIT, HEADS_OF_ARRAYS, Fields, Packed, Reader, pack

FillValue: TypeAlias = bool | int | str | bytes

_Kind: TypeAlias = Literal["boolean", "integer", "float", "complex", "string", "bytes"]


class _Type(Record):
    """variant: of the enum of fill values; size: bytes of an integer, or of a stored float"""

    variant: str
    kind: _Kind
    size: int = 0
    signed: bool = False


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
_VARIANTS: Final = {kind.variant: kind for kind in DATA_TYPES.values()}
CHUNK_KEY_ENCODINGS: Final = ("Slash", "Dot", "Default")


def kind_of(data_type: str) -> _Type:
    """How the fill value of a data type is stored."""
    return DATA_TYPES.get(data_type, _OTHER)


class NamedConfiguration(Record):
    """A codec or a storage transformer. configuration: None, or its members in the order of the file"""

    name: str
    configuration: Mapping[str, Json] | None = None


class ZarrArrayMetadata(Record):
    """The metadata of one array in a snapshot.

    shape, chunk_shape    of equal rank; chunk lengths from 1
    data_type             of DATA_TYPES; or another type: its name, or the JSON text of its name and configuration
    chunk_key_encoding    of CHUNK_KEY_ENCODINGS; "Slash" is Zarr's `default` with "/", which alone was ever written
    fill_value            a bool, int, str or bytes, by the data type. For floats the bits, big-endian: 4 bytes for float16 (stored as
                          float32) and float32, 8 for float64, twice as many for complex; for a type outside of DATA_TYPES JSON text
    storage_transformers  None if the member is absent
    dimension_names       None if the member is absent; a name may be None"""

    shape: tuple[int, ...]
    data_type: str
    chunk_shape: tuple[int, ...]
    chunk_key_encoding: str
    fill_value: FillValue
    codecs: tuple[NamedConfiguration, ...]
    storage_transformers: tuple[NamedConfiguration, ...] | None = None
    dimension_names: tuple[str | None, ...] | None = None

    def with_shape(self, shape: tuple[int, ...]) -> ZarrArrayMetadata:
        return self._replace(shape=shape)

    def equals_beside_shape(self, other: ZarrArrayMetadata) -> bool:
        """Whether two differ at most in the shape, with the same rank. They may be equal even if this is False: configurations are compared by identity, as 1,
        1.0 and True are equal in Python."""
        return (
            self.codecs is other.codecs
            and self.storage_transformers is other.storage_transformers
            and self[1:] == other[1:]
            and len(self.shape) == len(other.shape)
        )


# --- reading -------------------------------------------------------------------------------------------------------------------------


def read_metadata(reader: Reader) -> ZarrArrayMetadata:
    """Reads one array's metadata. Raises FormatError for values outside of the lists, or inconsistent ones."""
    offset = reader.at
    fields = reader.struct("the metadata of an array", lambda *fields: fields, _FIELDS, _OPTIONAL)
    shape, data_type, chunk_shape, encoding, (variant, fill), codecs, transformers, names = fields
    if len(chunk_shape) != len(shape):
        raise reader.fail(
            f"chunk_shape must have {len(shape)} lengths, as the shape has, found {len(chunk_shape)}", offset
        )
    if names is not None and len(names) != len(shape):
        raise reader.fail(f"dimension_names must be {len(shape)}, as the shape is long, found {len(names)}", offset)
    if encoding not in CHUNK_KEY_ENCODINGS:
        supported = ", ".join(CHUNK_KEY_ENCODINGS)
        raise reader.fail(f"the chunk key encoding {encoding[:40]!r} is unknown (known: {supported})", offset)
    expected = kind_of(data_type).variant
    if data_type not in DATA_TYPES and variant != expected:
        supported = ", ".join(DATA_TYPES)
        raise reader.fail(f"the data type {data_type[:40]!r} is unknown (known: {supported})", offset)
    if variant != expected:
        label = f"the fill value of {data_type[:40]}"
        raise reader.fail(f"{label} must be of the variant {expected}, found {variant!r}", offset)
    return ZarrArrayMetadata(shape, data_type, chunk_shape, encoding, fill, codecs, transformers, names)


def _read_shape(reader: Reader, label: str) -> tuple[int, ...]:
    return tuple([reader.integer(label) for _ in range(reader.array(label))])


def _read_chunk_shape(reader: Reader, label: str) -> tuple[int, ...]:
    return tuple([reader.integer(label, 1) for _ in range(reader.array(label))])


def _read_fill(reader: Reader, label: str) -> tuple[str, FillValue]:
    """The variant, and its value."""
    offset = reader.at
    variant, has_value = reader.variant(label)
    kind = _VARIANTS.get(variant)
    if kind is None or not has_value:
        raise reader.fail(f"{label} must be of a known variant, with its value, found {variant[:40]!r}", offset)
    match kind.kind:
        case "boolean":
            return variant, reader.boolean(label)
        case "integer":
            bits = 8 * kind.size - kind.signed
            return variant, reader.integer(label, -(1 << bits) if kind.signed else 0, (1 << bits) - 1)
        case "float":
            return variant, reader.float_bits(label, kind.size)
        case "complex":
            if reader.array(label) != 2:
                raise reader.fail(f"{label} must have a real and an imaginary part", offset)
            return variant, reader.float_bits(label, kind.size) + reader.float_bits(label, kind.size)
        case "string":
            return variant, reader.text(label)
        case "bytes":
            return variant, bytes([reader.integer(label, 0, 255) for _ in range(reader.array(label))])


def _read_entries(reader: Reader, label: str) -> tuple[NamedConfiguration, ...]:
    entry, optional = f"an entry of {label}", ("configuration",)
    return tuple([reader.struct(entry, NamedConfiguration, _ENTRY, optional) for _ in range(reader.array(label))])


def _read_optional_entries(reader: Reader, label: str) -> tuple[NamedConfiguration, ...] | None:
    return None if reader.nil() else _read_entries(reader, label)


def _read_configuration(reader: Reader, label: str) -> dict[str, Json] | None:
    return None if reader.nil() else reader.members(label)


def _read_names(reader: Reader, label: str) -> tuple[str | None, ...] | None:
    if reader.nil():
        return None
    return tuple([None if reader.nil() else reader.text(label) for _ in range(reader.array(label))])


_ENTRY: Final[Fields] = {"name": Reader.text, "configuration": _read_configuration}
_FIELDS: Final[Fields] = {
    "shape": _read_shape,
    "data_type": Reader.text,
    "chunk_shape": _read_chunk_shape,
    "chunk_key_encoding": Reader.text,
    "fill_value": _read_fill,
    "codecs": _read_entries,
    "storage_transformers": _read_optional_entries,
    "dimension_names": _read_names,
}
_OPTIONAL: Final = ("storage_transformers", "dimension_names")


# --- writing -------------------------------------------------------------------------------------------------------------------------


def pack_metadata(metadata: ZarrArrayMetadata) -> Packed:
    """One array's metadata as bytes. Raises InvalidInputError for numbers beyond 64 bits and invalid Unicode."""
    shape, data_type, chunk_shape, encoding, fill, codecs, transformers, names = metadata
    kind = kind_of(data_type)
    fields = (shape, data_type, chunk_shape, encoding, {kind.variant: _packed_fill(kind, fill)}, codecs, transformers)
    # the levels of a struct, a list and an entry above the configuration
    return pack((*fields, names), DEPTH_LIMIT + 3)


def packed_shape(metadata: ZarrArrayMetadata) -> bytes:
    """The output of pack_metadata up to the end of the shape."""
    return HEADS_OF_ARRAYS[len(_FIELDS)] + pack(metadata.shape)


def _packed_fill(kind: _Type, value: FillValue) -> object:
    if not isinstance(value, bytes):
        return value
    if kind.kind == "bytes":
        return list(value)
    mark = b"\xca" if kind.size == 4 else b"\xcb"
    parts = [Packed(mark + value[at : at + kind.size]) for at in range(0, len(value), kind.size)]
    return parts if kind.kind == "complex" else parts[0]
