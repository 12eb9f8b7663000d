"""Data types: their names, NumPy dtypes, byte order and fill values (Zarr v3.1 core, Data types).

Conversions that several modules need are in fill_values.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import numpy as np

from frazil.base.arrays import Dtype, Values
from frazil.errors import InvalidInputError, MetadataError, UnknownExtensionError
from frazil.metadata.extension_guard import ExtensionCall
from frazil.metadata.extensions import Extension, ExtensionFamily, no_configuration
from frazil.metadata.json_text import Json, as_json, found, item
from frazil.metadata.members import Members, check_integers, refusal
from frazil.metadata.types.fill_values import (
    FillValue,
    emit_float,
    emit_integer,
    float_from_user,
    from_base64,
    parse_float,
    parse_integer,
    to_base64,
)
from frazil.metadata.value import Value

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from frazil.metadata.types.heap import Heap

Swaps = tuple[tuple[int, int, int], ...]

# bytes: a document of a hundred bytes makes fill values and buffers of this size. NumPy's largest is 2**31 - 1
LARGEST_ITEM: Final = 2**26
RAW_BYTES: Final = "raw_bytes"
# Elements of variable length in the engine: views into a heap (heap.py)
TEXT_VIEW: Final[Dtype] = np.dtype([("view of text", "V16")])
BYTES_VIEW: Final[Dtype] = np.dtype([("view of bytes", "V16")])
OBJECT_VIEW: Final[Dtype] = np.dtype([("view of an object", "V16")])


class DataType(Value, ABC):
    """A data type of fixed size. A user's own type derives from this and implements parse_bytes, emit_bytes and user_bytes.

    name   in documents
    dtype  the NumPy dtype of values that users see, native byte order
    swaps  (offset, width, count): within one element, `count` consecutive items of `width` bytes from `offset` have a byte order;
           empty if the type has none, and the `bytes` codec needs no `endian`"""

    __slots__ = ("dtype", "name", "swaps")
    name: str
    dtype: Dtype
    swaps: Swaps

    def __init__(self, name: str, dtype: Dtype, swaps: Swaps = ()) -> None:
        if dtype.itemsize > LARGEST_ITEM:  # of a dtype from a user; the readers of documents name the member
            raise MetadataError(
                f"an element of {name} has {dtype.itemsize} bytes; at most {LARGEST_ITEM} are possible",
                path="data_type",
                hint="use elements of variable length, such as dtype=str, or a dimension for the parts of an element",
            )
        self.name, self.dtype, self.swaps = name, dtype, swaps

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def element(self) -> Dtype:
        """The dtype of elements in the engine. If it is not `dtype`, elements_of and values_of convert."""
        return self.dtype

    @property
    def serializer(self) -> Extension:
        """The array-to-bytes codec of its arrays, if no codec is given."""
        return Extension("bytes")

    @property
    def label(self) -> str:
        """The type in messages: its name and its parameters."""
        return self.name

    @property
    def zero(self) -> FillValue:
        """The default fill value: every bit 0."""
        return FillValue(bytes(self.itemsize), self.dtype)

    def extension(self) -> Extension:
        """The extension that names this type."""
        return Extension(self.name)

    def to_json(self) -> Json:
        """The member `data_type` of a document: only the name if there is no configuration, as the core requires."""
        with ExtensionCall("data type", self.name, "data_type") as call:
            extension: object = self.extension()
            if not isinstance(extension, Extension):
                raise call.wrong(extension, "an Extension")
        return extension.to_json() if extension.configuration else extension.name

    def parse_fill(self, value: Json, path: str = "fill_value") -> FillValue:
        """The fill value of a document; MetadataError if the type does not allow it."""
        return self._element(lambda: self.parse_bytes(value, path), path)

    def emit_fill(self, fill: FillValue) -> Json:
        """The fill value for a document; parse_fill returns the same bits."""
        with ExtensionCall("data type", self.name, "fill_value"):
            return as_json(self.emit_bytes(fill.data), "fill_value")

    def fill_from_user(self, value: object, path: str = "fill_value") -> FillValue:
        """A fill value from a user: None (zero), Python and NumPy scalars, or the forms of documents.

        A scalar of the type's own dtype, in any byte order, keeps its bits. Floating-point values are rounded as in documents. Raises
        MetadataError for a value that is out of range or would lose a fraction."""
        if value is None:
            return self.zero
        if isinstance(value, FillValue):
            value = value.scalar
        if isinstance(value, (np.generic, np.ndarray)):
            scalar = scalar_from_user(value, path)
            if scalar.dtype == self.dtype:
                return FillValue(scalar.tobytes(), self.dtype)
            value = scalar.item()
        return self._element(lambda: self.user_bytes(value, path), path)

    def heap_fill(self, fill: FillValue) -> bytes:
        """The bytes of a fill value of variable length."""
        return fill.data

    def fill_element(self, fill: FillValue) -> bytes:
        """The fill value as an element in the engine."""
        return fill.data

    def elements_of(self, values: Values, heap: Heap) -> Values:
        """Values of `dtype` as elements, whose bytes of variable length go into the heap."""
        return values

    def values_of(self, elements: Values, heap: Heap) -> Values:
        """Elements in C order as values of `dtype`."""
        return elements

    def put_values(self, elements: Values, heap: Heap, out: Values) -> None:
        """As values_of, into memory of `dtype` with any strides."""
        out[...] = self.values_of(elements, heap)

    def _element(self, make: Callable[[], bytes], path: str) -> FillValue:
        """One element, from the bytes that the type returns, which may be the user's."""
        with ExtensionCall("data type", self.name, path) as call:
            data: object = make()
            if not isinstance(data, bytes) or len(data) != self.itemsize:
                raise call.wrong(
                    data, f"{self.itemsize} bytes", f"{len(data)} bytes" if isinstance(data, bytes) else None
                )
            return FillValue(data, self.dtype)

    @abstractmethod
    def parse_bytes(self, value: Json, path: str) -> bytes:
        """The element of a document's fill value, in native memory order."""

    @abstractmethod
    def emit_bytes(self, data: bytes) -> Json:
        """The fill value of a document for the bytes of one element."""

    @abstractmethod
    def user_bytes(self, value: object, path: str) -> bytes:
        """The element for a Python value from a user."""


class BoolType(DataType):
    """bool: one byte, 0 or 1."""

    def parse_bytes(self, value: Json, path: str) -> bytes:
        if not isinstance(value, bool):
            raise refusal(path, "true or false", value)
        return bytes([value])

    def emit_bytes(self, data: bytes) -> Json:
        return data != b"\0"

    def user_bytes(self, value: object, path: str) -> bytes:
        if not isinstance(value, (int, float)) or value not in (0, 1):
            raise refusal(path, "True or False", value)
        return bytes([int(value)])


class IntegerType(DataType):
    """int8 to int64 and uint8 to uint64, two's complement."""

    def parse_bytes(self, value: Json, path: str) -> bytes:
        return parse_integer(value, self.dtype, path)

    def emit_bytes(self, data: bytes) -> Json:
        return emit_integer(data, self.dtype)

    def user_bytes(self, value: object, path: str) -> bytes:
        """An int or a bool, or a float without a fraction."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            raise refusal(path, f"an integer ({self.name})", value)
        return self.parse_bytes(int(value), path)


class FloatType(DataType):
    """float16, float32 and float64, IEEE 754."""

    def parse_bytes(self, value: Json, path: str) -> bytes:
        return parse_float(value, self.itemsize, path)

    def emit_bytes(self, data: bytes) -> Json:
        return emit_float(data)

    def user_bytes(self, value: object, path: str) -> bytes:
        return float_from_user(value, self.itemsize, path)


class ComplexType(DataType):
    """complex64 and complex128: the real, then the imaginary part. part: the type of both"""

    __slots__ = ("part",)
    part: DataType

    def __init__(self, name: str, dtype: Dtype, part: DataType) -> None:
        super().__init__(name, dtype, tuple((offset, width, 2) for offset, width, _ in part.swaps))
        self.part = part

    def parse_bytes(self, value: Json, path: str) -> bytes:
        """An array of two floating-point fill values, the real and the imaginary part."""
        if not isinstance(value, list) or len(value) != 2:
            raise refusal(path, "an array of two floating-point values, [real, imaginary]", value)
        return b"".join([self.part.parse_bytes(part, item(path, at)) for at, part in enumerate(value)])

    def emit_bytes(self, data: bytes) -> Json:
        half = self.part.itemsize
        return [self.part.emit_bytes(data[:half]), self.part.emit_bytes(data[half:])]

    def user_bytes(self, value: object, path: str) -> bytes:
        """A number, or the two parts in the forms of the part's type."""
        if isinstance(value, complex):
            parts: Sequence[object] = (value.real, value.imag)
        elif isinstance(value, (list, tuple)) and len(value) == 2:
            parts = value
        elif isinstance(value, (int, float, np.generic)):
            parts = (value, 0)
        else:
            raise refusal(path, f"a number, or its two parts [real, imaginary] ({self.name})", value)
        return b"".join([self.part.user_bytes(part, item(path, at)) for at, part in enumerate(parts)])


class RawType(DataType):
    """r8, r16, r24 ...: opaque bytes, a NumPy void dtype in memory. zarr-python 3 names them raw_bytes, with a configuration, and reads
    no other name. A document with that name keeps it."""

    @property
    def label(self) -> str:
        return f"{self.name}[{self.itemsize}]" if self.name == RAW_BYTES else self.name

    def extension(self) -> Extension:
        return Extension(self.name, {"length_bytes": self.itemsize} if self.name == RAW_BYTES else None)

    def parse_bytes(self, value: Json, path: str) -> bytes:
        """An array of integers from 0 to 255 (r24: 3 of them), or the same bytes in base64, which tensorstore writes."""
        size = self.itemsize
        if isinstance(value, list) and len(value) == size:
            return bytes(check_integers(value, path, 0, 255))
        if isinstance(value, str) and (data := from_base64(value)) is not None and len(data) == size:
            return data
        raise refusal(path, f"an array of {size} integers from 0 to 255, or {size} bytes in base64", value)

    def emit_bytes(self, data: bytes) -> Json:
        return to_base64(data) if self.name == RAW_BYTES else list(data)

    def user_bytes(self, value: object, path: str) -> bytes:
        """Bytes, or the forms of documents. Zeros complete fewer bytes, as in NumPy."""
        if isinstance(value, (bytes, bytearray, memoryview)):
            if len(data := bytes(value)) > self.itemsize:
                raise refusal(path, f"{self.itemsize} bytes", found(list(data)))
            return data.ljust(self.itemsize, b"\0")
        if isinstance(value, tuple):
            value = list(value)
        if not isinstance(value, (list, str)):
            raise refusal(path, f"{self.itemsize} bytes", value)
        return self.parse_bytes(value, path)


def _core(kind: type[DataType], name: str) -> DataType:
    dtype: Dtype = np.dtype(name)
    return kind(name, dtype, ((0, dtype.itemsize, 1),) if dtype.itemsize > 1 else ())


_REAL: Final = (
    _core(BoolType, "bool"),
    *(_core(IntegerType, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(_core(FloatType, f"float{bits}") for bits in (16, 32, 64)),
)
_COMPLEX: Final = [
    ComplexType(f"complex{16 * part.itemsize}", np.dtype(f"c{2 * part.itemsize}"), part) for part in _REAL[-2:]
]
_CORE: Final[dict[str, DataType]] = {data_type.name: data_type for data_type in (*_REAL, *_COMPLEX)}


# --- families: the entries of a registry -------------------------------------------------------------------------------------------


class DataTypeFamily(ExtensionFamily[DataType], Protocol):
    """A reader for data types of one name or of a pattern of names."""

    def from_numpy(self, dtype: Dtype) -> DataType | None:
        """The data type for a native NumPy dtype; None if it does not belong to this family."""


class NamedDataTypes(Value):
    """A family that reads the names in `names`, and no others."""

    names: ClassVar[tuple[str, ...]]

    def matches(self, name: str) -> bool:
        return name in self.names


class CoreDataTypes(NamedDataTypes):
    """The core types, each with its own name."""

    names = tuple(_CORE)

    def parse(self, extension: Extension, path: str) -> DataType:
        no_configuration(extension, path)
        return _CORE[extension.name]

    def from_numpy(self, dtype: Dtype) -> DataType | None:
        # types that other packages register with NumPy (bfloat16 ...) have numbers from 256 on, also if they use a name of NumPy's
        return _CORE.get(dtype.name) if dtype.num < 256 else None


class RawDataTypes(Value):
    """r*: opaque elements of a multiple of 8 bits; and raw_bytes, their name in zarr-python 3."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("r*", RAW_BYTES)

    def matches(self, name: str) -> bool:
        return name == RAW_BYTES or (len(name) > 1 and name[0] == "r" and name[1:].isascii() and name[1:].isdigit())

    def parse(self, extension: Extension, path: str) -> DataType:
        if extension.name == RAW_BYTES:
            members = Members(extension.configuration, f"{path}.configuration")
            length = members.integer("length_bytes", 1, LARGEST_ITEM)
            members.finish()
            return RawType(RAW_BYTES, np.dtype((np.void, length)))
        no_configuration(extension, path)
        digits = extension.name[1:]
        bits = int(digits) if len(digits) <= 11 else 0
        if digits[0] == "0" or bits % 8 or not 8 <= bits <= 8 * LARGEST_ITEM:
            raise MetadataError(
                f"{path} must be r and a multiple of 8 from 8 to {8 * LARGEST_ITEM}, found {found(extension.name)}",
                path=path,
            )
        return raw_type(bits // 8)

    def from_numpy(self, dtype: Dtype) -> DataType | None:
        opaque = dtype.type is np.void and dtype.fields is None and dtype.subdtype is None
        return raw_type(dtype.itemsize) if opaque and dtype.itemsize else None


def raw_type(size: int) -> RawType:
    """The raw type of this number of bytes."""
    return RawType(f"r{8 * size}", np.dtype((np.void, size)))


def native_dtype(dtype: DTypeLike) -> Dtype:
    """The NumPy dtype of any notation, in native byte order; InvalidInputError if it is not one."""
    if dtype is None:
        raise InvalidInputError(
            "dtype must be a data type, found None", path="data_type", hint='name one, such as "float32"'
        )
    try:
        return _native(np.dtype(dtype))
    except (TypeError, ValueError, SyntaxError, KeyError) as error:
        name = dtype.lower() if isinstance(dtype, str) else ""
        hint = f"did you mean {name!r}?" if name in _CORE else None
        raise InvalidInputError(
            f"dtype must be a data type, found {dtype!r}: {error}", path="data_type", hint=hint
        ) from None


def scalar_from_user(
    value: np.generic | np.ndarray[tuple[int, ...], Dtype], path: str
) -> np.ndarray[tuple[int, ...], Dtype]:
    """A scalar of NumPy, or an array of no dimensions, in native byte order."""
    if value.shape != ():
        raise MetadataError(f"{path} must be one element, found an array of shape {value.shape}", path=path)
    array = np.asarray(value)
    return array.astype(_native(array.dtype), copy=False)


def _native(dtype: Dtype) -> Dtype:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def unknown_dtype(dtype: Dtype, names: tuple[str, ...]) -> UnknownExtensionError:
    """The error for a NumPy dtype that no registered data type has."""
    if dtype.subdtype is not None:
        hint = "make its dimensions dimensions of the array"
    elif dtype.fields is not None:
        hint = "store each field as an array of its own, or view the whole as raw bytes (V8 ...)"
    else:
        hints = {
            "O": 'dtype="string" stores text, dtype="bytes" bytes; other Python objects cannot be stored, as they would have to be pickled',
            "V": "raw bytes need a length (V8 ...)",
        }
        hint = hints.get(dtype.kind, "register a data type for it")
    registered = "" if dtype.kind == "O" else f" (registered: {', '.join(names)})"
    return UnknownExtensionError(
        f"no registered data type holds the NumPy dtype {dtype}{registered}",
        path="data_type",
        hint=hint,
    )
