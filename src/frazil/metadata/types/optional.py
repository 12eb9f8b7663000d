"""The data type `zarrs.optional`: elements that may be missing.

An element of a type of fixed size is a struct (valid, value) in NumPy. Optional text is NumPy's StringDType with None for missing elements, if NumPy has it;
optional text of older NumPy and optional bytes are object arrays with None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from frazil.base.arrays import Dtype, Flags, Values
from frazil.errors import MetadataError
from frazil.metadata.extensions import Extension, parse_extension, pick
from frazil.metadata.json_text import Json, item
from frazil.metadata.members import Members, refusal
from frazil.metadata.types.core import DataType, DataTypeFamily, NamedDataTypes
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.types.heap import Heap, field_of, fill_view
from frazil.metadata.types.variable_length import PACKED, VariableFill, VariableLengthType

OPTIONAL: Final = "zarrs.optional"
_VALID: Final = b"\1"


class OptionalType(DataType):
    """of: the type of the values"""

    __slots__ = ("of",)
    of: DataType

    def __init__(self, of: DataType) -> None:
        self.of = of
        super().__init__(OPTIONAL, _dtype(of), tuple((at + 1, width, count) for at, width, count in of.swaps))

    @property
    def element(self) -> Dtype:
        return _pair(self.of.element) if self.variable else self.dtype

    @property
    def variable(self) -> bool:
        """Whether values have a variable size."""
        return isinstance(self.of, VariableLengthType)

    @property
    def itemsize(self) -> int:
        return self.of.itemsize + 1

    @property
    def label(self) -> str:
        return f"{OPTIONAL}[{self.of.label}]"

    @property
    def serializer(self) -> Extension:
        return Extension(OPTIONAL, {"mask_codecs": [{"name": "bytes"}], "data_codecs": [self.of.serializer.to_json()]})

    def extension(self) -> Extension:
        inner = self.of.extension()
        return Extension(OPTIONAL, {"name": inner.name, "configuration": dict(inner.configuration)})

    @property
    def zero(self) -> FillValue:
        """The default fill value: missing."""
        return self._fill(None)

    def parse_fill(self, value: Json, path: str = "fill_value") -> FillValue:
        """null, or an array of one fill value of the type inside."""
        if value is None:
            return self._fill(None)
        if not isinstance(value, list) or len(value) != 1:
            raise refusal(path, "null, or an array of one fill value", value)
        return self._fill(self.of.parse_fill(value[0], item(path, 0)))

    def emit_fill(self, fill: FillValue) -> Json:
        if self.variable:
            return [self.of.emit_bytes(fill.data[1:])] if fill.data else None
        if not fill.data[:1].strip(b"\0"):
            return None
        return [self.of.emit_fill(FillValue(fill.data[1:], self.of.dtype))]

    def fill_from_user(self, value: object, path: str = "fill_value") -> FillValue:
        """None for a missing element; a value of the type inside; or an element (valid, value)."""
        if isinstance(value, FillValue):
            value = value.scalar
        if isinstance(value, np.void) and value.dtype == self.dtype:
            return FillValue(value.tobytes(), self.dtype)
        return self._fill(None if value is None else self.of.fill_from_user(value, path))

    def _fill(self, inner: FillValue | None) -> FillValue:
        if self.variable:
            return VariableFill(b"" if inner is None else _VALID + inner.data, self)
        return FillValue(bytes(self.dtype.itemsize) if inner is None else _VALID + inner.data, self.dtype)

    def value_of(self, data: bytes) -> object:
        """None, text or bytes."""
        assert isinstance(self.of, VariableLengthType), "others have a FillValue"
        return self.of.value_of(data[1:]) if data else None

    def heap_fill(self, fill: FillValue) -> bytes:
        return fill.data[1:]

    def fill_element(self, fill: FillValue) -> bytes:
        if not self.variable:
            return fill.data
        if not fill.data:
            return bytes(self.element.itemsize)
        return _VALID + fill_view(fill.data[1:])

    def elements_of(self, values: Values, heap: Heap) -> Values:
        if not isinstance(self.of, VariableLengthType):
            return values
        elements, valid = np.zeros(values.shape, self.element), np.empty(values.shape, np.bool_)
        views = self.of.put_elements(values, heap, valid)
        field_of(elements, "valid")[...] = valid
        field_of(elements, "value")[valid] = views[valid]
        return elements

    def values_of(self, elements: Values, heap: Heap) -> Values:
        if not isinstance(self.of, VariableLengthType):
            return elements
        valid: Flags = np.ascontiguousarray(field_of(elements, "valid"), np.bool_)
        return self.of.filled(np.empty(elements.shape, self.dtype), field_of(elements, "value"), heap, valid)

    def parse_bytes(self, value: Json, path: str) -> bytes:
        return self.parse_fill(value, path).data

    def emit_bytes(self, data: bytes) -> Json:
        return self.emit_fill(FillValue(data, self.dtype))

    def user_bytes(self, value: object, path: str) -> bytes:
        return self.fill_from_user(value, path).data


def _pair(value: Dtype) -> Dtype:
    return np.dtype([("valid", np.bool_), ("value", value)])


def _dtype(of: DataType) -> Dtype:
    if not isinstance(of, VariableLengthType):
        return _pair(of.dtype)
    if of.text and PACKED:
        return cast("Dtype", np.dtypes.StringDType(na_object=None))
    return np.dtype(object)


class OptionalTypes(NamedDataTypes):
    """The family. families: of the types that values may have, besides optional ones of these"""

    __slots__ = ("families",)
    names = (OPTIONAL, "optional")  # zarrs used the second name at first
    families: tuple[DataTypeFamily, ...]

    def __init__(self, families: Sequence[DataTypeFamily]) -> None:
        self.families = tuple(families)

    def parse(self, extension: Extension, path: str) -> DataType:
        """The configuration is the extension of the type inside."""
        members = Members(extension.configuration, f"{path}.configuration")
        members.string("name")
        inner_path = f"{path}.configuration"
        inner = parse_extension(dict(extension.configuration), inner_path, may_ignore=False)
        of = pick((*self.families, self), inner, inner_path, "data type").parse(inner, inner_path)
        if isinstance(of, OptionalType) and of.variable:
            raise MetadataError(
                "text and bytes can be optional once, found an optional one in another", path=inner_path
            )
        return OptionalType(of)

    def from_numpy(self, dtype: Dtype) -> DataType | None:
        """None: a NumPy dtype does not tell whether elements may be missing."""
        return None
