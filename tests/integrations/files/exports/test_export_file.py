"""frazil.export_file: arrays and groups as files of other formats."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from tests.cli.conftest import TEMP, write_netcdf
from tests.stores.local_disks import run_processes

import frazil
import frazil.xarray
from frazil.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StoreError
from frazil.stores.memory import MemoryStore
from frazil.testing import CountingStore
from frazil.testing.checks import refusal

SMALL = frazil.Runtime(bytes_in_flight=2**16)


@pytest.fixture
def root() -> frazil.Group:
    root = frazil.create_group(MemoryStore(), attributes={"title": "The sea", "numbers": [1, 2.5], "odd": {"a": None}})
    root.create_array("y", data=np.arange(40.0), dimension_names=["y"], attributes={"units": "m"})
    deep = root.create_group("level1", attributes={"depth": 10})
    deep.create_array(
        "temp", data=TEMP, chunks=(1, 16, 16), shards=(3, 48, 64), dimension_names=["t", "y", "x"], fill_value=-1
    )
    root.create_array("flags", data=np.array([True, False]))
    root.create_array("w", data=np.arange(6).reshape(2, 3), dimension_names=["w", "z"])
    root.create_array("one", data=np.int16(7))
    root.create_array("none", shape=(0, 3), dtype="f4")
    return root


def test_netcdf_that_others_read(root: frazil.Group, tmp_path: Path) -> None:
    reports: list[int] = []
    done = frazil.export_file(root, tmp_path / "a.nc", progress=reports.append, runtime=SMALL)
    assert sum(reports) == done.nbytes and done.format == "netcdf4"
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file.title == "The sea" and file.groups["level1"].depth == 10
        temp = file.groups["level1"].variables["temp"]
        assert temp.dimensions == ("t", "y", "x") and np.array_equal(temp[...], TEMP)
        assert temp.filters()["complevel"] == 4 and temp.chunking() == [1, 16, 16]
        assert file.variables["y"].units == "m" and file.dimensions["y"].size == 40
        assert file.variables["w"].dimensions == ("w", "z")  # an array of this name that is not its coordinate
        assert file.variables["one"][...] == 7 and file.variables["none"].shape == (0, 3)
    with xarray.open_datatree(tmp_path / "a.nc", engine="netcdf4") as tree:
        assert np.array_equal(tree["level1/temp"].values, TEMP)
        assert tree["flags"].dtype == bool and tree["level1/temp"].coords["y"][3] == 3


def test_hdf5_and_back(root: frazil.Group, tmp_path: Path) -> None:
    root.create_array("bytes", data=np.array([b"ab", b"c"]), fill_value=b"x")
    frazil.export_file(root, tmp_path / "a.h5", runtime=SMALL)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["flags"].dtype == np.bool_ and file["level1/temp"].dims[1].label == "y"
    again = MemoryStore()
    frazil.import_file(tmp_path / "a.h5", again)
    for path, node in root.members(max_depth=None):
        if isinstance(node, frazil.Array):
            found = frazil.open_array(again, path=path)
            assert np.array_equal(found[...], node[...]) and found.dtype == node.dtype
            assert found.fill_value == node.fill_value


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_64BIT_DATA"])
def test_xarray_datasets_round_trip(kind: str, tmp_path: Path) -> None:
    write_netcdf(tmp_path / "a.nc", kind)
    group = "level1" if kind == "NETCDF4" else None
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        (file.groups["level1"] if group else file).variables["temp"][0, 0, 0] = -1  # missing
    frazil.import_file(tmp_path / "a.nc", tmp_path / "sea.repo")
    frazil.export_file(f"{tmp_path / 'sea.repo'}@main", tmp_path / "b.nc")
    with (
        xarray.open_dataset(tmp_path / "a.nc", group=group) as old,
        xarray.open_dataset(tmp_path / "b.nc", group=group) as new,
    ):
        xarray.testing.assert_identical(old.load(), new.load())
        assert np.isnan(new["temp"].values[0, 0, 0])


def test_numpy(root: frazil.Group, tmp_path: Path) -> None:
    frazil.export_file(root["level1/temp"], tmp_path / "a.npy", runtime=SMALL)
    assert np.array_equal(np.load(tmp_path / "a.npy"), TEMP)
    frazil.export_file(root, tmp_path / "a.npz", skip=["level1/*"])
    with np.load(tmp_path / "a.npz") as found:
        assert sorted(found) == ["flags", "none", "one", "w", "y"] and np.array_equal(found["y"], np.arange(40.0))
    with pytest.raises(InvalidInputError, match="holds one array, and there are"):
        frazil.export_file(root, tmp_path / "b.npy")


@pytest.mark.parametrize("shards", [None, (32, 32, 32)])
@pytest.mark.parametrize("budget", [1, 2**14, 2**18])
def test_npy_reads_each_chunk_a_few_times(budget: int, shards: tuple[int, ...] | None, tmp_path: Path) -> None:
    store = CountingStore(MemoryStore())
    values = np.random.default_rng(0).integers(0, 2**60, (64, 70, 50))
    array = frazil.create_array(store, data=values, chunks=(16, 16, 16), shards=shards, codecs=[])
    store.clear()
    frazil.export_file(array, tmp_path / "a.npy", runtime=frazil.Runtime(bytes_in_flight=budget))
    assert np.array_equal(np.load(tmp_path / "a.npy"), values)
    assert store.bytes_read < 2.5 * values.nbytes  # chunks at the end are whole; in C order it would be 16 times


def test_bytes_that_are_not_utf8_are_refused_in_netcdf(tmp_path: Path) -> None:
    """The netCDF library for Python raises UnicodeDecodeError for the whole variable."""
    array = frazil.create_array(MemoryStore(), data=np.array(["é".encode(), b"a"]))
    frazil.export_file(array, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file.variables["a"][...].tolist() == ["é", "a"]
    array[1] = b"\xc3"
    with pytest.raises(InvalidInputError, match="UTF-8"):
        frazil.export_file(array, tmp_path / "b.nc")
    frazil.export_file(array, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["b"][...].tolist() == ["é".encode(), b"\xc3"]


def test_npy_of_one_text(tmp_path: Path) -> None:
    frazil.export_file(frazil.create_array(MemoryStore(), data=np.array("ab", "U5")), tmp_path / "a.npy")
    assert np.load(tmp_path / "a.npy").dtype == "U5"


def test_tiff(root: frazil.Group, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    frazil.export_file(root["level1/temp"], tmp_path / "a.tif", runtime=SMALL)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.series[0].axes == "TYX" and np.array_equal(file.asarray(), TEMP)
    with pytest.raises(InvalidInputError, match="two dimensions or more"):
        frazil.export_file(root["y"], tmp_path / "b.tif")
    with pytest.raises(InvalidInputError, match="no last dimension of length 1"):
        frazil.export_file(frazil.create_array(MemoryStore(), data=TEMP[:, :, :1]), tmp_path / "b.tif")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tif"]


def test_plain_zarr_of_a_point_in_history(root: frazil.Group, tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo")
    with repo.transaction("main", message="first") as made:
        made.create_array("level1/temp", data=TEMP, chunks=(1, 16, 16))
    repo.create_tag("v1", "main")
    with repo.transaction("main", message="second") as made:
        made["level1/temp"][...] = 0  # type: ignore[index]
    frazil.export_file(f"{tmp_path / 'sea.repo'}@v1", tmp_path / "v1.zarr")
    frazil.export_file(f"{tmp_path / 'sea.repo'}@v1/level1", tmp_path / "part.zarr")
    assert np.array_equal(frazil.open_array(tmp_path / "v1.zarr" / "level1" / "temp")[...], TEMP)
    assert np.array_equal(frazil.open_array(tmp_path / "part.zarr" / "temp")[...], TEMP)


def test_refused_exports_leave_no_file(root: frazil.Group, tmp_path: Path) -> None:
    root.create_array("complex", data=np.ones(3, "c8"))
    with pytest.raises(InvalidInputError, match="NetCDF4 has no counterpart of the data type complex64"):
        frazil.export_file(root, tmp_path / "a.nc")
    with pytest.raises(InvalidInputError, match="cannot be derived"):
        frazil.export_file(root, tmp_path / "a.dat")
    with pytest.raises(InvalidInputError, match="no array 'salt'"):
        frazil.export_file(root, tmp_path / "a.nc", variables=["salt"])
    assert not list(tmp_path.iterdir())
    frazil.export_file(root, tmp_path / "a.nc", skip=["complex"])
    with pytest.raises(AlreadyExistsError):
        frazil.export_file(root, tmp_path / "a.nc", skip=["complex"])
    frazil.export_file(root, tmp_path / "a.nc", variables=["y"], overwrite=True)
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert list(file.variables) == ["y"]


@pytest.mark.parametrize(
    "name", ["CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "", "a\0b", "x" * 70_000]
)
def test_attributes_that_hdf5_has_not_are_refused_by_name(name: str, tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore())
    root.create_array("a", data=np.arange(3.0), dimension_names=("x",), attributes={name: "v"})
    with pytest.raises(InvalidInputError, match="HDF5"):
        frazil.export_file(root, tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["a\0b", ["a", "b\0c"], [2**70, 1], [2**64], "\ud800", None, [[1], [2]]])
def test_values_that_hdf5_has_not_become_json(value: object, tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore(), attributes={"q": value})
    root.create_array("a", data=np.arange(3.0))
    frazil.export_file(root, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert json.loads(file.attrs["q"]) == value


def test_floats_of_two_bytes_and_names_of_dimensions_in_netcdf(tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore())
    root.create_array("a", data=np.arange(6, dtype="f2").reshape(2, 3), dimension_names=("x/y", ".."))
    frazil.export_file(root, tmp_path / "a.nc")
    with h5py.File(tmp_path / "a.nc") as file:
        assert file["a"].dtype == np.float32  # netCDF-C has no smaller one, and crashes if it reads one
        assert np.array_equal(file["a"][...], root["a"][...])  # type: ignore[index]
        assert set(file) == {"a", "x_y", "dim_3"}


TEXTS = ["ab", "", "\u00e4" * 20]
TIMES = ["2020-01-01T06", "NaT", "1850-03-01T00"]


@pytest.mark.parametrize("kind", ["T", "U"])
@pytest.mark.parametrize("ending", ["nc", "h5"])
def test_text(kind: str, ending: str, tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore())
    dtype: np.dtype[np.generic] = np.dtypes.StringDType() if kind == "T" else np.dtype("U20")  # type: ignore[assignment]
    root.create_array("name", data=np.array(TEXTS, dtype), dimension_names=("name",))
    root.create_array("level 1/one", data=np.array("abc", dtype))
    root.create_array("none", data=np.array([], dtype))
    root.create_array("x", data=np.arange(3), dimension_names=("name",), chunks=(2,))
    file = tmp_path / f"a.{ending}"
    frazil.export_file(root, file)
    with h5py.File(file) as found:
        assert found["name"].asstr()[...].tolist() == TEXTS
        assert found["level 1/one"].asstr()[()] == "abc"
        assert found["none"].shape == (0,)
    if ending == "nc":
        with netCDF4.Dataset(file) as dataset:
            assert dataset["name"][...].tolist() == TEXTS
        with xarray.open_dataset(file, engine="netcdf4") as opened:
            assert opened["x"].indexes["name"].tolist() == TEXTS


@pytest.mark.parametrize("values", [np.array(["a\0b"], np.dtypes.StringDType()), np.array(["a", "\udc80"])])
def test_text_that_hdf5_cannot_hold_leaves_nothing(values: np.ndarray, tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore())
    root.create_array("name", data=values)
    with pytest.raises(InvalidInputError, match="NUL, or a half of a surrogate pair"):
        frazil.export_file(root, tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "m", "h", "D", "25s", "W", "M"])
@pytest.mark.parametrize("chunks", [(3,), (2,)])
def test_times_are_those_that_xarray_decodes(unit: str, chunks: tuple[int, ...], tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore())
    times = np.array(TIMES, "M8[h]").astype(f"M8[{unit}]")
    root.create_array("t", data=times, dimension_names=("x",), chunks=chunks, fill_value="NaT")
    frazil.export_file(root, tmp_path / "a.nc")
    frazil.export_file(root, tmp_path / "a.h5")
    with xarray.open_dataset(tmp_path / "a.nc", engine="netcdf4") as opened:
        np.testing.assert_array_equal(opened["t"].values, times.astype("M8[ns]"))
    with h5py.File(tmp_path / "a.h5") as found:
        assert found["t"].dtype == np.int64
        assert found["t"].attrs["calendar"] == "proleptic_gregorian"


def test_durations_and_times_that_are_said_to_be_others(tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore())
    steps = np.array([1, 5, -3], "m8[s]")
    root.create_array("step", data=steps, dimension_names=("x",))
    frazil.export_file(root, tmp_path / "a.nc")
    with xarray.open_dataset(tmp_path / "a.nc", engine="netcdf4") as opened:
        np.testing.assert_array_equal(opened["step"].values, steps.astype("m8[ns]"))
    root.create_array("t", data=np.array(["2020-01-01"], "M8[D]"), attributes={"units": "days since 1900-01-01"})
    with pytest.raises(InvalidInputError, match="units"):
        frazil.export_file(root, tmp_path / "b.nc")
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def test_structs_in_hdf5(tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore())
    values = np.array([(1, 2.5, True), (3, 4.5, False)], [("a", "<i4"), ("b", ">f8"), ("c", "?")])
    root.create_array("s", data=values, chunks=(1,))
    frazil.export_file(root, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as found:
        assert found["s"][...].tolist() == values.tolist()
    with pytest.raises(InvalidInputError, match="NetCDF4 has no counterpart"):
        frazil.export_file(root, tmp_path / "a.nc")


@pytest.mark.parametrize("ending", ["nc", "h5", "npz", "npy", "tif"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_exports_leave_no_file(ending: str, error: type[BaseException], tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore())
    root.create_array("a", data=np.zeros((40, 40)), chunks=(10, 40))

    def interrupted(_: int) -> None:
        raise error

    (tmp_path / f"a.{ending}").write_bytes(b"before")
    with pytest.raises(error):
        frazil.export_file(root, tmp_path / f"a.{ending}", progress=interrupted, runtime=SMALL, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == [f"a.{ending}"]
    assert (tmp_path / f"a.{ending}").read_bytes() == b"before"


@pytest.mark.parametrize("ending", ["nc", "h5", "npz", "npy", "tif"])
def test_a_disk_that_is_full_at_any_byte_is_an_error(ending: str, tmp_path: Path) -> None:
    """The HDF5 library would end the process."""
    root = frazil.create_group(MemoryStore())
    root.create_array("a", data=np.random.default_rng(0).normal(size=(40, 40)), chunks=(10, 40))
    frazil.export_file(root, tmp_path / f"whole.{ending}")
    size = (tmp_path / f"whole.{ending}").stat().st_size

    def run() -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        for limit in range(0, size, size // 12):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
            error = refusal(StoreError, lambda: frazil.export_file(root, tmp_path / f"a.{ending}"))
            assert (error.errno, error.key) == (errno.EFBIG, str(tmp_path / f"a.{ending}"))
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            assert [path.name for path in tmp_path.iterdir()] == [f"whole.{ending}"]

    run_processes([run])


@pytest.mark.parametrize("name", ["a.nc", "x/c/0"])
def test_a_file_never_goes_among_those_of_its_source(name: str, tmp_path: Path) -> None:
    location = tmp_path / "a.zarr"
    frazil.create_group(location).create_array("x", data=np.arange(3.0))
    with pytest.raises(InvalidInputError, match="inside the other"):
        frazil.export_file(location, location / name, "npz", overwrite=True)
    assert np.array_equal(frazil.open_array(location / "x")[...], np.arange(3.0))


@pytest.mark.parametrize("dtype", ["bfloat16", "string", "complex_bfloat16"])
def test_numpy_files_of_types_that_need_pickles_are_refused(dtype: str, tmp_path: Path) -> None:
    group = frazil.create_group(MemoryStore())
    array = group.create_array("level1/text", shape=(2,), dtype=dtype)
    for source, name in ((array, "a.npy"), (group, "a.npz")):
        with pytest.raises(InvalidInputError, match=r"cannot hold the data type.*path 'level1/text'"):
            frazil.export_file(source, tmp_path / name)


@pytest.mark.parametrize("dtype", ["S3", "U3"])
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_one_text_of_a_fixed_length_in_numpys_files(dtype: str, ending: str, tmp_path: Path) -> None:
    """The file had the bytes of a shorter text, and could not be read."""
    array = frazil.create_array(MemoryStore(), path="v", data=np.array("a", dtype))
    frazil.export_file(array, tmp_path / f"v.{ending}")
    loaded = np.load(tmp_path / f"v.{ending}")
    found = loaded if ending == "npy" else loaded["v"]
    assert found == np.array("a", dtype) and found.dtype == dtype
    assert np.asarray(array.lazy).dtype == dtype


@pytest.mark.parametrize("ending", ["nc", "h5", "tif", "npy"])
def test_small_floats_that_numpy_calls_floats_are_refused(ending: str, tmp_path: Path) -> None:
    array = frazil.create_array(MemoryStore(), path="v", shape=(2, 2), dtype="float8_e5m2")
    with pytest.raises(InvalidInputError, match="float8_e5m2"):
        frazil.export_file(array, tmp_path / f"v.{ending}")
    assert not list(tmp_path.iterdir())


def test_names_of_dimensions_that_arrays_have_which_are_not_their_coordinates(tmp_path: Path) -> None:
    """Such dimensions got numbers, although netCDF has a form for them."""
    root = frazil.create_group(MemoryStore())
    root.create_array("x", data=np.arange(3), dimension_names=("y",))
    root.create_array("level/s", data=np.array(5))
    for path in ("v", "level/v"):
        root.create_array(path, data=np.arange(8).reshape(4, 2), dimension_names=("x", "s"))
    frazil.export_file(root, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["x"].dimensions == ("y",) and file["v"].dimensions == ("x", "s")
        assert file["level/s"][...] == 5 and file["level/v"].dimensions == ("x", "s")
    again = MemoryStore()
    frazil.import_file(tmp_path / "a.nc", again)
    for path, node in frazil.open_group(again).members(max_depth=None):
        if isinstance(node, frazil.Array):
            assert np.array_equal(node[...], root[path][...])  # type: ignore[index]
            assert (node.dimension_names or None) == root[path].dimension_names  # type: ignore[union-attr]
    root.create_array("_nc4_non_coord_x", data=np.arange(3))
    for ending in ("nc", "h5"):
        with pytest.raises(InvalidInputError, match="cannot begin with _nc4_non_coord_"):
            frazil.export_file(root, tmp_path / f"b.{ending}")


def test_a_list_with_nan_stays_a_list_of_numbers(tmp_path: Path) -> None:
    store = MemoryStore()
    xarray.Dataset({"a": ("x", [1])}, attrs={"limits": [np.nan, 1, -np.inf]}).frazil.write(store)
    frazil.export_file(store, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file.attrs["limits"], [np.nan, 1, -np.inf])


def test_a_fill_attribute_of_times(tmp_path: Path) -> None:
    root = frazil.create_group(MemoryStore())
    root.create_array("t", data=np.arange(3).astype("M8[s]"), attributes={"_FillValue": -5}, dimension_names=("x",))
    frazil.export_file(root, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["t"].getncattr("_FillValue") == -5


@pytest.mark.parametrize("ending", ["nc", "h5", "npz", "npy", "tif"])
def test_only_plain_files_are_replaced(ending: str, root: frazil.Group, tmp_path: Path) -> None:
    """Never a device, such as /dev/null; and the file behind a link, not the link."""
    array, pipe, folder, link, file = root["level1/temp"], *(tmp_path / f"{name}.{ending}" for name in "pflr")
    os.mkfifo(pipe)
    folder.mkdir()
    file.write_bytes(b"old")
    link.symlink_to(file)
    for place in (pipe, folder):
        with pytest.raises(InvalidInputError, match="only a plain file is replaced"):
            frazil.export_file(array, place, overwrite=True)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and folder.is_dir()
    with pytest.raises(NotFoundError, match="no folder for the file"):
        frazil.export_file(array, tmp_path / f"no/a.{ending}")
    frazil.export_file(array, link, overwrite=True)
    assert link.is_symlink() and file.stat().st_size > 3
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in (pipe, folder, link, file))


@pytest.mark.parametrize(
    "value", [[2**53 + 1, 0.5], [2**63 + 1, 1], [-1, 2**63 + 1], [2**64, 1], [2**53 + 1, -1], [2**63 - 1]]
)
def test_lists_of_integers_are_not_rounded(value: list[float], tmp_path: Path) -> None:
    array = frazil.create_array(MemoryStore(), path="a", data=np.zeros(1), attributes={"x": value})
    frazil.export_file(array, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        found = file["a"].attrs["x"]
    assert (json.loads(found) if isinstance(found, str) else found.tolist()) == value


def test_dimensions_without_names_and_of_one_length_get_different_names(tmp_path: Path) -> None:
    """A variable with twice the same dimension cannot be loaded by xarray."""
    root = frazil.create_group(MemoryStore())
    root.create_array("a", data=np.arange(4).reshape(2, 2))
    root.create_array("b", data=np.arange(8).reshape(2, 2, 2), dimension_names=(None, "x", "x"))
    frazil.export_file(root, tmp_path / "a.nc")
    with xarray.open_dataset(tmp_path / "a.nc", engine="netcdf4") as found:
        assert all(len(set(found[name].dims)) == found[name].ndim for name in "ab")
        assert np.array_equal(found.a.load(), np.arange(4).reshape(2, 2))


@pytest.mark.parametrize("ending", ["nc", "npy"])
def test_a_replaced_file_keeps_its_mode(ending: str, root: frazil.Group, tmp_path: Path) -> None:
    file = tmp_path / f"a.{ending}"
    file.write_bytes(b"old")
    file.chmod(0o640)
    frazil.export_file(root["level1/temp"], file, overwrite=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("ending", ["nc", "npy", "tif"])
def test_a_name_that_ends_in_a_slash_is_refused(ending: str, root: frazil.Group, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is the name of a folder"):
        frazil.export_file(root["level1/temp"], f"{tmp_path}/a.{ending}/")
    assert not list(tmp_path.iterdir())


def test_a_file_may_have_the_longest_name(root: frazil.Group, tmp_path: Path) -> None:
    name = "a" * 251 + ".npy"
    frazil.export_file(root["level1/temp"], tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
