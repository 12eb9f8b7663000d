"""Numbers outside the range of the integers of their encoding are an error, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import frazil
import frazil.xarray
from frazil.errors import InvalidInputError
from frazil.integrations.xarray.packed_values import checked

PACKED = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768}


def dataset(values: object, **encoding: object) -> xr.Dataset:
    return xr.Dataset({"t": ("x", np.asarray(values), {}, encoding)})


def read(place: object) -> list[float]:
    return xr.open_dataset(place, engine="frazil").t.values.tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [400.0, -400.0, np.inf, -np.inf])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_changed_variable(tmp_path: Path, value: float, lazy: bool) -> None:
    place = f"{tmp_path}/sea.repo"
    repo = frazil.Repository.create(place)
    dataset([1.0, np.nan, 2.0], **PACKED).frazil.write(f"{place}@main")
    before = repo.lookup("main")
    changed = dataset([1.0, np.nan, value])
    with pytest.raises(
        InvalidInputError,
        match=r"'t' has the value .* int16 cannot hold: it holds -317.68 to 337.67.*another name.*'t2'",
    ):
        (changed.chunk(x=3) if lazy else changed).frazil.write(f"{place}@main", mode="a")
    assert repo.lookup("main") == before
    (dataset([337.67, np.nan, -317.67]).chunk(x=3) if lazy else dataset([337.67, np.nan, -317.67])).frazil.write(
        f"{place}@main", mode="a"
    )
    np.testing.assert_allclose(read(place), [337.67, np.nan, -317.67], rtol=1e-6)


def test_an_appended_file_with_another_packing(tmp_path: Path) -> None:
    """Whose values are read when they are written."""
    dataset([1.0, 2.0], **PACKED).frazil.write(tmp_path / "sea.zarr")
    dataset([400.0], **{**PACKED, "scale_factor": 0.1}).to_netcdf(tmp_path / "hot.nc")
    with xr.open_dataset(tmp_path / "hot.nc") as hot, pytest.raises(InvalidInputError, match="400"):
        hot.frazil.write(tmp_path / "sea.zarr", append_dim="x")


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ([300], {"dtype": "i1"}),
        ([-1], {"dtype": "u2"}),
        ([300.0], {"dtype": "u1"}),
        ([5.0], {"dtype": "i1", "scale_factor": -0.01}),
        (np.array([2**63], "u8"), {"dtype": "i8"}),
        (np.array([2**63 - 1], "u8"), {"dtype": "i8", "_FillValue": 9}),  # xarray makes 2.0**63 of it
        ([2.0**63], {"dtype": "i8"}),
        ([2.0**64], {"dtype": "u8"}),
        (
            np.array([3276.0], "f2"),
            {"dtype": "i2", "scale_factor": np.float32(0.1), "_FillValue": 9},
        ),  # 32768 in float16
    ],
)
def test_a_new_variable(tmp_path: Path, values: list[float], encoding: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="cannot hold") as caught:
        dataset(values).frazil.write(tmp_path / "sea.zarr", encoding={"t": encoding})
    assert not (tmp_path / "sea.zarr").exists()
    assert caught.value.hint is not None and "another name" not in caught.value.hint
    hinted = eval(caught.value.hint.partition("encoding=")[2])  # as a user would copy it
    dataset(values).frazil.write(tmp_path / "sea.zarr", encoding=hinted)
    assert read(tmp_path / "sea.zarr") == values


@pytest.mark.parametrize("fill", [2**63 - 1, np.int64(2**63 - 1)])
def test_a_number_of_missing_values_that_is_not_exact(tmp_path: Path, fill: object) -> None:
    """It became -2**63, which was read as a value."""
    with pytest.raises(InvalidInputError, match="has NaN, and float64 cannot hold its number 9223372036854775807"):
        dataset([1.0, np.nan], dtype="i8", _FillValue=fill).frazil.write(tmp_path / "sea.zarr")
    dataset([1.0, 2.0], dtype="i8", _FillValue=fill).frazil.write(tmp_path / "sea.zarr")
    assert read(tmp_path / "sea.zarr") == [1.0, 2.0]


@pytest.mark.parametrize("factor", [0.5, np.float32(0.5)])
def test_integers_of_dask_are_packed(tmp_path: Path, factor: float) -> None:
    """xarray's coder divides integers in place, which only dask can do."""
    made = dataset(np.array([100, 127], "i1")).chunk(x=1)
    encoding = {"dtype": "i2", "scale_factor": factor, "add_offset": 1.0, "_FillValue": -1}
    made.frazil.write(tmp_path / "sea.zarr", encoding={"t": encoding})
    assert read(tmp_path / "sea.zarr") == [100.0, 127.0]
    with pytest.raises(InvalidInputError, match=r"has the value 1(00|27)"):
        made.frazil.write(tmp_path / "sea.zarr", mode="w", encoding={"t": {**encoding, "dtype": "i1"}})


def test_a_fill_value_that_its_integers_cannot_hold(tmp_path: Path) -> None:
    """It became 241, which was a valid value."""
    made = dataset([241.0], _FillValue=np.float32(-9999))
    with pytest.raises(
        InvalidInputError, match=r"has the fill value -9999\.0, which its encoding as uint8 cannot hold"
    ):
        made.frazil.write(tmp_path / "sea.zarr", encoding={"t": {"dtype": "u1", "_FillValue": np.float32(-9999)}})
    missing = dataset([1.0, np.nan], dtype="i2", missing_value=np.float32(1e20))
    with pytest.raises(InvalidInputError, match=r"has the fill value 1.*e\+20, which its encoding as int16"):
        missing.frazil.write(tmp_path / "sea.zarr")


@pytest.mark.parametrize("key", ["_FillValue", "missing_value"])
@pytest.mark.parametrize(
    ("dtype", "fill"), [("i2", 10**6), ("u1", -1), ("i2", 1.5), ("f4", 1e300), ("?", 5), ("u8", 2**70), ("c8", 1e300)]
)
def test_a_fill_value_outside_the_range_of_a_variable_without_packing(
    dtype: str, fill: float, key: str, tmp_path: Path
) -> None:
    """Some became other values: 1.5 was 1, and 5 was True, which then was missing."""
    with pytest.raises(InvalidInputError, match="has the fill value"):
        xr.Dataset({"t": ("x", np.zeros(2, dtype), {}, {key: fill})}).frazil.write(tmp_path / "sea.zarr")
    assert not (tmp_path / "sea.zarr").exists()


def test_hints(tmp_path: Path) -> None:
    """A new variable can get another encoding; that of an array that exists cannot be changed."""
    with pytest.raises(InvalidInputError) as new:
        dataset([300.0], dtype="u1", _FillValue=255).frazil.write(tmp_path / "sea.zarr")
    assert new.value.hint == "give it an encoding that holds it: encoding={'t': {'dtype': 'float64'}}"
    dataset([3.0], dtype="u1", _FillValue=255).frazil.write(tmp_path / "sea.zarr")
    with pytest.raises(InvalidInputError) as appended:
        dataset([300.0]).frazil.write(tmp_path / "sea.zarr", append_dim="x")
    assert "give the variable another name, and an encoding" in (appended.value.hint or "")


@pytest.mark.filterwarnings("ignore:saving variable x:xarray.SerializationWarning")  # of older versions
def test_a_coordinate(tmp_path: Path) -> None:
    """Whose values are those of an index."""
    made = xr.Dataset(coords={"x": ("x", [0.0, 1.0], {}, {"dtype": "i1"})})
    made.frazil.write(tmp_path / "sea.zarr")
    assert xr.open_dataset(tmp_path / "sea.zarr", engine="frazil").x.values.tolist() == [0, 1]
    with pytest.raises(InvalidInputError, match="'x' has the value 300"):
        xr.Dataset(coords={"x": [300.0]}).frazil.write(tmp_path / "sea.zarr", append_dim="x")


def test_unsigned_numbers_and_fill_values(tmp_path: Path) -> None:
    dataset([0.0, 255.0], dtype="i1", _Unsigned="true", _FillValue=np.int8(-128)).frazil.write(tmp_path / "u.zarr")
    assert read(tmp_path / "u.zarr") == [0.0, 255.0]
    dataset([np.nan, np.nan], **PACKED).frazil.write(tmp_path / "n.zarr")
    assert np.isnan(read(tmp_path / "n.zarr")).all()
    dataset(np.zeros(0), **PACKED).frazil.write(tmp_path / "e.zarr")


@given(st.integers(-40000, 40000), st.sampled_from([0.5, -0.25, 3.0]), st.sampled_from([0.0, 7.0]))
def test_packed_values_round_trip(packed: int, scale: float, offset: float) -> None:
    variable = xr.Variable("x", np.array([packed * scale + offset]))
    variable.encoding = {"dtype": "i2", "scale_factor": scale, "add_offset": offset}
    if -32768 <= packed <= 32767:
        assert checked(variable, "t", exists=False) is variable
    else:
        with pytest.raises(InvalidInputError):
            checked(variable, "t", exists=False)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("units", ["days", "hours since 2000-01-01"])
def test_missing_times_that_were_not_decoded(tmp_path: Path, units: str, lazy: bool) -> None:
    """xarray reads them as the smallest integer of 64 bits, and writes that as the fill value."""
    smallest = np.iinfo("i8").min
    values = dataset(np.array([1, smallest, 3]), dtype="i4", _FillValue=-1)
    values.t.attrs["units"] = units
    values = values.chunk() if lazy else values
    values.frazil.write(tmp_path / "a.zarr")
    assert xr.open_dataset(tmp_path / "a.zarr", engine="frazil", decode_cf=False).t.values.tolist() == [1, -1, 3]
    for wrong in (values + smallest + 5, values.where(values > 0, 2**40).astype("i8")):
        wrong.t.attrs["units"], wrong.t.encoding = units, values.t.encoding
        with pytest.raises(InvalidInputError, match="int32 cannot hold"):
            wrong.frazil.write(tmp_path / "b.zarr", mode="w")
    values.t.attrs["units"] = "m"
    with pytest.raises(InvalidInputError, match="int32 cannot hold"):
        values.frazil.write(tmp_path / "b.zarr", mode="w")
