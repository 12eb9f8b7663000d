"""Files of writers other than the netCDF library: of h5py with dimension scales, in h5netcdf's form, and classic files byte by byte, in SciPy's layout. xarray
reads the same from our data as from the file."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.integrations.files.test_missing_values import check_identical

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]

OPTIONS: list[dict[str, object]] = [{}, {"mask_and_scale": False}, {"decode_cf": False}]
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable.         "  # and the length, as netCDF writes it


def add(
    file: h5py.File, name: str, values: object, scales: tuple[str, ...] = (), **layout: Any
) -> h5py.AttributeManager:
    """A dataset with dimension scales. Returns its attributes."""
    dataset = file.create_dataset(name, data=values, **layout)
    for dimension, scale in enumerate(scales):
        dataset.dims[dimension].attach_scale(file[scale])
    return dataset.attrs


def add_scale(file: h5py.File, name: str, values: np.ndarray, title: str = "", **layout: Any) -> None:
    file.create_dataset(name, data=values, **layout).make_scale(title or name)


def with_scales(path: Path, **options: Any) -> None:
    """Attributes written by h5py: text of any length, scalars."""
    with h5py.File(path, "w", **options) as file:
        add_scale(file, "x", np.arange(4, dtype="i4") * 10)
        add_scale(file, "y", np.array([0.5, 1.5]))
        masked = add(file, "masked", [1.0, -999.0, 3.0, 4.0], ("x",), chunks=(3,), compression="gzip")
        masked.update({"_FillValue": np.float64(-999), "units": "K"})
        filters = {"compression": "gzip", "shuffle": True, "fletcher32": True}
        values = np.array([[1, -1], [2, 3], [4, 5], [-1, 6]], "i2")
        packed = add(file, "packed", values, ("x", "y"), chunks=(3, 2), **filters)
        packed.update({"_FillValue": np.array([-1], "i2"), "scale_factor": 0.25, "add_offset": np.array([1.0])})
        add(file, "big", np.array([1, 2, 3, -5], ">i4"), ("x",))["missing_value"] = np.int32(-5)
        time = add(file, "time", [0.0, 1e9, 2.0, 3.5], ("x",))
        time.update({"units": np.bytes_("hours since 1900-01-01"), "_FillValue": 1e9})
        add(file, "scalar", 5.5)["long_name"] = "one"
        add(file, "missing", -5.0)["_FillValue"] = -5.0
        add(file, "unsigned", np.array([1, 2**32 - 1, 3, 4], "u4"), ("x",))["_FillValue"] = np.uint32(2**32 - 1)
        unwritten = file.create_dataset("unwritten", (4,), "f4", fillvalue=1e20, chunks=(2,))
        unwritten.dims[0].attach_scale(file["x"])
        unwritten.attrs["_FillValue"] = np.float32(1e20)
        unwritten[0] = 7
        file.attrs.update({"title": "of the sea", "numbers": np.array([1, 2], "i4"), "bytes": np.bytes_("fixed")})


def without_scales(path: Path) -> None:
    with h5py.File(path, "w") as file:
        add(file, "a", [1.0, -9.0, 3.0])["_FillValue"] = -9.0
        add(file, "b", np.arange(6, dtype="i2").reshape(3, 2), chunks=(2, 2))


def as_h5netcdf(path: Path) -> None:
    """Dimensions without variables, numbered, and an unlimited one that is longer than a variable along it."""
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["_NCProperties"] = np.bytes_("version=2,h5netcdf=1.6.4,hdf5=1.14.6,h5py=3.16.0")
        add_scale(file, "z", np.zeros(3, ">f4"), f"{NO_VARIABLE}3")
        add_scale(file, "letters", np.zeros(2, ">f4"), f"{NO_VARIABLE}2")
        add_scale(file, "t", np.arange(5.0), maxshape=(None,), chunks=(2,))
        for number, name in enumerate(("z", "t", "letters")):
            file[name].attrs["_Netcdf4Dimid"] = np.int32(number)
        file["t"].attrs.update({"units": "days since 2000-01-01", "calendar": "standard"})
        values = np.where(np.arange(15) % 4 == 1, np.nan, np.arange(15.0)).reshape(5, 3)
        grows = {"maxshape": (None, 3), "chunks": (2, 3), "fillvalue": np.nan, "compression": "gzip"}
        attributes = add(file, "a", values, ("t", "z"), **grows)
        attributes.update({"_Netcdf4Coordinates": np.array([1, 0], "i4"), "_FillValue": np.array([np.nan])})
        attributes["coordinates"] = "lon"
        add(file, "lon", np.array([1, 2, 3], "f4"), ("z",))
        add(file, "text", np.array([[b"a", b"b"], [b"c", b""], [b"d", b"e"]]), ("z", "letters"))
        short = add(file, "short", [1.0, 2.0], ("t",), maxshape=(None,), chunks=(2,), fillvalue=-9.0)
        short["_FillValue"] = -9.0
        file.create_group("inner")


HDF5: dict[str, Callable[[Path], None]] = {
    "scales": with_scales,
    "scales, latest": lambda path: with_scales(path, libver="latest"),
    "scales, in order": lambda path: with_scales(path, track_order=True),
    "no scales": without_scales,
    "h5netcdf": as_h5netcdf,
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", HDF5)
def test_files_of_h5py(name: str, options: Mapping[str, object], tmp_path: Path) -> None:
    HDF5[name](tmp_path / "a.nc")
    check_identical(tmp_path / "a.nc", tmp_path, **options)


# --- classic files -------------------------------------------------------------------------------------------------------------------

CODES = {"i1": 1, "S1": 2, "i2": 3, "i4": 4, "f4": 5, "f8": 6}
RECORDS = 4
DIMENSIONS = {"x": 3, "t": 0, "letters": 2}  # t counts the records
Variable = tuple[tuple[str, ...], np.ndarray, dict[str, np.generic | str]]


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def named(text: str) -> bytes:
    return struct.pack(">I", len(text)) + padded(text.encode())


def big(values: np.ndarray | np.generic) -> bytes:
    return np.asarray(values).astype(values.dtype.newbyteorder(">")).tobytes()


def attributes(members: Mapping[str, np.generic | str]) -> bytes:
    parts = [b"\0" * 8] if not members else [struct.pack(">II", 12, len(members))]
    for name, value in members.items():
        data, code = (value.encode(), 2) if isinstance(value, str) else (big(value), CODES[value.dtype.str[1:]])
        count = len(data) if isinstance(value, str) else value.size
        parts += [named(name), struct.pack(">II", code, count), padded(data)]
    return b"".join(parts)


def header(version: int, variables: Mapping[str, Variable], begins: Mapping[str, int]) -> bytes:
    names = list(DIMENSIONS)
    parts = [b"CDF", bytes([version]), struct.pack(">III", RECORDS, 10, len(names))]
    parts += [named(name) + struct.pack(">I", length) for name, length in DIMENSIONS.items()]
    parts += [attributes({"title": "of the sea"}), struct.pack(">II", 11, len(variables))]
    for name, (dimensions, values, members) in variables.items():
        size = len(padded(big(values[0] if dimensions[:1] == ("t",) else values)))
        numbers = [names.index(dimension) for dimension in dimensions]
        parts += [named(name), struct.pack(f">I{len(numbers)}I", len(numbers), *numbers), attributes(members)]
        parts += [struct.pack(">II", CODES[values.dtype.str[1:]], size)]
        parts += [struct.pack(">Q" if version == 2 else ">I", begins.get(name, 0))]
    return b"".join(parts)


def classic(version: int, variables: Mapping[str, Variable]) -> bytes:
    """Fixed variables, then the records; a record of a single variable is not padded."""
    of_records = [name for name, (dimensions, _, _) in variables.items() if dimensions[:1] == ("t",)]
    start, body, begins = len(header(version, variables, {})), b"", dict[str, int]()
    for name, (_, values, _) in variables.items():
        if name not in of_records:
            begins[name] = start + len(body)
            body += padded(big(values))
    for number in range(RECORDS):
        for name in of_records:
            begins.setdefault(name, start + len(body))
            data = big(variables[name][1][number])
            body += padded(data) if len(of_records) > 1 else data
    return header(version, variables, begins) + body


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("of_records", [1, 2])
def test_classic_files(of_records: int, version: int, options: Mapping[str, object], tmp_path: Path) -> None:
    time = {"units": "days since 2000-01-01", "_FillValue": np.int16(-9)}
    variables: dict[str, Variable] = {
        "x": (("x",), np.array([10, 20, 30], "i4"), {}),
        "t": (("t",), np.array([0, 1, -9, 3], "i2"), time),
        "packed": (("x",), np.array([1, -1, 3], "i2"), {"_FillValue": np.int16(-1), "scale_factor": np.float64(0.5)}),
        "scalar": ((), np.array(4.0, "f4"), {"missing_value": np.float32(4)}),
        "text": (("x", "letters"), np.array([[b"a", b"b"], [b"c", b""], [b"d", b""]]), {}),
    }
    if of_records == 2:
        variables["small"] = (("t", "x"), np.arange(12, dtype="i1").reshape(4, 3), {"_FillValue": np.int8(5)})
    (tmp_path / "a.nc").write_bytes(classic(version, variables))
    check_identical(tmp_path / "a.nc", tmp_path, **options)
