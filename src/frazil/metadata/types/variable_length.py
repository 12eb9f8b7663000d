"""The data types of variable length: `string`, and `bytes`, which zarr-python names `variable_length_bytes`, and zarrs once named `binary`.

In memory, text is NumPy's StringDType if NumPy has it (2.0 and later), else an object array of str; bytes are an object array of bytes. In the
engine an element is a view into a heap (heap.py)."""

from __future__ import annotations

from typing import Final, Protocol, cast

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Dtype, Flags, Values
from frazil.errors import InvalidInputError, MetadataError
from frazil.metadata.extensions import Extension, no_configuration
from frazil.metadata.json_text import Json
from frazil.metadata.members import refusal
from frazil.metadata.types.core import BYTES_VIEW, TEXT_VIEW, DataType, NamedDataTypes
from frazil.metadata.types.fill_values import FillValue, from_base64, to_base64
from frazil.metadata.types.heap import Heap, fill_view
from frazil.metadata.value import assign

STRING: Final = "string"
_OBJECTS: Final[Dtype] = np.dtype(object)
STRINGS: Final[Dtype] = (
    cast("Dtype", np.dtypes.StringDType()) if hasattr(np, "dtypes") and hasattr(np.dtypes, "StringDType") else _OBJECTS
)
PACKED: Final = STRINGS is not _OBJECTS  # whether text is in NumPy's packed strings


class _OfVariableLength(Protocol):
    """A data type whose elements have no fixed size."""

    dtype: Dtype

    def value_of(self, data: bytes) -> object:
        """The value, as users see it, of the bytes of a fill value."""


class VariableFill(FillValue):
    """A fill value of any number of bytes. of: its type"""

    __slots__ = ("of",)
    of: _OfVariableLength

    def __init__(self, data: bytes, of: _OfVariableLength) -> None:
        assign(self, "data", data)
        assign(self, "dtype", of.dtype)
        assign(self, "of", of)

    @property
    def scalar(self) -> np.generic:
        return cast("np.generic", self.of.value_of(self.data))


class VariableLengthType(DataType):
    """`string`, whose fill value is text; or `bytes`, whose fill value is base64 text, or a list of integers."""

    __slots__ = ("text",)
    text: bool

    def __init__(self, name: str) -> None:
        text = name == STRING
        super().__init__(name, STRINGS if text else _OBJECTS)
        self.text = text

    @property
    def itemsize(self) -> int:
        return self.element.itemsize

    @property
    def element(self) -> Dtype:
        return TEXT_VIEW if self.text else BYTES_VIEW

    @property
    def serializer(self) -> Extension:
        return Extension("vlen-utf8" if self.text else "vlen-bytes")

    @property
    def zero(self) -> FillValue:
        return VariableFill(b"", self)

    def value_of(self, data: bytes) -> object:
        """The element as str or bytes."""
        return data.decode() if self.text else data

    def parse_fill(self, value: Json, path: str = "fill_value") -> FillValue:
        return VariableFill(self.parse_bytes(value, path), self)

    def fill_element(self, fill: FillValue) -> bytes:
        return fill_view(fill.data)

    def fill_from_user(self, value: object, path: str = "fill_value") -> FillValue:
        """Text or bytes, or the forms of documents; None is the empty element."""
        if value is None:
            return self.zero
        if isinstance(value, FillValue):
            value = value.scalar
        if isinstance(value, np.ndarray) and value.shape == ():
            value = value.item()
        return VariableFill(self.user_bytes(value, path), self)

    def parse_bytes(self, value: Json, path: str) -> bytes:
        if self.text:
            if not isinstance(value, str):
                raise refusal(path, "text", value)
            return _encoded(value, path)
        data = bytes_of(value)
        if data is None:
            raise refusal(path, "base64 text, or integers from 0 to 255", value)
        return data

    def emit_bytes(self, data: bytes) -> Json:
        return data.decode() if self.text else to_base64(data)

    def user_bytes(self, value: object, path: str) -> bytes:
        if not isinstance(value, str | np.ndarray | np.void) and value == 0:
            return b""  # the fill value of functions such as zeros()
        if self.text:
            if not isinstance(value, str):
                raise refusal(path, "text", str(value))
            return _encoded(value, path)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return self.parse_bytes(value, path)  # type: ignore[arg-type] # refuses what is not JSON

    def elements_of(self, values: Values, heap: Heap) -> Values:
        return self.put_elements(values, heap, None)

    def put_elements(self, values: Values, heap: Heap, valid: Flags | None) -> Values:
        """As elements_of. valid: of optional elements, which is set to those that exist; the others are None, and become empty. Raises InvalidInputError for
        elements that are not text or bytes, as the type requires, and for text that UTF-8 cannot encode."""
        elements: Values = np.empty(values.shape, self.element)
        if not elements.size:
            return elements
        number = heap.reserve(heap.threads)
        try:
            if self.text and PACKED:
                strings = np.ascontiguousarray(values)
                converted = _kernel.elements_of_strings(strings, heap.fill, number, elements, valid, heap.threads)
            else:
                objects = values.reshape(-1).tolist()
                if valid is not None:
                    valid.reshape(-1)[:] = [value is not None for value in objects]
                    objects = [self.value_of(b"") if value is None else value for value in objects]
                converted = [_kernel.elements_of_objects(objects, self.text, heap.fill, number, elements)]
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"the value cannot be stored as {self.name}: {error}") from error
        heap.put(number, converted)
        return elements

    def values_of(self, elements: Values, heap: Heap) -> Values:
        return self.filled(np.empty(elements.shape, self.dtype), elements, heap, None)

    def filled(self, out: Values, elements: Values, heap: Heap, valid: Flags | None) -> Values:
        """Memory in C order, with the values of elements. valid: those of optional elements that exist; the others become None."""
        if not out.size:
            return out
        elements = np.ascontiguousarray(elements)
        if self.text and PACKED:
            _kernel.elements_to_strings(heap.buffers, elements, valid, out)
        else:
            objects: list[object] = [*_kernel.elements_to_objects(heap.buffers, elements, self.text)]
            if valid is not None:
                objects = [value if exists else None for value, exists in zip(objects, valid.reshape(-1), strict=True)]
            out.reshape(-1)[:] = objects  # type: ignore[assignment] # NumPy's stubs do not support object arrays
        return out

    def put_values(self, elements: Values, heap: Heap, out: Values) -> None:
        if PACKED and out.dtype.kind == "T" and out.flags.c_contiguous and out.flags.aligned:
            self.filled(out, elements, heap, None)
        else:
            super().put_values(elements, heap, out)


def _encoded(value: str, path: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise MetadataError(f"{path} must be Unicode text, found a lone surrogate", path=path) from None


class VariableLengthTypes(NamedDataTypes):
    """The family of both."""

    names = (STRING, "bytes", "variable_length_bytes", "binary")

    def parse(self, extension: Extension, path: str) -> DataType:
        no_configuration(extension, path)
        return VariableLengthType(extension.name)

    def from_numpy(self, dtype: Dtype) -> DataType | None:
        return VariableLengthType(STRING) if dtype.kind == "T" else None


def bytes_of(value: Json) -> bytes | None:
    """The fill value of `bytes` from base64 text or integers in a document; None for any other value."""
    if isinstance(value, str):
        return from_base64(value)
    if isinstance(value, list) and all(type(byte) is int and 0 <= byte < 256 for byte in value):
        return bytes(value)  # type: ignore[arg-type] # all of them are int
    return None
