"""Missing values (CF conventions) of imported files: xarray reads the same from our data as from the file. Files of xarray and of netCDF4, in all ways to
import."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from tests.external_data import data
from xarray.backends.zarr import FillValueCoder

import frazil
from frazil.integrations.files.imports.importer import Mode, folder_prefix, import_scanned
from frazil.integrations.files.missing_values import set_missing_values
from frazil.integrations.files.scanned import Skipped
from frazil.integrations.files.scanner import scan_file
from frazil.stores.local.local_store import LocalStore
from frazil.stores.memory import MemoryStore

HOW: tuple[Mode, ...] = ("copy", "virtual", "adopt")

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]

KINDS = ("NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF4", "NETCDF4_CLASSIC")


def imported(file: Path, how: Mode) -> tuple[frazil.Repository, tuple[Skipped, ...]]:
    repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=[folder_prefix(str(file))])
    session = repo.writable_session()
    done = import_scanned(session, scan_file(file), str(file), mode=how)
    session.commit("imported")
    return repo, done.skipped


def opened(repo: frazil.Repository, folder: Path, **options: object) -> xarray.Dataset:
    """The repository's data as read by xarray's zarr engine."""
    frazil.copy(repo.readonly_session().store, LocalStore(folder))
    return xarray.open_zarr(folder, consolidated=False, **options).load()  # type: ignore[arg-type]


def check_identical(file: Path, tmp_path: Path, **options: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xarray.SerializationWarning)  # which the file itself causes
        with xarray.open_dataset(file, **options) as expected:  # type: ignore[arg-type]
            expected.load()
            for how in HOW:
                found = opened(imported(file, how)[0], tmp_path / how, **options)
                xarray.testing.assert_identical(found, expected)
                assert {name: found[name].dtype for name in found.variables} == {
                    name: expected[name].dtype for name in expected.variables
                }


def dataset(kind: str) -> tuple[xarray.Dataset, dict[str, dict[str, object]]]:
    """Variables of every kind, with missing values, and how they are encoded."""
    x = [1.0, np.nan, 3.0, -999.0]
    variables: dict[str, object] = {
        "masked": ("x", x, {"units": "K"}),
        "single": ("x", np.array(x, "f4")),
        "infinite": ("x", [np.inf, np.nan, -np.inf, 0.0]),
        "unmasked": ("x", [1.0, np.nan, 2.0, 3.0]),
        "packed": (("x", "y"), np.array([[1.0, np.nan], [2.5, 0.0]] * 2)),
        "small": ("x", [1.0, np.nan, 2.0, 0.0]),
        "whole": ("x", np.array([1, 2, 3, -1], "i4")),
        "both": ("x", [1.0, np.nan, 2.0, 0.0]),
        "scalar": ((), 5.5, {"long_name": "one"}),
        "scalar_missing": ((), np.nan),
        "bytes": ("x", np.array([b"a", b"bcd", b"", b"xy"])),
        "one_text": ((), np.array(b"hello")),
        "time": ("x", np.array(["2000-01-01", "NaT", "2001-05-06T07:08:09", "1960-01-01"], "M8[ns]")),
        "since": ("x", np.array([1, 2, 3, 4], "m8[s]").astype("m8[ns]")),
        "flag": ("x", np.array([True, False, True, True])),
    }
    coords = {"x": ("x", np.array([10, 20, 30, 40], "i4")), "y": ("y", [0.5, 1.5], {"axis": "Y"})}
    encoding: dict[str, dict[str, object]] = {
        "masked": {"_FillValue": -999.0},
        "single": {"dtype": "f4", "_FillValue": np.float32(9.96921e36)},
        "infinite": {"_FillValue": 1e300},
        "unmasked": {"_FillValue": None},
        "packed": {"dtype": "i2", "scale_factor": 0.25, "add_offset": 1.0, "_FillValue": -1},
        "small": {"dtype": "i1", "_FillValue": -127},
        "whole": {"_FillValue": None},
        "both": {"dtype": "f4", "_FillValue": np.float32(1e20), "missing_value": np.float32(1e20)},
        "scalar_missing": {"_FillValue": -5.0},
        "time": {"dtype": "f8", "_FillValue": -1e9, "units": "hours since 1900-01-01"},
    }
    if not kind.startswith("NETCDF4"):  # if text has one length
        variables["text"] = ("x", np.array(["ä", "longer", "", "z"], object))
    if kind == "NETCDF4":
        variables["large"] = ("x", np.array([1.0, np.nan, 2.0, 0.0]))
        encoding["large"] = {"dtype": "u4", "_FillValue": 2**32 - 1}
        encoding["packed"] |= {"zlib": True, "shuffle": True, "chunksizes": (3, 2)}
        encoding["masked"] |= {"zlib": True, "chunksizes": (3,)}
        encoding["bytes"] = {"zlib": True, "chunksizes": (2, 3)}
    return xarray.Dataset(variables, coords, {"title": "of the sea", "numbers": [1, 2]}), encoding  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"mask_and_scale": False}, {"decode_cf": False}], ids=str)
def test_xarray_sees_what_it_sees_in_the_file(kind: str, options: Mapping[str, object], tmp_path: Path) -> None:
    values, encoding = dataset(kind)
    values.to_netcdf(tmp_path / "a.nc", format=kind, engine="netcdf4", encoding=encoding)  # type: ignore[call-overload]
    check_identical(tmp_path / "a.nc", tmp_path, **options)


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_text_with_fill_values_can_be_opened(kind: str, tmp_path: Path) -> None:
    """xarray's zarr engine refuses to open arrays of bytes that have `_FillValue`: the import drops it, with a warning."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=kind) as file:
        file.createDimension("x", 3)
        file.createDimension("letters", 2)
        file.createVariable("marked", "S1", ("x", "letters"), fill_value=b"-")[:] = [
            [b"a", b"b"],
            [b"-", b""],
            [b"c", b""],
        ]
        file.createVariable("letter", "S1", ("x",), fill_value=b"?")[:2] = [b"a", b"?"]
        file.createVariable("alone", "S1", ())[...] = b"z"
        file.createVariable("never", "S1", ("x", "letters"))
    with xarray.open_dataset(tmp_path / "a.nc", mask_and_scale=False) as expected:
        for how in HOW:
            repo, skipped = imported(tmp_path / "a.nc", how)
            assert [(part.path, part.attribute) for part in skipped] == [
                ("marked", "_FillValue"),
                ("letter", "_FillValue"),
            ]
            assert "b'-'" in skipped[0].reason
            found = opened(repo, tmp_path / how)
            for name in expected.variables:
                np.testing.assert_array_equal(found[name], expected[name])
                assert found[name].dtype == expected[name].dtype


def test_text_of_any_length_with_a_fill_value_can_be_opened(tmp_path: Path) -> None:
    """Unwritten elements are the fill value. The import drops its use as a mark of missing values, with a warning."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        variable = file.createVariable("a", str, ("x",), fill_value="none", chunksizes=(1,))
        variable.units = "words"
        variable[:1] = np.array(["ä"], object)
    repo, skipped = imported(tmp_path / "a.nc", "copy")
    assert [(part.path, part.attribute) for part in skipped] == [("a", "_FillValue")]
    assert "'none'" in skipped[0].reason and "text" in skipped[0].reason
    found = opened(repo, tmp_path / "copy")["a"]
    assert found.values.tolist() == ["ä", "none", "none"] and found.attrs == {"units": "words"}


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_chunks_that_were_never_written(kind: str, tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=kind) as file:
        file.createDimension("t", None)
        file.createDimension("x", 7)
        for name, fill in (("own", -1.0), ("none", None)):
            file.createVariable(name, "f4", ("t", "x"), fill_value=fill)[2, :3] = 1
    check_identical(tmp_path / "a.nc", tmp_path)


def test_a_fill_value_that_the_type_cannot_hold_is_dropped_and_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.nc"
    with netCDF4.Dataset(file, "w", format="NETCDF3_CLASSIC") as made:
        made.createDimension("x", 2)
        for name, dtype, value in (("nan", "i2", np.nan), ("large", "i1", 300), ("text", "f4", "none")):
            made.createVariable(name, dtype, ("x",))[:] = [1, 2]
            made[name].setncattr("_Fillvalue", value)  # the netCDF library refuses the correct name, but files have it
    file.write_bytes(file.read_bytes().replace(b"_Fillvalue", b"_FillValue"))
    for how in HOW:
        repo, skipped = imported(file, how)
        assert [(part.path, part.attribute) for part in skipped] == [
            (n, "_FillValue") for n in ("nan", "large", "text")
        ]
        assert "NaN" in skipped[0].reason and "dropped" in skipped[0].reason
        root = repo.readonly_session().root
        assert all("_FillValue" not in root[name].attrs for name in ("nan", "large", "text"))
        assert root["nan"][:].tolist() == [1, 2]


def test_missing_values_that_json_cannot_express(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as made:
        made.createDimension("x", 2)
        for name, dtype in (("a", "f4"), ("b", "i2")):
            made.createVariable(name, dtype, ("x",))[:] = [1, 2]
            made[name].setncattr("missing_valuE", np.float32(np.nan))
    (tmp_path / "a.nc").write_bytes((tmp_path / "a.nc").read_bytes().replace(b"missing_valuE", b"missing_value"))
    check_identical(tmp_path / "a.nc", tmp_path)
    _, skipped = imported(tmp_path / "a.nc", "copy")
    assert [(part.path, part.attribute) for part in skipped] == [("a", "missing_value"), ("b", "missing_value")]


@pytest.mark.parametrize("name", ["eraint_uvz.nc", "basin_mask.nc"])
def test_files_of_the_world(name: str, tmp_path: Path) -> None:
    check_identical(data(name), tmp_path)


def test_hdf5_has_booleans_complex_numbers_and_text(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values, fill in (
            ("flag", np.array([True, False]), np.array([True])),
            ("wave", np.array([1 + 2j, 3]), np.array([3 + 0j])),
            ("name", np.array([b"ab", b"cdefg"]), np.bytes_(b"ab")),
        ):
            file[name] = values
            file[name].attrs["_FillValue"] = fill
    for how in HOW:
        repo, skipped = imported(tmp_path / "a.h5", how)
        root = repo.readonly_session().root
        assert [part.path for part in skipped] == ["name"]
        assert root["name"][:].tolist() == [b"ab", b"cdefg"]
        assert {name: root[name].attrs["_FillValue"] for name in ("flag", "wave")} == {
            "flag": True,
            "wave": FillValueCoder.encode(3 + 0j, np.dtype("c16")),
        }


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *[(dtype, 7) for dtype in ("i1", "<i2", ">i4", "i8", "u1", ">u2", "u4", "u8")],
        *[(dtype, value) for dtype in ("f2", "f4", ">f8") for value in (-999.0, np.nan, -np.inf, 0.0, -0.0)],
        ("f8", 1e-320), ("u8", 2**64 - 1), ("i8", -(2**63)), (">f4", np.float32(1e20)), ("c8", 1 - 2j), ("c16", complex(np.nan, 3)),
        ("?", True),
    ],
)  # fmt: skip
def test_the_form_is_that_of_xarrays_zarr_engine(dtype: str, value: object) -> None:
    attributes: dict[str, object] = {"_FillValue": "raw", "units": "m"}
    skipped: list[Skipped] = []
    for raw in (value, np.array([value], dtype)):
        element = set_missing_values(attributes, raw, np.dtype(dtype), "a", skipped)  # type: ignore[arg-type]
        native = np.dtype(dtype).newbyteorder("=")
        encoded = FillValueCoder.encode(np.array([value], native)[0], native)
        assert attributes == {"units": "m", "_FillValue": encoded} and not skipped
        assert type(attributes["_FillValue"]) is type(encoded)
        np.testing.assert_array_equal(element, np.array([value], native)[0])


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("i2", np.nan), ("i2", 1.5), ("i2", 2**15), ("u1", -1), ("f4", 1e300), ("f4", b"x"), ("S1", 5), ("S1", b"xy"), ("i2", [1, 2]),
     ("f8", 1j), ("i4", h5py.Empty("f4")), ("?", 2), ("V3", 5), ("i4,f8", 0), ("U2", 5)],
)  # fmt: skip
def test_missing_values_outside_the_data_type(dtype: str, value: object) -> None:
    attributes: dict[str, object] = {"_FillValue": "raw"}
    skipped: list[Skipped] = []
    assert set_missing_values(attributes, value, np.dtype(dtype), "a", skipped) is None  # type: ignore[arg-type]
    assert attributes == {} and [(part.path, part.attribute) for part in skipped] == [("a", "_FillValue")]
