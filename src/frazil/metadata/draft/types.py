"""Data types in the 2022 draft, in both dialects (draft of 2022, Data types; its extensions for complex numbers, datetimes, strings, structs).

An identifier or an extension object <-> a DataType and its byte order. Fill values are in fill_values.py."""

from __future__ import annotations

import sys
from typing import Final, Literal

from frazil.base.record import Record
from frazil.errors import FallbackWarning, InvalidInputError, MetadataError, UnknownExtensionError
from frazil.metadata.extension_guard import ExtensionCall
from frazil.metadata.extensions import Extension, is_extension_name
from frazil.metadata.json_text import Json, found, item, member
from frazil.metadata.members import Members, check_integers, check_string, refusal
from frazil.metadata.registry import MetadataExtensions, read_type
from frazil.metadata.types.core import (
    LARGEST_ITEM,
    ComplexType,
    CoreDataTypes,
    DataType,
    RawDataTypes,
    RawType,
    raw_type,
)
from frazil.metadata.types.datetimes import UNITS, DatetimeType
from frazil.metadata.types.strings import ByteStringType, TextType
from frazil.metadata.types.structs import Field, StructType
from frazil.metadata.warnings import warn_caller

_PURL: Final = "//purl.org/zarr/spec/extensions/data-types/"
_DOCUMENTS: Final = "//zarr-specs.readthedocs.io/en/"
_NATIVE: Final[Literal["<", ">"]] = "<" if sys.byteorder == "little" else ">"
_OTHER: Final[Literal["<", ">"]] = ">" if sys.byteorder == "little" else "<"
_SIZES: Final = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_WORDS: Final = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_CORE: Final = CoreDataTypes()
_RULES: Final = {  # the allowed `type` of each extension
    "complex": '"<" or ">", and "c8" or "c16"',
    "datetime": f'"<" or ">", "M8" or "m8", and a unit in brackets ({", ".join(UNITS)})',
    "string": '"S" and a length, or "<U" or ">U" and a length',
    "struct": "an array of [name, type]",
}
# the extension of the draft that defines a type; none for the other types of the core and for those of users
_EXTENSIONS: Final[dict[type[DataType], str]] = {
    ComplexType: "complex",
    DatetimeType: "datetime",
    ByteStringType: "string",
    TextType: "string",
}
_OLD_URIS: Final[dict[type[DataType], str]] = {  # written by zarr-python 2.12 to 2.18
    ComplexType: "https://zarr-specs.readthedocs.io/en/core-protocol-v3.0-dev/protocol/extensions/complex-dtypes/v1.0.html",
    DatetimeType: "https://zarr-specs.readthedocs.io/en/latest/extensions/data-types/datetime/v1.0.html",
    ByteStringType: "TODO: bytestring array protocol URL",
    TextType: "TODO: unicode array protocol URL",
    StructType: "TODO: structured array protocol URL",
    RawType: "TODO: structured array protocol URL",
}


class DraftType(Record):
    """A data type of a document of the draft. big: whether its items are stored with the most significant byte first."""

    data_type: DataType
    big: bool


Order = Literal["<", ">", ""]


class _Ordered(Record):
    """A data type, and the byte order in its identifier: "<", ">", or "" for none."""

    data_type: DataType
    order: Order


def parse_type(
    value: Json, *, old: bool, strict: bool = True, extensions: MetadataExtensions, path: str = "data_type"
) -> DraftType:
    """The data type of a document's `data_type`. strict: unknown members of an object are refused, except in the older dialect.

    Raises MetadataError for an invalid data type, and UnknownExtensionError for one that is not registered and has no registered fallback. A fallback
    causes a FallbackWarning, one for the whole document, unless the warnings of `extensions` are switched off."""
    reader = _Reader(old, strict and not old, extensions)
    data_type, order = reader.read(value, path, free=old)
    if reader.notes and extensions.warns_of_fallbacks:
        warn_caller("; ".join(dict.fromkeys(reader.notes)), FallbackWarning)
    return DraftType(data_type, order == ">" and bool(data_type.swaps))


def states_order(value: Json) -> bool:
    """Whether an identifier or object contains a byte order ("<f8", "<M8[ns]"), so that an `endian` codec beside it is not allowed."""
    if isinstance(value, dict):
        return states_order(value.get("type"))
    if isinstance(value, list):
        return any(states_order(entry[1]) for entry in value if isinstance(entry, list) and len(entry) > 1)
    return isinstance(value, str) and value[:1] in ("<", ">")


class _Reader:
    """Reads the types of one document. notes: the fallbacks that were taken, in words."""

    __slots__ = ("extensions", "notes", "old", "strict")

    def __init__(self, old: bool, strict: bool, extensions: MetadataExtensions) -> None:
        self.old, self.strict, self.extensions = old, strict, extensions
        self.notes: list[str] = []

    def read(self, value: Json, path: str, free: bool) -> _Ordered:
        """An identifier or an object. free: whether identifiers of extensions are allowed without the object."""
        if isinstance(value, dict):
            return self._object(value, path)
        if not isinstance(value, str):
            raise refusal(path, "a data type identifier, or an object with extension and type", value)
        ordered = self._identifier(value, path)
        if ordered is None or not (free or _is_core(ordered.data_type)):
            raise _unknown(value, path, ordered is not None)
        return ordered

    def _identifier(self, text: str, path: str) -> _Ordered | None:
        """The type of an identifier of the core, in NumPy's notation or of an extension; None for any other."""
        if _CORE.matches(text):
            return _Ordered(_CORE.parse(Extension(text), ""), "")
        if RawDataTypes().matches(text) and text[1:].isdigit():
            return _Ordered(RawDataTypes().parse(Extension(text), path), "")
        order: Order = "<" if text.startswith("<") else ">" if text.startswith(">") else ""
        unordered = text[1:] if order or text.startswith("|") else text
        kind, digits = unordered[:1], unordered[1:]
        if kind in ("M", "m"):
            return self._datetime(order, kind, digits)
        size = _number(digits)
        if not size:
            return None
        if kind in _SIZES:
            if size not in _SIZES[kind]:
                return None
            name = _WORDS[kind] + ("" if kind == "b" else str(8 * size))
            return _Ordered(_CORE.parse(Extension(name), ""), order)
        if kind in ("S", "U", "V") and (4 if kind == "U" else 1) * size > LARGEST_ITEM:
            raise refusal(path, f"a data type of at most {LARGEST_ITEM} bytes", text)
        if kind == "U" and (order or self.old):
            return _Ordered(TextType(size), order)
        if kind in ("S", "V") and not order:
            return _Ordered(ByteStringType(size) if kind == "S" else raw_type(size), "")
        return None

    def _datetime(self, order: Order, kind: str, unit_text: str) -> _Ordered | None:
        """[<>][Mm]8[unit]; in the older dialect also NumPy's other forms: a number before the unit, no unit, no byte order."""
        unit = unit_text[2:-1] if unit_text.startswith("8[") and unit_text.endswith("]") else None
        factor = 1
        if self.old:
            if unit_text == "8":
                unit = "generic"
            elif unit is not None and (count := len(unit) - len(unit.lstrip("0123456789"))):
                factor, unit = _number(unit[:count]), unit[count:]
        elif not order:
            return None
        if unit is None or not 1 <= factor < 2**31 or unit not in (*UNITS, *(["generic"] if unit_text == "8" else [])):
            return None
        name = "numpy.datetime64" if kind == "M" else "numpy.timedelta64"
        return _Ordered(DatetimeType(name, unit, factor), order)

    def _object(self, value: dict[str, Json], path: str) -> _Ordered:
        """An object with `extension`, `type` and an optional `fallback` (draft of 2022, Array metadata, data_type)."""
        members = Members(value, path)
        uri, kind = members.string("extension"), members.get("type")
        fallbacks = _fallbacks(members)
        is_uri = is_extension_name(uri) and ":" in uri
        if not (is_uri or self.old):
            raise refusal(members.at("extension"), "a URI that identifies the extension", uri)
        with ExtensionCall("data type", uri, path):
            family = next((family for family in self.extensions.data_types if is_uri and family.matches(uri)), None)
        others = {name: child for name, child in value.items() if name not in ("extension", "fallback")}
        try:
            if family is not None:
                return _Ordered(read_type(family, Extension(uri, others, path=path), path), "")
            ordered = self._defined_type(uri, kind, members.at("type"))
            if self.strict:
                members.finish()
            return ordered
        except UnknownExtensionError as error:
            return self._fallback(fallbacks, error, uri, kind, path)

    def _defined_type(self, uri: str, kind: Json, path: str) -> _Ordered:
        """The type of an extension that the draft, or a program of its time, defines. In the older dialect only `type` is used, because
        its programs changed their URIs."""
        extension = None if self.old else _extension_of(uri)
        if not self.old and extension is None:
            raise UnknownExtensionError(
                f"the data type {found(kind)} of the extension {found(uri)} is not registered (the draft itself has"
                f" https:{_PURL}NAME/1.0 for {', '.join(_RULES)})",
                path=path.rpartition(".")[0],
                hint="register it with Registry.with_data_type",
            )
        if isinstance(kind, list) and extension in (None, "struct"):
            return self._struct(kind, path)
        ordered = self._identifier(kind, path) if isinstance(kind, str) else None
        if ordered is None or extension not in (None, _EXTENSIONS.get(type(ordered.data_type))):
            if extension is None or kind in ("O", "|O"):
                raise _unknown(kind, path, False)
            raise UnknownExtensionError(
                f"the type of the {extension} extension must be {_RULES[extension]}, found {found(kind)}", path=path
            )
        return ordered

    def _fallback(
        self, fallbacks: list[Json], error: UnknownExtensionError, uri: str, kind: Json, path: str
    ) -> _Ordered:
        """The first fallback that is known."""
        if not fallbacks:
            raise error
        if not self.extensions.fallbacks:
            error.hint = f"it has the fallback {found(fallbacks[0])}, which the registry refuses (without_fallbacks)"
            raise error
        before = len(self.notes)
        for fallback in fallbacks:
            try:
                ordered = self.read(fallback, member(path, "fallback"), free=True)
            except InvalidInputError:
                continue
            finally:  # the note below includes the fallback of a fallback
                del self.notes[before:]
            self.notes.append(
                f"the data type {found(kind)} of the extension {found(uri)} is not registered; it is read as its fallback {found(fallback)}"
            )
            return ordered
        error.hint = f"none of its fallbacks is known, either ({', '.join(map(found, fallbacks))})"
        raise error

    def _struct(self, entries: list[Json], path: str) -> _Ordered:
        """Pairs of a name and a type, or triples with the shape of a sub-array, as in NumPy's descr."""
        if len(entries) == 1 and isinstance(entries[0], list) and entries[0][:1] == [""]:
            field = self._field(entries[0], item(path, 0))
            if not field.field.shape:
                return _Ordered(field.field.data_type, "")
        fields = [self._field(entry, item(path, at)) for at, entry in enumerate(entries)]
        orders: set[Order] = {order for field, order in fields if field.data_type.swaps}
        if "" in orders and len(orders) > 1:
            orders = (orders - {""}) | {"<"}
        if len(orders) > 1 or any(
            isinstance(field.data_type, StructType) and field.data_type.mixed for field, _ in fields
        ):
            fields = [
                _FieldOrder(field._replace(foreign=bool(field.data_type.swaps) and (order or "<") == _OTHER), order)
                for field, order in fields
            ]
            return _Ordered(StructType([field for field, _ in fields], path=path), "")
        return _Ordered(StructType([field for field, _ in fields], path=path), next(iter(orders), ""))

    def _field(self, entry: Json, path: str) -> _FieldOrder:
        if not isinstance(entry, list) or len(entry) not in (2, 3):
            raise refusal(path, "an array [name, type] or [name, type, shape]", entry)
        name, kind = entry[0], entry[1]
        if isinstance(name, list):
            raise refusal(item(path, 0), "a name (titles are not supported)", name)
        name = check_string(name, item(path, 0))
        inner_path = item(path, 1)
        ordered = self._struct(kind, inner_path) if isinstance(kind, list) else self.read(kind, inner_path, free=True)
        if not name and not isinstance(ordered.data_type, RawType):
            raise refusal(item(path, 0), "a name, which only padding has not", name)
        shape: tuple[int, ...] = ()
        if len(entry) == 3:
            lengths: Json = entry[2] if isinstance(entry[2], list) else [entry[2]]
            shape = check_integers(lengths, item(path, 2), 1, 2**31 - 1)
        return _FieldOrder(Field(name, ordered.data_type, shape), ordered.order)


class _FieldOrder(Record):
    field: Field
    order: Order


def _fallbacks(members: Members) -> list[Json]:
    """The member `fallback` as a list: one identifier or object, or several; null is the same as an absent member."""
    value = members.values["fallback"] if members.has("fallback") else None
    if value is None:
        return []
    fallbacks: list[Json] = value if isinstance(value, list) else [value]
    for fallback in fallbacks:
        if not isinstance(fallback, (str, dict)):
            raise refusal(members.at("fallback"), "a data type identifier, or an array of them", value)
    return fallbacks


def _number(digits: str) -> int:
    """A positive number of at most ten digits without leading zeros; 0 for any other text."""
    return int(digits) if digits.isascii() and digits.isdigit() and digits[0] != "0" and len(digits) < 12 else 0


def _unknown(value: Json, path: str, needs_object: bool) -> InvalidInputError:
    if value in ("O", "|O"):
        return UnknownExtensionError(
            f"the data type {found(value)} (Python objects) cannot be read: what its elements are depends on a codec of objects",
            path=path,
            hint="write the array again with strings of fixed length or numbers, by the program that wrote it",
        )
    if needs_object:
        return MetadataError(
            f"{path.rpartition('.')[2]} must be an object with extension and type for a type that is not of the core, found {found(value)}",
            path=path,
        )
    return UnknownExtensionError(
        f"the data type {found(value)} is not known (known: {', '.join(_CORE.names)}, r*, and as NumPy spells them)",
        path=path,
    )


def _is_core(data_type: DataType) -> bool:
    return isinstance(data_type, RawType) or _CORE.matches(data_type.name)


def _extension_of(uri: str) -> str | None:
    """Which of the four extensions a URI names: complex, datetime, string or struct, in any form that was in use."""
    scheme, _, scheme_path = uri.partition(":")
    if scheme not in ("http", "https"):
        return None
    if scheme_path.startswith(_PURL):
        name, _, version = scheme_path[len(_PURL) :].partition("/")
        is_defined = not version or (version.startswith("1.") and version[2:].isdigit())
    elif scheme_path.startswith(_DOCUMENTS):
        parts = scheme_path.split("/")
        is_defined = parts[-1] == "v1.0.html" and "extensions" in parts[:-2]
        name = parts[-2].removesuffix("-dtypes") if is_defined else ""
    else:
        return None
    return name if is_defined and name in _RULES else None


def emit_type(data_type: DataType, big: bool, *, old: bool) -> Json:
    """Undoes parse_type. In December 2022 a type of the core has no byte order, because the `endian` codec specifies it, and `big` is ignored. The older
    dialect has it in the form of zarr-python 2.18. Raises MetadataError for types that the dialect cannot express."""
    order: Literal["<", ">"] = ">" if big else "<"
    core = _is_core(data_type)
    if core and not old:
        return f"r{8 * data_type.itemsize}" if isinstance(data_type, RawType) else data_type.name
    if not core and not isinstance(data_type, StructType) and _EXTENSIONS.get(type(data_type)) is None:
        return _users_type(data_type)
    spelt: Json = data_type.dtype.newbyteorder(order).str
    if isinstance(data_type, StructType):
        spelt = _descr(data_type, order)
    elif isinstance(data_type, RawType):
        spelt = [["", f"|V{data_type.itemsize}"]]
    elif core and not isinstance(data_type, ComplexType):
        return "bool" if data_type.name == "bool" else str(spelt).lstrip("|")
    extension = "struct" if isinstance(data_type, (StructType, RawType)) else _EXTENSIONS.get(type(data_type))
    if old:
        return {"extension": _OLD_URIS[type(data_type)], "fallback": None, "type": spelt}
    spelt = spelt.lstrip("|") if isinstance(spelt, str) else spelt
    fallback = "int64" if extension == "datetime" and not big else f"r{8 * data_type.itemsize}"
    return {"extension": f"https:{_PURL}{extension}/1.0", "type": spelt, "fallback": fallback}


def check_units(data_type: DataType) -> None:
    """Raises MetadataError for datetimes without a unit, or with several units in one, also as fields: Zarr v2 has them, the draft does not."""
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            check_units(field.data_type)
    if isinstance(data_type, DatetimeType) and (data_type.unit == "generic" or data_type.scale_factor != 1):
        raise MetadataError(
            f"datetimes in the draft of 2022 count one of the units {', '.join(UNITS)}, not {data_type.label}",
            path="data_type",
        )


def _descr(struct: StructType, order: Literal["<", ">"]) -> list[Json]:
    """The fields as in NumPy's descr, with JSON arrays for its tuples."""
    entries: list[Json] = []
    for field in struct.fields:
        data_type = field.data_type
        stored = order if not struct.mixed else _OTHER if field.foreign else _NATIVE
        if isinstance(data_type, StructType):
            kind: Json = _descr(data_type, stored)
        elif _is_core(data_type) or isinstance(data_type, (DatetimeType, ByteStringType, TextType)):
            kind = data_type.dtype.newbyteorder(stored).str
        elif stored == ">" and data_type.swaps:
            raise MetadataError(f"the draft of 2022 has no big-endian {data_type.name} in a struct", path="data_type")
        else:
            kind = _users_type(data_type)
        entries.append([field.name, kind, list(field.shape)] if field.shape else [field.name, kind])
    return entries


def _users_type(data_type: DataType) -> dict[str, Json]:
    """A user's type: a URI as its name, and `type` in its configuration; also a `fallback` if it has one, otherwise r* is the fallback."""
    extension = data_type.extension()
    if ":" not in extension.name or "type" not in extension.configuration:
        raise MetadataError(
            f"the draft of 2022 has no data type {extension.name}",
            path="data_type",
            hint='one of its own needs a URI for its name and a member "type" in its configuration',
        )
    return {"extension": extension.name, "fallback": f"r{8 * data_type.itemsize}", **extension.configuration}
