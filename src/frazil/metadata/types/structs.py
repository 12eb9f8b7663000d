"""Structs: fields one after the other, each with its own type (`struct`, or `structured`, its name in zarr-python 3.0 to 3.1).

In memory a NumPy structured dtype without titles. A struct of the draft of 2022 may also have padding, sub-arrays and fields of both byte
orders; writing these to the final specification, which cannot express them, is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.base.record import Record
from frazil.errors import MetadataError
from frazil.metadata.extensions import Extension, names_of, parse_extension, pick
from frazil.metadata.json_text import Json, item, member
from frazil.metadata.members import Members, check_string, refusal
from frazil.metadata.types.core import (
    LARGEST_ITEM,
    DataType,
    DataTypeFamily,
    NamedDataTypes,
    Swaps,
    raw_type,
    scalar_from_user,
    unknown_dtype,
)
from frazil.metadata.types.fill_values import FillValue, from_base64, swap_items, to_base64

STRUCT: Final = "struct"
_LEGACY: Final = "structured"
_MOST_DIMENSIONS: Final = 32  # dimensions of a sub-array: the limit of NumPy before 2.0
_MOST_SWAPS: Final = 2**16  # a small document must not take much memory


class Field(Record):
    """One field.

    name     "" for padding
    shape    of a sub-array; () for one element
    foreign  whether its items are in memory in the byte order that this machine does not have"""

    name: str
    data_type: DataType
    shape: tuple[int, ...] = ()
    foreign: bool = False

    @property
    def dtype(self) -> Dtype:
        """The dtype in NumPy's structured dtypes."""
        dtype = self.data_type.dtype.newbyteorder("S") if self.foreign else self.data_type.dtype
        return np.dtype((dtype, self.shape)) if self.shape else dtype

    @property
    def itemsize(self) -> int:
        return self.data_type.itemsize * prod(self.shape)

    @property
    def label(self) -> str:
        if not self.name:
            return f"{self.itemsize} bytes of padding"
        shape = f" {' x '.join(map(str, self.shape))}" if self.shape else ""
        return f"{self.name}: {self.data_type.label}{shape}"


class StructType(DataType):
    """A struct. Raises MetadataError if there is no field, a name occurs twice, or an element is larger than NumPy allows; `path`
    is that of its fields.

    If its fields have one byte order, `swaps` lists their items and the memory is native. A struct of both byte orders is in memory as
    it is stored, and has no swaps."""

    __slots__ = ("fields",)
    fields: tuple[Field, ...]

    def __init__(self, fields: Sequence[Field], name: str = STRUCT, path: str | None = None) -> None:
        self.fields = tuple(fields)
        named = [field for field in self.fields if field.name]
        if not named:
            raise refusal(path, "a list of one field at least", [])
        names = [field.name for field in named]
        if len(set(names)) < len(names):
            twice = next(name for at, name in enumerate(names) if name in names[:at])
            raise MetadataError(f"a struct may have one field of a name, found {twice!r} twice", path=path)
        deepest = max(len(field.shape) for field in self.fields)
        if deepest > _MOST_DIMENSIONS:
            raise refusal(path, f"sub-arrays of at most {_MOST_DIMENSIONS} dimensions", deepest)
        offsets = np.cumsum([0, *(field.itemsize for field in self.fields)], dtype=object).tolist()
        if offsets[-1] > LARGEST_ITEM:
            raise refusal(path, f"at most {LARGEST_ITEM} bytes together", offsets[-1])
        dtype: Dtype = np.dtype(
            {
                "names": names,
                "formats": [field.dtype for field in named],
                "offsets": [offset for offset, field in zip(offsets, self.fields, strict=False) if field.name],
                "itemsize": offsets[-1],
            }
        )
        super().__init__(name, dtype, _swaps(self.fields, offsets, path) if dtype.isnative else ())

    @property
    def mixed(self) -> bool:
        """Whether it has fields of both byte orders."""
        return not self.dtype.isnative

    @property
    def label(self) -> str:
        return f"{self.name}[{', '.join(field.label for field in self.fields)}]"

    def extension(self) -> Extension:
        """Raises MetadataError for padding, sub-arrays and fields of both byte orders."""
        if self.mixed:
            raise _inexpressible("fields of both byte orders", "write them into an array of a struct of one byte order")
        fields: list[Json] = []
        for field in self.fields:
            if not field.name:
                raise _inexpressible("padding", "numpy.lib.recfunctions.repack_fields(dtype, recurse=True) removes it")
            if field.shape:
                raise _inexpressible(f"the sub-array {field.name!r}", "give each of its elements a field")
            type_json = field.data_type.to_json()
            fields.append(
                [field.name, type_json] if self.name == _LEGACY else {"name": field.name, "data_type": type_json}
            )
        return Extension(self.name, {"fields": fields})

    def parse_bytes(self, value: Json, path: str) -> bytes:
        """An object with the fill value of each field; or the bytes of a little-endian element in base64, the form of zarr-python 3.0 and
        3.1."""
        if isinstance(value, str):
            data = from_base64(value)
            if data is None or len(data) != self.itemsize:
                raise refusal(path, f"an object, or {self.itemsize} bytes in base64", value)
            return self._little(data)
        if not isinstance(value, dict):
            raise refusal(path, "an object with the fill value of each field", value)
        members = Members(value, path)
        parts = [self._part(field, members.get(field.name), members.at(field.name)) for field in self._named()]
        members.finish()
        return self._joined(parts)

    def emit_bytes(self, data: bytes) -> Json:
        if self.name == _LEGACY:
            return to_base64(self._little(data))
        document: dict[str, Json] = {}
        at = 0
        for field in self.fields:
            part = data[at : at + field.itemsize]
            at += field.itemsize
            if not field.name:
                continue
            size = field.data_type.itemsize
            elements = [part[start : start + size] for start in range(0, len(part), size)]
            emitted: list[Json] = [field.data_type.emit_bytes(_native_item(field, element)) for element in elements]
            document[field.name] = emitted if field.shape else emitted[0]
        return document

    def fill_from_user(self, value: object, path: str = "fill_value") -> FillValue:
        """A scalar of a structured dtype that has these fields, an object or a tuple with the values of the fields, the bytes of an element,
        or None, which is zero. One value for a sub-array applies to all its elements."""
        if isinstance(value, FillValue):
            value = value.scalar
        if isinstance(value, (np.void, np.ndarray)) and value.dtype.names is not None:
            if value.dtype == self.dtype and value.shape == ():  # its own dtype, which may have both byte orders
                return FillValue(value.tobytes(), self.dtype)
            scalar = scalar_from_user(value, path)
            value = {name: scalar.getfield(*field[:2]) for name, field in (scalar.dtype.fields or {}).items()}
        return super().fill_from_user(value, path)

    def user_bytes(self, value: object, path: str) -> bytes:
        if isinstance(value, (bytes, bytearray)) and len(value) == self.itemsize:
            return bytes(value)
        if isinstance(value, (int, float)) and value == 0:
            return bytes(self.itemsize)
        named = self._named()
        names = [field.name for field in named]
        if isinstance(value, Mapping) and sorted(value, key=str) == sorted(names):
            values: Sequence[object] = [value[name] for name in names]
        elif isinstance(value, (tuple, list)) and len(value) == len(names):
            values = value
        else:
            raise refusal(path, f"values of the fields {', '.join(names)}", str(value))
        return self._joined(
            [
                _user_part(field, field.shape, part, member(path, field.name))
                for field, part in zip(named, values, strict=True)
            ]
        )

    def _named(self) -> list[Field]:
        return [field for field in self.fields if field.name]

    def _part(self, field: Field, value: Json, path: str) -> bytes:
        if not field.shape:
            return _native_item(field, field.data_type.parse_bytes(value, path))
        count = prod(field.shape)
        if not isinstance(value, list) or len(value) != count:
            raise refusal(path, f"an array of {count} fill values", value)
        elements = [field.data_type.parse_bytes(child, item(path, at)) for at, child in enumerate(value)]
        return b"".join([_native_item(field, element) for element in elements])

    def _joined(self, parts: Sequence[bytes]) -> bytes:
        """The element that has these bytes in its named fields."""
        remaining = iter(parts)
        return b"".join([next(remaining) if field.name else bytes(field.itemsize) for field in self.fields])

    def _little(self, data: bytes) -> bytes:
        import sys

        return data if sys.byteorder == "little" else swap_items(data, self.swaps)


def _native_item(field: Field, data: bytes) -> bytes:
    """One element of the field, converted between native order and that of its memory."""
    return swap_items(data, field.data_type.swaps) if field.foreign else data


def _user_part(field: Field, shape: tuple[int, ...], value: object, path: str) -> bytes:
    """The bytes of a field, or of a sub-array of it, for a value from a user; one value applies to all elements."""
    if shape and isinstance(value, (list, tuple, np.ndarray)) and np.shape(value) != ():
        if len(value) != shape[0]:
            raise refusal(path, f"{shape[0]} values", str(value))
        return b"".join([_user_part(field, shape[1:], part, item(path, at)) for at, part in enumerate(value)])
    return _native_item(field, field.data_type.fill_from_user(value, path).data) * prod(shape)


def _swaps(fields: Sequence[Field], offsets: Sequence[int], path: str | None) -> Swaps:
    swaps: list[tuple[int, int, int]] = []
    for field, offset in zip(fields, offsets, strict=False):
        count, size = prod(field.shape), field.data_type.itemsize
        for start, width, items in field.data_type.swaps:
            if width * items == size:  # no gaps between the items of neighbouring elements
                swaps.append((offset + start, width, items * count))
            elif count * len(field.data_type.swaps) > _MOST_SWAPS:
                raise MetadataError(
                    f"a sub-array of structs may have at most {_MOST_SWAPS} separate items with a byte order,"
                    f" found {count * len(field.data_type.swaps)} in {field.name!r}",
                    path=path,
                )
            else:
                swaps += [(offset + at * size + start, width, items) for at in range(count)]
    return _merged(sorted(swaps))


def _merged(swaps: Sequence[tuple[int, int, int]]) -> Swaps:
    """Neighbouring items of one width merged into one entry."""
    merged: list[tuple[int, int, int]] = []
    for offset, width, count in swaps:
        if merged and merged[-1][1] == width and merged[-1][0] + width * merged[-1][2] == offset:
            merged[-1] = (merged[-1][0], width, merged[-1][2] + count)
        else:
            merged.append((offset, width, count))
    return tuple(merged)


def _inexpressible(subject: str, hint: str) -> MetadataError:
    return MetadataError(
        f"the data type struct of the final Zarr v3 cannot have {subject}", path="data_type", hint=hint
    )


def struct_from_numpy(dtype: Dtype, from_numpy: Callable[[Dtype], DataType]) -> StructType:
    """The struct of a native structured dtype. Raises MetadataError for titles, and for fields that overlap or are out of order."""
    fields: list[Field] = []
    end = 0
    for name in dtype.names or ():
        assert dtype.fields is not None
        field, offset, *title = dtype.fields[name]
        if title:
            raise MetadataError(f"a struct has no titles, found {title[0]!r} of field {name!r}", path="data_type")
        if offset < end:
            raise MetadataError(
                f"the fields of a struct follow one another, found {name!r} at {offset}", path="data_type"
            )
        if offset > end:
            fields.append(Field("", raw_type(offset - end)))
        base, shape = field.subdtype or (field, ())
        if 0 in shape or not base.itemsize:
            raise MetadataError(f"the field {name!r} of a struct must have bytes, found {field}", path="data_type")
        fields.append(Field(name, from_numpy(base), tuple(shape)))
        end = offset + field.itemsize
    if dtype.itemsize > end:
        fields.append(Field("", raw_type(dtype.itemsize - end)))
    return StructType(fields, path="data_type")


class StructTypes(NamedDataTypes):
    """The family of structs. families: of the types that fields may have, besides structs."""

    __slots__ = ("families",)
    names = (STRUCT, _LEGACY)
    families: tuple[DataTypeFamily, ...]

    def __init__(self, families: Sequence[DataTypeFamily]) -> None:
        self.families = tuple(families)

    def with_field_type(self, family: DataTypeFamily) -> StructTypes:
        """With one more family, which comes first."""
        return StructTypes((family, *self.families))

    def parse(self, extension: Extension, path: str) -> StructType:
        members = Members(extension.configuration, f"{path}.configuration")
        entries = members.array("fields")
        members.finish()
        inner_path = members.at("fields")
        return StructType(
            [self._field(entry, item(inner_path, at)) for at, entry in enumerate(entries)], extension.name, inner_path
        )

    def from_numpy(self, dtype: Dtype) -> StructType | None:
        if dtype.names is None:
            return None
        return struct_from_numpy(dtype, self._field_from_numpy)

    def _field(self, entry: Json, path: str) -> Field:
        """An object with name and data_type, or a pair of both."""
        if isinstance(entry, list) and len(entry) == 2:
            name, value, inner_path = check_string(entry[0], item(path, 0)), entry[1], item(path, 1)
        elif isinstance(entry, dict):
            members = Members(entry, path)
            name, value, inner_path = members.string("name"), members.get("data_type"), members.at("data_type")
            members.finish()
        else:
            raise refusal(path, "an object with name and data_type", entry)
        if not name:
            raise refusal(path, "a field with a name", entry)
        extension = parse_extension(value, inner_path, may_ignore=False)
        return Field(
            name, pick((*self.families, self), extension, inner_path, "data type").parse(extension, inner_path)
        )

    def _field_from_numpy(self, dtype: Dtype) -> DataType:
        for family in (*self.families, self):
            if (data_type := family.from_numpy(dtype)) is not None:
                return data_type
        raise unknown_dtype(dtype, names_of((*self.families, self)))
