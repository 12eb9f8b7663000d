"""Datetimes and timedeltas of NumPy (numpy.datetime64 and numpy.timedelta64, as registered with Zarr v3).

64-bit integers that count units from 1970-01-01T00:00Z, or durations in units; the smallest one is NaT, not a time."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from frazil.base.arrays import Dtype, Values
from frazil.errors import InvalidInputError, MetadataError
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json
from frazil.metadata.members import Members, refusal
from frazil.metadata.types.core import DataType, NamedDataTypes, scalar_from_user
from frazil.metadata.types.fill_values import FillValue, emit_integer, parse_integer

UNITS: Final = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
_MICROSECONDS: Final = ("\u03bcs", "\u00b5s")  # the Greek letter, and the micro sign
_KINDS: Final = {"numpy.datetime64": "M", "numpy.timedelta64": "m"}
_INT64: Final[Dtype] = np.dtype("int64")
_NAT: Final = -(2**63)
_LAST: Final = 2**63 - 1
_DAY: Final = 86_400 * 10**18
_SIZES: Final = {  # in attoseconds
    "Y": 1461 * _DAY // 4,
    "M": 1461 * _DAY // 48,
    "W": 7 * _DAY,
    "D": _DAY,
    "h": 3600 * 10**18,
    "m": 60 * 10**18,
    **{unit: 10 ** (18 - 3 * power) for power, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))},
}


class DatetimeType(DataType):
    """numpy.datetime64 and numpy.timedelta64.

    unit          one of UNITS, or "generic" for none
    scale_factor  units in 1, from 1 to 2^31 - 1"""

    __slots__ = ("scale_factor", "unit")
    unit: str
    scale_factor: int

    def __init__(self, name: str, unit: str, scale_factor: int = 1) -> None:
        kind = _KINDS[name]
        factor = "" if scale_factor == 1 else scale_factor
        spelt = f"{kind}8" if unit == "generic" else f"{kind}8[{factor}{unit}]"
        super().__init__(name, np.dtype(spelt), ((0, 8, 1),))
        self.unit, self.scale_factor = unit, scale_factor

    @property
    def integer(self) -> Dtype:
        """The dtype of the integer count of units."""
        return _INT64

    @property
    def label(self) -> str:
        return f"{self.name}[{self.scale_factor if self.scale_factor > 1 else ''}{self.unit}]"

    def extension(self) -> Extension:
        return Extension(self.name, {"unit": self.unit, "scale_factor": self.scale_factor})

    def parse_bytes(self, value: Json, path: str) -> bytes:
        """An integer, which counts units, or "NaT"."""
        if isinstance(value, str) and value != "NaT":
            raise refusal(path, f'an integer, or "NaT" ({self.dtype})', value)
        return parse_integer(_NAT if value == "NaT" else value, _INT64, path)

    def emit_bytes(self, data: bytes) -> Json:
        number = emit_integer(data, _INT64)
        return "NaT" if number == _NAT else number

    def fill_from_user(self, value: object, path: str = "fill_value") -> FillValue:
        """A time of NumPy or of the module datetime, ISO 8601 text, "NaT", or an integer count of units; None is NaT. Raises
        MetadataError for a time that this unit cannot represent exactly."""
        if value is None:
            return FillValue(parse_integer(_NAT, _INT64, path), self.dtype)
        if isinstance(value, FillValue):
            value = value.scalar
        if isinstance(value, (np.generic, np.ndarray)):
            scalar = scalar_from_user(value, path)
            value = scalar if scalar.dtype.kind in "mM" else scalar.item()
        return FillValue(self.user_bytes(value, path), self.dtype)

    def user_bytes(self, value: object, path: str) -> bytes:
        if isinstance(value, bool):
            raise refusal(path, f"a time or an integer ({self.dtype})", value)
        if isinstance(value, int):
            return parse_integer(int(value), _INT64, path)
        kind = np.datetime64 if self.dtype.kind == "M" else np.timedelta64
        if isinstance(value, str):
            if value == "NaT":
                return parse_integer(_NAT, _INT64, path)
            if not value or kind is np.timedelta64:
                raise refusal(path, f'a time that {self.dtype} can hold, or "NaT"', value)
        try:
            time = value if isinstance(value, kind) else kind(value)  # type: ignore[call-overload]
            return self._exactly(time, path)
        except MetadataError:
            raise
        except (TypeError, ValueError, OverflowError):
            raise refusal(path, f"a time that {self.dtype} can hold", str(value)) from None

    def _exactly(self, time: np.datetime64 | np.timedelta64, path: str) -> bytes:
        if np.isnat(time):
            return parse_integer(_NAT, _INT64, path)
        converted = time.astype(self.dtype)
        if np.datetime_data(time.dtype)[0] != "generic" and (
            np.isnat(converted) or converted.astype(time.dtype) != time
        ):
            raise refusal(path, f"a time that {self.dtype} holds exactly", str(time))
        return bytes(converted.tobytes())


class DatetimeTypes(NamedDataTypes):
    """The family of both."""

    names = tuple(_KINDS)

    def parse(self, extension: Extension, path: str) -> DatetimeType:
        members = Members(extension.configuration, f"{path}.configuration")
        unit = members.choice("unit", (*UNITS, *_MICROSECONDS, "generic"))
        factor = members.integer("scale_factor", 1, 2**31 - 1)
        members.finish()
        if unit == "generic" and factor != 1:
            raise refusal(members.at("scale_factor"), 'the number 1 for the unit "generic"', factor)
        return DatetimeType(extension.name, "us" if unit in _MICROSECONDS else unit, factor)

    def from_numpy(self, dtype: Dtype) -> DatetimeType | None:
        if dtype.kind not in "mM":
            return None
        unit, factor = np.datetime_data(dtype)  # type: ignore[arg-type]
        return DatetimeType("numpy.datetime64" if dtype.kind == "M" else "numpy.timedelta64", unit, factor)


def in_unit(values: Values, dtype: Dtype, path: str, hint: str | None = None) -> Values:
    """Datetimes or timedeltas of any shape as a dtype of the same kind; times between two units are rounded down.

    path, hint: of the error. Raises InvalidInputError for times that the unit cannot count in 64 bits: NumPy before 2.5 returns other times."""
    low, high = _limits(values.dtype, dtype)
    numbers = values.astype(np.int64)
    wrong = ((numbers < low) | (numbers > high)) & (numbers != _NAT)
    if wrong.any():
        try:
            found = str(values[wrong][0])
        except OverflowError:  # no date
            found = f"number {numbers[wrong][0]} of {values.dtype}"
        raise InvalidInputError(f"a time is out of the range of {dtype}: found {found}", path=path, hint=hint)
    if np.datetime_data(dtype)[0] == "generic":  # type: ignore[arg-type] # NumPy would keep the dtype of the values, and its byte order
        return numbers.astype(np.dtype(np.int64).newbyteorder(dtype.byteorder), copy=False).view(dtype)
    try:
        return values.astype(dtype)
    except (OverflowError, TypeError) as error:  # NumPy has no factor between some units
        raise InvalidInputError(
            f"{values.dtype} cannot be turned into {dtype}: {error}", path=path, hint=hint
        ) from None


def _limits(source: Dtype, dtype: Dtype) -> tuple[int, int]:
    """The least and the largest number of the source's units that the dtype can count."""
    (unit, count), (to, to_count) = np.datetime_data(source), np.datetime_data(dtype)  # type: ignore[arg-type]
    if "generic" in (unit, to):
        return -_LAST, _LAST
    size, to_size = _SIZES[unit] * count, _SIZES[to] * to_count
    if unit in "YM" and to not in "YM":
        # NumPy counts days first; some years together are up to a day longer than the mean
        limit = max(0, min(_LAST, (_LAST * min(to_size, _DAY) - 2 * _DAY) // size))
        return -limit, limit
    if {unit, to} == {"Y", "M"}:
        size, to_size = (12 * count, to_count) if unit == "Y" else (count, 12 * to_count)
    factor = size // math.gcd(size, to_size)  # NumPy multiplies by it, and then divides
    return -(_LAST // factor), _LAST // factor
