"""Fill values in the 2022 draft, in both dialects (draft of 2022, Array metadata, fill_value).

JSON <-> one element, exact to the bit. The forms of the final specification are in types/fill_values.py."""

from __future__ import annotations

import sys
from typing import Final

from frazil.errors import MetadataError
from frazil.metadata.json_text import Json, item
from frazil.metadata.members import refusal
from frazil.metadata.types.core import BoolType, ComplexType, DataType, FloatType, IntegerType, RawType
from frazil.metadata.types.datetimes import DatetimeType
from frazil.metadata.types.fill_values import (
    FillValue,
    emit_float,
    emit_integer,
    from_base64,
    parse_float,
    swap_items,
    to_base64,
)
from frazil.metadata.types.strings import ByteStringType, TextType
from frazil.metadata.types.structs import StructType

_HEX: Final = "0123456789abcdefABCDEF"
_SPECIAL: Final = ("NaN", "Infinity", "-Infinity")


def parse_fill(
    value: Json, data_type: DataType, *, old: bool, path: str = "fill_value", big: bool = False
) -> FillValue:
    """The fill value of a document.

    big  whether the document's items are big-endian; this includes the bytes of a struct's element
    null means that elements which were never written are undefined; it is read as all bits 0. The older dialect is read more freely: whole numbers with a
    fraction for integers, 0 and 1 for booleans, 0 for strings and structs. Raises MetadataError."""
    if value is None:
        return data_type.zero
    if isinstance(data_type, (RawType, ByteStringType, TextType, StructType)) and _is_zero(value, data_type, old):
        return data_type.zero
    return FillValue(_parse(value, data_type, old, path, big), data_type.dtype)


def _is_zero(value: Json, data_type: DataType, old: bool) -> bool:
    """Whether a value that is not an element of the type means zero anyway."""
    if old and value == "":
        return True
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0
    return number and (old or isinstance(data_type, RawType))  # r* may be the fallback of any type


def _parse(value: Json, data_type: DataType, old: bool, path: str, big: bool) -> bytes:
    if isinstance(data_type, BoolType) and old and isinstance(value, int) and value in (0, 1):
        return bytes([value])
    if isinstance(data_type, IntegerType):
        return _parse_integer(value, data_type, old, path)
    if isinstance(data_type, FloatType):
        return _parse_float(value, data_type.itemsize, path)
    if type(data_type) is ComplexType:  # others have parts of other bits
        return _parse_complex(value, data_type.itemsize, path)
    if isinstance(data_type, RawType):
        return _parse_raw(value, data_type, path)
    if isinstance(data_type, StructType) and isinstance(value, str):
        data = from_base64(value)
        if data is None or len(data) != data_type.itemsize:
            raise refusal(path, f"{data_type.itemsize} bytes in base64", value)
        return _native(data, data_type, big)
    return data_type.parse_fill(value, path).data


def _parse_integer(value: Json, data_type: DataType, old: bool, path: str) -> bytes:
    """A number without fraction or exponent; for 64 bits, more than many JSON readers keep, also all digits of its bits."""
    if isinstance(value, str) and data_type.itemsize == 8 and (digits := _digits(value, 8)) is not None:
        return _in_order(digits, 8)
    if old and isinstance(value, float) and value.is_integer():
        value = int(value)
    return data_type.parse_bytes(value, path)


def _parse_float(value: Json, size: int, path: str) -> bytes:
    """A number; "NaN", "+Infinity", "Infinity", "-Infinity"; or "0x" or "0b" and all digits of its bits, the most significant first."""
    if isinstance(value, str):
        digits = _digits(value, size)
        if digits is not None:
            return _in_order(digits, size)
        value = "Infinity" if value == "+Infinity" else value
    if isinstance(value, bool) or not (isinstance(value, (int, float)) or value in _SPECIAL):
        forms = f'"NaN", "+Infinity", "-Infinity", {_written(size)}'
        raise refusal(path, f"a number, {forms} (float{8 * size})", value)
    return parse_float(value, size, path)


def _written(size: int) -> str:
    """The words for the bits of a type of this size, for messages."""
    return f'"0x" and {2 * size} hexadecimal digits or "0b" and {8 * size} binary ones'


def _parse_complex(value: Json, size: int, path: str) -> bytes:
    """[real, imaginary], or "0x" or "0b" and all digits of the real, then of the imaginary part."""
    if isinstance(value, str) and (digits := _digits(value, size)) is not None:
        return _in_order(digits, size // 2)
    if not isinstance(value, list) or len(value) != 2:
        raise refusal(path, f"an array [real, imaginary], or {_written(size)} (complex{8 * size})", value)
    return b"".join([_parse_float(part, size // 2, item(path, at)) for at, part in enumerate(value)])


def _parse_raw(value: Json, data_type: RawType, path: str) -> bytes:
    """All digits of the bytes in their order behind "0x" or "0b"; the bytes as integers, or in base64."""
    size = data_type.itemsize
    if isinstance(value, list) and len(value) == size:
        return data_type.parse_bytes(value, path)
    data = None
    if isinstance(value, str):
        digits = _digits(value, size)
        data = from_base64(value) if digits is None else digits
    if data is None or len(data) != size:
        raise refusal(path, f"{_written(size)}, or {size} bytes as integers or in base64", value)
    return data


def _digits(text: str, size: int) -> bytes | None:
    """The bytes that "0x" or "0b" and all their digits stand for, in the order of the digits; None for any other text."""
    digits = text[2:]
    if text.startswith("0x") and len(digits) == 2 * size and not digits.strip(_HEX):
        return bytes.fromhex(digits)
    if text.startswith("0b") and len(digits) == 8 * size and not digits.strip("01"):
        return int(digits, 2).to_bytes(size, "big")
    return None


def _in_order(data: bytes, width: int) -> bytes:
    """Big-endian items of this width in the order of memory, or the reverse."""
    return data if sys.byteorder == "big" else swap_items(data, ((0, width, len(data) // width),))


def _native(data: bytes, data_type: DataType, big: bool) -> bytes:
    """The bytes of an element, converted from the byte order of a document's items to that of memory, or back."""
    return data if big == (sys.byteorder == "big") else swap_items(data, data_type.swaps)


def emit_fill(fill: FillValue, data_type: DataType, *, old: bool, big: bool = False) -> Json:
    """The fill value for a document; parse_fill returns the same bits.

    big  whether the document's items are big-endian
    Raises MetadataError for a NaN of other bits than the usual ones in the older dialect, which has no hexadecimal form."""
    data = fill.data
    if isinstance(data_type, FloatType):
        return _emit_float(data, old)
    if type(data_type) is ComplexType:
        half = len(data) // 2
        return [_emit_float(data[:half], old), _emit_float(data[half:], old)]
    if isinstance(data_type, RawType):
        return to_base64(data) if old else f"0x{data.hex()}"
    if isinstance(data_type, DatetimeType):
        return emit_integer(data, data_type.integer)
    if isinstance(data_type, StructType):
        return to_base64(_native(data, data_type, big))
    return data_type.emit_fill(fill)


def _emit_float(data: bytes, old: bool) -> Json:
    emitted = emit_float(data)
    if emitted == "Infinity" and not old:
        return "+Infinity"
    if old and isinstance(emitted, str) and emitted.startswith("0x"):
        raise MetadataError(
            f"fill_value must be a number or one of three strings in the older dialect, which cannot express the NaN {emitted}",
            path="fill_value",
            hint='fill with the usual NaN ("NaN"), or write the dialect of December 2022',
        )
    return emitted
