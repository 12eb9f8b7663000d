"""The data types of object arrays of Zarr v2 that Zarr v3 does not have: JSON objects that may contain bytes, and arrays of numbers of any length.

Documents do not name them: metadata/v2/objects.py determines the type from the codec of objects. In the engine an element is a view (heap.py) of its bytes: the
text from `to_bytes`, or the numbers."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sized
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from frazil.base.arrays import Dtype, Values
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json, as_json
from frazil.metadata.members import refusal
from frazil.metadata.types.core import OBJECT_VIEW
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.types.variable_length import VariableFill, VariableLengthType

if TYPE_CHECKING:
    from frazil.metadata.types.heap import Heap

OBJECT: Final = "object"
_ESCAPE: Final = ""  # an object with only this member is bytes, or an escaped object that itself has only this member
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_DECODER: Final = json.JSONDecoder()


def to_bytes(value: object) -> bytes:
    """One object in the engine's form. Raises InvalidInputError for a value that is neither JSON nor bytes, such as a set, or a mapping whose names are not
    text."""
    try:
        return _ENCODER.encode(_plain(value)).encode()
    except RecursionError:
        raise InvalidInputError("an object nests too deep to be stored") from None


def from_bytes(data: bytes) -> object:
    """Undoes to_bytes."""
    return _restored(_DECODER.decode(data.decode()))


def _plain(value: object) -> object:
    """The value with bytes as text. NumPy's scalars become numbers, its arrays and tuples lists."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return {_ESCAPE: b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        plain = {name: _plain(item) for name, item in value.items()}
        return {_ESCAPE: plain} if list(plain) == [_ESCAPE] else plain
    raise InvalidInputError(
        f"an object of type {type(value).__name__} cannot be stored",
        hint="text, bytes, numbers, booleans, None, and lists and dicts of these, whose keys are text, can be",
    )


def _restored(value: object) -> object:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) == [_ESCAPE]:
        inner = value[_ESCAPE]
        return b64decode(inner) if isinstance(inner, str) else {name: _restored(item) for name, item in inner.items()}
    return {name: _restored(item) for name, item in value.items()}


class ZarrV2Type(VariableLengthType):
    """A data type that only Zarr v2 can name, by the codec of its objects."""

    def extension(self) -> Extension:
        raise MetadataError(
            f"Zarr v3 has no data type for elements that are {self.label}",
            path="data_type",
            hint="convert the elements to text, bytes or numbers, and write them to a new array",
        )


class ObjectType(ZarrV2Type):
    """JSON objects, and bytes. The default fill value is None."""

    def __init__(self) -> None:
        super().__init__(OBJECT)

    @property
    def element(self) -> Dtype:
        return OBJECT_VIEW

    @property
    def label(self) -> str:
        return "objects"

    @property
    def zero(self) -> FillValue:
        return VariableFill(to_bytes(None), self)

    def value_of(self, data: bytes) -> object:
        return from_bytes(data)

    def parse_fill(self, value: Json, path: str = "fill_value") -> FillValue:
        return VariableFill(to_bytes(value), self)

    def fill_from_user(self, value: object, path: str = "fill_value") -> FillValue:
        if isinstance(value, FillValue):
            value = value.scalar
        if isinstance(value, bytes):
            raise refusal(path, "a value that JSON can express", value.hex())
        try:
            return VariableFill(to_bytes(value), self)
        except InvalidInputError as error:
            raise MetadataError(error.message, path=path, hint=error.hint) from None

    def emit_bytes(self, data: bytes) -> Json:
        return as_json(from_bytes(data), "fill_value")

    def elements_of(self, values: Values, heap: Heap) -> Values:
        """Raises InvalidInputError as to_bytes does."""
        return super().elements_of(_objects([to_bytes(value) for value in _flat(values)], values.shape), heap)

    def values_of(self, elements: Values, heap: Heap) -> Values:
        values = super().values_of(elements, heap)
        return _objects([from_bytes(cast("bytes", data)) for data in _flat(values)], values.shape)


class RaggedType(ZarrV2Type):
    """Arrays of one dimension and any length. of: the dtype of their items. The fill value is the empty array."""

    __slots__ = ("of",)
    of: Dtype

    def __init__(self, of: Dtype) -> None:
        super().__init__(f"arrays of {of.name}")
        self.of = of

    @property
    def serializer(self) -> Extension:
        return Extension("vlen-array")

    def value_of(self, data: bytes) -> object:
        """The fill value: an empty array."""
        return np.empty(0, self.of)

    def parse_fill(self, value: Json, path: str = "fill_value") -> FillValue:
        return self.fill_from_user(value, path)

    def fill_from_user(self, value: object, path: str = "fill_value") -> FillValue:
        """None, 0, and empty values."""
        if isinstance(value, FillValue):
            value = value.scalar
        if value is None or (isinstance(value, int) and value == 0) or (isinstance(value, Sized) and not len(value)):
            return self.zero
        raise refusal(path, "null, 0 or an empty string", str(value))

    def emit_bytes(self, data: bytes) -> Json:
        """0, which numcodecs encodes as the empty array."""
        return 0

    def elements_of(self, values: Values, heap: Heap) -> Values:
        """Raises InvalidInputError for a value that is not an array of these items."""
        return super().elements_of(_objects([self._data(value) for value in _flat(values)], values.shape), heap)

    def _data(self, value: object) -> bytes:
        try:
            items = np.asarray(value, self.of)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(f"the value cannot be stored as {self.name}: {error}") from error
        if items.ndim != 1:
            raise InvalidInputError(
                f"an element must be an array of one dimension ({self.name}), found {items.ndim} dimensions"
            )
        return items.tobytes()

    def values_of(self, elements: Values, heap: Heap) -> Values:
        """Raises ChunkDecodeError for elements whose bytes are not a whole number of items."""
        values = super().values_of(elements, heap)
        rows: list[object] = []
        for data in cast("list[bytes]", _flat(values)):
            if len(data) % self.of.itemsize:
                raise ChunkDecodeError(f"an element has {len(data)} bytes, which is not a number of items of {self.of}")
            rows.append(np.frombuffer(data, self.of).copy())
        return _objects(rows, values.shape)


def _flat(values: Values) -> list[object]:
    return cast("list[object]", values.reshape(-1).tolist())


def _objects(items: list[object], shape: tuple[int, ...]) -> Values:
    """An object array, whose elements may be arrays and lists themselves."""
    objects = np.empty(len(items), object)
    for i, item in enumerate(items):
        objects[i] = item
    return cast("Values", objects.reshape(shape))
