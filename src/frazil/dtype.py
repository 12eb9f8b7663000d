"""The data types of zarr.dtype, with the same names and arguments, for scripts that only replace `zarr` by `frazil`. Each wraps a data type of Frazil and can
be passed as dtype= to the functions that create arrays.

Other code does not need them: dtype= also takes NumPy's dtypes and the names of registered data types."""

from __future__ import annotations

import json
from typing import ClassVar, Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import InvalidInputError, shown
from frazil.metadata.json_text import Json
from frazil.metadata.types.core import RAW_BYTES, DataType, RawType
from frazil.metadata.value import Value

_REGISTERED: Final = DEFAULT_REGISTRY.metadata
_ORDERS: Final = {"little": "<", "big": ">"}
_OBJECTS: Final = {"string": "vlen-utf8", "variable_length_bytes": "vlen-bytes"}  # codecs of objects in Zarr v2


class ZDType(Value):
    """Base class. data_type: the data type of Frazil; endianness: "little" or "big" for data types that NumPy has. New arrays have the byte order of their
    codecs."""

    __slots__ = ("data_type", "endianness")
    data_type: DataType
    endianness: str

    def __init__(self, data_type: DataType, endianness: str = "little") -> None:
        if endianness not in _ORDERS:
            raise InvalidInputError(f"endianness is {shown(endianness)}; it must be little or big")
        self.data_type, self.endianness = data_type, endianness

    @classmethod
    def from_native_dtype(cls, dtype: object) -> ZDType:
        """The data type of a NumPy dtype. Raises InvalidInputError where it is not one of this class."""
        found = parse_dtype(dtype)
        if not isinstance(found, cls):
            raise InvalidInputError(f"{shown(dtype)} is a {type(found).__name__}, not a {cls.__name__}")
        return found

    def to_native_dtype(self) -> Dtype:
        """The NumPy dtype."""
        dtype = self.data_type.dtype
        return dtype.newbyteorder(_ORDERS[self.endianness]) if self.data_type.swaps else dtype  # type: ignore[arg-type] # only NumPy dtypes swap

    def to_json(self, zarr_format: int = 3) -> Json:
        """The data type as a document holds it: the member `data_type` of Zarr v3; the dtype of Zarr v2, with its object codec if it has one."""
        if zarr_format != 2:
            return self.data_type.to_json()
        if (codec := _OBJECTS.get(self.data_type.name)) is not None:
            return {"name": "|O", "object_codec_id": codec}
        dtype = self.to_native_dtype()
        named: Json = dtype.str if dtype.names is None else json.loads(json.dumps(dtype.descr))
        return {"name": named, "object_codec_id": None}

    def default_scalar(self) -> object:
        """The fill value of an array for which none is given."""
        return self.data_type.fill_from_user(None).scalar

    def cast_scalar(self, value: object) -> object:
        """A value as an element. Raises MetadataError for a value that the data type cannot hold."""
        return self.data_type.fill_from_user(value).scalar

    def to_json_scalar(self, value: object, *, zarr_format: int = 3) -> Json:
        """A fill value as it is in documents of Zarr v3."""
        return self.data_type.emit_fill(self.data_type.fill_from_user(value))

    def from_json_scalar(self, value: Json, *, zarr_format: int = 3) -> object:
        """The fill value of a document of Zarr v3. Raises MetadataError."""
        return self.data_type.parse_fill(value).scalar

    def __repr__(self) -> str:
        order = f", {self.endianness}" if self.data_type.swaps else ""
        return f"<frazil.dtype.{type(self).__name__}: {self.data_type.label}{order}>"


class _Plain(ZDType):
    """A data type without parameters."""

    registered: ClassVar[str]

    def __init__(self, *, endianness: str = "little") -> None:
        super().__init__(_REGISTERED.data_type_from_user(self.registered), endianness)


def _plain(name: str, registered: str) -> type[_Plain]:
    members = {"__module__": __name__, "__doc__": f"{registered}.", "registered": registered}
    return type(name, (_Plain,), members)


Bool = _plain("Bool", "bool")
Int8, Int16 = _plain("Int8", "int8"), _plain("Int16", "int16")
Int32, Int64 = _plain("Int32", "int32"), _plain("Int64", "int64")
UInt8, UInt16 = _plain("UInt8", "uint8"), _plain("UInt16", "uint16")
UInt32, UInt64 = _plain("UInt32", "uint32"), _plain("UInt64", "uint64")
Float16, Float32, Float64 = _plain("Float16", "float16"), _plain("Float32", "float32"), _plain("Float64", "float64")
Complex64, Complex128 = _plain("Complex64", "complex64"), _plain("Complex128", "complex128")
VariableLengthUTF8 = _plain("VariableLengthUTF8", "string")
VariableLengthBytes = _plain("VariableLengthBytes", "variable_length_bytes")


class FixedLengthUTF32(ZDType):
    """Text of at most `length` characters."""

    def __init__(self, *, length: int, endianness: str = "little") -> None:
        super().__init__(_REGISTERED.from_numpy(f"U{length}"), endianness)


class NullTerminatedBytes(ZDType):
    """At most `length` bytes, without NULs at the end."""

    def __init__(self, *, length: int) -> None:
        super().__init__(_REGISTERED.from_numpy(f"S{length}"))


class RawBytes(ZDType):
    """`length` bytes."""

    def __init__(self, *, length: int) -> None:
        super().__init__(
            _REGISTERED.data_type_from_user({"name": RAW_BYTES, "configuration": {"length_bytes": length}})
        )


class _Time(ZDType):
    """unit: "Y" to "as", or "generic" for none; scale_factor: units in 1."""

    registered: ClassVar[str]

    def __init__(self, *, unit: str = "generic", scale_factor: int = 1, endianness: str = "little") -> None:
        configuration = {"unit": unit, "scale_factor": scale_factor}
        named = {"name": self.registered, "configuration": configuration}
        super().__init__(_REGISTERED.data_type_from_user(named), endianness)


class DateTime64(_Time):
    """Times, counted in units."""

    registered = "numpy.datetime64"


class TimeDelta64(_Time):
    """Durations, counted in units."""

    registered = "numpy.timedelta64"


class Struct(ZDType):
    """Elements with fields. fields: a (name, data type of this module) for each."""

    def __init__(self, *, fields: tuple[tuple[str, ZDType], ...]) -> None:
        dtype = np.dtype([(name, each.to_native_dtype()) for name, each in fields])
        super().__init__(_REGISTERED.from_numpy(dtype))


Structured = Struct
_CLASSES: Final[dict[str, type[ZDType]]] = {
    **{kind.registered: kind for kind in _Plain.__subclasses__()},
    **{kind.registered: kind for kind in (DateTime64, TimeDelta64)},
    "fixed_length_utf32": FixedLengthUTF32,
    "null_terminated_bytes": NullTerminatedBytes,
    "struct": Struct,
    "bytes": VariableLengthBytes,
}


def parse_dtype(dtype: object, *, zarr_format: int = 3) -> ZDType:  # noqa: ARG001
    """The data type for a NumPy dtype, a registered name or an object of a document. Raises InvalidInputError, UnknownExtensionError."""
    if isinstance(dtype, ZDType):
        return dtype
    data_type = _REGISTERED.data_type_from_user(dtype)
    if isinstance(data_type, RawType):  # registered under two names
        return RawBytes(length=data_type.itemsize)
    zdtype = object.__new__(_CLASSES.get(data_type.name, ZDType))
    ZDType.__init__(zdtype, data_type, "big" if _is_big(dtype) else "little")
    return zdtype


def _is_big(dtype: object) -> bool:
    """Whether a NumPy dtype, or its string, is big-endian."""
    return (dtype.str if isinstance(dtype, np.dtype) else dtype if isinstance(dtype, str) else "").startswith(">")


parse_data_type = parse_dtype
