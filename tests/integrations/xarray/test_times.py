"""Times and durations: those that xarray's encoders turn into other times are encoded right, or are an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import frazil.xarray  # noqa: F401 # registers ds.frazil
from frazil.errors import InvalidInputError
from frazil.stores.memory import MemoryStore

SECONDS = {"units": "seconds since 1970-01-01", "dtype": "i4"}


def times(*values: str, unit: str = "ns", **encoding: object) -> xr.Dataset:
    return xr.Dataset({"t": ("x", np.array(values, f"M8[{unit}]"), {}, encoding)})


def read(store: object) -> list[str]:
    found = xr.open_dataset(store, engine="frazil").t.values  # type: ignore[arg-type]
    return [str(value)[:19] for value in found]


@pytest.mark.parametrize("lazy", [False, True])
def test_times_of_32_bits_end_in_2038(lazy: bool) -> None:
    """Later ones were stored as times of the year 1902, as to_zarr stores them."""
    store = MemoryStore()
    times("2037-01-01", **SECONDS).frazil.write(store)
    late = times("2037-01-02", "2039-01-01")
    with pytest.raises(InvalidInputError, match=r"'t' has the time 2177452800 seconds since 1970-01-01.* as int32"):
        (late.chunk(x=2) if lazy else late).frazil.write(store, append_dim="x")
    store, fine = MemoryStore(), times("2038-01-19T03:14:07")
    (fine.chunk(x=1) if lazy else fine).frazil.write(store, encoding={"t": SECONDS})
    assert read(store) == ["2038-01-19T03:14:07"]


@pytest.mark.parametrize(("value", "dtype"), [(40000, "i2"), (-1, "u1"), (300, "u1")])
def test_durations(value: int, dtype: str, tmp_path: Path) -> None:
    durations = xr.Dataset({"t": ("x", np.array([value], "m8[D]").astype("m8[ns]"))})
    with pytest.raises(InvalidInputError, match=f"'t' has the time {value} days"):
        durations.frazil.write(tmp_path / "a.zarr", encoding={"t": {"units": "days", "dtype": dtype}})


def test_times_of_cftime() -> None:
    days = xr.date_range("2000-01-01", periods=2, freq="40000D", calendar="noleap", use_cftime=True)
    encoding = {"t": {"units": "days since 2000-01-01", "dtype": "i2"}}
    with pytest.raises(InvalidInputError, match="the time 40000 days"):
        xr.Dataset({"t": ("x", days)}).frazil.write(MemoryStore(), encoding=encoding)
    store = MemoryStore()
    xr.Dataset({"t": ("x", days[:1])}).frazil.write(store, encoding=encoding)
    assert read(store) == ["2000-01-01 00:00:00"]


def test_a_missing_time_needs_a_number() -> None:
    """It became 0 in fewer than 64 bits: the first time of the units."""
    with pytest.raises(InvalidInputError, match="'t' has NaT, which its encoding as int32 cannot hold"):
        times("2000-01-01", "NaT", **SECONDS).frazil.write(MemoryStore())
    store = MemoryStore()
    times("2000-01-01", "NaT", **SECONDS, _FillValue=-1).frazil.write(store)
    assert read(store) == ["2000-01-01T00:00:00", "NaT"]
    assert xr.open_dataset(store, engine="frazil").t.encoding["_FillValue"] == -1
    times("NaT", "2000-01-03").frazil.write(store, append_dim="x")
    assert read(store) == ["2000-01-01T00:00:00", "NaT", "NaT", "2000-01-03T00:00:00"]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("unit", "units"), [("us", "nanoseconds"), ("s", "milliseconds"), ("ms", "Microsecond")])
def test_units_finer_than_the_times(unit: str, units: str, lazy: bool) -> None:
    """All of them became NaT, as to_zarr stores them."""
    made = times("2000-01-03", "NaT", "2000-01-04T05:06:07", unit=unit)
    store, encoding = MemoryStore(), {"t": {"units": f"{units} since 2000-01-01", "dtype": "i8"}}
    (made.chunk(x=2) if lazy else made).frazil.write(store, encoding=encoding)
    assert read(store) == ["2000-01-03T00:00:00", "NaT", "2000-01-04T05:06:07"]
    durations = xr.Dataset({"t": ("x", np.array([90061], f"m8[{unit}]"))})
    durations.frazil.write(store, mode="w", encoding={"t": {"units": units.lower().rstrip("s") + "s", "dtype": "i8"}})
    found = xr.open_dataset(store, engine="frazil", decode_timedelta=True).t.values
    assert (found == durations.t.values).all()


def test_times_out_of_the_range_of_nanoseconds() -> None:
    encoding = {"t": {"units": "nanoseconds since 2000-01-01", "dtype": "i8"}}
    with pytest.raises(InvalidInputError, match=r"a time is out of the range of datetime64\[ns\].*coarser"):
        times("3000-01-01", unit="us").frazil.write(MemoryStore(), encoding=encoding)


def test_unknown_units() -> None:
    with pytest.raises(InvalidInputError, match="cannot be encoded in the units 'months since 2000-01-01'"):
        times("2000-01-01").frazil.write(MemoryStore(), encoding={"t": {"units": "months since 2000-01-01"}})


@pytest.mark.parametrize("key", ["_FillValue", "missing_value"])
def test_a_fill_value_that_its_integers_cannot_hold(key: str) -> None:
    """It became another number, which was a valid time."""
    encoding = {"units": "hours since 2000-01-01", "dtype": "i4", key: -(2**63)}
    with pytest.raises(InvalidInputError, match=r"has the fill value -9223372036854775808.* as int32 cannot hold"):
        times("2000-01-01", "2000-01-02", **encoding).frazil.write(MemoryStore())


@pytest.mark.parametrize("lazy", [False, True])
def test_packed_times(lazy: bool) -> None:
    """Those outside the range of the integers were stored as others, as to_zarr stores them."""
    encoding = {"t": {"units": "hours since 2000-01-01", "dtype": "i2", "add_offset": 10.0}}
    for value, message in (("2010-01-01", "the time 87662.0 hours"), ("NaT", "NaT")):
        wrong = times(value)
        with pytest.raises(InvalidInputError, match=f"'t' has {message}.* as int16"):
            (wrong.chunk(x=1) if lazy else wrong).frazil.write(MemoryStore(), encoding=encoding)
    store, right = MemoryStore(), times("2001-01-01T05", "1999-01-01", "NaT")
    encoding["t"]["_FillValue"] = np.int16(-1)
    (right.chunk(x=2) if lazy else right).frazil.write(store, encoding=encoding)
    assert read(store) == ["2001-01-01T05:00:00", "1999-01-01T00:00:00", "NaT"]
    stored = xr.open_dataset(store, engine="frazil", decode_cf=False).t  # type: ignore[arg-type]
    assert (stored.dtype, stored.attrs["_FillValue"]) == ("int16", -1)
    store = MemoryStore()
    right[{"x": slice(2)}].frazil.write(store, encoding={"t": {**encoding["t"], "_FillValue": None}})
    assert "_FillValue" not in xr.open_dataset(store, engine="frazil", decode_cf=False).t.attrs  # type: ignore[arg-type]
    right.frazil.write(store, mode="w", encoding={"t": {"units": "days since 2000-01-01", "add_offset": 0.25}})
    assert read(store) == ["2001-01-01T05:00:00", "1999-01-01T00:00:00", "NaT"]  # as floats
