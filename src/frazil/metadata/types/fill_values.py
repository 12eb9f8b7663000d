"""One element as JSON and as bytes, exact to the bit (Zarr v3.1 core, Permitted fill values).

Contains conversions that several data types need. The data types of the core are in core.py."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np

from frazil.base.arrays import Dtype
from frazil.metadata.json_text import ExactFloat, Json, NegativeZero
from frazil.metadata.members import refusal
from frazil.metadata.value import Value

_ORDER: Final = sys.byteorder
_HEX: Final = "0123456789abcdefABCDEF"
_PRECISION: Final = {2: 11, 4: 24, 8: 53}  # bits of the significand, including the hidden one, by bytes of the format
_CODES: Final = {2: "=e", 4: "=f", 8: "=d"}


class FillValue(Value):
    """One element in native memory order.

    data   the bytes of the element
    dtype  their native NumPy dtype
    Equality compares bits: NaNs with different payloads differ, and so do 0.0 and -0.0."""

    __slots__ = ("data", "dtype")
    data: bytes
    dtype: Dtype

    def __init__(self, data: bytes, dtype: Dtype) -> None:
        if len(data) != dtype.itemsize:
            raise refusal("fill_value", f"{dtype.itemsize} bytes for {dtype}", len(data))
        self.data, self.dtype = data, dtype

    @property
    def scalar(self) -> np.generic:
        """The element as a NumPy scalar, with unchanged bits."""
        scalar: np.generic = np.frombuffer(self.data, self.dtype)[0]
        return scalar


def parse_integer(value: Json, dtype: Dtype, path: str, bits: int | None = None) -> bytes:
    """A JSON number without fraction or exponent, in range. bits: those of the type that are used; None: all."""
    signed, bits = dtype.name.startswith("int"), bits or 8 * dtype.itemsize
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refusal(path, f"a number without fraction or exponent from {low} to {high} ({dtype.name})", value)
    return int(value).to_bytes(dtype.itemsize, _ORDER, signed=signed)


def emit_integer(data: bytes, dtype: Dtype) -> Json:
    return int.from_bytes(data, _ORDER, signed=dtype.kind == "i")


def parse_float(value: Json, size: int, path: str) -> bytes:
    """A number, rounded once from its decimal text, half to even; "NaN", "Infinity", "-Infinity"; or "0x" and all digits of its bits.

    A number that would round to an infinity is refused: use "Infinity" for that."""
    bits = None
    if isinstance(value, str):
        bits = _special_bits(value, size)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        bits = float_bits(value, size)
        if bits is None:
            raise refusal(path, f'a number within float{8 * size}, or the string "Infinity"', value)
    if bits is None:
        forms = f'"NaN", "Infinity", "-Infinity" or "0x" and {2 * size} hexadecimal digits'
        raise refusal(path, f"a number, {forms} (float{8 * size})", value)
    return bits.to_bytes(size, _ORDER)


def emit_float(data: bytes) -> Json:
    """The shortest number that is read back as these bits; strings for values that are not numbers, hexadecimal for all NaNs but one."""
    size, bits = len(data), int.from_bytes(data, _ORDER)
    magnitude = bits & ((1 << (8 * size - 1)) - 1)
    if magnitude == infinity_bits(size):
        return "-Infinity" if bits != magnitude else "Infinity"
    if bits == nan_bits(size):
        return "NaN"
    if magnitude > infinity_bits(size):
        return f"0x{bits:0{2 * size}x}"
    number = float(struct.unpack(_CODES[size], data)[0])
    if size < 8 and not (number.is_integer() and abs(number) < 1 << _PRECISION[size]):
        # fewer digits are enough, but they must also work for a reader that converts through float64
        short = float(np.format_float_scientific(np.frombuffer(data, f"f{size}")[0], unique=True))
        if struct.pack(_CODES[size], short) == data and float_bits(short, size) == bits:
            return short
    return number


def infinity_bits(size: int) -> int:
    """The bits of +Infinity of a format of `size` bytes."""
    return ((1 << (8 * size - _PRECISION[size])) - 1) << (_PRECISION[size] - 1)


def nan_bits(size: int) -> int:
    """The bits of the NaN of the string "NaN": positive, quiet, no payload."""
    return infinity_bits(size) | 1 << (_PRECISION[size] - 2)


def _special_bits(text: str, size: int) -> int | None:
    if text == "NaN":
        return nan_bits(size)
    if text in ("Infinity", "-Infinity"):
        return infinity_bits(size) | (text[0] == "-") << (8 * size - 1)
    if len(text) == 2 + 2 * size and text.startswith("0x") and not text[2:].strip(_HEX):
        return int(text, 16)
    return None


def float_bits(value: float, size: int) -> int | None:
    """The bits of a finite number rounded to a format of `size` bytes, half to even; None if the result is an infinity.

    The written number is rounded (ExactFloat.text, all digits of an int), not the float64 nearest to it."""
    try:
        number = -0.0 if isinstance(value, NegativeZero) else float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    sign = int(math.copysign(1.0, number) < 0) << (8 * size - 1)
    if size == 8:
        return int.from_bytes(struct.pack(">d", number), "big")
    if number == 0.0:
        return sign
    precision = _PRECISION[size]
    fraction, exponent = math.frexp(abs(number))
    least = 3 - (1 << (8 * size - precision - 1)) - precision  # the smallest subnormal number is 2**least
    quantum = max(exponent - precision, least)
    shift = quantum - (exponent - 53)
    mantissa, remainder = divmod(int(fraction * 2.0**53), 1 << shift)
    half = 1 << (shift - 1)
    if remainder == half:
        order = _compare_magnitude(value, abs(number))
        mantissa += order > 0 or (order == 0 and mantissa & 1)
    else:
        mantissa += remainder > half
    bits = ((quantum - least) << (precision - 1)) + mantissa
    return sign | bits if bits < infinity_bits(size) else None


def _compare_magnitude(value: float, number: float) -> int:
    """Whether the written number is below (-1), equal to (0) or above (1) its float64, ignoring signs."""
    if isinstance(value, ExactFloat):
        from decimal import Decimal

        written, rounded = Decimal(value.text.lstrip("-")), Decimal(number)
        return (written > rounded) - (written < rounded)
    return (abs(value) > number) - (abs(value) < number)


def swap_items(data: bytes, swaps: Sequence[tuple[int, int, int]]) -> bytes:
    """The bytes of one element with its items, (offset, width, count), in the other byte order."""
    swapped = bytearray(data)
    for offset, width, count in swaps:
        for at in range(offset, offset + width * count, width):
            swapped[at : at + width] = data[at : at + width][::-1]
    return bytes(swapped)


def from_base64(text: str) -> bytes | None:
    """The bytes of base64 text in the form of RFC 4648; None for any other text."""
    from base64 import b64decode

    try:
        data = b64decode(text)
    except ValueError:
        return None
    return data if to_base64(data) == text else None  # the decoder is lenient


def to_base64(data: bytes) -> str:
    from base64 import b64encode

    return b64encode(data).decode()


def float_from_user(value: object, size: int, path: str) -> bytes:
    """A number, rounded half to even, or a string as in documents. A float64 NaN keeps its bits; in a smaller format it becomes "NaN"."""
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, float) and not math.isfinite(value):
        if math.isinf(value):
            return parse_float("Infinity" if value > 0 else "-Infinity", size, path)
        return struct.pack("=d", value) if size == 8 else parse_float("NaN", size, path)
    if not isinstance(value, (int, float, str)):
        raise refusal(path, f'a number, or a string such as "NaN" (float{8 * size})', value)
    return parse_float(value, size, path)
