"""Datetimes and timedeltas: documents, NumPy dtypes, fill values, values of users."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata import data_types_of_all_kinds as kinds
from tests.metadata.refusals import refused

from frazil.errors import MetadataError
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.datetimes import UNITS, DatetimeType
from frazil.metadata.types.fill_values import FillValue

NAT = -(2**63)
TIMES = pytest.mark.parametrize("name", ["numpy.datetime64", "numpy.timedelta64"])


def document(name: str, **configuration: Json) -> dict[str, Json]:
    return {"name": name, "configuration": configuration}


def read(name: str, **configuration: Json) -> DatetimeType:
    data_type = CORE_EXTENSIONS.data_type(Extension(name, configuration))
    assert isinstance(data_type, DatetimeType)
    return data_type


def counted(count: int, dtype: str) -> FillValue:
    return FillValue(np.int64(count).tobytes(), np.dtype(dtype))


@TIMES
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("factor", [1, 10, 2**31 - 1])
def test_every_datetime_unit_round_trips(name: str, unit: str, factor: int) -> None:
    data_type = read(name, unit=unit, scale_factor=factor)
    assert data_type.dtype == np.dtype(f"{name[6:]}[{factor}{unit}]")
    assert data_type.swaps == ((0, 8, 1),)
    assert data_type.to_json() == document(name, unit=unit, scale_factor=factor)
    assert CORE_EXTENSIONS.from_numpy(data_type.dtype) == data_type
    assert CORE_EXTENSIONS.from_numpy(data_type.dtype.newbyteorder(">")) == data_type
    assert data_type.label == f"{name}[{factor if factor > 1 else ''}{unit}]"


@TIMES
def test_generic_unit_and_both_spellings_of_microseconds(name: str) -> None:
    generic = read(name, unit="generic", scale_factor=1)
    assert generic.dtype == np.dtype(name[6:])
    assert CORE_EXTENSIONS.from_numpy(name[6:]) == generic
    for unit in ("\u03bcs", "\u00b5s"):
        assert read(name, unit=unit, scale_factor=3) == read(name, unit="us", scale_factor=3)


@TIMES
@pytest.mark.parametrize(
    ("configuration", "member"),
    [
        ({}, "unit"),
        ({"unit": "s"}, "scale_factor"),
        ({"scale_factor": 1}, "unit"),
        ({"unit": "x", "scale_factor": 1}, "unit"),
        ({"unit": "s", "scale_factor": 0}, "scale_factor"),
        ({"unit": "s", "scale_factor": 2**31}, "scale_factor"),
        ({"unit": "s", "scale_factor": 1.0}, "scale_factor"),
        ({"unit": "generic", "scale_factor": 2}, "scale_factor"),
        ({"unit": "s", "scale_factor": 1, "endian": "big"}, "endian"),
    ],
)
def test_bad_configurations_are_refused(name: str, configuration: dict[str, Json], member: str) -> None:
    with refused(f"data_type.configuration.{member}", member):
        read(name, **configuration)


@TIMES
def test_fill_values(name: str) -> None:
    data_type = read(name, unit="s", scale_factor=1)
    for value, count in ((0, 0), (-5, -5), (2**63 - 1, 2**63 - 1), ("NaT", NAT), (NAT, NAT)):
        assert data_type.parse_fill(value) == counted(count, f"{name[6:]}[s]")
    assert data_type.emit_fill(data_type.parse_fill(NAT)) == "NaT"
    assert data_type.zero == counted(0, f"{name[6:]}[s]")
    for bad in (2**63, 1.5, 1.0, True, None, "nat", "2020-01-01", "0x" + "0" * 16, [0]):
        with refused("fill_value"):
            data_type.parse_fill(bad)


@given(kinds.typed(kinds.times), st.integers(NAT, 2**63 - 1))
def test_fill_values_are_exact(data_type: DatetimeType, count: int) -> None:
    fill = FillValue(np.int64(count).tobytes(), data_type.dtype)
    assert data_type.parse_fill(data_type.emit_fill(fill)) == fill
    assert data_type.fill_from_user(fill) == fill
    assert data_type.fill_from_user(fill.scalar) == fill
    assert data_type.fill_from_user(count) == fill
    assert CORE_EXTENSIONS.data_type_from_user(data_type.to_json()) == data_type


def test_datetimes_of_users() -> None:
    data_type = CORE_EXTENSIONS.from_numpy("M8[s]")
    day = counted(1577836800, "M8[s]")
    for value in (
        "2020-01-01",
        "2020-01-01T00:00:00.000",
        dt.date(2020, 1, 1),
        dt.datetime(2020, 1, 1),  # noqa: DTZ001
        np.datetime64("2020-01-01"),
        np.datetime64("2020-01-01", "ns"),
        np.array("2020", ">M8[Y]"),
        1577836800,
        np.int32(1577836800),
    ):
        assert data_type.fill_from_user(value) == day
    assert data_type.fill_from_user(None) == data_type.parse_fill("NaT")
    for value in ("NaT", NAT, np.datetime64("NaT", "D")):
        assert data_type.fill_from_user(value) == counted(NAT, "M8[s]")
    too_far = np.int64(2**62).view("M8[D]")
    for bad in (
        "yesterday", "", True, 1.5, math.nan, 2**63, np.timedelta64(1, "s"), np.datetime64("2020-01-01T00:00:00.5"),
        too_far, [1], np.array([1, 2]), np.array(["2020"], "M8[s]"), object(),
    ):  # fmt: skip
        with pytest.raises(MetadataError):
            data_type.fill_from_user(bad)


def test_timedeltas_of_users() -> None:
    data_type = CORE_EXTENSIONS.from_numpy("m8[h]")
    for value in (dt.timedelta(days=2), np.timedelta64(2, "D"), np.timedelta64(48 * 3600, "s"), 48, np.uint8(48)):
        assert data_type.fill_from_user(value) == counted(48, "m8[h]")
    assert data_type.fill_from_user("NaT") == counted(NAT, "m8[h]")
    for bad in (
        dt.timedelta(minutes=5),
        np.timedelta64(5, "m"),
        np.datetime64("2020"),
        "48",
        "2 days",
        1.5,
        True,
    ):
        with pytest.raises(MetadataError):
            data_type.fill_from_user(bad)
